"""One NUMA node of an instance on one NUMA node of a host: memory, shared and pinned CPUs.

Where it does not fit, the answer is the reason, a text without the number of the host's node.
Source: nova's documentation, "CPU topologies", "Huge pages" and "Configuring overcommit ratios".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from placement_sched.model.hardware import numa
from placement_sched.model.hardware.cpu_policy import DEDICATED, ISOLATE, MIXED, REQUIRE
from placement_sched.model.hardware.numa import FittedNUMACell, InstanceNUMACell, NUMACell

_WORDS = {numa.PAGES_SMALL: "small", numa.PAGES_LARGE: "large", numa.PAGES_ANY: "any"}


@dataclass(frozen=True, slots=True)
class PinnedCPUs:
    """The host's CPU of each virtual one, and the host's CPUs for the emulator's threads."""

    cpus: Mapping[int, int]
    reserved: frozenset[int]


_UNPINNED = PinnedCPUs({}, frozenset())


def fit_cell(
    host: NUMACell,
    asked: InstanceNUMACell,
    limits: numa.NUMATopologyLimits | None = None,
    reserved: int = 0,
) -> FittedNUMACell | str:
    """Return the node as it would be there, or what the host's node lacks.

    ``reserved`` is how many CPUs the emulator's threads get for themselves, where CPUs are pinned.
    """
    if lack := memory_shortage(host, asked, limits):
        return lack
    pages = chosen_pages(host, asked) if asked.pagesize else plain_shortage(host, asked)
    if isinstance(pages, str):
        return pages
    pins: PinnedCPUs | str = _UNPINNED
    if asked.cpu_policy != DEDICATED:
        pins = shared_shortage(host, asked, limits) or pins
    if pins is _UNPINNED and asked.cpu_policy in (DEDICATED, MIXED):
        pins = pinned(host, asked, reserved)
    if isinstance(pins, str):
        return pins
    return FittedNUMACell(
        id=host.id,
        cpuset=asked.cpuset,
        pcpuset=asked.pcpuset,
        memory=asked.memory,
        pagesize=pages or asked.pagesize,
        cpu_policy=asked.cpu_policy,
        cpu_thread_policy=asked.cpu_thread_policy,
        cpu_pinning=pins.cpus,
        cpuset_reserved=pins.reserved,
    )


def memory_shortage(
    host: NUMACell, asked: InstanceNUMACell, limits: numa.NUMATopologyLimits | None
) -> str | None:
    """Return what memory is missing, whatever its pages; None where there is enough.

    Beside dedicated CPUs the ratio does not count: free memory does, see :func:`plain_shortage`.
    """
    if limits is None or asked.cpu_policy == DEDICATED:
        return None
    ratio = limits.ram_allocation_ratio
    free = host.memory * ratio - host.memory_usage
    if host.memory_usage + asked.memory <= host.memory * ratio:
        return None
    return f"{asked.memory} MB requested, {free:.12g} MB free of {host.memory} x {ratio:.12g}"


def plain_shortage(host: NUMACell, asked: InstanceNUMACell) -> str | None:
    """Return why memory cannot be of the host's smallest pages, where no pages are asked for.

    One instance never gets more than the node really has, and one with pinned CPUs none that is
    taken. A node that reports no pages has its memory.
    """
    pins = asked.cpu_policy in (DEDICATED, MIXED)
    size = smallest_page(host)
    if size is None:
        there = host.avail_memory if pins else host.memory
        fits, has = asked.memory <= there, f"{there} of {host.memory} MB"
    else:
        fits = host.can_fit_pagesize(size, asked.memory * 1024, use_free=pins)
        has = _number_of_pages(host, size, free=pins)
    return None if fits else f"{asked.memory} MB requested, {has} {'free' if pins else 'in all'}"


def chosen_pages(host: NUMACell, asked: InstanceNUMACell) -> int | str:
    """Return the size in KiB of pages that are free for what is asked, or why there are none.

    Of the sizes that a word means, the largest that suffices. Only for a node that asks for a size
    or a word.
    """
    word = _WORDS.get(asked.pagesize or 0)
    wanted = f"pages of {asked.pagesize} KiB" if word is None else f"{word} pages"
    every = sorted({pages.size_kb for pages in host.mempages}, reverse=True)
    by_word = {numa.PAGES_SMALL: every[-1:], numa.PAGES_LARGE: every[:-1], numa.PAGES_ANY: every}
    sizes = by_word.get(asked.pagesize or 0, [size for size in every if size == asked.pagesize])
    if not sizes:
        return f"{wanted} requested, the node has none"
    for size in sizes:
        if host.can_fit_pagesize(size, asked.memory * 1024):
            return size
    free = ", ".join(_number_of_pages(host, size, free=True) for size in sizes)
    return f"{asked.memory} MB in {wanted} requested, {free} free"


