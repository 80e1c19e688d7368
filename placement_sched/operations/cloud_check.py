# SPDX-License-Identifier: Apache-2.0
"""Consistency checks of a cloud and its placement data.

A cloud that is read from nova may have used another placement service before, or no placement
service for a while. The checks report problems in nova and its compute hosts before requests fail.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Connection
from placement_sched.model.clock import Clock
from placement_sched.model.provider import SHARES, Provider
from placement_sched.store.compute import cells, compute_nodes, host_aggregates, instances, services
from placement_sched.store.placement import aggregates, resource_providers, traits

#: Maximum number of instances without allocations that are named. All are counted.
MAX_NAMED_INSTANCES = 100


class CloudFault(StrEnum):
    """A kind of finding, by its value in ``--format json``."""

    CELL_DISABLED = "cell_disabled"
    SERVICE_DOWN = "service_down"
    SERVICE_FORCED_DOWN = "service_forced_down"
    SERVICE_DISABLED = "service_disabled"
    NAME_OF_SEVERAL_NODES = "name_of_several_nodes"
    SERVICE_WITHOUT_NODE = "service_without_node"
    NODE_WITHOUT_PROVIDER = "node_without_provider"
    PROVIDER_OF_OTHER_UUID = "provider_of_other_uuid"
    PROVIDER_OF_OTHER_NAME = "provider_of_other_name"
    PROVIDER_WITHOUT_NODE = "provider_without_node"
    AGGREGATE_LACKS_HOSTS = "aggregate_lacks_hosts"
    AGGREGATE_HAS_OTHER_HOSTS = "aggregate_has_other_hosts"
    AGGREGATE_OF_NO_HOST = "aggregate_of_no_host"
    INSTANCE_WITHOUT_ALLOCATIONS = "instance_without_allocations"

    @property
    def what(self) -> str:
        """The affected objects, in the plural."""
        return _TEXTS[self][0]

    @property
    def remedy(self) -> str:
        """The command or action that fixes it."""
        return _TEXTS[self][1]


_TEXTS: Mapping[CloudFault, tuple[str, str]] = {
    CloudFault.CELL_DISABLED: (
        "disabled cells, whose hosts get no new instances",
        "nova-manage cell_v2 update_cell --cell_uuid UUID --enable",
    ),
    CloudFault.SERVICE_DOWN: (
        "hosts down, without a heartbeat for [DEFAULT] service_down_time",
        "start nova-compute on them, or check why it does not reach nova",
    ),
    CloudFault.SERVICE_FORCED_DOWN: (
        "hosts forced down",
        "openstack compute service set --up HOST nova-compute",
    ),
    CloudFault.SERVICE_DISABLED: (
        "disabled hosts",
        "openstack compute service set --enable HOST nova-compute",
    ),
    CloudFault.NAME_OF_SEVERAL_NODES: (
        "names of several compute nodes, although placement has one provider per name",
        "give each host a unique name, or openstack compute service delete a host that is gone",
    ),
    CloudFault.SERVICE_WITHOUT_NODE: (
        "hosts with a compute service but no compute node, so that nothing is placed there",
        "start nova-compute on them, or openstack compute service delete hosts that are gone",
    ),
    CloudFault.NODE_WITHOUT_PROVIDER: (
        "compute nodes without a resource provider, so that nothing is placed there",
        "nova-compute creates it: check that it runs there and reaches this placement",
    ),
    CloudFault.PROVIDER_OF_OTHER_UUID: (
        "compute nodes whose name is that of a resource provider of another uuid",
        "openstack resource provider delete it, once nothing is allocated, restart nova-compute",
    ),
    CloudFault.PROVIDER_OF_OTHER_NAME: (
        "resource providers that have another name than their compute node",
        "openstack resource provider set --name NODE UUID",
    ),
    CloudFault.PROVIDER_WITHOUT_NODE: (
        "root providers without a compute node, so that nothing is placed there",
        "if their hosts are gone for good: openstack resource provider delete",
    ),
    CloudFault.AGGREGATE_LACKS_HOSTS: (
        "host aggregates with hosts that their provider aggregates lack",
        "placement-sched placement sync_aggregates",
    ),
    CloudFault.AGGREGATE_HAS_OTHER_HOSTS: (
        "provider aggregates with hosts that their host aggregates lack",
        "placement-sched placement sync_aggregates --remove-stale",
    ),
    CloudFault.AGGREGATE_OF_NO_HOST: (
        "members of host aggregates that nova does not have as hosts",
        "openstack aggregate remove host AGGREGATE HOST, unless the host is still to come",
    ),
    CloudFault.INSTANCE_WITHOUT_ALLOCATIONS: (
        "instances on a host without allocations, so that their capacity may be allocated again",
        "nova-manage placement heal_allocations",
    ),
}


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The findings of a kind: their number, and their names (or the first of them)."""

    kind: CloudFault
    number: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Node:
    uuid: str
    host: str
    name: str

    @property
    def title(self) -> str:
        return self.name if self.name == self.host else f"{self.name} of {self.host}"


