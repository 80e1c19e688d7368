# SPDX-License-Identifier: Apache-2.0
"""Allocations, the write function of all claims, and reshapes.

A reshape moves inventories and allocations between providers.
"""

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, select

from placement_sched.db import sql, tables
from placement_sched.db.sql import has_skip_locked
from placement_sched.errors import CapacityExceeded, ConcurrentUpdate, Invalid
from placement_sched.model.grouping import group_rows, split_batches
from placement_sched.model.provider import (
    UNCHECKED,
    Allocation,
    Consumer,
    ConsumerClaim,
    Inventory,
    Provider,
    ProviderAllocation,
)
from placement_sched.store.placement import capacity, consumers, inventories, resource_providers
from placement_sched.store.placement import resource_classes as classes
from placement_sched.store.placement import resource_providers as providers
from placement_sched.store.placement.capacity import InventoryIds, RequestedAmount
from placement_sched.store.placement.consumers import PROVIDER, Owner, Record
from placement_sched.store.placement.resource_providers import DetailsQuery, UuidQuery

_COLUMNS = tables.allocations.c
#: The resolution of stored times.
_RESOLUTION = timedelta(seconds=1)
# The statements of every claim are built once: building takes longer than sending.
_DELETE = delete(tables.allocations).where(consumers.OF_CONSUMERS)
_INSERT = insert(tables.allocations)
_ALLOCATIONS: Select[Any] = (
    select(
        _COLUMNS.consumer_id,
        tables.consumers.c.generation.label("consumer_generation"),
        tables.projects.c.external_id.label("project_id"),
        tables.users.c.external_id.label("user_id"),
        tables.consumer_types.c.name.label("consumer_type"),
        tables.resource_providers.c.uuid.label("provider_uuid"),
        tables.resource_providers.c.generation.label("provider_generation"),
        tables.resource_classes.c.name.label("resource_class"),
        _COLUMNS.used,
        _COLUMNS.created_at,
        _COLUMNS.updated_at,
    )
    .join(
        tables.resource_providers, tables.resource_providers.c.id == _COLUMNS.resource_provider_id
    )
    .join(tables.resource_classes, tables.resource_classes.c.id == _COLUMNS.resource_class_id)
    .outerjoin(tables.consumers, tables.consumers.c.uuid == _COLUMNS.consumer_id)
    .outerjoin(tables.projects, tables.projects.c.id == tables.consumers.c.project_id)
    .outerjoin(tables.users, tables.users.c.id == tables.consumers.c.user_id)
    .outerjoin(
        tables.consumer_types, tables.consumer_types.c.id == tables.consumers.c.consumer_type_id
    )
    .order_by(_COLUMNS.id)
)
_OF_CONSUMER = UuidQuery.from_query(_ALLOCATIONS, _COLUMNS.consumer_id)
# Without the owners of the consumers.
_DETAILS = DetailsQuery(
    [
        tables.resource_classes.c.name,
        _COLUMNS.consumer_id,
        tables.consumers.c.generation,
        _COLUMNS.used,
        func.coalesce(_COLUMNS.updated_at, _COLUMNS.created_at),
    ],
    (tables.allocations, _COLUMNS.resource_provider_id == tables.resource_providers.c.id),
    (tables.resource_classes, tables.resource_classes.c.id == _COLUMNS.resource_class_id),
    (tables.consumers, tables.consumers.c.uuid == _COLUMNS.consumer_id),
    order=_COLUMNS.id,
)


def list_requested_amounts(
    connection: Connection, claims: Sequence[ConsumerClaim], provider_ids: Mapping[str, int]
) -> list[RequestedAmount]:
    """List the amounts of claims, or raise Invalid for an unknown class."""
    requested = [
        (claim.consumer, uuid, name, amount)
        for claim in claims
        for uuid, amounts in claim.allocations.items()
        for name, amount in amounts.items()
    ]
    class_ids = classes.map_ids(connection, {name for _, _, name, _ in requested})
    for consumer, _, name, _ in requested:
        if name not in class_ids:
            raise Invalid(
                f"Unable to allocate inventory for consumer {consumer}: "
                f"No such resource class {name}."
            )
    return [
        RequestedAmount(consumer, (provider_ids[uuid], class_ids[name]), uuid, name, amount)
        for consumer, uuid, name, amount in requested
    ]


