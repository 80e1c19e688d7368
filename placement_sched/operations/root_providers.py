"""The root providers of compute nodes: their names, inventories, aggregates and marks.

A compute node and its root provider have the same uuid. Whichever of the two is created last, by a
report, by nova-compute or by an operator, puts the provider into the aggregates of the node's host.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from placement_sched.db.transaction import Connection
from placement_sched.errors import ConcurrentUpdate, Duplicate
from placement_sched.model.compute_node import REPORTED_CLASSES, ComputeNode, inventories_of
from placement_sched.model.provider import Provider
from placement_sched.store import change_counters
from placement_sched.store.compute import compute_nodes, host_aggregates
from placement_sched.store.placement import (
    aggregates,
    inventories,
    provider_trees,
    resource_providers,
    traits,
)
from placement_sched.store.placement.resource_providers import NewProvider

#: Carried by the root providers of hosts whose compute service is disabled (os-traits).
DISABLED_TRAIT = "COMPUTE_STATUS_DISABLED"


def create(
    connection: Connection, *, uuid: str, name: str, parent_uuid: str | None, now: datetime
) -> Provider:
    """Create a provider as :func:`provider_trees.create` does.

    One whose uuid a compute node has joins the aggregates of that node's host.
    """
    provider = provider_trees.create(
        connection, uuid=uuid, name=name, parent_uuid=parent_uuid, now=now
    )
    if parent_uuid is not None:
        return provider
    # Until we are done no aggregate gets a host, and no report records a node without a provider.
    change_counters.hold(connection, host_aggregates.SUBJECT)
    hosts = {node.uuid: node.host for node in compute_nodes.by_uuids(connection, [provider.uuid])}
    if not hosts:
        return provider
    _change_aggregates(connection, {provider.uuid: provider}, hosts, {}, now)
    return resource_providers.by_uuid(connection, provider.uuid)


def update(connection: Connection, nodes: Sequence[ComputeNode], now: datetime) -> frozenset[str]:
    """Give each node its root provider, named as it, with the inventories of its report.

    A provider that is there is kept, with its inventories of other classes. Only a provider of
    which an inventory changes gets another generation. Returns the uuids of new providers.

    Raises :class:`Duplicate` where another provider has a name, and :class:`InUse` where a class
    of which the node has none any more is allocated.
    """
    names = {node.uuid: node.hypervisor_hostname for node in nodes}
    found = resource_providers.by_uuids(connection, names)
    new = {uuid: name for uuid, name in names.items() if uuid not in found}
    kept = {uuid: name for uuid, name in names.items() if uuid in found}
    renamed = {uuid: name for uuid, name in kept.items() if found[uuid].name != name}
    wanted = new | renamed
    for provider in resource_providers.by_names(connection, wanted.values()):
        # MariaDB finds a provider that is to change the case of its name only, too.
        if wanted.get(provider.uuid, "").casefold() != (provider.name or "").casefold():
            raise Duplicate(
                f"The name {provider.name} is already used by resource provider {provider.uuid}; a "
                "compute node's provider has the node's uuid and its hypervisor_hostname as name.",
                code="scheduler.duplicate",
            )
    ids = {uuid: provider.id for uuid, provider in found.items()}
    rows = [NewProvider(uuid, name) for uuid, name in new.items()]
    ids |= resource_providers.create_many(connection, rows, now)
    by_id = {ids[uuid]: name for uuid, name in renamed.items()}
    resource_providers.rename_many(connection, by_id, now)
    locked = resource_providers.lock(connection, ids.values())
    if gone := sorted(uuid for uuid, number in ids.items() if number not in locked):
        raise ConcurrentUpdate(
            f"Resource provider {gone[0]} has just been deleted; try again.",
            code="scheduler.concurrent_update",
        )
    made = {ids[node.uuid]: inventories_of(node) for node in nodes}
    lacking = {
        number: classes
        for number, some in made.items()
        if (classes := set(REPORTED_CLASSES) - {inventory.resource_class for inventory in some})
    }
    changed = inventories.replace_many(connection, made, now)
    changed |= inventories.remove(connection, lacking)
    resource_providers.bump_generations(connection, changed, now)
    return frozenset(new)


def join_aggregates(
    connection: Connection, hosts: Mapping[str, str], came_from: Mapping[str, str], now: datetime
) -> None:
    """Put the providers of nodes that came to a host into the aggregates of that host.

    ``hosts`` has the host of each node by uuid, ``came_from`` the host it left, if it did: of that
    one's aggregates its provider is taken out.
    """
    if not hosts:
        return
    providers = resource_providers.by_uuids(connection, hosts)
    if providers.keys() >= hosts.keys():
        # An aggregate that is just getting or losing one of these hosts does not know these nodes.
        change_counters.hold(connection, host_aggregates.SUBJECT)
    else:
        # Who is just creating a provider that lacks does not know these nodes either.
        change_counters.bump(connection, host_aggregates.SUBJECT)
        providers = resource_providers.by_uuids(connection, hosts)
    _change_aggregates(connection, providers, hosts, came_from, now)


def _change_aggregates(
    connection: Connection,
    providers: Mapping[str, Provider],
    hosts: Mapping[str, str],
    came_from: Mapping[str, str],
    now: datetime,
) -> None:
    """Do what :func:`join_aggregates` does, for these providers, while no aggregate changes."""
    all_hosts = {*hosts.values(), *came_from.values()}
    by_host = host_aggregates.aggregates_of_hosts(connection, all_hosts)
    if not by_host:
        return
    joining: dict[str, set[int]] = defaultdict(set)
    leaving: dict[str, set[int]] = defaultdict(set)
    for uuid, provider in providers.items():
        wanted = set(by_host.get(hosts[uuid], ()))
        for aggregate in wanted:
            joining[aggregate].add(provider.id)
        for aggregate in set(by_host.get(came_from.get(uuid, ""), ())) - wanted:
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