def smallest_page(host: NUMACell) -> int | None:
    """Return the size of a node's smallest pages, in KiB."""
    return min((pages.size_kb for pages in host.mempages), default=None)


def shared_shortage(
    host: NUMACell, asked: InstanceNUMACell, limits: numa.NUMATopologyLimits | None
) -> str | None:
    """Return what shared CPUs are missing; an instance never gets more than there really are."""
    wanted, there = len(asked.cpuset), len(host.cpuset)
    if wanted > there:
        return f"{wanted} shared CPUs requested, {there} in all"
    if limits is None:
        return None
    ratio = limits.cpu_allocation_ratio
    limit = there * ratio
    if host.cpu_usage + wanted <= limit:
        return None
    free = limit - host.cpu_usage
    return f"{wanted} shared CPUs requested, {free:.12g} free of {there} x {ratio:.12g}"


def pinned(host: NUMACell, asked: InstanceNUMACell, reserved: int) -> PinnedCPUs | str:
    """Return where the node's pinned CPUs go, or why nowhere.

    ``reserved`` is how many CPUs the emulator's threads get for themselves, wherever some are left.
    An instance with pinned CPUs may have nodes without, as far as nova lets it.
    """
    wanted, free = len(asked.pcpuset), host.avail_pcpus
    if not wanted and (reserved or asked.cpu_thread_policy == ISOLATE or not asked.cpuset):
        return "CPU policies require pinned CPUs, none requested"
    if wanted + reserved > free:
        extra = f" and {reserved} for the emulator" if reserved else ""
        there = f"{free} of {len(host.pcpuset)} dedicated CPUs free"
        return f"{wanted} dedicated CPUs{extra} requested, {there}"
    cores = host.free_cores
    if asked.cpu_thread_policy == ISOLATE and host.has_threads:
        return _isolated(host, asked, cores, reserved)
    required = asked.cpu_thread_policy == REQUIRE
    chosen = _chosen(cores, wanted, siblings_only=required)
    if chosen is None:
        what, least = ("sibling threads", 2) if required else ("reported cores", 1)
        threads = sum(len(core) for core in cores if len(core) >= least)
        return f"{wanted} dedicated CPUs on {what} requested, {threads} free"
    return _with_reserved(asked, chosen, chain(*cores), reserved)


def _number_of_pages(host: NUMACell, size: int, *, free: bool) -> str:
    pages = host.pages_of(size)
    total, left = (pages.total, pages.free) if pages else (0, 0)
    number = left if free else total
    return f"{number * size // 1024} MB in {number} of {total} pages of {size} KiB"


def _isolated(
    host: NUMACell, asked: InstanceNUMACell, cores: Sequence[Sequence[int]], reserved: int
) -> PinnedCPUs | str:
    """Return one thread of each of as many free cores.

    As in nova only where the host keeps its CPUs for pinning and for sharing alike, as hosts did
    before Train: others with several threads must not be asked for this policy.
    """
    if host.cpuset != host.pcpuset:
        return "thread policy isolate requested, cores have several threads"
    wanted, width = len(asked.pcpuset), max(map(len, host.siblings))
    chosen = [core[0] for core in cores if len(core) == width]
    if len(chosen) < wanted:
        return f"{wanted} dedicated CPUs on separate cores requested, {len(chosen)} cores free"
    return _with_reserved(asked, chosen[:wanted], (core[0] for core in cores), reserved)


def _with_reserved(
    asked: InstanceNUMACell, chosen: Sequence[int], free: Iterable[int], reserved: int
) -> PinnedCPUs | str:
    taken = frozenset(chosen)
    left = [cpu for cpu in free if cpu not in taken]
    if len(left) < reserved:
        return f"{reserved} dedicated CPU for the emulator requested, {len(left)} left"
    pins = dict(zip(sorted(asked.pcpuset), chosen, strict=True))
    return PinnedCPUs(pins, frozenset(left[:reserved]))


def _chosen(
    cores: Sequence[Sequence[int]], wanted: int, *, siblings_only: bool
) -> Sequence[int] | None:
    """Return the CPUs to pin to, full cores first; None where there are not as many.

    As many threads of each core as possible; on any CPU at last, unless siblings are required.
    """
    for threads in range(max(map(len, cores), default=0), 1 if siblings_only else 0, -1):
        full = (core[:threads] for core in cores if len(core) >= threads)
        found = list(chain.from_iterable(full))
        if len(found) >= wanted:
            return found[:wanted]
    every = list(chain.from_iterable(cores))
    return None if siblings_only or len(every) < wanted else every[:wanted]