def find_first_with_capacity(
    connection: Connection,
    claims: Iterable[ConsumerClaim],
    current_amounts: Mapping[InventoryIds, int],
    locked: Collection[int],
    full: CapacityExceeded,
) -> tuple[int, list[RequestedAmount]]:
    """Find the first claim that fits, and return its number and amounts.

    Numbers begin with 1. The providers of the returned claim are locked, in addition to the ids
    ``locked``. First, a read without locks excludes claims that cannot fit. Then, claim by claim,
    the providers are locked and the capacity is checked. ``current_amounts`` has the same meaning
    as in :func:`capacity.check`.

    Providers are locked sorted by id, because another order can cause a deadlock. If a claim has a
    provider with a lower id than a locked provider, its providers are locked with SKIP LOCKED. The
    claim is skipped if another transaction has locked any of them, or if the server has no SKIP
    LOCKED.

    Raises ``full`` if no claim fits.
    """
    all_claims = tuple(claims)
    uuids = sorted({uuid for claim in all_claims for uuid in claim.allocations})
    id_rows = consumers.map_ids(connection, {PROVIDER: uuids})
    ids = {uuid: number for (_, uuid), number in id_rows.items()}
    claims_by_number = {
        number: claim
        for number, claim in enumerate(all_claims, start=1)
        if claim.allocations.keys() <= ids.keys()
    }
    amounts = iter(list_requested_amounts(connection, list(claims_by_number.values()), ids))
    amounts_of = {
        number: list(islice(amounts, sum(map(len, claim.allocations.values()))))
        for number, claim in claims_by_number.items()
    }
    used_inventories = capacity.read(
        connection,
        {entry.inventory_ids for requested in amounts_of.values() for entry in requested},
    )
    locked_ids = set(locked)
    for number, requested in amounts_of.items():
        if not capacity.fits(used_inventories, requested, current_amounts):
            continue
        provider_ids = {entry.inventory_ids[0] for entry in requested} - locked_ids
        may_deadlock = bool(provider_ids) and min(provider_ids) < max(locked_ids)
        if may_deadlock and not has_skip_locked(connection):
            continue
        locked_now = providers.lock(connection, provider_ids, without_waiting=may_deadlock).keys()
        locked_ids |= locked_now
        if locked_now != provider_ids:
            continue
        try:
            capacity.check(connection, requested, current_amounts)
        except CapacityExceeded:  # another transaction has claimed since the read
            continue
        return number, requested
    raise full


def list_by_consumer(connection: Connection, uuid: str) -> tuple[Allocation, ...]:
    """Return the allocations of a consumer, whose uuid may have any spelling."""
    return tuple(map(_build_allocation, _OF_CONSUMER.find_rows(connection, uuid)))


def list_by_consumers(connection: Connection, uuids: Collection[str]) -> tuple[Allocation, ...]:
    """Return the allocations of consumers."""
    rows = sql.select_in_batches(connection, _ALLOCATIONS, _COLUMNS.consumer_id, uuids)
    return tuple(map(_build_allocation, rows))


def get_by_provider_uuid(
    connection: Connection, uuid: str
) -> tuple[int, tuple[ProviderAllocation, ...]]:
    """Return a provider's generation and allocations, or raise NotFound."""
    _, generation, rows = _DETAILS.read(connection, uuid)
    return generation, tuple(
        ProviderAllocation(consumer, consumer_generation, name, used, changed)
        for name, consumer, consumer_generation, used, changed in rows
    )


def list_allocations(connection: Connection) -> tuple[Allocation, ...]:
    """Return all allocations."""
    return tuple(map(_build_allocation, connection.execute(_ALLOCATIONS)))


