# SPDX-License-Identifier: Apache-2.0
"""Snapshot of the cloud per request, for look-ups of plugins."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import cached_property, partial
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

from placement_sched.candidates.providers import InventoryValues
from placement_sched.extensions.nova_plugins.exception import NovaException
from placement_sched.model.aggregates import HostAggregate, ServerGroup
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.context import set_host_reader
from placement_sched.model.document import NovaObjectDictCompat
from placement_sched.model.grouping import group_rows
from placement_sched.model.instance import HostInstance, NovaCell
from placement_sched.scheduler.host_manager import RequestView, map_traits
from placement_sched.scheduler.host_state import NO_SERVICE, HostState
from placement_sched.scheduler.plugin import LookupsUnreadable
from placement_sched.store.compute import cells, instances, server_groups

T = TypeVar("T")
#: Number of reads of single objects outside of the request. The last of the reads gets all objects.
#: A look-up of a single host by a hint must not read the whole cloud.
_MAX_SINGLE_READS = 10


_LOOKUPS: ContextVar["Lookups | None"] = ContextVar("look-ups of the request", default=None)


class ServiceRecord(SimpleNamespace, NovaObjectDictCompat):
    """A nova-compute service, with the fields of :class:`Service`."""


class _ObjectCache(Generic[T]):
    """Cache of the objects of a kind, read for all hosts of a request at once.

    ``read`` returns the existing objects with these keys. ``list_keys`` returns the keys to read on
    first use, and ``list_all_keys`` the keys to read if a plugin uses many other keys.
    """

    def __init__(
        self,
        read: Callable[[Collection[str]], Mapping[str, T]],
        list_keys: Callable[[], Collection[str]],
        list_all_keys: Callable[[], Collection[str]],
    ) -> None:
        self._read, self._list_keys, self._list_all_keys = read, list_keys, list_all_keys
        self._objects: dict[str, T | None] = {}
        self._single_reads = 0

    def get(self, key: str) -> T | None:
        """Return the object with a key, or None."""
        if key not in self._objects:
            keys = self._list_keys()
            if key not in keys:
                self._single_reads += 1
                is_last = self._single_reads == _MAX_SINGLE_READS
                keys = {key, *self._list_all_keys()} if is_last else {key}
            self._objects |= {**dict.fromkeys(keys), **self._read(keys)}
        return self._objects[key]


class Lookups:
    """Hosts, instances, aggregates and providers that plugins look up.

    ``hosts`` are the host states of the request. On first use, each kind of object is read for all
    these hosts at once, from the caches of the process if possible.
    """

    def __init__(self, view: RequestView, hosts: Sequence[HostState]) -> None:
        self.view = view
        self.connection = view.connection
        self._hosts: dict[str, Any] = {host.host: host for host in hosts}
        uuids = {str(host.uuid) for host in hosts}

        def by_node(read: Callable[[Collection[str]], Mapping[str, T]]) -> _ObjectCache[T]:
            return _ObjectCache(read, lambda: uuids, lambda: self.node_names)

        self.nodes = by_node(self._read_nodes)
        self.generations = by_node(self._read_generations)
        self.traits = by_node(partial(map_traits, view.providers))
        self.inventories = by_node(self._read_inventories)
        self.provider_aggregates = by_node(view.provider_aggregates)
        self.services = _ObjectCache(
            self._read_services, lambda: self._hosts, lambda: self._uuids_by_host
        )
        self._instances_on = _ObjectCache(
            self._read_instances_on, tuple, lambda: self._uuids_by_host
        )
        self._instances = _ObjectCache(self._read_instances, tuple, lambda: self._own_instances)
        self._group_uuids = _ObjectCache(
            partial(server_groups.map_by_instance, view.connection),
            lambda: self._own_instances if self._has_instances else (),
            lambda: self._own_instances,
        )
        self.groups = _ObjectCache(
            partial(server_groups.map_by_uuid, view.connection), tuple, lambda: self.named_groups
        )

    @property
    def aggregates(self) -> Sequence[HostAggregate]:
        """Return all host aggregates, sorted by id."""
        return self.view.host_aggregates()

    def aggregates_of(self, host: str) -> Sequence[HostAggregate]:
        """Return the aggregates of a host."""
        aggregates: Sequence[HostAggregate] = self.view.aggregates.list_for_host(host)
        return aggregates

    @cached_property
    def node_names(self) -> Mapping[str, tuple[str, str]]:
        """Map the uuid of each compute node to host and hypervisor hostname."""
        names: Mapping[str, tuple[str, str]] = self.view.caches.node_names.get_current(
            self.connection
        )
        return names

    @cached_property
    def _uuids_by_host(self) -> Mapping[str, Sequence[str]]:
        return group_rows((host, uuid) for uuid, (host, _) in self.node_names.items())

    @property
    def host_names(self) -> Collection[str]:
        """Return the names of all hosts."""
        return self._uuids_by_host.keys()

    def _read_nodes(self, uuids: Collection[str]) -> Mapping[str, ComputeNode]:
        nodes: Mapping[str, ComputeNode] = self.view.caches.nodes.get(
            self.connection, uuids, self.view.host_versions
        )
        return nodes

    def all_nodes(self) -> list[ComputeNode]:
        """Return all compute nodes, sorted by uuid."""
        nodes = self._read_nodes(self.node_names)
        return [nodes[uuid] for uuid in sorted(nodes)]

    def nodes_of(self, host: str) -> list[ComputeNode]:
        """Return the compute nodes of a host, sorted by uuid."""
        nodes = map(self.nodes.get, sorted(self._uuids_by_host.get(host, ())))
        return [node for node in nodes if node is not None]

    def _read_services(self, hosts: Collection[str]) -> Mapping[str, ServiceRecord]:
        views = self.view.caches.services.get(self.connection, hosts, self.view.host_versions)
        return {
            host: ServiceRecord(**view) for host, view in views.items() if view is not NO_SERVICE
        }

    @cached_property
    def minimum_version(self) -> int:
        """Return the lowest version of the services not forced down, or 0."""
        records = self._read_services(self.host_names).values()
        return min((each.version for each in records if not each.forced_down), default=0)

    def instances_on(self, host: str) -> Iterable[HostInstance]:
        """Return the recorded instances on a host."""
        if host in self._hosts:
            recorded: Iterable[HostInstance] = self._hosts[host].instances.list_recorded()
            return recorded
        return self._instances_on.get(host) or ()

    def _read_instances_on(self, hosts: Collection[str]) -> Mapping[str, Sequence[HostInstance]]:
        records = instances.list_by_hosts(self.connection, hosts)
        host_instances = instances.build_host_instances(self.connection, records)
        return group_rows((instance.host, instance) for instance in host_instances)

    @property
    def _has_instances(self) -> bool:
        """Return whether instances of any host of the request are already read."""
        return any(host.instances.is_read for host in self._hosts.values())

    @cached_property
    def _own_instances(self) -> Mapping[str, HostInstance]:
        return {each.uuid: each for host in self._hosts for each in self.instances_on(host)}

    def instance(self, uuid: str) -> HostInstance | None:
        """Return a recorded instance, or None."""
        own = self._own_instances.get(uuid) if self._has_instances else None
        return own or self._instances.get(uuid)

    def host_of_instance(self, uuid: str) -> str | None:
        """Return the host of a recorded instance, or None."""
        if self.connection.closed:
            return None
        instance = self.instance(uuid)
        return None if instance is None else instance.host

    def _read_instances(self, uuids: Collection[str]) -> Mapping[str, HostInstance]:
        records = instances.list_by_uuids(self.connection, uuids)
        return {
            each.uuid: each for each in instances.build_host_instances(self.connection, records)
        }

    @cached_property
    def named_groups(self) -> Mapping[str, ServerGroup]:
        """Map uuids to all server groups, without members."""
        return {str(group.uuid): group for group in server_groups.list_groups(self.connection)}

    def group_of_instance(self, uuid: str) -> ServerGroup | None:
        """Return an instance's server group, with members and hosts, or None."""
        group = self._group_uuids.get(uuid)
        return None if group is None else self.groups.get(group)

    @cached_property
    def cells(self) -> Mapping[str, NovaCell]:
        """Map uuids to the cells of nova."""
        return {cell.uuid: cell for cell in cells.list_cells(self.connection)}

    def _read_generations(self, uuids: Collection[str]) -> Mapping[str, int]:
        ids = self.view.providers.map_ids(uuids)
        providers = self.view.providers.list_providers(ids.values())
        return {provider.uuid: provider.generation for provider in providers}

    def _read_inventories(
        self, uuids: Collection[str]
    ) -> Mapping[str, Mapping[str, InventoryValues]]:
        ids = self.view.providers.map_ids(uuids)
        inventories_by_id = self.view.providers.read_inventories(set(ids.values()))
        return {uuid: inventories_by_id[key] for uuid, key in ids.items()}


def set_lookups(view: RequestView, hosts: Sequence[HostState]) -> None:
    """Set the look-ups that plugins of this thread use, with these hosts."""
    lookups = Lookups(view, hosts)
    _LOOKUPS.set(lookups)
    set_host_reader(lookups.host_of_instance)


class _LookupsUnreadable(NovaException, LookupsUnreadable):
    msg_fmt = "The cloud can be read only while a request is scheduled."


def get_lookups() -> Lookups:
    """Return the look-ups of the current request.

    Raises :class:`NovaException` outside of a request.
    """
    lookups = _LOOKUPS.get()
    if lookups is None or lookups.connection.closed:
        raise _LookupsUnreadable
    return lookups