def check_cloud(
    connection: Connection, settings: Settings, clock: Clock, *, unread: Collection[str] | None = ()
) -> tuple[Mismatch, ...]:
    """Return all findings, by kind in a fixed order.

    ``unread`` are the names and uuids of nova's compute nodes that could not be read, or None if
    they are unknown. Their providers are not reported as providers without a node. The number of
    SQL statements depends only on the number of cells.
    """
    names_of: dict[CloudFault, list[str]] = defaultdict(list)
    for kind, name in (
        *_check_cells(connection),
        *_check_services(connection, clock(), settings.DEFAULT.service_down_time),
        *_check_hosts(connection, unread),
        *_check_providers(connection, unread),
        *_check_aggregates(connection),
    ):
        names_of[kind].append(name)
    unfit = [Mismatch(kind, len(names), tuple(sorted(names))) for kind, names in names_of.items()]
    order = list(CloudFault)
    return tuple(
        sorted(
            (*unfit, *_check_instances(connection, settings)),
            key=lambda item: order.index(item.kind),
        )
    )


def _check_cells(connection: Connection) -> Iterator[tuple[CloudFault, str]]:
    for cell in cells.all_cells(connection):
        if cell.disabled:
            yield CloudFault.CELL_DISABLED, cell.title


def _check_services(
    connection: Connection, now: datetime, down_time: int
) -> Iterator[tuple[CloudFault, str]]:
    for service in services.search(connection):
        if not service.is_compute:
            continue
        if service.disabled:
            reason = f" ({service.disabled_reason})" if service.disabled_reason else ""
            yield CloudFault.SERVICE_DISABLED, f"{service.host}{reason}"
        if service.forced_down:
            yield CloudFault.SERVICE_FORCED_DOWN, service.host
        elif not service.is_up(now, down_time):
            yield CloudFault.SERVICE_DOWN, service.host


def _check_hosts(
    connection: Connection, unread: Collection[str] | None
) -> Iterator[tuple[CloudFault, str]]:
    """Yield services without a node, and aggregate members with neither."""
    nodes = compute_nodes.cells_of_all_hosts(connection).keys()
    hosts = {service.host for service in services.search(connection) if service.is_compute}
    if unread is not None:
        for host in hosts - nodes - set(unread):
            yield CloudFault.SERVICE_WITHOUT_NODE, host
        for aggregate in host_aggregates.snapshot(connection):
            for host in aggregate.hosts - nodes - hosts - set(unread):
                yield CloudFault.AGGREGATE_OF_NO_HOST, f"{host} of {aggregate.name}"


