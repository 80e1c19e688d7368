"""Keeps the root providers of compute nodes in step with what the nodes report."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from placement_sched.db.connection import Connection
from placement_sched.errors import ConcurrentUpdate, Duplicate
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.node_report import REPORTED_CLASSES, inventories_of
from placement_sched.store import (
    aggregates,
    change_counters,
    host_aggregates,
    inventories,
    resource_providers,
    traits,
)
from placement_sched.store.resource_providers import NewProvider

#: Carried by the root providers of hosts whose compute service is disabled (os-traits).
DISABLED_TRAIT = "COMPUTE_STATUS_DISABLED"


def follow(connection: Connection, nodes: Sequence[ComputeNode], now: datetime) -> frozenset[str]:
    """Give each node its root provider, named as it, with the inventories of its report.

    A provider that is there is kept, with its inventories of other classes. Only a provider of
    which an inventory changes gets another generation. Returns the uuids of new providers.

    Raises :class:`Duplicate` where another provider has a name, and :class:`InUse` where a class
    of which the node has none any more is allocated.
    """
    found = resource_providers.by_uuids(connection, [node.uuid for node in nodes])
    renamed = [
        node for node in nodes if node.uuid not in found or found[node.uuid].name != _name(node)
    ]
    _refuse_taken(connection, renamed)
    new = [node for node in nodes if node.uuid not in found]
    ids = {uuid: provider.id for uuid, provider in found.items()}
    ids |= resource_providers.create_many(
        connection, [NewProvider(node.uuid, _name(node)) for node in new], now
    )
    resource_providers.rename_many(
        connection, {ids[node.uuid]: _name(node) for node in renamed if node.uuid in found}, now
    )
    _lock(connection, ids)
    _make_inventories(connection, {ids[node.uuid]: node for node in nodes}, now)
    return frozenset(node.uuid for node in new)


def _name(node: ComputeNode) -> str:
    return node.hypervisor_hostname


def _refuse_taken(connection: Connection, nodes: Sequence[ComputeNode]) -> None:
    """Raise :class:`Duplicate` where a provider of another uuid has a node's name."""
    names = {node.uuid: _name(node) for node in nodes}
    for provider in resource_providers.by_names(connection, names.values()):
        # MariaDB finds a provider that is to change the case of its name only, too.
        if names.get(provider.uuid, "").casefold() != (provider.name or "").casefold():
            raise Duplicate(
                f"Resource provider {provider.uuid} is named {provider.name} already; a compute "
                "node's provider has the node's uuid and its hypervisor_hostname as name.",
                code="scheduler.duplicate",
            )


def _lock(connection: Connection, ids: Mapping[str, int]) -> None:
    locked = resource_providers.lock(connection, ids.values())
    if gone := sorted(uuid for uuid, number in ids.items() if number not in locked):
        raise ConcurrentUpdate(
            f"Resource provider {gone[0]} has just been deleted; try again.",
            code="scheduler.concurrent_update",
        )


def _make_inventories(
    connection: Connection, by_provider_id: Mapping[int, ComputeNode], now: datetime
) -> None:
    wanted = {number: inventories_of(node) for number, node in by_provider_id.items()}
    lacking = {
        number: classes
        for number, some in wanted.items()
        if (classes := set(REPORTED_CLASSES) - {inventory.resource_class for inventory in some})
    }
    changed = inventories.replace_many(connection, wanted, now)
    changed |= inventories.remove_many(connection, lacking)
    resource_providers.bump_generations(connection, changed, now)


def join_aggregates(
    connection: Connection, hosts: Mapping[str, str], came_from: Mapping[str, str], now: datetime
) -> None:
    """Put the providers of nodes that came to a host into the aggregates of that host.

    ``hosts`` has the host of each node by uuid, ``came_from`` the host it left, if it did: of that
    one's aggregates its provider is taken out.
    """
    if not hosts:
        return
    # An aggregate that is just getting or losing one of these hosts does not know of these nodes.
    change_counters.hold(connection, host_aggregates.SUBJECT)
    by_host = host_aggregates.aggregates_of_hosts(
        connection, {*hosts.values(), *came_from.values()}
    )
    if not by_host:
        return
    joining: dict[str, set[int]] = defaultdict(set)
    leaving: dict[str, set[int]] = defaultdict(set)
    for uuid, provider in resource_providers.by_uuids(connection, hosts).items():
        wanted = set(by_host.get(hosts[uuid], ()))
        left = set(by_host.get(came_from.get(uuid, ""), ())) - wanted
        for aggregate in wanted:
            joining[aggregate].add(provider.id)
        for aggregate in left:
            leaving[aggregate].add(provider.id)
    for aggregate, members in sorted(joining.items()):
        aggregates.add_members(connection, aggregate, members, now)
    for aggregate, members in sorted(leaving.items()):
        aggregates.remove_members(connection, aggregate, members, now)


def mark_disabled(
    connection: Connection, uuids: Collection[str], *, disabled: bool, now: datetime
) -> None:
    """Put :data:`DISABLED_TRAIT` on the nodes' root providers, or take it off."""
    if not uuids:
        return
    ids = [provider.id for provider in resource_providers.by_uuids(connection, uuids).values()]
    change = traits.put_on if disabled else traits.take_off
    change(connection, DISABLED_TRAIT, ids, now)
