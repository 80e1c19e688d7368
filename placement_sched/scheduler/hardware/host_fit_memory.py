"""Memory of an instance's NUMA node in one of the host's: amounts and pages.

Source: nova's documentation, "Huge pages" and "CPU topologies".
"""

from placement_sched.model.host_numa import NUMACell, NUMATopologyLimits
from placement_sched.model.numa_topology import (
    PAGES_ANY,
    PAGES_LARGE,
    PAGES_SMALL,
    InstanceNUMACell,
)
from placement_sched.scheduler.hardware.cpus import DEDICATED, MIXED

_WORDS = {PAGES_SMALL: "small", PAGES_LARGE: "large", PAGES_ANY: "any"}


def memory_shortage(
    host: NUMACell, asked: InstanceNUMACell, limits: NUMATopologyLimits | None
) -> str | None:
    """Return what memory is missing, whatever its pages; None where there is enough.

    Beside dedicated CPUs the ratio does not count: free memory does, see :func:`plain_shortage`.
    """
    if limits is None or asked.cpu_policy == DEDICATED:
        return None
    ratio = limits.ram_allocation_ratio
    limit = host.memory * ratio
    if host.memory_usage + asked.memory <= limit:
        return None
    free = limit - host.memory_usage
    return f"{asked.memory} MB asked, {free:.12g} MB free of {host.memory} x {ratio:.12g}"


def plain_shortage(host: NUMACell, asked: InstanceNUMACell) -> str | None:
    """Return why memory cannot be of the host's smallest pages, where no pages are asked for.

    One instance never gets more than the node really has, and one with pinned CPUs none that is
    taken. A node that tells of no pages has its memory.
    """
    pinned = asked.cpu_policy in (DEDICATED, MIXED)
    size = smallest_page(host)
    if size is None:
        there = host.avail_memory if pinned else host.memory
        if asked.memory <= there:
            return None
        return f"{asked.memory} MB asked, {there} of {host.memory} MB {_rest(pinned)}"
    if host.can_fit_pagesize(size, asked.memory * 1024, use_free=pinned):
        return None
    return f"{asked.memory} MB asked, {_told_pages(host, size, free=pinned)} {_rest(pinned)}"


def chosen_pages(host: NUMACell, asked: InstanceNUMACell) -> int | str:
    """Return the size in KiB of pages that are free for what is asked, or why there are none.

    Of the sizes that a word means, the largest that will do. Only where a size or a word is asked.
    """
    sizes = _sizes(host, asked.pagesize or 0)
    if not sizes:
        return f"{_told(asked)} asked, there are none such"
    fitting = (size for size in sizes if host.can_fit_pagesize(size, asked.memory * 1024))
    found = next(fitting, None)
    if found is not None:
        return found
    free = ", ".join(_told_pages(host, size, free=True) for size in sizes)
    return f"{asked.memory} MB in {_told(asked)} asked, {free} free"


def smallest_page(host: NUMACell) -> int | None:
    """Return the size of a node's smallest pages, in KiB."""
    return min((pages.size_kb for pages in host.mempages), default=None)


def _sizes(host: NUMACell, asked: int) -> list[int]:
    """Return the sizes that will do, the one to be taken first in front."""
    sizes = sorted({pages.size_kb for pages in host.mempages}, reverse=True)
    if asked == PAGES_SMALL:
        return sizes[-1:]
    if asked == PAGES_LARGE:
        return sizes[:-1]
    if asked == PAGES_ANY:
        return sizes
    return [size for size in sizes if size == asked]


def _told_pages(host: NUMACell, size: int, *, free: bool) -> str:
    pages = host.pages_of(size)
    total, left = (pages.total, pages.free) if pages else (0, 0)
    return f"{left if free else total} of {total} pages of {size} KiB"


def _rest(free: bool) -> str:
    return "free" if free else "in all"


def _told(asked: InstanceNUMACell) -> str:
    word = _WORDS.get(asked.pagesize or 0)
    return f"pages of {asked.pagesize} KiB" if word is None else f"{word} pages"
