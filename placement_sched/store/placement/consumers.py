# SPDX-License-Identifier: Apache-2.0
"""Consumers, which exist while they have allocations, and their owners."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Column, Connection, bindparam, literal, select, update

from placement_sched.db import collations, sql
from placement_sched.db.tables import (
    allocations,
    consumer_types,
    consumers,
    projects,
    resource_providers,
    users,
)
from placement_sched.errors import Overtaken
from placement_sched.model.grouping import BATCH_SIZE, split_batches
from placement_sched.model.provider import ConsumerClaim
from placement_sched.store.placement.capacity import InventoryIds

PROJECT, USER, CONSUMER_TYPE, PROVIDER = "project", "user", "consumer_type", "provider"

COLUMNS: Mapping[str, Column[Any]] = {
    PROJECT: projects.c.external_id,
    USER: users.c.external_id,
    CONSUMER_TYPE: consumer_types.c.name,
    PROVIDER: resource_providers.c.uuid,
}

_IDS_BY_NAME = sa.union_all(
    *(
        select(literal(kind), collations.convert_to_unicode(column), column.table.c.id).where(
            column.in_(bindparam(kind, expanding=True))
        )
        for kind, column in COLUMNS.items()
    )
)

#: Row ids by kind, such as ``project``, and name.
Ids = dict[tuple[str, str], int]
_CONSUMER_ID = allocations.c.consumer_id
#: The generation of a consumer that this transaction has just created, if the database does not
#: return inserted rows. No committed row has it, so it identifies the rows of this transaction.
_UNFINISHED = -1
#: The generation of a consumer after its first allocations.
_FIRST_GENERATION = 1
#: Number of claims per statement: with four values each, they fit on every database.
_CLAIMS_PER_STATEMENT = 5_000
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
        # Remains NULL for consumers created by clients: see create().
        updated_at=sa.case((consumers.c.updated_at.is_not(None), _NOW)),
    )
)
_FINISH = (
    update(consumers)
    .where(_BY_ID, consumers.c.generation == _UNFINISHED)
    .values(generation=_FIRST_GENERATION)
)
_DELETE = sa.delete(consumers).where(_BY_ID)
OF_CONSUMERS = _CONSUMER_ID.in_(bindparam("consumers", expanding=True))
_CURRENT_ALLOCATIONS = (
    select(
        _CONSUMER_ID,
        *(allocations.c[name] for name in ("resource_provider_id", "resource_class_id", "used")),
    )
    .where(OF_CONSUMERS)
    .order_by(_CONSUMER_ID, allocations.c.id)
    .with_for_update()
)


def map_ids(connection: Connection, names_by_kind: Mapping[str, Collection[str]]) -> Ids:
    """Map pairs of kind and name to ids, some thousands per statement."""
    parts = [
        split_batches(names_by_kind.get(kind, ()), BATCH_SIZE // len(COLUMNS)) for kind in COLUMNS
    ]
    return {
        (kind, name): number
        for batches in zip_longest(*parts, fillvalue=())
        for kind, name, number in connection.execute(
            _IDS_BY_NAME, dict(zip(COLUMNS, batches, strict=True))
        )
    }


class Owner(NamedTuple):
    """The project, user and type of a consumer, as row ids."""

    project_id: int
    user_id: int
    consumer_type_id: int | None


class Record(NamedTuple):
    """A locked consumer (generation None: created by this transaction)."""

    id: int
    generation: int | None
    owner: Owner


def lock(connection: Connection, uuids: Iterable[str]) -> dict[str, Record]:
    """Lock existing consumers, sorted by uuid, and map uuids to their rows."""
    return {
        # MariaDB also finds uuids in upper case, which OpenStack placement accepts.
        row.uuid.lower(): Record(
            row.id, row.generation, Owner(row.project_id, row.user_id, row.consumer_type_id)
        )
        for batch in split_batches(sorted(set(uuids)))
        for row in connection.execute(_LOCK, {"uuids": batch})
    }


def map_owner_names(claims: Sequence[ConsumerClaim]) -> dict[str, list[str]]:
    """Map project and user to the ids in claims, and type to type names."""
    return {
        PROJECT: sorted({claim.project_id for claim in claims}),
        USER: sorted({claim.user_id for claim in claims}),
        CONSUMER_TYPE: sorted({claim.consumer_type for claim in claims if claim.consumer_type}),
    }


def ensure_owners(
    connection: Connection, claims: Sequence[ConsumerClaim], existing: Ids, now: datetime
) -> dict[str, Owner]:
    """Map consumers to owners, and create missing projects, users and types.

    ``existing`` contains the ids of existing rows. Safe with concurrent writers of the same rows.
    """
    ids = dict(existing)
    missing = _select_missing(map_owner_names(claims), ids)
    for kind, names in missing.items():
        column = COLUMNS[kind]
        rows = [{column.name: name, "created_at": now, "updated_at": now} for name in names]
        sql.insert_missing(connection, column.table, rows)
    if any(missing.values()):
        ids |= map_ids(connection, missing)
        ids |= _map_ids_ignoring_case(connection, _select_missing(missing, ids))
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
    by_scheduler: bool = False,
) -> dict[str, Record]:
    """Create missing consumers, lock all consumers, and return them.

    Only consumers of a claim with a recorded decision (``by_scheduler``) get an ``updated_at``,
    which distinguishes them from consumers that clients create again within the same second.

    A consumer created concurrently is returned with its current generation. Raises
    :class:`Overtaken` if another writer deletes such a consumer before it is locked.
    """
    times = {"created_at": now, "updated_at": now if by_scheduler else None}
    rows = [
        {"uuid": uuid, **owner._asdict(), "generation": _FIRST_GENERATION, **times}
        for uuid, owner in owners_by_uuid.items()
    ]
    if sql.can_insert_new(connection):
        new = sql.insert_new(connection, consumers, rows, ("uuid", "id"))
        created_ids = {row.uuid: row.id for row in new}
    else:
        rows = [{**row, "generation": _UNFINISHED} for row in rows]
        sql.insert_missing(connection, consumers, rows)
        created_ids = {
            uuid: record.id
            for uuid, record in lock(connection, owners_by_uuid).items()
            if record.generation == _UNFINISHED
        }
        for batch in split_batches(created_ids.values()):
            connection.execute(_FINISH, {"ids": batch})
    records = {uuid: Record(created_ids[uuid], None, owners_by_uuid[uuid]) for uuid in created_ids}
    records |= lock(connection, owners_by_uuid.keys() - records.keys())
    if missing := sorted(owners_by_uuid.keys() - records.keys()):
        raise Overtaken(f"Concurrent updates of consumer {missing[0]}. Try again.")
    return records


def finish_records(
    connection: Connection,
    records: Mapping[str, Record],
    owners_by_uuid: Mapping[str, Owner],
    now: datetime,
) -> None:
    """Increment the generations of locked consumers, and update their owners.

    ``records`` are the consumers that have allocations after the claim. Consumers created by this
    transaction keep their generation. A claim without a type does not change the type of the
    consumer.
    """
    for batch in split_batches(r.id for r in records.values() if r.generation is not None):
        connection.execute(_RAISE, {"ids": batch, "now": now})
    changed = {}
    for uuid, record in records.items():
        new = owners_by_uuid[uuid]
        if new.consumer_type_id is None:
            new = new._replace(consumer_type_id=record.owner.consumer_type_id)
        if new != record.owner:
            changed[record.id] = new
    for pairs in split_batches(changed.items(), _CLAIMS_PER_STATEMENT):
        change = update(consumers).where(consumers.c.id.in_([number for number, _ in pairs]))
        values = {}
        for index, name in enumerate(Owner._fields):
            new_ids = {key: owner[index] for key, owner in pairs if owner[index] is not None}
            if new_ids:
                column = consumers.c[name]
                values[name] = sa.case(new_ids, value=consumers.c.id, else_=column)
        connection.execute(change.values(values))


def remove(connection: Connection, records: Iterable[Record]) -> None:
    """Delete locked consumers."""
    for batch in split_batches(record.id for record in records):
        connection.execute(_DELETE, {"ids": batch})


class CurrentAllocation(NamedTuple):
    """A current allocation of a consumer."""

    consumer: str
    inventory_ids: InventoryIds
    used: int


def lock_current_allocations(
    connection: Connection, uuids: Collection[str]
) -> list[CurrentAllocation]:
    """Lock and return the current allocations of consumers."""
    return [
        CurrentAllocation(consumer.lower(), (provider_id, class_id), used)
        for batch in split_batches(uuids)
        # Fetched at once, because fetching row by row takes 50 % longer.
        for consumer, provider_id, class_id, used in connection.execute(
            _CURRENT_ALLOCATIONS, {"consumers": batch}
        ).all()
    ]


def _map_ids_ignoring_case(
    connection: Connection, names_by_kind: Mapping[str, Sequence[str]]
) -> Ids:
    queries = [
        select(literal(kind), literal(name), COLUMNS[kind].table.c.id).where(COLUMNS[kind] == name)
        for kind, names in names_by_kind.items()
        for name in names
    ]
    return {
        (kind, name): number
        for batch in split_batches(queries, 500)
        for kind, name, number in connection.execute(sa.union_all(*batch))
    }


def _select_missing(
    names_by_kind: Mapping[str, Sequence[str]], existing: Ids
) -> dict[str, list[str]]:
    return {
        kind: [name for name in names if (kind, name) not in existing]
        for kind, names in names_by_kind.items()
    }