def remove(connection: Connection, uuids: Collection[str]) -> int:
    """Delete consumers but bump no generation, and count their allocations."""
    records = consumers.lock(connection, uuids)
    missing = {uuid for uuid in uuids if uuid.lower() not in records}
    # Another writer may create a missing consumer now: delete both its allocations and its record,
    # or neither.
    consumers_with_allocations = {
        row.consumer for row in consumers.lock_current_allocations(connection, missing)
    }
    created = {uuid for uuid in missing if uuid.lower() in consumers_with_allocations}
    records |= consumers.lock(connection, created)
    count = sum(
        connection.execute(_DELETE, {"consumers": batch}).rowcount
        for batch in split_batches(sorted(set(uuids) - (missing - created)))
    )
    consumers.remove(connection, records.values())
    return count


def replace(
    connection: Connection,
    claims: Sequence[ConsumerClaim],
    now: datetime,
    *,
    skip_capacity_check: bool = False,
    by_scheduler: bool = False,
) -> None:
    """Replace the allocations of each consumer by its claim.

    On an error, no claim is made. Runs in the caller's write transaction. The number of statements
    does not depend on the numbers of consumers, providers and classes. Locks the existing
    consumers, then the created consumers (both sorted by uuid), their allocations, and the
    requested providers (sorted by id), and only then checks the capacity. It therefore never
    over-allocates, regardless of concurrent writers.

    Increments the generations of the consumers and of the requested providers. As in OpenStack
    placement, it also increments the generations of the providers of a consumer that gives up all
    allocations, but not of providers that a consumer moves away from.

    ``skip_capacity_check`` is for allocations that already exist, such as in a fleet file. They
    need an inventory, but no free capacity. Their rows are dated before the inventories, so that
    the invariant checks treat the inventories as reduced after the allocation.

    ``by_scheduler`` marks a claim of the scheduler, recorded with its decision: consumers that it
    creates get an ``updated_at`` (see :func:`consumers.create`).

    Raises :class:`Invalid` for an unknown provider or class, :class:`ConcurrentUpdate` for a
    generation conflict, and :class:`CapacityExceeded`.
    """
    prepared = _prepare(connection, claims, now, by_scheduler=by_scheduler)
    amounts = list_requested_amounts(
        connection, prepared.claims_with_allocations, prepared.provider_ids
    )
    _lock(connection, prepared, amounts)
    times: Mapping[InventoryIds, datetime] = {}
    if skip_capacity_check:
        capacity.check_inventories(connection, amounts)
        changed_at = inventories.map_change_times(
            connection, {entry.inventory_ids[0] for entry in amounts}
        )
        times = {ids: min(now, time - _RESOLUTION) for ids, time in changed_at.items()}
    else:
        capacity.check(connection, amounts, prepared.own_amounts)
    _write(connection, prepared, amounts, now, times)


def replace_by_first(
    connection: Connection, claim: ConsumerClaim, others: Iterable[ConsumerClaim], now: datetime
) -> int:
    """Replace a consumer's allocations by the first claim that fits.

    ``others`` are further claims for the same consumer and owner, for the case that ``claim`` does
    not fit. Returns the number of the written claim: 0 for ``claim``, then 1, 2, ... A claim is
    written only while its providers are locked. It may be rejected without locks, by the last
    committed state. Only the scheduler uses this function, so each claim is ``by_scheduler``.

    Raises the errors of :func:`replace`.
    """
    prepared = _prepare(connection, [claim], now, by_scheduler=True)
    amounts = list_requested_amounts(connection, [claim], prepared.provider_ids)
    locked = _lock(connection, prepared, amounts)
    number = 0
    try:
        capacity.check(connection, amounts, prepared.own_amounts)
    except CapacityExceeded as full:
        number, amounts = find_first_with_capacity(
            connection, others, prepared.own_amounts, locked, full
        )
    _write(connection, prepared, amounts, now)
    return number


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Claims, their locked consumers, and the consumers' current allocations."""

    claims_with_allocations: Sequence[ConsumerClaim]
    provider_ids: Mapping[str, int]
    owners: Mapping[str, Owner]
    records: Mapping[str, Record]
    current: Sequence[consumers.CurrentAllocation]

    @property
    def released_provider_ids(self) -> set[int]:
        return {row.inventory_ids[0] for row in self.current if row.consumer not in self.owners}

    @property
    def own_amounts(self) -> dict[InventoryIds, int]:
        sums: dict[InventoryIds, int] = defaultdict(int)
        for row in self.current:
            sums[row.inventory_ids] += row.used
        return sums


