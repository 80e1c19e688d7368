"""One NUMA node of an instance on one NUMA node of a host."""

from dataclasses import dataclass

from placement_sched.model.host_numa import NUMACell, NUMATopologyLimits
from placement_sched.model.numa_topology import FittedNUMACell, InstanceNUMACell
from placement_sched.scheduler.hardware.cpus import DEDICATED, MIXED
from placement_sched.scheduler.hardware.host_fit_memory import (
    chosen_pages,
    memory_shortage,
    plain_shortage,
)
from placement_sched.scheduler.hardware.host_fit_pinning import Pinned, pinned
from placement_sched.scheduler.hardware.host_fit_shared import shared_shortage

_UNPINNED = Pinned({}, frozenset())


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a NUMA node of an instance does not fit, in words, without the host's node's number."""

    reason: str


def fit_cell(
    host: NUMACell,
    asked: InstanceNUMACell,
    limits: NUMATopologyLimits | None = None,
    reserved: int = 0,
) -> FittedNUMACell | Shortage:
    """Return the node as it would be there, or what the host's node lacks.

    ``reserved`` is how many CPUs the emulator's threads get for themselves, where CPUs are pinned.
    """
    pages = asked.pagesize or None
    if short := memory_shortage(host, asked, limits):
        return Shortage(short)
    if pages is None:
        if short := plain_shortage(host, asked):
            return Shortage(short)
    elif isinstance(found := chosen_pages(host, asked), str):
        return Shortage(found)
    else:
        pages = found
    cpus = _cpus(host, asked, limits, reserved)
    if isinstance(cpus, str):
        return Shortage(cpus)
    return FittedNUMACell(
        id=host.id,
        cpuset=asked.cpuset,
        pcpuset=asked.pcpuset,
        memory=asked.memory,
        pagesize=asked.pagesize if pages is None else pages,
        cpu_policy=asked.cpu_policy,
        cpu_thread_policy=asked.cpu_thread_policy,
        cpu_pinning=cpus.cpus,
        cpuset_reserved=cpus.reserved,
    )


def _cpus(
    host: NUMACell, asked: InstanceNUMACell, limits: NUMATopologyLimits | None, reserved: int
) -> Pinned | str:
    """Return how the node's CPUs are pinned, if at all, or what is missing."""
    policy = asked.cpu_policy
    if policy != DEDICATED and (short := shared_shortage(host, asked, limits)):
        return short
    return pinned(host, asked, reserved) if policy in (DEDICATED, MIXED) else _UNPINNED
