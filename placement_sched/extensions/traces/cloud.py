# SPDX-License-Identifier: Apache-2.0
"""The cloud of a trace run in memory: providers, nodes and servers.

The used amounts of providers and the reported amounts of nodes follow each event, as the reports of
nova-compute would. Only the records of servers are written, to the copy of the database that the
run reads, because plugins may read them. Allocations are written before they are read.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import orjson

from placement_sched.candidates.columns import ProviderColumns
from placement_sched.candidates.providers import CachedProviders
from placement_sched.candidates.tree_index import TreeIndex
from placement_sched.db.transaction import Connection
from placement_sched.model.candidates_query import InventoryName, iterate_amounts
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.decision import Selection
from placement_sched.model.document import Json
from placement_sched.model.grouping import nest_rows
from placement_sched.model.hardware.numa import NUMATopology, ReportedTopology
from placement_sched.model.instance import Instance
from placement_sched.model.instance_request import build_request_document, select_request
from placement_sched.model.provider import SHARES
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.caches import HostCache, HostVersions, ProcessCaches, load_nodes
from placement_sched.scheduler.host_state import make_host_state
from placement_sched.scheduler.instance_requests import read_requests
from placement_sched.scheduler.simulation import copy_node
from placement_sched.store import simulated_changes
from placement_sched.store.compute import compute_nodes, instances
from placement_sched.store.placement import allocations, provider_state
from placement_sched.store.simulated_changes import SimulatedAllocation

#: Reported amounts that an instance uses: the used amount, its resource class, the field of
#: :class:`Usage`, and the free amounts.
_AMOUNTS = (
    ("vcpus_used", "VCPU", "vcpus", ()),
    ("memory_mb_used", "MEMORY_MB", "memory_mb", ("free_ram_mb",)),
    ("local_gb_used", "DISK_GB", "disk_gb", ("free_disk_gb", "disk_available_least")),
)
_INSTANCES = "num_instances"


@dataclass(frozen=True, slots=True)
class CellUsage:
    """The usage of a NUMA node of a host by an instance.

    ``pages`` are the numbers of used pages, in the order of the node's page sizes.
    """

    id: int
    memory: int
    cpus: int
    pinned_cpus: frozenset[int]
    pages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Usage:
    """The reported resources of a node that an instance uses.

    ``devices`` counts the PCI devices by pool, as :func:`_build_pool_key` builds the key.
    """

    vcpus: int = 0
    memory_mb: int = 0
    disk_gb: int = 0
    cells: tuple[CellUsage, ...] = ()
    devices: Mapping[bytes, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlacedServer:
    """A server that is on a host, and its amounts by provider and class."""

    host: str
    node_uuid: str
    usage: Usage
    amounts: tuple[tuple[InventoryName, int], ...]
    document: Json


class TraceColumns:
    """The providers of the cloud, whose used amounts follow the events."""

    def __init__(self, connection: Connection) -> None:
        self._columns = ProviderColumns(provider_state.read_names(connection))
        for batch in provider_state.read_all_providers(connection):
            self._columns.replace([row[0] for row in batch.providers], batch)
        self._index = TreeIndex(self._columns, self._columns.names.traits.get(SHARES))

    @contextmanager
    def lock_columns(self) -> Iterator[tuple[ProviderColumns, TreeIndex]]:
        """Return the columns and the tree index, which a single thread reads."""
        yield self._columns, self._index

    def add(self, amounts: Iterable[tuple[InventoryName, int]], sign: int) -> None:
        """Add amounts, times ``sign``, to the used amounts."""
        self._columns.add_used(
            nest_rows((name, provider, sign * amount) for (provider, name), amount in amounts)
        )


class TracedNodes(HostCache[ComputeNode]):
    """The nodes of the cloud, whose reported amounts follow the events."""

    def __init__(self, nodes: Iterable[ComputeNode]) -> None:
        super().__init__(load_nodes)
        self.by_uuid = {node.uuid: node for node in nodes}
        self._pools = {uuid: node.pci_device_pools for uuid, node in self.by_uuid.items()}
        self._used_devices: dict[str, Counter[bytes]] = {}

    def get(
        self, _connection: Connection, keys: Iterable[str], _versions: HostVersions
    ) -> dict[str, ComputeNode]:
        """Map existing keys to their nodes."""
        return {key: self.by_uuid[key] for key in keys if key in self.by_uuid}

    def consume(self, uuid: str, spec: RequestSpec, selection: Selection) -> Usage:
        """Add an instance to the report of a node, and return its usage."""
        node = self.by_uuid[uuid]
        state = make_host_state(node)
        state.limits = dict(selection.limits)
        topology, pools = state.numa_topology, _count_devices(state.pci_stats or ())
        state.consume_from_request(spec)
        usage = Usage(
            spec.vcpus,
            spec.memory_mb,
            spec.root_gb + spec.ephemeral_gb,
            _measure_cells(topology, state.numa_topology),
            pools - _count_devices(state.pci_stats or ()),
        )
        self.change(uuid, usage, 1)
        return usage

    def free(self, uuid: str, usage: Usage) -> None:
        """Subtract a server of the start, which the report of its host may lack."""
        node, amounts = self.by_uuid[uuid], dict[str, Any]()
        for name, resource_class, amount, _ in _AMOUNTS:
            used = getattr(node, name) - node.reserved.get(resource_class, 0)
            amounts[amount] = min(getattr(usage, amount), max(0, used))
        self.change(uuid, Usage(**amounts), -1)

    def change(self, uuid: str, usage: Usage, sign: int) -> None:
        """Add a usage, times ``sign``, to the report of a node."""
        node = self.by_uuid[uuid]
        changes: dict[str, Any] = {}
        for name, _, amount, free_names in _AMOUNTS:
            difference = sign * getattr(usage, amount)
            changes[name] = getattr(node, name) + difference
            for free_name in free_names:
                if (free := getattr(node, free_name)) is not None:
                    changes[free_name] = free - difference
        number = max(0, int(node.stats.get(_INSTANCES, 0)) + sign)
        changes["stats"] = {**node.stats, _INSTANCES: str(number)}
        if usage.cells and node.numa_topology is not None:
            changes["numa_topology"] = _shift_cells(node.numa_topology, usage.cells, sign)
        if usage.devices:
            in_use = self._used_devices.setdefault(uuid, Counter())
            (in_use.update if sign > 0 else in_use.subtract)(usage.devices)
            counted = [
                {**pool, "count": pool["count"] - in_use[_build_pool_key(pool)]}
                for pool in self._pools[uuid]
            ]
            changes["pci_device_pools"] = tuple(pool for pool in counted if pool["count"] > 0)
        self.by_uuid[uuid] = replace(node, **changes)


def _build_pool_key(pool: Mapping[str, Any]) -> bytes:
    items = {key: value for key, value in pool.items() if key != "count"}
    return orjson.dumps(items, option=orjson.OPT_SORT_KEYS)


def _count_devices(pools: Iterable[Mapping[str, Any]]) -> Counter[bytes]:
    return Counter({_build_pool_key(pool): pool["count"] for pool in pools})


def _measure_cells(
    before: NUMATopology | None, after: NUMATopology | None
) -> tuple[CellUsage, ...]:
    if before is None or after is None or after is before:
        return ()
    return tuple(
        CellUsage(
            new.id,
            new.memory_usage - old.memory_usage,
            new.cpu_usage - old.cpu_usage,
            new.pinned_cpus - old.pinned_cpus,
            tuple(a.used - b.used for a, b in zip(new.mempages, old.mempages, strict=True)),
        )
        for old, new in zip(before.cells, after.cells, strict=True)
        if new is not old
    )


def _shift_cells(
    reported: ReportedTopology, usages: Iterable[CellUsage], sign: int
) -> ReportedTopology:
    cells = {cell.id: cell for cell in reported.topology.cells}
    for usage in usages:
        cell = cells[usage.id]
        pinned, pages = cell.pinned_cpus, zip(cell.mempages, usage.pages, strict=True)
        cells[usage.id] = replace(
            cell,
            memory_usage=cell.memory_usage + sign * usage.memory,
            cpu_usage=cell.cpu_usage + sign * usage.cpus,
            pinned_cpus=pinned | usage.pinned_cpus if sign > 0 else pinned - usage.pinned_cpus,
            mempages=tuple(replace(page, used=page.used + sign * used) for page, used in pages),
        )
    shifted = ReportedTopology(reported)
    shifted.topology = NUMATopology(cells.values())
    return shifted


class TraceCaches(ProcessCaches):
    """Caches that read the providers and nodes of a trace run."""

    def __init__(self, nodes: TracedNodes, columns: TraceColumns) -> None:
        super().__init__()
        self.nodes = nodes
        self._source = CachedProviders(columns)

    def choose_provider_source(self, _connection: Connection) -> CachedProviders:
        """Return the providers in memory."""
        return self._source


class TraceCloud:
    """The servers of a trace run on their hosts.

    ``placed`` are the servers that the run has placed, by uuid.
    ``kept_devices`` is the number of servers removed at the start from hosts that report NUMA nodes
    or PCI devices: the parts that the servers use are unknown, and stay used.
    """

    def __init__(
        self,
        connection: Connection,
        now: datetime,
        created: Collection[str] = (),
        *,
        is_empty: bool = False,
    ) -> None:
        """Read the cloud, without the servers that the trace creates.

        ``connection`` is a scratch transaction. With ``is_empty`` all allocations are removed.
        """
        self.connection, self._now = connection, now
        records = {record.uuid: record for record in instances.search(connection)}
        removed = set(records) if is_empty else records.keys() & created
        consumers = set(removed)
        if is_empty:
            rows = allocations.list_allocations(connection)
            consumers |= {row.consumer.uuid for row in rows}
        simulated_changes.move(connection, (), dict.fromkeys(consumers, (None, None)), now)
        instances.remove(connection, removed)
        reported = compute_nodes.search(connection)
        if is_empty:
            reported = tuple(_build_empty_node(node, now) for node in reported)
        self._uuids = {(node.host, node.hypervisor_hostname): node.uuid for node in reported}
        self.nodes = TracedNodes(reported)
        self.kept_devices = 0
        for record in [records[uuid] for uuid in sorted(removed) if not is_empty]:
            self._subtract(record)
        self._columns = TraceColumns(connection)
        self.caches = TraceCaches(self.nodes, self._columns)
        self.placed: dict[str, PlacedServer] = {}
        self._start = {uuid: each for uuid, each in records.items() if uuid not in removed}
        self._unwritten: dict[str, tuple[SimulatedAllocation, ...]] = {}
        self.hosts = frozenset(node.host for node in reported)
        self.counts = Counter(each.host for each in self._start.values() if each.host in self.hosts)

    def __contains__(self, uuid: str) -> bool:
        return uuid in self.placed or uuid in self._start

    @property
    def server_count(self) -> int:
        """Return the number of servers on hosts."""
        return self.counts.total()

    @property
    def used_host_count(self) -> int:
        """Return the number of hosts with servers."""
        return sum(1 for number in self.counts.values() if number)

    def _subtract(self, record: Instance) -> None:
        uuid = self._uuids.get((record.host or "", record.node or ""))
        if uuid is not None:
            node = self.nodes.by_uuid[uuid]
            self.kept_devices += node.numa_topology is not None or bool(node.pci_device_pools)
            self.nodes.free(uuid, _read_flavor_usage(record.flavor or {}))

    def get_document(self, uuid: str) -> Json:
        """Return the request of a server."""
        if uuid in self.placed:
            return self.placed[uuid].document
        record = self._start[uuid]
        requests = read_requests(self.connection, [uuid])
        document = build_request_document(record, requests.get(uuid))
        return document | ({"instance_group": group} if (group := record.server_group) else {})

    def get_host(self, uuid: str) -> str | None:
        """Return the host of a server."""
        return self.placed[uuid].host if uuid in self.placed else self._start[uuid].host

    def place(
        self, spec: RequestSpec, selection: Selection, group: str | None, document: Json
    ) -> None:
        """Place a server on the selected host.

        ``spec`` has its uuid and the providers of its devices. ``group`` is the uuid of the server
        group that it joins.
        """
        uuid, node_uuid = str(spec.instance_uuid), selection.compute_node_uuid
        amounts = tuple(iterate_amounts(selection.allocation_request))
        self._columns.add(amounts, 1)
        usage = self.nodes.consume(node_uuid, spec, selection)
        host = selection.service_host
        self.placed[uuid] = PlacedServer(host, node_uuid, usage, amounts, document)
        self.counts[host] += 1
        self._unwritten[uuid] = tuple(
            SimulatedAllocation(uuid, provider, name, amount)
            for (provider, name), amount in amounts
        )
        body = spec.as_document()
        record = Instance(
            uuid=uuid,
            host=host,
            node=selection.nodename,
            project_id=spec.project_id,
            user_id=spec.user_id,
            display_name=uuid,
            vm_state="active",
            flavor=body.get("flavor"),
            image=body.get("image"),
            server_group=group,
            request=select_request(body),
        )
        instances.record(self.connection, [record], self._now)

    def remove(self, uuid: str) -> None:
        """Remove a server, and free its resources."""
        self._unwritten[uuid] = ()
        if (server := self.placed.pop(uuid, None)) is not None:
            self._columns.add(server.amounts, -1)
            self.nodes.change(server.node_uuid, server.usage, -1)
            self.counts[server.host] -= 1
        else:
            record = self._start.pop(uuid)
            rows = allocations.list_by_consumers(self.connection, [uuid])
            amounts = [((row.provider_uuid, row.resource_class), row.used) for row in rows]
            self._columns.add(amounts, -1)
            self._subtract(record)
            if record.host in self.hosts:
                self.counts[record.host] -= 1
        instances.remove(self.connection, [uuid])

    def write_allocations(self) -> None:
        """Write allocations that have changed, before they are read."""
        places = {uuid: self._find_place(uuid) for uuid in self._unwritten}
        written: Sequence[SimulatedAllocation] = [
            each for rows in self._unwritten.values() for each in rows
        ]
        simulated_changes.move(self.connection, written, places, self._now)
        self._unwritten.clear()

    def _find_place(self, uuid: str) -> tuple[str | None, str | None]:
        server = self.placed.get(uuid)
        if server is None:
            return None, None
        return server.host, self.nodes.by_uuid[server.node_uuid].hypervisor_hostname


def _build_empty_node(node: ComputeNode, now: datetime) -> ComputeNode:
    empty = copy_node(node, node.host, 0, now)
    return replace(
        empty,
        uuid=node.uuid,
        hypervisor_hostname=node.hypervisor_hostname,
        last_seen_up=node.last_seen_up,
    )


def _read_flavor_usage(flavor: Mapping[str, Any]) -> Usage:
    disk = (flavor.get("root_gb") or 0) + (flavor.get("ephemeral_gb") or 0)
    return Usage(flavor.get("vcpus") or 0, flavor.get("memory_mb") or 0, disk)