def _prepare(
    connection: Connection, claims: Sequence[ConsumerClaim], now: datetime, *, by_scheduler: bool
) -> _Prepared:
    """Create and lock consumers, or raise ConcurrentUpdate or Invalid."""
    ordered = sorted(claims, key=lambda claim: claim.consumer)
    claims_with_allocations = [claim for claim in ordered if claim.allocations]
    requested = sorted({uuid for claim in claims_with_allocations for uuid in claim.allocations})
    ids = consumers.map_ids(
        connection, {**consumers.map_owner_names(claims_with_allocations), PROVIDER: requested}
    )
    owners = consumers.ensure_owners(connection, claims_with_allocations, ids, now)
    # Consumers that the caller expects to be new are not locked but created. If a consumer exists
    # after all, it is locked instead.
    expected = [c.consumer for c in ordered if c.generation is not None or not c.allocations]
    records = consumers.lock(connection, expected)
    missing = {uuid: owner for uuid, owner in owners.items() if uuid not in records}
    records |= consumers.create(connection, missing, now, by_scheduler=by_scheduler)
    current = consumers.lock_current_allocations(connection, [claim.consumer for claim in ordered])
    # Lock the consumers that another writer has created since the lock above.
    records |= consumers.lock(connection, {row.consumer for row in current} - records.keys())
    _check_generations(ordered, records, {claim.consumer for claim in current})
    check_names(requested, {uuid for kind, uuid in ids if kind == PROVIDER})
    provider_ids = {uuid: number for (kind, uuid), number in ids.items() if kind == PROVIDER}
    return _Prepared(claims_with_allocations, provider_ids, owners, records, current)


def _lock(
    connection: Connection, prepared: _Prepared, amounts: Collection[RequestedAmount]
) -> set[int]:
    requested = {entry.inventory_ids[0]: entry.provider_uuid for entry in amounts}
    locked = set(providers.lock(connection, requested.keys() | prepared.released_provider_ids))
    check_names(sorted(requested.values()), {requested[i] for i in locked & requested.keys()})
    return locked


def _write(
    connection: Connection,
    prepared: _Prepared,
    amounts: Sequence[RequestedAmount],
    now: datetime,
    times: Mapping[InventoryIds, datetime] = MappingProxyType({}),
) -> None:
    """Replace allocations, dated ``times`` or ``now``, and bump generations."""
    owners, records = prepared.owners, prepared.records
    for batch in split_batches(sorted({row.consumer for row in prepared.current})):
        connection.execute(_DELETE, {"consumers": batch})
    rows = [
        {
            "resource_provider_id": entry.inventory_ids[0],
            "resource_class_id": entry.inventory_ids[1],
            "consumer_id": entry.consumer,
            "used": entry.amount,
            **dict.fromkeys(("created_at", "updated_at"), times.get(entry.inventory_ids, now)),
        }
        for entry in amounts
    ]
    if rows:
        sql.insert_by(connection, _INSERT, rows)
    consumers.finish_records(connection, {uuid: records[uuid] for uuid in owners}, owners, now)
    consumers.remove(connection, [records[uuid] for uuid in records.keys() - owners.keys()])
    bumped = prepared.released_provider_ids | {entry.inventory_ids[0] for entry in amounts}
    providers.bump_generations(connection, bumped, now)


def check_names(requested: Iterable[str], existing: Container[str]) -> None:
    """Raise :class:`Invalid` if a requested provider does not exist."""
    for uuid in requested:
        if uuid not in existing:
            raise Invalid(f"Allocation for resource provider '{uuid}' that does not exist.")


