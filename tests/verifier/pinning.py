# SPDX-License-Identifier: Apache-2.0
"""Bounds of the CPUs that the recorded instances of a host pin.

The NUMA nodes that an instance occupies on its host are not recorded. Therefore the CPUs of the
instances are a lower bound, and the capacity of the host is an upper bound.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from placement_sched.model.hardware.cpu_policy import ISOLATE
from placement_sched.model.hardware.numa import InstanceNUMATopology, NUMACell


@dataclass(frozen=True, slots=True)
class Excess:
    """NUMA nodes of instances that withhold ``each`` or more CPUs and do not fit on the host."""

    asked: int
    each: int
    there: int


def pinned_cpus_per_core(cells: Iterable[NUMACell]) -> list[int]:
    """Return the number of CPUs for pinning of each core, in ascending order.

    A CPU without siblings counts as a core.
    """
    sizes = []
    for cell in cells:
        cores = [len(core & cell.pcpuset) for core in cell.siblings]
        lone = cell.pcpuset - frozenset[int]().union(*cell.siblings)
        sizes += [*(core for core in cores if core), *(1 for _ in lone)]
    return sorted(sizes)


def withheld_cpus(topology: InstanceNUMATopology | None, cores: Sequence[int]) -> list[int]:
    """Return the minimal number of CPUs that each NUMA node of an instance withholds.

    With the thread policy ``isolate``, each CPU has a core for itself. The smallest cores are
    counted. An isolated emulator is on the first node and may use a thread of such a core.
    """
    if not topology:
        return []
    pins = any(cell.pcpuset for cell in topology.cells)
    counts = []
    for number, cell in enumerate(topology.cells):
        emulator = int(pins and number == 0 and topology.emulator_threads_isolated)
        count = len(cell.pcpuset) + emulator
        if cell.cpu_thread_policy == ISOLATE:
            count = max(count, sum(cores[: len(cell.pcpuset)]))
        counts.append(count)
    return counts


def find_excess(cells: Sequence[NUMACell], withheld: Mapping[str, Sequence[int]]) -> Excess | None:
    """Return the NUMA nodes of instances that do not all fit on the host's nodes, or None.

    A node of the host takes as many nodes as its CPUs allow, and not two of the same instance.
    """
    sizes = [len(cell.pcpuset) for cell in cells]
    for each in sorted({count for counts in withheld.values() for count in counts if count}):
        by_instance = [sum(count >= each for count in counts) for counts in withheld.values()]
        instances = sum(number > 0 for number in by_instance)
        there = sum(min(size // each, instances) for size in sizes)
        if sum(by_instance) > there:
            return Excess(sum(by_instance), each, there)
    return None
