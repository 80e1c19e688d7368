"""Consumers, their projects, users and types: rows that come and go with allocations.

Orphans are consumers that hold something of a compute node and of which no instance is recorded.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Integer,
    bindparam,
    literal,
    select,
    update,
)

from placement_sched.db import collations, sql
from placement_sched.db.tables import (
    allocations,
    consumer_types,
    consumers,
    projects,
    resource_providers,
    users,
)
from placement_sched.errors import ConcurrentUpdate, TooComplex
from placement_sched.limits import MAX_HELD_AMOUNTS
from placement_sched.model.provider import ConsumerClaim
from placement_sched.model.retry import retrying
from placement_sched.store.placement.capacity import InventoryIds

PROJECT, USER, CONSUMER_TYPE, PROVIDER = "project", "user", "consumer_type", "provider"

COLUMNS: Mapping[str, Column[Any]] = {
    PROJECT: projects.c.external_id,
    USER: users.c.external_id,
    CONSUMER_TYPE: consumer_types.c.name,
    PROVIDER: resource_providers.c.uuid,
}

_QUESTION = sa.union_all(
    *(
        select(literal(kind), collations.in_unicode(column), column.table.c.id).where(
            column.in_(bindparam(kind, expanding=True))
        )
        for kind, column in COLUMNS.items()
    )
)

#: An id by kind and name.
Ids = dict[tuple[str, str], int]


def ids_of(connection: Connection, wanted: Mapping[str, Collection[str]]) -> Ids:
    """Return the ids of those rows that are there, by kind and name, with one statement.

    ``wanted`` has names by kind. One more statement is for some thousands of names more.
    """
    parts = [sql.batches(wanted.get(kind, ()), sql.SIZE // len(COLUMNS)) for kind in COLUMNS]
    return {
        (kind, name): number
        for some in zip_longest(*parts, fillvalue=())
        for kind, name, number in connection.execute(
            _QUESTION, dict(zip(COLUMNS, some, strict=True))
        )
    }


def as_kept(connection: Connection, kind: str, name: str) -> str | None:
    """Return the name that the database takes for this one, as it is kept there."""
    kept: str | None = connection.scalar(select(COLUMNS[kind]).where(COLUMNS[kind] == name))
    return kept


_HOLDER = allocations.c.consumer_id

#: The generation of a consumer that this transaction has just made, where the database does not
#: report them. No committed row has it, so it distinguishes them from those of other writers.
_UNFINISHED = -1
#: The generation of a consumer after its first allocations.
_FIRST = 1

#: How often a consumer is created again that another writer removes before it is locked.
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
_NOW = bindparam("now", type_=consumers.c.updated_at.type)
_RAISE = (
    update(consumers)
    .where(_BY_ID)
    .values(
        generation=consumers.c.generation + 1,
        # One that a client made stays without: see create().
        updated_at=sa.case((consumers.c.updated_at.is_not(None), _NOW)),
    )
)
_FINISH = (
    update(consumers).where(_BY_ID, consumers.c.generation == _UNFINISHED).values(generation=_FIRST)
)
_DELETE = sa.delete(consumers).where(_BY_ID)


class Owner(NamedTuple):
    """Whose a consumer is and what it is, as the ids of the rows that say so."""

    project_id: int
    user_id: int
    consumer_type_id: int | None


class Record(NamedTuple):
    """A consumer's row, locked; ``generation`` None is a consumer made by this transaction."""

    id: int
    generation: int | None
    owner: Owner


def lock(connection: Connection, uuids: Iterable[str]) -> dict[str, Record]:
    """Lock the rows of those consumers that are there, in order of uuid, and return them."""
    return {
        # MariaDB may find a spelling in capitals, which OpenStack placement lets in.
        row.uuid.lower(): Record(
            row.id, row.generation, Owner(row.project_id, row.user_id, row.consumer_type_id)
        )
        for batch in sql.batches(sorted(set(uuids)))
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
        sql.insert_missing(connection, column.table, rows)
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
    connection: Connection,
    owners_by_uuid: Mapping[str, Owner],
    now: datetime,
    *,
    decided: bool = False,
) -> dict[str, Record]:
    """Create the consumers of these uuids that are not there, and return all of them locked.

    Those of a claim that a decision is recorded of (``decided``) have a time of their last change,
    others never: so one that a client makes again, in the second of the decision, is known apart.

    One that another request made meanwhile is returned with the generation that it has now. Raises
    :class:`ConcurrentUpdate` where others make and remove one faster than it can be locked.
    """
    found: dict[str, Record] = {}
    same = {"created_at": now, "updated_at": now if decided else None}

    def missing() -> list[str]:
        return [uuid for uuid in sorted(owners_by_uuid) if uuid not in found]

    def create_missing() -> dict[str, Record]:
        found.update(_make(connection, {uuid: owners_by_uuid[uuid] for uuid in missing()}, same))
        found.update(lock(connection, missing()))
        if missing():
            raise ConcurrentUpdate(
                f"Concurrent updates of the same consumer; gave up after {_ATTEMPTS} attempts."
            )
        return found

    return retrying(create_missing, _ATTEMPTS)


