"""What an instance takes away from the NUMA nodes of a host."""

from collections.abc import Iterable
from dataclasses import replace

from placement_sched.model.host_numa import NUMACell, NUMAPagesTopology, NUMATopology
from placement_sched.model.numa_topology import FittedNUMACell
from placement_sched.scheduler.hardware.cpus import ISOLATE
from placement_sched.scheduler.hardware.host_fit_memory import smallest_page


def with_usage(host: NUMATopology, fitted: Iterable[FittedNUMACell]) -> NUMATopology:
    """Return the nodes of a host with an instance on them; those given stay as they are."""
    by_id = {cell.id: cell for cell in fitted}
    return NUMATopology(
        _used(cell, by_id[cell.id]) if cell.id in by_id else cell for cell in host.cells
    )


def _used(host: NUMACell, taken: FittedNUMACell) -> NUMACell:
    return replace(
        host,
        memory_usage=host.memory_usage + taken.memory,
        cpu_usage=host.cpu_usage + len(taken.cpuset),
        pinned_cpus=host.pinned_cpus | _pinned(host, taken),
        mempages=_pages_used(host, taken),
    )


def _pinned(host: NUMACell, taken: FittedNUMACell) -> frozenset[int]:
    """Return the CPUs that are taken: whole cores where the instance shares none."""
    cpus = taken.host_cpus
    if taken.cpu_thread_policy != ISOLATE:
        return cpus
    return cpus.union(*(core for core in host.siblings if core & cpus)) & host.pcpuset


def _pages_used(host: NUMACell, taken: FittedNUMACell) -> tuple[NUMAPagesTopology, ...]:
    """Return the node's pages; memory of no page size in particular is of the smallest."""
    size = taken.pagesize or smallest_page(host)
    return tuple(
        replace(pages, used=pages.used + taken.memory * 1024 // pages.size_kb)
        if pages.size_kb == size
        else pages
        for pages in host.mempages
    )
