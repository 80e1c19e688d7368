# SPDX-License-Identifier: Apache-2.0
"""The cloud that look-ups of plugins read, as a snapshot per request."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextvars import ContextVar
from functools import cached_property
from typing import Any, Protocol

from placement_sched.candidates.providers import ProviderSource
from placement_sched.db.transaction import Connection
from placement_sched.model.aggregates import HostAggregate, ServerGroup
from placement_sched.model.compute_node import COMPUTE_BINARY, ComputeNode, Service
from placement_sched.model.instance import HostInstance, NovaCell
from placement_sched.model.provider import Inventory, Provider
from placement_sched.scheduler.nova_shim.exception import NovaException
from placement_sched.store.compute import cells, compute_nodes, instances, server_groups, services
from placement_sched.store.placement import inventories, resource_providers


class CloudView(Protocol):
    """The part of the view of a request that look-ups use."""

    connection: Connection

    @property
    def aggregates(self) -> Any:
        """The host aggregates, also by host."""

    @property
    def providers(self) -> ProviderSource:
        """The providers."""

    def host_aggregates(self) -> tuple[HostAggregate, ...]:
        """Return all host aggregates, by id."""

    def provider_aggregates(self, uuids: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the uuids of the placement aggregates of providers."""


_CLOUD: ContextVar["Cloud | None"] = ContextVar("the cloud of the request", default=None)


class Cloud:
    """The hosts, instances, aggregates and providers of a request.

    Each kind is read with a single statement on first use, for any number of hosts.
    """

    def __init__(self, view: CloudView) -> None:
        self.view = view
        self.connection = view.connection
        self._traits: dict[str, frozenset[str]] = {}
        self._instances: dict[str, HostInstance] = {}

    @property
    def aggregates(self) -> Sequence[HostAggregate]:
        """Return all host aggregates, by id."""
        return self.view.host_aggregates()

    def aggregates_of(self, host: str) -> Sequence[HostAggregate]:
        """Return the aggregates of a host."""
        aggregates: Sequence[HostAggregate] = self.view.aggregates.of_host(host)
        return aggregates

    @cached_property
    def nodes(self) -> Mapping[str, ComputeNode]:
        """Return all compute nodes by uuid."""
        return {node.uuid: node for node in compute_nodes.search(self.connection)}

    @cached_property
    def nodes_by_host(self) -> Mapping[str, Sequence[ComputeNode]]:
        """Return the compute nodes of each host."""
        nodes: defaultdict[str, list[ComputeNode]] = defaultdict(list)
        for node in self.nodes.values():
            nodes[node.host].append(node)
        return nodes

    @cached_property
    def services(self) -> Mapping[str, Service]:
        """Return the nova-compute service of each host."""
        computes = services.search(self.connection, binary=COMPUTE_BINARY)
        return {service.host: service for service in computes}

    @cached_property
    def instances_by_host(self) -> Mapping[str, Sequence[HostInstance]]:
        """Return the instances on each host."""
        by_host: defaultdict[str, list[HostInstance]] = defaultdict(list)
        records = instances.by_hosts(self.connection, self.nodes_by_host)
        for instance in instances.host_instances(self.connection, records):
            by_host[str(instance.host)].append(instance)
            self._instances[instance.uuid] = instance
        return by_host

    def instances(self, uuids: Collection[str]) -> Sequence[HostInstance]:
        """Return the recorded instances with these uuids."""
        if missing := [uuid for uuid in uuids if uuid not in self._instances]:
            records = instances.by_uuids(self.connection, missing)
            for instance in instances.host_instances(self.connection, records):
                self._instances[instance.uuid] = instance
        return [self._instances[uuid] for uuid in uuids if uuid in self._instances]

    @cached_property
    def groups(self) -> Mapping[str, ServerGroup]:
        """Return all server groups by uuid, without members."""
        return {str(group.uuid): group for group in server_groups.all_groups(self.connection)}

    def group_with_members(self, uuid: str) -> ServerGroup | None:
        """Return a server group with its members and their hosts."""
        group = self.groups.get(uuid)
        return group and server_groups.with_members(self.connection, group, without=())

    def group_of_instance(self, uuid: str) -> ServerGroup | None:
        """Return the server group of an instance."""
        group = server_groups.of_instance(self.connection, uuid)
        return None if group is None else self.group_with_members(group)

    @cached_property
    def cells(self) -> Mapping[str, NovaCell]:
        """Return the cells of nova by uuid."""
        return {cell.uuid: cell for cell in cells.all_cells(self.connection)}

    def traits_of(self, uuid: str) -> frozenset[str]:
        """Return the traits of a provider, read for all compute nodes at once."""
        if uuid not in self._traits:
            uuids = {uuid} if self._traits else {uuid, *self.nodes}
            ids = self.view.providers.ids_of(uuids)
            contents = self.view.providers.contents(set(ids.values()))
            self._traits |= {
                each: frozenset(contents.trait_sets[contents.traits[ids[each]]])
                if ids.get(each) in contents.traits
                else frozenset()
                for each in uuids
            }
        return self._traits[uuid]

    @cached_property
    def _providers(self) -> dict[str, Provider]:
        return resource_providers.by_uuids(self.connection, self.nodes)

    def provider(self, uuid: str) -> Provider | None:
        """Return a provider, read for all compute nodes at once."""
        return self._providers.get(uuid) or resource_providers.find(self.connection, uuid)

    @cached_property
    def _inventories(self) -> Mapping[int, Mapping[str, Inventory]]:
        ids = (provider.id for provider in self._providers.values())
        return inventories.by_provider_id(self.connection, ids)

    def inventories_of(self, uuid: str) -> Mapping[str, Inventory]:
        """Return the inventories of a provider by class, read for all compute nodes at once."""
        provider = self.provider(uuid)
        if provider is None:
            return {}
        if uuid in self._providers:
            return self._inventories.get(provider.id, {})
        stock = inventories.of_provider(self.connection, provider.id)
        return {inventory.resource_class: inventory for inventory in stock}


def set_cloud(view: CloudView) -> None:
    """Set the cloud that plugins of this thread read."""
    _CLOUD.set(Cloud(view))


def get_cloud() -> Cloud:
    """Return the cloud of the current request.

    Raises :class:`NovaException` outside of a request.
    """
    cloud = _CLOUD.get()
    if cloud is None or cloud.connection.closed:
        raise NovaException("The cloud can be read only while a request is scheduled.")
    return cloud
