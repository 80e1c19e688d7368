"""Virtual CPUs pinned to CPUs of a host's NUMA node, thread by thread.

Source: nova's documentation, "CPU topologies" ("Customizing instance CPU thread pinning policies"
and "Customizing instance emulator thread pinning policies").
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from placement_sched.model.host_numa import NUMACell
from placement_sched.model.numa_topology import InstanceNUMACell
from placement_sched.scheduler.hardware.cpus import ISOLATE, REQUIRE


@dataclass(frozen=True, slots=True)
class Pinned:
    """The host's CPU of each virtual one, and the host's CPUs for the emulator's threads."""

    cpus: Mapping[int, int]
    reserved: frozenset[int]


def pinned(host: NUMACell, asked: InstanceNUMACell, reserved: int) -> Pinned | str:
    """Return where the node's pinned CPUs go, or why nowhere.

    ``reserved`` is how many CPUs the emulator's threads get for themselves, wherever some are left.
    An instance with pinned CPUs may have nodes without, as far as nova lets it.
    """
    wanted, free = len(asked.pcpuset), host.avail_pcpus
    if not wanted and (reserved or asked.cpu_thread_policy == ISOLATE or not asked.cpuset):
        return "none of the CPUs asked is pinned, which its policies take for granted"
    if wanted + reserved > free:
        extra = f" and {reserved} for the emulator" if reserved else ""
        return (
            f"{wanted} dedicated CPUs{extra} asked, {free} of {len(host.pcpuset)} dedicated CPUs "
            "free"
        )
    cores = host.free_cores
    if asked.cpu_thread_policy == ISOLATE and host.has_threads:
        return _isolated(host, asked, cores, reserved)
    required = asked.cpu_thread_policy == REQUIRE
    chosen = _chosen(cores, wanted, siblings_only=required)
    if chosen is None:
        what, least = ("sibling threads", 2) if required else ("cores that it tells", 1)
        threads = sum(len(core) for core in cores if len(core) >= least)
        return f"{wanted} dedicated CPUs on {what} asked, {threads} free"
    return _shared_out(asked, chosen, chain(*cores), reserved)


def _isolated(
    host: NUMACell, asked: InstanceNUMACell, cores: Sequence[Sequence[int]], reserved: int
) -> Pinned | str:
    """Return one thread of each of as many free cores.

    As in nova only where the host keeps its CPUs for pinning and for sharing alike, as hosts did
    before Train: others with several threads must not be asked for this policy.
    """
    if host.cpuset != host.pcpuset:
        return "thread policy isolate asked, cores have several threads"
    wanted, width = len(asked.pcpuset), max(map(len, host.siblings))
    chosen = [core[0] for core in cores if len(core) == width]
    if len(chosen) < wanted:
        return f"{wanted} dedicated CPUs on cores of their own asked, {len(chosen)} cores free"
    return _shared_out(asked, chosen[:wanted], (core[0] for core in cores), reserved)


def _shared_out(
    asked: InstanceNUMACell, chosen: Sequence[int], free: Iterable[int], reserved: int
) -> Pinned | str:
    """Return the chosen CPUs by virtual CPU, and what the emulator's threads get of the rest."""
    taken = frozenset(chosen)
    left = [cpu for cpu in free if cpu not in taken]
    if len(left) < reserved:
        return f"{reserved} dedicated CPU for the emulator asked, {len(left)} left"
    pins = dict(zip(sorted(asked.pcpuset), chosen, strict=True))
    return Pinned(pins, frozenset(left[:reserved]))


def _chosen(
    cores: Sequence[Sequence[int]], wanted: int, *, siblings_only: bool
) -> Sequence[int] | None:
    """Return the CPUs to pin to, full cores first; None where there are not as many.

    As many threads of each core as possible; on any CPU at last, unless siblings are required.
    """
    for threads in range(max(map(len, cores), default=0), 1 if siblings_only else 0, -1):
        found = _cut(core[:threads] for core in cores if len(core) >= threads)
        if len(found) >= wanted:
            return found[:wanted]
    every = _cut(cores)
    return None if siblings_only or len(every) < wanted else every[:wanted]


def _cut(cores: Iterable[Sequence[int]]) -> list[int]:
    return list(chain.from_iterable(cores))
