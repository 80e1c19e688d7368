"""The NUMA nodes of an instance on those of a host.

Sources: nova's documentation, "CPU topologies", "Huge pages" and "Networking" ("NUMA Affinity");
"Configuration Options", ``[compute] packing_host_numa_cells_allocation_strategy``.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from placement_sched.model.hardware import numa
from placement_sched.model.hardware.cpu_policy import DEDICATED, ISOLATE, MIXED, REQUIRE
from placement_sched.model.hardware.numa import (
    JUDGED,
    Effort,
    FittedNUMACell,
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    first_arrangement,
)
from placement_sched.model.hardware.pci_devices import Devices
from placement_sched.model.verdict import Refusal

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


_GAVE_UP = "; not all sets of NUMA nodes were tried, since the search for one request is bounded"

_Candidate = Mapping[str, Any]
_Fitted = tuple[FittedNUMACell, ...]


def fit_candidates(
    host: numa.NUMATopology,
    instance: InstanceNUMATopology,
    limits: numa.NUMATopologyLimits,
    devices: Devices | None,
    candidates: Sequence[_Candidate] | None,
    effort: Effort | None = None,
) -> Sequence[_Candidate] | Refusal | None:
    """Return the allocation candidates by which an instance fits on a host, or why none does.

    They differ by the providers of PCI devices: ``candidates`` may be None for an instance without.
    None is returned where it fits, and they are all alike. ``effort`` is what the search may cost,
    on this host and others.
    """
    effort = effort or Effort()
    effort.next_host()
    ways = _ways(host, instance, limits, devices)
    if isinstance(ways, Refusal):
        return ways
    if devices is None or candidates is None:
        found = ways.first(devices, effort)
        return found if isinstance(found, Refusal) else None
    refusal = Refusal("no allocation candidate is left")
    left: list[_Candidate] = []
    for tried, candidate in enumerate(candidates):
        if tried and not effort.next_candidate():
            # Others may be as good, but thousands of them would take the request seconds.
            return left or _given_up(refusal)
        found = ways.first(replace(devices, mapping=candidate["mappings"]), effort)
        if isinstance(found, Refusal):
            refusal = found
        else:
            left.append(candidate)
        if effort.has_no_room:  # which devices there are does not matter
            return refusal
    return left or refusal


def fit_to_host(
    host: numa.NUMATopology,
    instance: InstanceNUMATopology,
    limits: numa.NUMATopologyLimits | None = None,
    devices: Devices | None = None,
) -> tuple[FittedNUMACell, ...] | Refusal:
    """Return the instance's nodes as they would be on the host, or why they cannot be there.

    Each gets a node of the host for itself. Without ``limits`` the host may give away its memory
    and its shared CPUs any number of times.
    """
    ways = _ways(host, instance, limits, devices)
    return ways if isinstance(ways, Refusal) else ways.first(devices, Effort())


def _given_up(refusal: Refusal) -> Refusal:
    reason = refusal.reason.removesuffix(_GAVE_UP) + _GAVE_UP
    return replace(refusal, reason=reason)


def with_usage(host: numa.NUMATopology, fitted: Iterable[FittedNUMACell]) -> numa.NUMATopology:
    """Return the nodes of a host with an instance on them; those given stay as they are."""
    on = {cell.id: cell for cell in fitted}
    return numa.NUMATopology(
        _used(cell, on[cell.id]) if cell.id in on else cell for cell in host.cells
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """One node of an instance on each node of a host, each looked at only when it is needed.

    ``reserved`` is how many CPUs the emulator's threads get there. ``fits``, by the host's node, is
    shared by nodes that ask for as much.
    """

    asked: numa.InstanceNUMACell
    cells: Sequence[NUMACell]
    limits: numa.NUMATopologyLimits | None
    reserved: int
    fits: dict[int, bool]
    found: dict[int, FittedNUMACell | str] = field(default_factory=dict)

    def at(self, place: int) -> FittedNUMACell | str:
        if place not in self.found:
            self.found[place] = fit_cell(self.cells[place], self.asked, self.limits, self.reserved)
        return self.found[place]

    def __iter__(self) -> Iterator[int]:
        return (place for place in range(len(self.cells)) if self._fits_at(place))

    def _fits_at(self, place: int) -> bool:
        fits = self.fits.get(place)
        if fits is None:
            fits = self.fits[place] = isinstance(self.at(place), FittedNUMACell)
        return fits

    def refusal(self) -> Refusal | None:
        by_reason: dict[str, list[int]] = {}
        for place, cell in enumerate(self.cells):
            found = self.at(place)
            if not isinstance(found, str):
                return None
            by_reason.setdefault(found, []).append(cell.id)
        why = "; ".join(f"{_nodes(ids)}: {reason}" for reason, ids in by_reason.items())
        node = f"NUMA node {self.asked.id} of the instance"
        return Refusal(f"{node} fits on none of the host: {why}")


@dataclass(frozen=True, slots=True)
class _Ways:
    """The nodes of a host in the order of trial, with each node of an instance there.

    ``networks`` are those asked that the host has at certain nodes.
    """

    cells: Sequence[NUMACell]
    rows: Sequence[_Row]
    networks: numa.NetworkMetadata

    def first(self, devices: Devices | None, effort: Effort) -> _Fitted | Refusal:
        refusals: list[Callable[[], Refusal]] = []

        def near(places: Sequence[int]) -> bool:
            refusal = self._far(places, devices)
            refusals.extend([refusal] if refusal else [])
            return refusal is None

        def kinds() -> Sequence[Hashable]:
            counts = (lambda _: None) if devices is None else devices.what_counts()
            return [(counts(cell.id), *_networks_at(cell, self.networks)) for cell in self.cells]

        # Two requests for devices are looked at in about a step.
        judged = JUDGED + (0 if devices is None else len(devices.requests) // 2)
        found = first_arrangement(self.rows, near, kinds, effort, judged)
        if found is not None:
            return self._fitted(found)
        refusal = refusals[0]() if refusals else self._too_close()
        return _given_up(refusal) if effort.gave_up else refusal

    def _too_close(self) -> Refusal:
        where = "; ".join(
            f"node {row.asked.id} only on {_nodes(self.cells[place].id for place in row)}"
            for row in self.rows
        )
        return Refusal(f"the NUMA nodes of the instance do not fit all at once: {where}")

    def _fitted(self, places: Sequence[int]) -> _Fitted:
        chosen = (row.at(place) for row, place in zip(self.rows, places, strict=True))
        return tuple(one for one in chosen if isinstance(one, FittedNUMACell))

    def _far(self, places: Sequence[int], devices: Devices | None) -> Callable[[], Refusal] | None:
        """Return what gives the reason why these nodes are too far away, None if they are near.

        Hundreds of sets of nodes may be tried, and only the reason of the first is reported.
        """
        if devices is not None and not devices.serve(self._fitted(places)):
            return lambda: devices_elsewhere(devices.near, len(devices.requests))
        if not reach([self.cells[place] for place in places], self.networks):
            return lambda: _networks_elsewhere(self.cells, self.networks)
        return None


def _ways(
    host: numa.NUMATopology,
    instance: InstanceNUMATopology,
    limits: numa.NUMATopologyLimits | None,
    devices: Devices | None,
) -> _Ways | Refusal:
    if len(host) < len(instance):
        return too_few_nodes(host, instance)
    cells = in_order(host, instance, devices, packing=limits is not None and limits.packing)
    # The emulator's threads stay with the first node.
    isolated = instance.emulator_threads_isolated
    fits: dict[Hashable, dict[int, bool]] = {}
    rows = []
    for number, asked in enumerate(instance.cells):
        reserved = int(isolated and number == 0)
        amounts = (len(asked.cpuset), len(asked.pcpuset), asked.memory, asked.pagesize)
        alike = (*amounts, asked.cpu_policy, asked.cpu_thread_policy, reserved)
        rows.append(_Row(asked, cells, limits, reserved, fits.setdefault(alike, {})))
    for row in rows:
        if refusal := row.refusal():
            return refusal
    networks = bound_to_nodes(host, None if limits is None else limits.network_metadata)
    return _Ways(cells, rows, networks)


def in_order(
    host: numa.NUMATopology,
    instance: InstanceNUMATopology,
    devices: Devices | None,
    *,
    packing: bool = False,
) -> Sequence[NUMACell]:
    """Return the host's nodes: those least used first, or, with ``packing``, those most used.

    What counts is devices, CPUs, then memory. Nodes with PCI devices come first for an instance
    that asks for some, and last for others. Where every node is needed the order stays.
    """
    if len(host) <= len(instance):
        return host.cells
    pins = instance.cpu_policy in (DEDICATED, MIXED)
    near = devices.near if devices is not None else Counter[int]()
    far = -1 if devices is not None and devices.requests else 1
    back = -1 if packing else 1

    def place(cell: NUMACell) -> tuple[int, int, int]:
        cpus = -cell.avail_pcpus if pins else cell.cpu_usage
        return far * near[cell.id], back * cpus, back * -cell.avail_memory

    return sorted(host.cells, key=place)


def bound_to_nodes(
    host: numa.NUMATopology, asked: numa.NetworkMetadata | None
) -> numa.NetworkMetadata:
    """Return those of the networks asked that the host has at certain nodes; others are free."""
    if asked is None:
        return numa.NetworkMetadata()
    there = _networks_of(host.cells)
    return numa.NetworkMetadata(
        physnets=asked.physnets & there.physnets, tunneled=asked.tunneled and there.tunneled
    )


def reach(cells: Collection[NUMACell], asked: numa.NetworkMetadata) -> bool:
    """Return whether these NUMA nodes have the cards of all networks asked."""
    there = _networks_of(cells)
    return asked.physnets <= there.physnets and (there.tunneled or not asked.tunneled)


def _networks_at(cell: NUMACell, asked: numa.NetworkMetadata) -> tuple[Hashable, ...]:
    there = cell.network_metadata
    return there.physnets & asked.physnets, asked.tunneled and there.tunneled


def _networks_of(cells: Collection[NUMACell]) -> numa.NetworkMetadata:
    return numa.NetworkMetadata(
        physnets=frozenset().union(*(cell.network_metadata.physnets for cell in cells)),
        tunneled=any(cell.network_metadata.tunneled for cell in cells),
    )


def _used(host: NUMACell, taken: FittedNUMACell) -> NUMACell:
    cpus = taken.host_cpus
    if taken.cpu_thread_policy == ISOLATE:  # the instance shares no core
        cpus = cpus.union(*(core for core in host.siblings if core & cpus)) & host.pcpuset
    # Memory of no page size in particular is of the smallest.
    size = taken.pagesize or smallest_page(host)
    return replace(
        host,
        memory_usage=host.memory_usage + taken.memory,
        cpu_usage=host.cpu_usage + len(taken.cpuset),
        pinned_cpus=host.pinned_cpus | cpus,
        mempages=tuple(
            replace(pages, used=pages.used + taken.memory * 1024 // size)
            if pages.size_kb == size
            else pages
            for pages in host.mempages
        ),
    )


def too_few_nodes(host: numa.NUMATopology, instance: InstanceNUMATopology) -> Refusal:
    """Return that the host has fewer NUMA nodes than the instance, or reports none."""
    asked, there = len(instance), len(host)
    has = f"the host has {there}" if there else "the host reports no NUMA topology"
    return Refusal(f"{asked} NUMA node{'s' * (asked != 1)} requested, {has}", asked, there)


def devices_elsewhere(devices: Mapping[int, int], asked: int) -> Refusal:
    """Return where PCI devices are, where the nodes with room are not near enough to them."""
    there = ", ".join(f"{count} at NUMA node {node}" for node, count in sorted(devices.items()))
    return Refusal(
        f"{asked} PCI request{'s' * (asked != 1)} cannot be served near NUMA nodes with room; "
        f"free devices: {there or 'none at any node'}"
    )


def _networks_elsewhere(host: Iterable[NUMACell], asked: numa.NetworkMetadata) -> Refusal:
    there = [
        f"{name} at {_nodes(cell.id for cell in host if name in cell.network_metadata.physnets)}"
        for name in sorted(asked.physnets)
    ]
    if asked.tunneled:
        tunneled = _nodes(cell.id for cell in host if cell.network_metadata.tunneled)
        there.append(f"tunnels at {tunneled}")
    return Refusal(f"the NUMA nodes with room lack requested networks: {', '.join(there)}")


def _nodes(ids: Iterable[int]) -> str:
    numbers = sorted(ids)
    return f"NUMA node{'s' * (len(numbers) != 1)} {', '.join(map(str, numbers))}"