def _check_providers(
    connection: Connection, unread: Collection[str] | None
) -> Iterator[tuple[CloudFault, str]]:
    providers = {item.uuid: item for item in resource_providers.all_providers(connection)}
    named = {item.name: item for item in providers.values()}
    hosts = compute_nodes.cells_of_all_hosts(connection).keys()
    nodes = [
        _Node(uuid, host, name)
        for (host, name), uuid in compute_nodes.uuids_by_name(connection, hosts).items()
    ]
    by_name: dict[str, list[_Node]] = defaultdict(list)
    for node in nodes:
        by_name[node.name].append(node)
        yield from _check_node(node, providers.get(node.uuid), named.get(node.name))
    for name, several in by_name.items():
        if len(several) > 1:
            on = ", ".join(sorted(node.host for node in several))
            yield CloudFault.NAME_OF_SEVERAL_NODES, f"{name} (on {on})"
    shared = traits.carriers(connection, [SHARES]).get(SHARES, frozenset())
    if unread is not None:
        unread_uuids = {
            item.uuid for item in providers.values() if {item.uuid, item.name} & set(unread)
        }
        yield from _check_roots(
            providers.values(), {node.uuid for node in nodes} | shared | unread_uuids
        )


def _check_node(
    node: _Node, provider: Provider | None, namesake: Provider | None
) -> Iterator[tuple[CloudFault, str]]:
    if provider is None and namesake is None:
        yield CloudFault.NODE_WITHOUT_PROVIDER, node.title
    elif provider is None and namesake is not None:
        yield CloudFault.PROVIDER_OF_OTHER_UUID, f"{node.title} ({namesake.uuid})"
    elif provider is not None and provider.name != node.name:
        yield (
            CloudFault.PROVIDER_OF_OTHER_NAME,
            f"{node.title} ({provider.uuid} is {provider.name})",
        )


def _check_roots(
    providers: Iterable[Provider], excluded: Iterable[str]
) -> Iterator[tuple[CloudFault, str]]:
    excluded_uuids = frozenset(excluded)
    for provider in providers:
        if provider.parent_uuid is None and provider.uuid not in excluded_uuids:
            yield CloudFault.PROVIDER_WITHOUT_NODE, f"{provider.name} ({provider.uuid})"


def _check_aggregates(connection: Connection) -> Iterator[tuple[CloudFault, str]]:
    for kind, aggregate, hosts in differing_aggregates(connection):
        yield kind, f"{aggregate} ({hosts})"


def differing_aggregates(connection: Connection) -> Iterator[tuple[CloudFault, str, str]]:
    """Yield the differences between provider aggregates and host aggregates.

    Each difference is the fault, the name of the aggregate and the sorted host names, joined by
    commas.
    """
    hosts = host_aggregates.host_map(connection)
    members = aggregates.providers_in(connection, [item.uuid for item in hosts.aggregates])
    existing = resource_providers.by_uuids(connection, hosts.host_of)
    for differing in hosts.disagreements(members):
        for kind, uuids in (
            # A node without a provider is a finding of its own.
            (CloudFault.AGGREGATE_LACKS_HOSTS, differing.lacking & existing.keys()),
            (CloudFault.AGGREGATE_HAS_OTHER_HOSTS, differing.stale),
        ):
            if uuids:
                names = ", ".join(sorted({hosts.host_of[uuid] for uuid in uuids}))
                yield kind, differing.aggregate.name, names


def _check_instances(connection: Connection, settings: Settings) -> Iterator[Mismatch]:
    """Yield instances that have a host in a cell, as only they need allocations."""
    number, names = 0, list[str]()
    no_owner = settings.unknown_owner[0]
    for cell in cells.all_cells(connection):
        of_cell = {"no_owner": no_owner, "cell_uuid": cell.uuid}
        number += instances.count_unallocated(connection, **of_cell)
        remaining = MAX_NAMED_INSTANCES - len(names)
        if remaining:
            names += instances.without_allocations(connection, **of_cell, limit=remaining)
    if number:
        yield Mismatch(CloudFault.INSTANCE_WITHOUT_ALLOCATIONS, number, tuple(sorted(names)))
