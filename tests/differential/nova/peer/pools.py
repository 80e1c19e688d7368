# SPDX-License-Identifier: Apache-2.0
"""What nova's PCI pools, its filter and its weigher say of one host and one request."""

import nova.conf
from nova import exception, objects
from nova.objects import pci_device_pool
from nova.pci.stats import PciDeviceStats
from nova.scheduler.filters.pci_passthrough_filter import PciPassthroughFilter
from nova.scheduler.host_manager import HostState
from nova.scheduler.weights.pci import PCIWeigher


class Nova:
    """Nova's classes, each question with new objects."""

    def __init__(self):
        nova.conf.CONF([], project="nova", default_config_files=[])
        objects.register_all()
        self._filter = PciPassthroughFilter()
        self._weigher = PCIWeigher()

    def answer(self, told):
        try:
            return self._answer(told)
        except Exception as failure:  # noqa: BLE001 - whatever nova raises is what is asked
            return {"failed": type(failure).__name__}

    def _answer(self, told):
        requests = [objects.InstancePCIRequest(**one) for one in told["requests"]]
        cells = _cells(told["numa_cells"])
        stats = _stats(told)
        supports = stats.support_requests(requests, told["mappings"], cells)
        try:
            stats.apply_requests(requests, told["mappings"], cells)
            applies = True
        except exception.PciDeviceRequestFailed:
            applies = False
        host = HostState("h", "h", "c")
        host.pci_stats = _stats(told)
        host.allocation_candidates = [
            {"number": number, "mappings": one} for number, one in enumerate(told["candidates"])
        ]
        spec = objects.RequestSpec(pci_requests=objects.InstancePCIRequests(requests=requests))
        return {
            "supports": supports,
            "applies": applies,
            "left": [_sorted_pool(pool) for pool in stats.pools],
            "weight": self._weigher._weigh_object(host, spec),
            "passes": self._filter.host_passes(host, spec),
            "candidates": [one["number"] for one in host.allocation_candidates],
        }


def _stats(told):
    pools = pci_device_pool.from_pci_stats(told["pools"]) if told["pools"] else None
    return PciDeviceStats(_topology(told["sockets"]), stats=pools)


def _topology(sockets):
    if sockets is None:
        return None
    empty = {"cpuset": set(), "pcpuset": set(), "memory": 1, "cpu_usage": 0, "memory_usage": 0}
    rest = {"pinned_cpus": set(), "siblings": [], "mempages": []}
    cells = [objects.NUMACell(id=cell, socket=one, **empty, **rest) for cell, one in sockets]
    return objects.NUMATopology(cells=cells)


def _cells(ids):
    if ids is None:
        return None
    return [objects.InstanceNUMACell(id=one, cpuset=set(), pcpuset=set(), memory=1) for one in ids]


def _sorted_pool(pool):
    return dict(sorted(pool.items()))
