# SPDX-License-Identifier: Apache-2.0
"""Records of instances and nodes, compared with hardware in reports.

The database has no CPU numbers and no device addresses of instances: nova-compute assigns them.
The amounts that instances request are compared with the amounts that nodes report.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy import Connection, select

from placement_sched.db import sql, tables
from placement_sched.errors import Error, Invalid, format_one_line
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.flavor import Flavor
from placement_sched.model.grouping import split_batches
from placement_sched.model.hardware.numa import InstanceNUMATopology, NUMACell
from placement_sched.model.hardware.pci_devices import Pool, count_devices, select_matching_pools
from placement_sched.model.hardware.pci_requests import InstancePCIRequest
from placement_sched.model.hardware.request import RequestedHardware
from placement_sched.model.image import Image
from placement_sched.model.instance import Instance
from placement_sched.model.request_spec import RequestSpec, parse_request_spec
from placement_sched.store.checks import IS_CLAIM
from placement_sched.store.compute import compute_nodes, instances
from tests.verifier.decisions import read_allocated_amounts
from tests.verifier.model import Fault, FaultsWithValues

_NODES, _PLACES = tables.compute_nodes.c, tables.decision_places.c
#: Records that are read at a time.
_BATCH = 500
#: The filters that compare a request with the NUMA nodes and the PCI devices of a host.
_NUMA_FILTER, _PCI_FILTER = "NUMATopologyFilter", "PciPassthroughFilter"


def find_unreadable_records(connection: Connection) -> FaultsWithValues:
    """Find instances and compute nodes whose JSON no reader accepts."""
    readers: Mapping[str, tuple[sa.Column[str], Callable[[Sequence[str]], object]]] = {
        "instance": (tables.instances.c.uuid, partial(_read_instances, connection)),
        "compute node": (_NODES.uuid, partial(compute_nodes.list_by_uuids, connection)),
    }
    for kind, (column, read) in readers.items():
        uuids = connection.scalars(select(column).order_by(column)).all()
        for batch in split_batches(uuids, _BATCH):
            if _find_reading_error(read, batch):
                for uuid in batch:
                    if reason := _find_reading_error(read, [uuid]):
                        values = {"kind": kind, "uuid": uuid, "reason": reason}
                        yield Fault.RECORD_UNREADABLE, values


def _find_reading_error(read: Callable[[Sequence[str]], object], uuids: Sequence[str]) -> str:
    try:
        read(uuids)
    except (AttributeError, Error, LookupError, TypeError, ValueError) as error:
        return format_one_line(error)
    return ""


def _read_instances(connection: Connection, uuids: Sequence[str]) -> None:
    for record in instances.list_by_uuids(connection, uuids):
        _count_pinned_cpus(record)


def find_hardware_faults(connection: Connection) -> FaultsWithValues:
    reports = _NODES.report
    has_hardware = sa.or_(
        reports.not_like('%"numa_topology":null%'), reports.not_like('%"pci_device_pools":[]%')
    )
    uuids = connection.scalars(select(_NODES.uuid).where(has_hardware)).all()
    nodes = compute_nodes.list_by_uuids(connection, uuids)
    if nodes:
        yield from _find_overcommitted_nodes(connection, nodes)
        yield from _find_decisions_beyond_reports(connection, nodes)


def _find_overcommitted_nodes(
    connection: Connection, nodes: Sequence[ComputeNode]
) -> FaultsWithValues:
    """Find nodes with more pinned CPUs than CPUs for pinning.

    Only instances with allocations of PCPU count. Nothing limits the sum of the other instances.
    """
    node_by_name = {(node.host, node.hypervisor_hostname): node for node in nodes}
    records = instances.list_by_hosts(connection, {node.host for node in nodes})
    amounts = read_allocated_amounts(connection, [record.uuid for record in records])
    pinned: dict[str, dict[str, int]] = defaultdict(dict)
    for record in records:
        node = node_by_name.get((str(record.host), str(record.node)))
        if node is not None and (node.uuid, "PCPU") in amounts.get(record.uuid, {}):
            pinned[node.uuid][record.uuid] = _count_pinned_cpus(record)
    for node in nodes:
        pinnable = sum(len(cell.pcpuset) for cell in _list_cells(node))
        if sum(pinned[node.uuid].values()) > pinnable:
            values = {"node": node.uuid, "pinned": pinned[node.uuid], "pinnable": pinnable}
            yield Fault.TOO_MANY_PINNED_CPUS, {"host": node.host, **values}


def _list_cells(node: ComputeNode) -> tuple[NUMACell, ...]:
    return () if node.numa_topology is None else node.numa_topology.topology.cells


def _count_pinned_cpus(record: Instance) -> int:
    flavor = Flavor.from_document(record.flavor or {})
    try:
        topology = RequestedHardware(flavor, Image.from_document(record.image)).numa_topology
    except Invalid:
        return 0
    return sum(_list_pinned_counts(topology)) if topology else 0


def _list_pinned_counts(topology: InstanceNUMATopology) -> list[int]:
    """Return the minimum number of pinned CPUs per NUMA node."""
    counts = [len(cell.pcpuset) for cell in topology.cells]
    counts[0] += any(counts) and topology.emulator_threads_isolated
    return counts


def _find_decisions_beyond_reports(
    connection: Connection, nodes: Sequence[ComputeNode]
) -> FaultsWithValues:
    """Find decisions that exceed the free CPUs or devices of a node.

    A decision is compared if the filter ran and the report of the node is older. Other decisions
    are not subtracted, because the scheduler ignores their instances until the next report.
    """
    node_by_uuid, hosts = {node.uuid: node for node in nodes}, {node.host for node in nodes}
    query = select(_PLACES.decision_uuid)
    uuids = set(sql.select_scalars_in_batches(connection, query, _PLACES.host, hosts))
    query = select(tables.decisions).where(IS_CLAIM)
    for row in sql.select_in_batches(connection, query, tables.decisions.c.uuid, uuids):
        try:
            filters = {step["name"] for step in orjson.loads(row.funnel)["filters"]}
            spec = _parse_spec(orjson.loads(row.request))
            selections = orjson.loads(row.selections)["selections"]
            counts = Counter(best["compute_node_uuid"] for best, *_ in selections)
        except (AttributeError, Error, LookupError, TypeError, ValueError):
            continue  # another fault, or a decision of an old release
        for uuid, count in counts.items():
            node = node_by_uuid.get(uuid)
            if node is None or node.updated_at is None or node.updated_at >= row.created_at:
                continue
            values = {"decision": row.uuid, "host": node.host, "node": uuid, "instances": count}
            if _NUMA_FILTER in filters and spec.numa_topology:
                excess = find_excess_cells(_list_cells(node), spec.numa_topology, count)
                if excess:
                    yield Fault.TOO_FEW_FREE_CPUS, {**values, **excess}
            if _PCI_FILTER in filters and spec.pci_requests:
                requests = spec.pci_requests.requests
                excess = find_excess_devices(node.reported_pools.pools, requests, count)
                if excess:
                    yield Fault.TOO_FEW_FREE_DEVICES, {**values, **excess}


def _parse_spec(document: Mapping[str, Any]) -> RequestSpec:
    spec = parse_request_spec(document)
    if "numa_topology" in document:
        return spec
    return replace(spec, numa_topology=spec.hardware.numa_topology)


def find_excess_cells(
    cells: Sequence[NUMACell], topology: InstanceNUMATopology, count: int
) -> Mapping[str, int] | None:
    """Compare the NUMA nodes of ``count`` instances with the host's cells.

    Each NUMA node of an instance needs its own cell of the host. A cell has capacity for ``free //
    pinned`` nodes with at least ``pinned`` pinned CPUs. Returns None without an excess.
    """
    pinned_counts = _list_pinned_counts(topology)
    for pinned in sorted(set(pinned_counts) - {0}):
        requested = count * sum(number >= pinned for number in pinned_counts)
        possible = sum(min(cell.avail_pcpus // pinned, count) for cell in cells)
        if requested > possible:
            return {"pinned": pinned, "requested": requested, "possible": possible}
    return None


def find_excess_devices(
    pools: Sequence[Pool], requests: Sequence[InstancePCIRequest], count: int
) -> Mapping[str, int] | None:
    """Compare the devices of ``count`` instances with the free devices.

    A request is added to all requests that can only use the same pools or some of them. Returns
    None without an excess.
    """
    matching = [
        frozenset(n for n, pool in enumerate(pools) if select_matching_pools([pool], request))
        for request in requests
    ]
    for served in matching:
        pairs = zip(matching, requests, strict=True)
        requested = count * sum(request.count for numbers, request in pairs if numbers <= served)
        free = count_devices(pools[number] for number in served)
        if requested > free:
            return {"requested": requested, "free": free}
    return None