def _check_generations(
    claims: Sequence[ConsumerClaim],
    records: Mapping[str, Record],
    consumers_with_allocations: Collection[str],
) -> None:
    for claim in claims:
        record = records.get(claim.consumer)
        actual, sent = record.generation if record else None, claim.generation
        # OpenStack placement leaves a consumer without allocations when its own request fails.
        # Such a consumer counts as new.
        counts_as_new = sent is None and claim.consumer not in consumers_with_allocations
        if sent not in {UNCHECKED, actual} and not counts_as_new:
            expected, got = ("null" if value is None else value for value in (actual, sent))
            raise ConcurrentUpdate(
                f"consumer generation conflict - expected {expected} but got {got} "
                f"for consumer {claim.consumer}"
            )


def _build_allocation(row: Sequence[Any]) -> Allocation:
    uuid, generation, project_id, user_id, consumer_type, *columns = row
    provider_uuid, provider_generation, resource_class, used, created_at, updated_at = columns
    return Allocation(
        consumer=Consumer(
            uuid=uuid,
            generation=generation,
            project_id=project_id,
            user_id=user_id,
            consumer_type=consumer_type,
        ),
        provider_uuid=provider_uuid,
        provider_generation=provider_generation or 0,
        resource_class=resource_class,
        used=used,
        created_at=created_at,
        updated_at=updated_at,
    )


def lock_reshape(
    connection: Connection, generations: Mapping[str, int], claims: Sequence[ConsumerClaim]
) -> dict[str, Provider]:
    """Lock all rows of a reshape, and return its providers.

    ``generations`` are the expected generations by provider uuid. Rows are locked in the same order
    as by claims, so that reshapes and claims cannot deadlock. Raises :class:`Invalid` for an
    unknown provider, and :class:`ConcurrentUpdate` for a generation conflict of a provider or
    consumer.
    """
    ordered = sorted(claims, key=lambda claim: claim.consumer)
    uuids = [claim.consumer for claim in ordered]
    records = consumers.lock(connection, uuids)
    requested = {uuid for claim in claims for uuid in claim.allocations}
    candidates = resource_providers.map_by_uuid(connection, requested.union(generations))
    locked = resource_providers.lock(connection, [provider.id for provider in candidates.values()])
    existing = {
        uuid: provider._replace(generation=locked[provider.id])
        for uuid, provider in candidates.items()
        if provider.id in locked
    }
    for uuid, expected in generations.items():
        if uuid not in existing:
            raise Invalid(
                f"Resource provider {uuid} in inventories not found: "
                f"No resource provider with uuid {uuid} found",
                code="placement.resource_provider.not_found",
            )
        if (actual := existing[uuid].generation) != expected:
            raise ConcurrentUpdate(
                f"resource provider generation conflict for provider {uuid}: "
                f"actual: {actual}, given: {expected}"
            )
    current = consumers.lock_current_allocations(connection, uuids)
    _check_generations(ordered, records, {row.consumer for row in current})
    check_names(sorted(requested), existing)
    return {uuid: existing[uuid] for uuid in generations}


def reshape(
    connection: Connection,
    new_inventories: Mapping[int, Sequence[Inventory]],
    claims: Sequence[ConsumerClaim],
    now: datetime,
) -> None:
    """Replace the inventories of providers, and write the claims.

    New inventories are written before allocations move to them. Inventories are removed after their
    allocations have moved away. Raises the errors of :func:`replace`, and
    :class:`InUse` if a removed inventory still has allocations.
    """
    # Read once, as no other transaction changes the inventories of a locked provider.
    existing = inventories.find(connection, new_inventories)
    inventories.put(connection, new_inventories, now, existing)
    filled = [provider_id for provider_id, rows in new_inventories.items() if rows]
    resource_providers.bump_generations(connection, filled, now)
    replace(connection, claims, now)
    remaining = {(key, row.resource_class) for key, rows in new_inventories.items() for row in rows}
    removed_names = group_rows(existing.keys() - remaining)
    # In the order of the request: the error names the first inventory in use.
    to_remove = {key: set(removed_names[key]) for key in new_inventories if key in removed_names}
    inventories.remove(connection, to_remove, existing)
    resource_providers.bump_generations(connection, new_inventories, now)
