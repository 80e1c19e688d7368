# SPDX-License-Identifier: Apache-2.0
"""Results of nova's PCI pools, filter and weigher for a host and a request."""

from nova import exception, objects
from nova.objects import pci_device_pool
from nova.pci.stats import PciDeviceStats
from nova.scheduler.filters.pci_passthrough_filter import PciPassthroughFilter
from nova.scheduler.host_manager import HostState
from nova.scheduler.weights.pci import PCIWeigher


class NovaCaller:
    """Nova's classes, with new objects for each case."""

    def __init__(self):
        self._filter = PciPassthroughFilter()
        self._weigher = PCIWeigher()

    def run_case(self, case):
        try:
            return self._serve_requests(case)
        except Exception as failure:  # noqa: BLE001 - any exception of nova is a result
            return {"failed": type(failure).__name__}

    def _serve_requests(self, case):
        requests = [objects.InstancePCIRequest(**request) for request in case["requests"]]
        cells = _build_instance_numa_cells(case["numa_cells"])
        stats = _build_stats(case)
        supports = stats.support_requests(requests, case["mappings"], cells)
        try:
            stats.apply_requests(requests, case["mappings"], cells)
            applies = True
        except exception.PciDeviceRequestFailed:
            applies = False
        host = HostState("h", "h", "c")
        host.pci_stats = _build_stats(case)
        host.allocation_candidates = [
            {"number": number, "mappings": mappings}
            for number, mappings in enumerate(case["candidates"])
        ]
        spec = objects.RequestSpec(pci_requests=objects.InstancePCIRequests(requests=requests))
        return {
            "supports": supports,
            "applies": applies,
            "left": [dict(sorted(pool.items())) for pool in stats.pools],
            "weight": self._weigher._weigh_object(host, spec),
            "passes": self._filter.host_passes(host, spec),
            "candidates": [item["number"] for item in host.allocation_candidates],
        }


def _build_stats(case):
    pools = pci_device_pool.from_pci_stats(case["pools"]) if case["pools"] else None
    return PciDeviceStats(_build_topology(case["sockets"]), stats=pools)


def _build_topology(sockets):
    if sockets is None:
        return None
    empty = {"cpuset": set(), "pcpuset": set(), "memory": 1, "cpu_usage": 0, "memory_usage": 0}
    rest = {"pinned_cpus": set(), "siblings": [], "mempages": []}
    cells = [objects.NUMACell(id=cell, socket=socket, **empty, **rest) for cell, socket in sockets]
    return objects.NUMATopology(cells=cells)


def _build_instance_numa_cells(ids):
    if ids is None:
        return None
    return [
        objects.InstanceNUMACell(id=cell, cpuset=set(), pcpuset=set(), memory=1) for cell in ids
    ]