def _make(
    connection: Connection, owners_by_uuid: Mapping[str, Owner], same: Mapping[str, datetime | None]
) -> dict[str, Record]:
    """Create those of these consumers that are not there, with the ``same`` times; return them."""
    rows = [
        {"uuid": uuid, **owner._asdict(), "generation": _FIRST, **same}
        for uuid, owner in owners_by_uuid.items()
    ]
    if sql.can_insert_new(connection):
        new = sql.insert_new(connection, consumers, rows, ("uuid", "id"))
        made = {row.uuid: row.id for row in new}
    else:
        rows = [{**row, "generation": _UNFINISHED} for row in rows]
        sql.insert_missing(connection, consumers, rows)
        made = {
            uuid: record.id
            for uuid, record in lock(connection, owners_by_uuid).items()
            if record.generation == _UNFINISHED
        }
        for batch in sql.batches(made.values()):
            connection.execute(_FINISH, {"ids": batch})
    return {uuid: Record(made[uuid], None, owners_by_uuid[uuid]) for uuid in made}


def finish(
    connection: Connection,
    records: Mapping[str, Record],
    owners_by_uuid: Mapping[str, Owner],
    now: datetime,
) -> None:
    """Raise the generations of locked consumers that hold something, and set whose they are.

    Those that this transaction has made are as they shall be. A claim that names no type leaves
    the consumer's.
    """
    for batch in sql.batches(one.id for one in records.values() if one.generation is not None):
        connection.execute(_RAISE, {"ids": batch, "now": now})
    changed = {}
    for uuid, record in records.items():
        new = owners_by_uuid[uuid]
        if new.consumer_type_id is None:
            new = new._replace(consumer_type_id=record.owner.consumer_type_id)
        if new != record.owner:
            changed[record.id] = new
    for some in sql.batches(changed.items(), _CLAIMS_AT_ONCE):
        change = update(consumers).where(consumers.c.id.in_([number for number, _ in some]))
        values = {
            name: _each(consumers.c[name], {number: owner[at] for number, owner in some})
            for at, name in enumerate(Owner._fields)
        }
        connection.execute(change.values(values))


def _each(column: Column[Any], values: Mapping[int, int | None]) -> ColumnElement[Any]:
    given = {number: value for number, value in values.items() if value is not None}
    return sa.case(given, value=consumers.c.id, else_=column) if given else column


def remove(connection: Connection, records: Iterable[Record]) -> None:
    """Delete locked consumers."""
    for batch in sql.batches(record.id for record in records):
        connection.execute(_DELETE, {"ids": batch})


#: The order of an index, so that a limit ends the work early.
BY_CONSUMER = (_HOLDER, allocations.c.id)
OF_CONSUMERS = _HOLDER.in_(bindparam("consumers", expanding=True))

_HELD = (
    select(
        _HOLDER,
        allocations.c.resource_provider_id,
        allocations.c.resource_class_id,
        allocations.c.used,
    )
    .where(OF_CONSUMERS)
    .order_by(*BY_CONSUMER)
    .with_for_update()
)
_HELD_AT_MOST = _HELD.limit(bindparam("most", type_=Integer))


class HeldAmount(NamedTuple):
    """One row of what a consumer has so far."""

    consumer: str
    place: InventoryIds
    used: int


def held_so_far(
    connection: Connection, uuids: Collection[str], named_at: str | None = None
) -> list[HeldAmount]:
    """Return what the consumers have so far, the rows locked against other services' removals.

    ``named_at`` is where a request names them: raises :class:`TooComplex` where several have more
    than :data:`MAX_HELD_AMOUNTS` amounts.
    """
    bounded = named_at is not None and len(uuids) > 1
    statement, limit = (_HELD_AT_MOST, {"most": MAX_HELD_AMOUNTS + 1}) if bounded else (_HELD, {})
    found: list[HeldAmount] = []
    for batch in sql.batches(uuids):
        # Fetched at once: one by one takes half as long again.
        rows = connection.execute(statement, {"consumers": batch, **limit}).all()
        found += [
            HeldAmount(consumer.lower(), (provider_id, class_id), used)
            for consumer, provider_id, class_id, used in rows
        ]
        if bounded:
            refuse_too_many_held(len(found), named_at)
    return found


def refuse_too_many_held(number: int, named_at: str | None) -> None:
    """Raise :class:`TooComplex` where several consumers of a request hold so many amounts."""
    if number > MAX_HELD_AMOUNTS:
        raise TooComplex(
            f"the consumers hold more than {MAX_HELD_AMOUNTS} amounts so far, and one request that "
            f"names several may change that many at most",
            at=named_at,
        )


def _spelled_otherwise(connection: Connection, wanted: Mapping[str, Sequence[str]]) -> Ids:
    """Return the ids of rows that a database without regard to case takes to be these."""
    questions = [
        select(literal(kind), literal(name), COLUMNS[kind].table.c.id).where(COLUMNS[kind] == name)
        for kind, names in wanted.items()
        for name in names
    ]
    return {
        (kind, name): number
        for some in sql.batches(questions, 500)
        for kind, name, number in connection.execute(sa.union_all(*some))
    }


def _without(wanted: Mapping[str, Sequence[str]], known: Ids) -> dict[str, list[str]]:
    return {
        kind: [name for name in names if (kind, name) not in known]
        for kind, names in wanted.items()
    }
