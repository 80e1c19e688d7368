"""Consumers, their projects, users and types: rows that come and go with allocations."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Row,
    case,
    delete,
    literal,
    select,
    union_all,
    update,
)

from placement_sched.db.batches import batches
from placement_sched.db.insert import insert_missing
from placement_sched.db.tables import consumer_types, consumers, projects, users
from placement_sched.errors import ConcurrentUpdate
from placement_sched.model.allocation import ConsumerClaim

#: The generation of a consumer that this transaction has made and not yet finished. No committed
#: row has it, so it tells our own new rows from those that a rival made a moment earlier.
_UNFINISHED = -1
#: The generation of a consumer after its first allocations.
_FIRST = 1

#: How often a consumer that a rival removes between our finding and our locking it is made anew.
_ATTEMPTS = 10

#: A claim brings four values, so this many claims fit into one statement of any database.
_CLAIMS_AT_ONCE = 5_000

_PROJECT, _USER, _TYPE = "project", "user", "type"
_NAMES: Mapping[str, Column[Any]] = {
    _PROJECT: projects.c.external_id,
    _USER: users.c.external_id,
    _TYPE: consumer_types.c.name,
}


@dataclass(frozen=True, slots=True)
class Record:
    """A consumer's row, locked; ``generation`` None is a consumer made just now."""

    id: int
    generation: int | None
    owner: "Owner"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a consumer is and what it is, as the ids of the rows that say so."""

    project_id: int
    user_id: int
    type_id: int | None


def lock(connection: Connection, uuids: Iterable[str]) -> dict[str, Record]:
    """Lock the rows of those consumers that are there, in order of uuid, and return them."""
    return {
        # MariaDB may find a spelling in capitals, which OpenStack placement lets in.
        row.uuid.lower(): _record(row)
        for batch in batches(sorted(set(uuids)))
        for row in connection.execute(
            select(consumers)
            .where(consumers.c.uuid.in_(batch))
            .order_by(consumers.c.uuid)
            .with_for_update()
        )
    }


def owners(
    connection: Connection, claims: Sequence[ConsumerClaim], now: datetime
) -> dict[str, Owner]:
    """Return who holds each claim, by consumer, making projects, users and types as needed.

    Safe beside other writers that make the same ones.
    """
    wanted = {
        _PROJECT: sorted({claim.project_id for claim in claims}),
        _USER: sorted({claim.user_id for claim in claims}),
        _TYPE: sorted({claim.consumer_type for claim in claims if claim.consumer_type}),
    }
    ids = _ids(connection, wanted)
    missing = _without(wanted, ids)
    for kind, names in missing.items():
        column = _NAMES[kind]
        rows = [{column.name: name, "created_at": now, "updated_at": now} for name in names]
        insert_missing(connection, column.table, rows)
    if any(missing.values()):
        ids |= _ids(connection, missing)
        ids |= _spelled_otherwise(connection, _without(missing, ids))
    return {
        claim.consumer: Owner(
            ids[_PROJECT, claim.project_id],
            ids[_USER, claim.user_id],
            ids[_TYPE, claim.consumer_type] if claim.consumer_type else None,
        )
        for claim in claims
    }


def create(
    connection: Connection, owners_by_uuid: Mapping[str, Owner], now: datetime
) -> dict[str, Record]:
    """Create the consumers of these uuids that are not there, and return all of them locked.

    One that a rival made meanwhile is returned with the generation that the rival gave it. Raises
    :class:`ConcurrentUpdate` where rivals make and remove one faster than it can be locked.
    """
    found: dict[str, Record] = {}
    missing = sorted(owners_by_uuid)
    for _ in range(_ATTEMPTS):
        rows = [_row(uuid, owners_by_uuid[uuid], now) for uuid in missing]
        insert_missing(connection, consumers, rows)
        found |= lock(connection, missing)
        missing = [uuid for uuid in missing if uuid not in found]
        if not missing:
            return found
    raise ConcurrentUpdate("Others made and removed the same consumer again and again; try again.")


def _row(uuid: str, owner: Owner, now: datetime) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "project_id": owner.project_id,
        "user_id": owner.user_id,
        "consumer_type_id": owner.type_id,
        "generation": _UNFINISHED,
        "created_at": now,
        "updated_at": now,
    }


def finish(
    connection: Connection,
    records: Mapping[str, Record],
    owners_by_uuid: Mapping[str, Owner],
    now: datetime,
) -> None:
    """Raise the generations of locked consumers that hold something, and set whose they are."""
    raised = case((consumers.c.generation == _UNFINISHED, _FIRST), else_=consumers.c.generation + 1)
    for batch in batches(record.id for record in records.values()):
        connection.execute(
            update(consumers)
            .where(consumers.c.id.in_(batch))
            .values(generation=raised, updated_at=now)
        )
    changed = {
        record.id: wanted
        for uuid, record in records.items()
        if (wanted := _merged(record.owner, owners_by_uuid[uuid])) != record.owner
    }
    for ids in batches(changed, _CLAIMS_AT_ONCE):
        connection.execute(
            update(consumers)
            .where(consumers.c.id.in_(ids))
            .values(
                project_id=_each(consumers.c.project_id, {i: changed[i].project_id for i in ids}),
                user_id=_each(consumers.c.user_id, {i: changed[i].user_id for i in ids}),
                consumer_type_id=_each(
                    consumers.c.consumer_type_id, {i: changed[i].type_id for i in ids}
                ),
            )
        )


def _each(column: Column[Any], values: Mapping[int, int | None]) -> ColumnElement[Any]:
    """Return an expression that gives each consumer's row its value; None is what it has."""
    given = {number: value for number, value in values.items() if value is not None}
    return case(given, value=consumers.c.id, else_=column) if given else column


def remove(connection: Connection, records: Iterable[Record]) -> None:
    """Delete locked consumers."""
    for batch in batches(record.id for record in records):
        connection.execute(delete(consumers).where(consumers.c.id.in_(batch)))


def _merged(old: Owner, new: Owner) -> Owner:
    """Return the new owner; a claim that names no type leaves the old one."""
    return Owner(new.project_id, new.user_id, new.type_id or old.type_id)


def _ids(connection: Connection, wanted: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], int]:
    """Return the ids of those rows that are there, by kind and name, with one statement."""
    questions = [
        select(literal(kind), column, column.table.c.id).where(column.in_(batch))
        for kind, column in _NAMES.items()
        for batch in batches(wanted[kind], _CLAIMS_AT_ONCE)
    ]
    return {
        (kind, name): number
        for some in batches(questions, 3)
        for kind, name, number in connection.execute(union_all(*some))
    }


def _spelled_otherwise(
    connection: Connection, wanted: Mapping[str, Sequence[str]]
) -> dict[tuple[str, str], int]:
    """Return the ids of rows that a database without heed of case takes to be these."""
    questions = [
        select(literal(kind), literal(name), column.table.c.id).where(column == name)
        for kind, column in _NAMES.items()
        for name in wanted[kind]
    ]
    return {
        (kind, name): number
        for some in batches(questions, 500)
        for kind, name, number in connection.execute(union_all(*some))
    }


def _without(
    wanted: Mapping[str, Sequence[str]], known: Mapping[tuple[str, str], int]
) -> dict[str, list[str]]:
    return {
        kind: [name for name in names if (kind, name) not in known]
        for kind, names in wanted.items()
    }


def _record(row: Row[Any]) -> Record:
    return Record(
        id=row.id,
        generation=None if row.generation == _UNFINISHED else row.generation,
        owner=Owner(row.project_id, row.user_id, row.consumer_type_id),
    )
