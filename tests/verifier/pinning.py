# SPDX-License-Identifier: Apache-2.0
"""What the recorded instances of a host pin at least, in all and on each of its NUMA nodes.

Everything here is a lower bound of what they withhold, and an upper bound of what the host has room
for, so that what is found cannot be: where each instance is on the host is not recorded.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from placement_sched.model.hardware.cpu_policy import ISOLATE
from placement_sched.model.hardware.numa import InstanceNUMATopology, NUMACell


@dataclass(frozen=True, slots=True)
class Excess:
    """That so many are more than there can be: NUMA nodes of instances that withhold CPUs each."""

    asked: int
    each: int
    there: int


def pinned_cpus_per_core(cells: Iterable[NUMACell]) -> list[int]:
    """Return how many CPUs for pinning each core has, the smallest first.

    A CPU of which no core is reported is one of its own.
    """
    found = []
    for cell in cells:
        cores = [len(core & cell.pcpuset) for core in cell.siblings]
        lone = cell.pcpuset - frozenset[int]().union(*cell.siblings)
        found += [*(core for core in cores if core), *(1 for _ in lone)]
    return sorted(found)


def withheld_cpus(topology: InstanceNUMATopology | None, cores: Sequence[int]) -> list[int]:
    """Return how many CPUs each NUMA node of an instance withholds from others at least.

    With the thread policy ``isolate`` each CPU has a core for itself, of the smallest there are. An
    isolated emulator is on the first node; it may be on a thread that is withheld already.
    """
    if not topology:
        return []
    pins = any(cell.pcpuset for cell in topology.cells)
    found = []
    for number, cell in enumerate(topology.cells):
        emulator = int(pins and number == 0 and topology.emulator_threads_isolated)
        count = len(cell.pcpuset) + emulator
        if cell.cpu_thread_policy == ISOLATE:
            count = max(count, sum(cores[: len(cell.pcpuset)]))
        found.append(count)
    return found


def find_excess(cells: Sequence[NUMACell], asked: Mapping[str, Sequence[int]]) -> Excess | None:
    """Return how many NUMA nodes of instances cannot all be on those of the host; None if none.

    Those that withhold so many CPUs or more: a node of the host has room for as many as its CPUs
    allow, and for one at most of each instance.
    """
    rooms = [len(cell.pcpuset) for cell in cells]
    for each in sorted({one for some in asked.values() for one in some if one}):
        by_instance = [sum(one >= each for one in some) for some in asked.values()]
        instances = sum(number > 0 for number in by_instance)
        there = sum(min(room // each, instances) for room in rooms)
        if sum(by_instance) > there:
            return Excess(sum(by_instance), each, there)
    return None
