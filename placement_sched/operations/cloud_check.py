# SPDX-License-Identifier: Apache-2.0
"""Consistency checks of a cloud and its placement data.

A cloud that is read from nova may have used another placement service before, or no placement
service for a while. The checks report problems in nova and its compute hosts before requests fail.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Connection
from placement_sched.limits import MAX_NAMED_INSTANCES
from placement_sched.model.clock import Clock
from placement_sched.model.compute_node import Service
from placement_sched.model.provider import SHARES
from placement_sched.store.compute import cells, compute_nodes, host_aggregates, instances, services
from placement_sched.store.placement import aggregates, resource_providers, traits


class CloudFault(Enum):
    """Kind of a finding, with the affected objects in the plural and the fix."""

    CELL_DISABLED = (
        "disabled cells, whose hosts get no new instances",
        "nova-manage cell_v2 update_cell --cell_uuid UUID --enable",
    )
    SERVICE_DOWN = (
        "hosts down, without a heartbeat for [DEFAULT] service_down_time",
        "start nova-compute on them, or check why it does not reach nova",
    )
    SERVICE_FORCED_DOWN = (
        "hosts forced down",
        "openstack compute service set --up HOST nova-compute",
    )
    SERVICE_DISABLED = (
        "disabled hosts",
        "openstack compute service set --enable HOST nova-compute",
    )
    NAME_OF_SEVERAL_NODES = (
        "names of several compute nodes, although placement has one provider per name",
        "give each host a unique name, or openstack compute service delete a host that is gone",
    )
    SERVICE_WITHOUT_NODE = (
        "hosts with a compute service but no compute node, so that nothing is placed there",
        "start nova-compute on them, or openstack compute service delete hosts that are gone",
    )
    NODE_WITHOUT_PROVIDER = (
        "compute nodes without a resource provider, so that nothing is placed there",
        "nova-compute creates it: check that it runs there and reaches this placement",
    )
    PROVIDER_OF_OTHER_UUID = (
        "compute nodes that share their name with a resource provider of another uuid",
        "openstack resource provider delete it, once nothing is allocated, restart nova-compute",
    )
    PROVIDER_OF_OTHER_NAME = (
        "resource providers that have another name than their compute node",
        "openstack resource provider set --name NODE UUID",
    )
    PROVIDER_WITHOUT_NODE = (
        "root providers without a compute node, so that nothing is placed there",
        "if their hosts are gone for good: openstack resource provider delete",
    )
    AGGREGATE_LACKS_HOSTS = (
        "host aggregates with hosts that their provider aggregates lack",
        "placement-sched placement sync_aggregates",
    )
    AGGREGATE_HAS_OTHER_HOSTS = (
        "provider aggregates with hosts that their host aggregates lack",
        "placement-sched placement sync_aggregates --remove-stale",
    )
    AGGREGATE_OF_NO_HOST = (
        "members of host aggregates that nova does not have as hosts",
        "openstack aggregate remove host AGGREGATE HOST, unless the host is still to come",
    )
    INSTANCE_WITHOUT_ALLOCATIONS = (
        "instances on a host without allocations, so that their capacity may be allocated again",
        "nova-manage placement heal_allocations",
    )

    @property
    def key(self) -> str:
        """Return the name of the kind in ``--format json``."""
        return self.name.lower()

    @property
    def subject(self) -> str:
        """Return the words for the affected objects, in the plural."""
        return self.value[0]

    @property
    def fix(self) -> str:
        """Return the command or action that fixes such findings."""
        return self.value[1]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The number of findings of a kind, and the names of the first objects."""

    kind: CloudFault
    number: int
    names: tuple[str, ...]


class _Node(NamedTuple):
    uuid: str
    host: str
    name: str

    @property
    def title(self) -> str:
        return self.name if self.name == self.host else f"{self.name} of {self.host}"


def check_cloud(
    connection: Connection, settings: Settings, clock: Clock, *, unread: Collection[str] | None = ()
) -> tuple[Mismatch, ...]:
    """Check the cloud, and return the findings of each kind in a fixed order.

    ``unread`` are the names and uuids of nova's compute nodes that could not be read, or None if
    they are unknown. Their providers are not reported as providers without a node. The number of
    SQL statements depends only on the number of cells.
    """
    names_of: dict[CloudFault, list[str]] = defaultdict(list)
    all_services = services.search(connection)
    compute_services = [service for service in all_services if service.is_compute]
    nodes = [
        _Node(uuid, host, name)
        for uuid, (host, name) in compute_nodes.map_names_by_uuid(connection).items()
    ]
    for kind, name in (
        *((CloudFault.CELL_DISABLED, c.title) for c in cells.list_cells(connection) if c.disabled),
        *_check_services(compute_services, clock(), settings.DEFAULT.service_down_time),
        *_check_hosts(connection, nodes, compute_services, unread),
        *_check_providers(connection, nodes, unread),
        *(
            (kind, f"{aggregate} ({hosts})")
            for kind, aggregate, hosts in compare_aggregates(connection)
        ),
    ):
        names_of[kind].append(name)
    mismatches = [
        Mismatch(kind, len(names), tuple(sorted(names))) for kind, names in names_of.items()
    ]
    mismatches += _check_instances(connection, settings)
    return tuple(sorted(mismatches, key=lambda item: list(CloudFault).index(item.kind)))


