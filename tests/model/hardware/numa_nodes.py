# SPDX-License-Identifier: Apache-2.0
"""NUMA nodes of hosts and instances, for tests of their fit."""

from typing import Any

from placement_sched.model.hardware.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NetworkMetadata,
    NUMACell,
    NUMAPagesTopology,
    NUMATopology,
    NUMATopologyLimits,
)

#: Four cores with two threads each. As on most hosts, thread n + 4 is on the core of thread n.
THREAD_PAIRS = tuple(frozenset({core, core + 4}) for core in range(4))
#: Four cores with a single thread each.
CORES = tuple(frozenset({core}) for core in range(4))


def build_numa_limits(cpu: float = 1.0, ram: float = 1.0, **others: Any) -> NUMATopologyLimits:
    return NUMATopologyLimits(cpu_allocation_ratio=cpu, ram_allocation_ratio=ram, **others)


def build_pages(*numbers: tuple[int, ...]) -> tuple[NUMAPagesTopology, ...]:
    """Return pages from tuples of size in KiB, total, and optionally used and reserved."""
    names = ("size_kb", "total", "used", "reserved")
    return tuple(NUMAPagesTopology(**dict(zip(names, row, strict=False))) for row in numbers)


def build_cell(number: int = 0, shared: Any = (), pinned: Any = (), **changes: Any) -> NUMACell:
    """Return a NUMA node of a host with 1024 MB, shared CPUs and dedicated CPUs."""
    for name in ("pinned_cpus",):
        changes[name] = frozenset(changes.get(name, ()))
    fields = {"cpuset": frozenset(shared), "pcpuset": frozenset(pinned), "memory": 1024}
    return NUMACell(id=number, **(fields | changes))


def build_host_topology(*cells: NUMACell) -> NUMATopology:
    return NUMATopology(cells)


def build_instance_cell(
    number: int = 0, shared: Any = (), pinned: Any = (), **changes: Any
) -> InstanceNUMACell:
    """Return a NUMA node of an instance with 512 MB, and the CPU policy of its CPUs."""
    policy = ("mixed" if shared else "dedicated") if pinned else None
    fields = {"memory": 512, "cpu_policy": policy}
    return InstanceNUMACell(
        id=number, cpuset=frozenset(shared), pcpuset=frozenset(pinned), **(fields | changes)
    )


def build_instance_topology(
    *cells: InstanceNUMACell, emulator: str | None = None
) -> InstanceNUMATopology:
    return InstanceNUMATopology(cells=cells, emulator_threads_policy=emulator)


def build_host_with_memory(*memory: int) -> NUMATopology:
    """Return a host whose nodes have these amounts of memory, and a shared CPU each."""
    cells = (build_cell(node, shared=[node], memory=mb) for node, mb in enumerate(memory))
    return build_host_topology(*cells)


def build_instance_with_memory(*memory: int) -> InstanceNUMATopology:
    """Return an instance whose nodes request these amounts of memory, and a shared CPU each."""
    cells = (build_instance_cell(node, shared=[node], memory=mb) for node, mb in enumerate(memory))
    return build_instance_topology(*cells)


def build_cell_with_networks(number: int, *physnets: str, tunneled: bool = False) -> NUMACell:
    """Return a NUMA node of a host with a shared CPU and cards of these networks."""
    networks = NetworkMetadata(physnets=frozenset(physnets), tunneled=tunneled)
    return build_cell(number, shared=[number], network_metadata=networks)
