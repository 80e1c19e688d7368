"""Placement aggregates: uuids under which providers are gathered."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from placement_sched.db.batches import batches
from placement_sched.db.insert import insert_missing
from placement_sched.db.tables import placement_aggregates, resource_provider_aggregates
from placement_sched.store import resource_providers

_AGGREGATES = placement_aggregates.c
_MEMBERS = resource_provider_aggregates.c


def ids_by_uuid(connection: Connection, uuids: Iterable[str]) -> dict[str, int]:
    """Return the ids of those aggregates that are there, by uuid."""
    return {
        uuid: number
        for batch in batches(set(uuids))
        for uuid, number in connection.execute(
            select(_AGGREGATES.uuid, _AGGREGATES.id).where(_AGGREGATES.uuid.in_(batch))
        )
    }


def of_provider(connection: Connection, provider_id: int) -> tuple[str, ...]:
    """Return the uuids of the aggregates that a provider is in."""
    query = (
        select(_AGGREGATES.uuid)
        .join(resource_provider_aggregates, _MEMBERS.aggregate_id == _AGGREGATES.id)
        .where(_MEMBERS.resource_provider_id == provider_id)
        .order_by(_AGGREGATES.id)
    )
    return tuple(connection.scalars(query))


def replace(
    connection: Connection, provider_id: int, uuids: Collection[str], now: datetime
) -> bool:
    """Make these a provider's only aggregates, creating missing ones; return whether it changed.

    The caller has locked the provider, and bumps its generation where the caller's version wants.
    """
    wanted = set(uuids)
    found = set(of_provider(connection, provider_id))
    if gone := found - wanted:
        ids = ids_by_uuid(connection, gone).values()
        connection.execute(
            delete(resource_provider_aggregates).where(
                _MEMBERS.resource_provider_id == provider_id, _MEMBERS.aggregate_id.in_(ids)
            )
        )
    if new := wanted - found:
        ids = _made(connection, new, now).values()
        _insert(connection, [(provider_id, number) for number in sorted(ids)], now)
    return wanted != found


def replace_many(
    connection: Connection, uuids_by_provider_id: Mapping[int, Collection[str]], now: datetime
) -> frozenset[int]:
    """Make these the only aggregates of each provider; return the ids of those that changed.

    Missing aggregates are made. The caller has locked the providers, and bumps the generations of
    those that changed. The number of statements does not depend on how many providers there are.
    """
    ids = _made(connection, {uuid for some in uuids_by_provider_id.values() for uuid in some}, now)
    wanted = {
        (provider, ids[uuid]) for provider, some in uuids_by_provider_id.items() for uuid in some
    }
    found = {
        (provider, aggregate)
        for batch in batches(sorted(uuids_by_provider_id))
        for provider, aggregate in connection.execute(
            select(_MEMBERS.resource_provider_id, _MEMBERS.aggregate_id).where(
                _MEMBERS.resource_provider_id.in_(batch)
            )
        )
    }
    for aggregate in sorted({aggregate for _, aggregate in found - wanted}):
        for batch in batches(sorted(one for one, of in found - wanted if of == aggregate)):
            connection.execute(
                delete(resource_provider_aggregates).where(
                    _MEMBERS.aggregate_id == aggregate, _MEMBERS.resource_provider_id.in_(batch)
                )
            )
    if wanted - found:
        _insert(connection, sorted(wanted - found), now)
    return frozenset(provider for provider, _ in wanted ^ found)


def add_members(
    connection: Connection, aggregate_uuid: str, provider_ids: Iterable[int], now: datetime
) -> frozenset[int]:
    """Put providers into an aggregate, made where it is missing; return those that were not in it.

    Locks these providers and bumps their generations.
    """
    wanted = set(provider_ids)
    if not wanted:
        return frozenset()
    present = resource_providers.lock(connection, wanted)
    aggregate_id = _made(connection, {aggregate_uuid}, now)[aggregate_uuid]
    lacking = frozenset(present) - _members(connection, aggregate_id, wanted)
    if lacking:
        _insert(connection, [(number, aggregate_id) for number in sorted(lacking)], now)
        resource_providers.bump_generations(connection, lacking, now)
    return lacking


def remove_members(
    connection: Connection, aggregate_uuid: str, provider_ids: Iterable[int], now: datetime
) -> frozenset[int]:
    """Take providers out of an aggregate; return those that were in it.

    Locks these providers and bumps their generations.
    """
    wanted = set(provider_ids)
    aggregate_id = ids_by_uuid(connection, [aggregate_uuid]).get(aggregate_uuid)
    if aggregate_id is None or not wanted:
        return frozenset()
    resource_providers.lock(connection, wanted)
    members = _members(connection, aggregate_id, wanted)
    for batch in batches(sorted(members)):
        connection.execute(
            delete(resource_provider_aggregates).where(
                _MEMBERS.aggregate_id == aggregate_id, _MEMBERS.resource_provider_id.in_(batch)
            )
        )
    resource_providers.bump_generations(connection, members, now)
    return members


def _made(connection: Connection, uuids: Collection[str], now: datetime) -> dict[str, int]:
    """Return the ids of these aggregates, after creating those that are missing."""
    ids = ids_by_uuid(connection, uuids)
    missing = sorted(set(uuids) - set(ids))
    if not missing:
        return ids
    rows = [{"uuid": uuid, "created_at": now} for uuid in missing]
    insert_missing(connection, placement_aggregates, rows)
    return ids | ids_by_uuid(connection, missing)


def _members(
    connection: Connection, aggregate_id: int, provider_ids: Collection[int]
) -> frozenset[int]:
    """Return those of the providers that are in the aggregate."""
    return frozenset(
        number
        for batch in batches(sorted(provider_ids))
        for number in connection.scalars(
            select(_MEMBERS.resource_provider_id).where(
                _MEMBERS.aggregate_id == aggregate_id, _MEMBERS.resource_provider_id.in_(batch)
            )
        )
    )


def _insert(connection: Connection, pairs: Iterable[tuple[int, int]], now: datetime) -> None:
    rows = [
        {"resource_provider_id": provider, "aggregate_id": aggregate, "created_at": now}
        for provider, aggregate in pairs
    ]
    connection.execute(insert(resource_provider_aggregates), rows)
