"""Writes providers, and what they have, as a fleet file wants them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from placement_sched.db.connection import Connection
from placement_sched.errors import Invalid
from placement_sched.model.provider import Provider
from placement_sched.operations.fleet.blame import blamed
from placement_sched.operations.fleet.same_names import write_named
from placement_sched.operations.fleet.state import ProviderState, State
from placement_sched.store import (
    aggregates,
    everything,
    inventories,
    provider_trees,
    resource_providers,
    traits,
)
from placement_sched.store.resource_providers import NewProvider

Parents = Mapping[str, Provider]


@dataclass(frozen=True, slots=True)
class Written:
    """The inventories that are to go, by provider id, once nothing is allocated of them."""

    superfluous: Mapping[int, frozenset[str]]


def touched(before: State, after: State) -> tuple[ProviderState, ...]:
    """Return the providers that are to be written: those that differ, and hosts' that may.

    What was done to hosts, services and host aggregates has been done to their providers as well,
    which may be told otherwise.
    """
    hosts = {one.host for key, one in after.services.items() if before.services.get(key) != one}
    for uuid, aggregate in after.aggregates.items():
        if (old := before.aggregates.get(uuid)) != aggregate:
            hosts |= aggregate.hosts | (old.hosts if old else frozenset())
    return tuple(
        one
        for uuid, one in after.providers.items()
        if before.providers.get(uuid) != one
        or (
            (node := after.nodes.get(uuid)) is not None
            and (node.host in hosts or before.nodes.get(uuid) != node)
        )
    )


def write_providers(
    connection: Connection, wanted: Collection[ProviderState], after: State, now: datetime
) -> Written:
    """Make these providers as they are ``after`` the load, but for inventories that are to go.

    Raises :class:`AgainstError` where a name is taken, or a provider would be below itself.
    """
    if not wanted:
        return Written({})
    known = resource_providers.by_uuids(connection, [one.uuid for one in wanted])
    _create(connection, [one for one in wanted if one.uuid not in known], after, now)

    def rename(some: Sequence[ProviderState]) -> None:
        resource_providers.rename_many(
            connection, {known[one.uuid].id: one.name for one in some}, now
        )

    renamed = [one for one in wanted if one.uuid in known and known[one.uuid].name != one.name]
    write_named(connection, renamed, rename, after.told_at)
    for one in wanted:
        if one.uuid in known and known[one.uuid].parent_uuid != one.parent:
            _move(connection, one, after, now)
    found = resource_providers.by_uuids(connection, [one.uuid for one in wanted])
    ids = {uuid: provider.id for uuid, provider in found.items()}
    resource_providers.lock(connection, ids.values())
    return _fill(connection, {ids[one.uuid]: one for one in wanted}, now)


def _move(connection: Connection, one: ProviderState, after: State, now: datetime) -> None:
    place = after.told_at.get(("provider", one.uuid), ())
    parent = after.providers.get(one.parent or "")
    below = "" if parent is None else f" below {parent.name}"
    with blamed(f"provider {one.name}{below}", *place):
        provider_trees.move(connection, one.uuid, one.parent, anywhere=True, now=now)


def _create(
    connection: Connection, new: Collection[ProviderState], after: State, now: datetime
) -> None:
    """Create providers, parents before those below them, each depth together."""
    left = {one.uuid: one for one in new}
    while left:
        ready = [one for one in left.values() if one.parent not in left]
        parents = resource_providers.by_uuids(
            connection, {one.parent for one in ready if one.parent is not None}
        )
        if not ready or any(one.parent and one.parent not in parents for one in ready):
            raise Invalid("a provider has a parent that is not there")

        def create(some: Sequence[ProviderState], parents: Parents = parents) -> None:
            rows = [NewProvider(one.uuid, one.name, parents.get(one.parent or "")) for one in some]
            resource_providers.create_many(connection, rows, now)

        write_named(connection, ready, create, after.told_at)
        for one in ready:
            del left[one.uuid]


def _fill(connection: Connection, by_id: Mapping[int, ProviderState], now: datetime) -> Written:
    # What there is now: reports and aggregates may have changed it a moment ago.
    stocks = everything.inventories_by_provider(connection, by_id)
    changed = inventories.replace_many(
        connection, {number: tuple(one.inventories.values()) for number, one in by_id.items()}, now
    )
    changed |= traits.replace_many(
        connection, {number: one.traits for number, one in by_id.items()}, now
    )
    changed |= aggregates.replace_many(
        connection, {number: one.aggregates for number, one in by_id.items()}, now
    )
    superfluous = {
        number: frozenset(gone)
        for number, one in by_id.items()
        if (gone := stocks.get(number, {}).keys() - one.inventories.keys())
    }
    resource_providers.bump_generations(connection, changed | superfluous.keys(), now)
    return Written(superfluous)