def _check_services(
    compute_services: Iterable[Service], now: datetime, down_time: int
) -> Iterator[tuple[CloudFault, str]]:
    for service in compute_services:
        if service.disabled:
            reason = f" ({service.disabled_reason})" if service.disabled_reason else ""
            yield CloudFault.SERVICE_DISABLED, f"{service.host}{reason}"
        if service.forced_down:
            yield CloudFault.SERVICE_FORCED_DOWN, service.host
        elif not service.is_up(now, down_time):
            yield CloudFault.SERVICE_DOWN, service.host


def _check_hosts(
    connection: Connection,
    nodes: Iterable[_Node],
    compute_services: Iterable[Service],
    unread: Collection[str] | None,
) -> Iterator[tuple[CloudFault, str]]:
    if unread is None:
        return
    hosts = {service.host for service in compute_services}
    hosts_with_node = {node.host for node in nodes} | set(unread)
    for host in hosts - hosts_with_node:
        yield CloudFault.SERVICE_WITHOUT_NODE, host
    for aggregate in host_aggregates.read_snapshot(connection):
        for host in aggregate.hosts - hosts_with_node - hosts:
            yield CloudFault.AGGREGATE_OF_NO_HOST, f"{host} of {aggregate.name}"


def _check_providers(
    connection: Connection, nodes: Iterable[_Node], unread: Collection[str] | None
) -> Iterator[tuple[CloudFault, str]]:
    providers = {item.uuid: item for item in resource_providers.list_providers(connection)}
    named = {item.name: item for item in providers.values()}
    by_name: dict[str, list[_Node]] = defaultdict(list)
    for node in nodes:
        by_name[node.name].append(node)
        provider, other = providers.get(node.uuid), named.get(node.name)
        if provider is not None and provider.name != node.name:
            names = f"{node.title} ({provider.uuid} is {provider.name})"
            yield CloudFault.PROVIDER_OF_OTHER_NAME, names
        elif provider is None and other is not None:
            yield CloudFault.PROVIDER_OF_OTHER_UUID, f"{node.title} ({other.uuid})"
        elif provider is None:
            yield CloudFault.NODE_WITHOUT_PROVIDER, node.title
    for name, several in by_name.items():
        if len(several) > 1:
            on = ", ".join(sorted(node.host for node in several))
            yield CloudFault.NAME_OF_SEVERAL_NODES, f"{name} (on {on})"
    if unread is None:
        return
    shared = traits.map_providers(connection, [SHARES]).get(SHARES, frozenset())
    excluded = {node.uuid for node in nodes} | shared
    for provider in providers.values():
        is_unread = not {provider.uuid, provider.name}.isdisjoint(unread)
        if provider.parent_uuid is None and provider.uuid not in excluded and not is_unread:
            yield CloudFault.PROVIDER_WITHOUT_NODE, f"{provider.name} ({provider.uuid})"


def compare_aggregates(connection: Connection) -> Iterator[tuple[CloudFault, str, str]]:
    """Yield the differences between placement aggregates and host aggregates.

    Each has the kind of finding, the name of the aggregate and the sorted hosts, joined by commas.
    """
    hosts = host_aggregates.read_host_map(connection)
    members = aggregates.map_providers(connection, [item.uuid for item in hosts.aggregates])
    existing = resource_providers.map_by_uuid(connection, hosts.host_of)
    for differing in hosts.find_disagreements(members):
        for kind, uuids in (
            # A node without a provider is a finding of its own.
            (CloudFault.AGGREGATE_LACKS_HOSTS, differing.lacking & existing.keys()),
            (CloudFault.AGGREGATE_HAS_OTHER_HOSTS, differing.stale),
        ):
            if uuids:
                names = ", ".join(sorted({hosts.host_of[uuid] for uuid in uuids}))
                yield kind, differing.aggregate.name, names


def _check_instances(connection: Connection, settings: Settings) -> Iterator[Mismatch]:
    """Yield the findings about instances on hosts of a cell that hold no allocations."""
    number, names = 0, list[str]()
    no_owner = settings.unknown_owner[0]
    for cell in cells.list_cells(connection):
        of_cell = {"no_owner": no_owner, "cell_uuid": cell.uuid}
        number += instances.count_unallocated(connection, **of_cell)
        remaining = MAX_NAMED_INSTANCES - len(names)
        if remaining:
            names += instances.list_unallocated(connection, **of_cell, limit=remaining)
    if number:
        yield Mismatch(CloudFault.INSTANCE_WITHOUT_ALLOCATIONS, number, tuple(sorted(names)))
