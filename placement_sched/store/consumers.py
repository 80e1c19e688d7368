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
    bindparam,
    case,
    delete,
    literal,
    select,
    union_all,
    update,
)

from placement_sched.db.batches import batches
from placement_sched.db.insert import insert_missing, insert_new, tells_what_is_new
from placement_sched.db.tables import consumers
from placement_sched.errors import ConcurrentUpdate
from placement_sched.model.allocation import ConsumerClaim
from placement_sched.store.names import COLUMNS, CONSUMER_TYPE, PROJECT, USER, Ids
from placement_sched.store.names import ids as ids_of

#: The generation of a consumer that this transaction has just made, where the database does not
#: tell which they are. No committed row has it, so it tells them from those that a rival made.
_UNFINISHED = -1
#: The generation of a consumer after its first allocations.
_FIRST = 1

#: How often a consumer that a rival removes between our finding and our locking it is made anew.
_ATTEMPTS = 10

#: A claim brings four values, so this many claims fit into one statement of any database.
_CLAIMS_AT_ONCE = 5_000

_LOCK = (
    select(consumers)
    .where(consumers.c.uuid.in_(bindparam("uuids", expanding=True)))
    .order_by(consumers.c.uuid)
    .with_for_update()
)
_BY_ID = consumers.c.id.in_(bindparam("ids", expanding=True))
_RAISE = (
    update(consumers)
    .where(_BY_ID)
    .values(generation=consumers.c.generation + 1, updated_at=bindparam("now"))
)
_FINISH = (
    update(consumers).where(_BY_ID, consumers.c.generation == _UNFINISHED).values(generation=_FIRST)
)
_DELETE = delete(consumers).where(_BY_ID)


@dataclass(frozen=True, slots=True)
class Record:
    """A consumer's row, locked; ``generation`` None is a consumer made by this transaction."""

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
        for row in connection.execute(_LOCK, {"uuids": batch})
    }


def owner_names(claims: Sequence[ConsumerClaim]) -> dict[str, list[str]]:
    """Return the names of projects, users and types that the claims give, by kind."""
    return {
        PROJECT: sorted({claim.project_id for claim in claims}),
        USER: sorted({claim.user_id for claim in claims}),
        CONSUMER_TYPE: sorted({claim.consumer_type for claim in claims if claim.consumer_type}),
    }


def owners(
    connection: Connection, claims: Sequence[ConsumerClaim], known: Ids, now: datetime
) -> dict[str, Owner]:
    """Return who holds each claim, by consumer, making projects, users and types as needed.

    ``known`` has the ids of those that are there. Safe beside other writers that make the same
    ones.
    """
    ids = dict(known)
    missing = _without(owner_names(claims), ids)
    for kind, names in missing.items():
        column = COLUMNS[kind]
        rows = [{column.name: name, "created_at": now, "updated_at": now} for name in names]
        insert_missing(connection, column.table, rows)
    if any(missing.values()):
        ids |= ids_of(connection, missing)
        ids |= _spelled_otherwise(connection, _without(missing, ids))
    return {
        claim.consumer: Owner(
            ids[PROJECT, claim.project_id],
            ids[USER, claim.user_id],
            ids[CONSUMER_TYPE, claim.consumer_type] if claim.consumer_type else None,
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
        found |= _make(connection, {uuid: owners_by_uuid[uuid] for uuid in missing}, now)
        found |= lock(connection, [uuid for uuid in missing if uuid not in found])
        missing = [uuid for uuid in missing if uuid not in found]
        if not missing:
            return found
    raise ConcurrentUpdate("Others made and removed the same consumer again and again; try again.")


def _make(
    connection: Connection, owners_by_uuid: Mapping[str, Owner], now: datetime
) -> dict[str, Record]:
    """Create those of these consumers that are not there, and return them."""
    rows = [
        {
            "uuid": uuid,
            "project_id": owner.project_id,
            "user_id": owner.user_id,
            "consumer_type_id": owner.type_id,
            "generation": _FIRST,
            "created_at": now,
            "updated_at": now,
        }
        for uuid, owner in owners_by_uuid.items()
    ]
    if tells_what_is_new(connection):
        new = insert_new(connection, consumers, rows, ("uuid", "id"))
        made = {row.uuid: row.id for row in new}
    else:
        insert_missing(connection, consumers, [{**row, "generation": _UNFINISHED} for row in rows])
        made = {
            uuid: record.id
            for uuid, record in lock(connection, owners_by_uuid).items()
            if record.generation == _UNFINISHED
        }
        for batch in batches(made.values()):
            connection.execute(_FINISH, {"ids": batch})
    return {uuid: Record(made[uuid], None, owners_by_uuid[uuid]) for uuid in made}


def finish(
    connection: Connection,
    records: Mapping[str, Record],
    owners_by_uuid: Mapping[str, Owner],
    now: datetime,
) -> None:
    """Raise the generations of locked consumers that hold something, and set whose they are.

    Those that this transaction has made are as they shall be.
    """
    for batch in batches(one.id for one in records.values() if one.generation is not None):
        connection.execute(_RAISE, {"ids": batch, "now": now})
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
        connection.execute(_DELETE, {"ids": batch})


def _merged(old: Owner, new: Owner) -> Owner:
    """Return the new owner; a claim that names no type leaves the old one."""
    return Owner(new.project_id, new.user_id, new.type_id or old.type_id)


def _spelled_otherwise(
    connection: Connection, wanted: Mapping[str, Sequence[str]]
) -> dict[tuple[str, str], int]:
    """Return the ids of rows that a database without heed of case takes to be these."""
    questions = [
        select(literal(kind), literal(name), COLUMNS[kind].table.c.id).where(COLUMNS[kind] == name)
        for kind, names in wanted.items()
        for name in names
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
        generation=row.generation,
        owner=Owner(row.project_id, row.user_id, row.consumer_type_id),
    )
