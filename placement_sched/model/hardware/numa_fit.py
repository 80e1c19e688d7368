# SPDX-License-Identifier: Apache-2.0
"""Placement of an instance's NUMA nodes on the NUMA nodes of a host.

Sources: nova's documentation, "CPU topologies", "Huge pages" and "Networking" ("NUMA Affinity"),
and "Configuration Options", ``[compute] packing_host_numa_cells_allocation_strategy``.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from placement_sched.model.hardware import numa
from placement_sched.model.hardware.cpu_policy import DEDICATED, ISOLATE, MIXED, REQUIRE
from placement_sched.model.hardware.numa import (
    STEPS_PER_CHECK,
    FitBudget,
    FittedNUMACell,
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    find_arrangement,
)
from placement_sched.model.hardware.pci_devices import Devices
from placement_sched.model.rejection import Rejection

_PAGE_KEYWORDS = {numa.PAGES_SMALL: "small", numa.PAGES_LARGE: "large", numa.PAGES_ANY: "any"}


@dataclass(frozen=True, slots=True)
class PinnedCPUs:
    """Host CPUs by pinned virtual CPU, and CPUs for the emulator's threads."""

    cpus: Mapping[int, int]
    reserved: frozenset[int]


_UNPINNED = PinnedCPUs({}, frozenset())


def fit_cell(
    host: NUMACell,
    cell: InstanceNUMACell,
    limits: numa.NUMATopologyLimits | None = None,
    reserved: int = 0,
) -> FittedNUMACell | Rejection:
    """Fit a NUMA node of an instance to a NUMA node of a host.

    Returns the fitted node, or the rejection for the resource that the host's node lacks.
    ``reserved`` is the number of extra CPUs for the emulator's threads, if CPUs are pinned.
    """
    if shortage := find_memory_shortage(host, cell, limits):
        return shortage
    pages = choose_pages(host, cell) if cell.pagesize else find_plain_memory_shortage(host, cell)
    if isinstance(pages, Rejection):
        return pages
    pins: PinnedCPUs | Rejection = _UNPINNED
    if cell.cpu_policy != DEDICATED:
        pins = find_shared_cpu_shortage(host, cell, limits) or pins
    if pins is _UNPINNED and cell.cpu_policy in (DEDICATED, MIXED):
        pins = pin_cell(host, cell, reserved)
    if isinstance(pins, Rejection):
        return pins
    return FittedNUMACell(
        id=host.id,
        cpuset=cell.cpuset,
        pcpuset=cell.pcpuset,
        memory=cell.memory,
        pagesize=pages or cell.pagesize,
        cpu_policy=cell.cpu_policy,
        cpu_thread_policy=cell.cpu_thread_policy,
        cpu_pinning=pins.cpus,
        cpuset_reserved=pins.reserved,
    )


def find_memory_shortage(
    host: NUMACell, cell: InstanceNUMACell, limits: numa.NUMATopologyLimits | None
) -> Rejection | None:
    """Return a rejection for missing memory, allowing overcommit, or None.

    Memory is not overcommitted with dedicated CPUs, see :func:`find_plain_memory_shortage`.
    """
    if limits is None or cell.cpu_policy == DEDICATED:
        return None
    ratio = limits.ram_allocation_ratio
    if host.memory_usage + cell.memory <= host.memory * ratio:
        return None
    free = host.memory * ratio - host.memory_usage
    amounts = {"free": free, "total": host.memory, "allocation_ratio": ratio}
    return _reject("memory", requested=cell.memory, **amounts)


def find_plain_memory_shortage(host: NUMACell, cell: InstanceNUMACell) -> Rejection | None:
    """Return a rejection for missing memory without a page size, or None.

    The memory is in the smallest pages, if the host reports pages. An instance never gets more than
    the total memory of the host's node. With pinned CPUs it gets only free memory.
    """
    is_pinned = cell.cpu_policy in (DEDICATED, MIXED)
    size = find_smallest_page(host)
    if size is not None:
        if host.can_fit_pagesize(size, cell.memory * 1024, use_free=is_pinned):
            return None
        pages = [_describe_pages(host, size, with_free=is_pinned)]
        return _reject("pages", requested=cell.memory, pages=pages)
    if cell.memory <= (host.avail_memory if is_pinned else host.memory):
        return None
    free = {"free": host.avail_memory} if is_pinned else {}
    return _reject("memory", requested=cell.memory, total=host.memory, **free)


def choose_pages(host: NUMACell, cell: InstanceNUMACell) -> int | Rejection:
    """Return the page size to use in KiB, or a rejection if none is suitable.

    The instance's node must have a page size or a keyword. For a keyword, the largest size with
    enough free pages is chosen.
    """
    all_sizes = sorted({pages.size_kb for pages in host.mempages}, reverse=True)
    by_keyword = {
        numa.PAGES_SMALL: all_sizes[-1:],
        numa.PAGES_LARGE: all_sizes[:-1],
        numa.PAGES_ANY: all_sizes,
    }
    sizes = by_keyword.get(
        cell.pagesize or 0, [size for size in all_sizes if size == cell.pagesize]
    )
    for size in sizes:
        if host.can_fit_pagesize(size, cell.memory * 1024):
            return size
    pages = [_describe_pages(host, size, with_free=True) for size in sizes]
    page_size = _PAGE_KEYWORDS.get(cell.pagesize or 0, cell.pagesize)
    return _reject("pages", requested=cell.memory, page_size=page_size, pages=pages)


def find_smallest_page(host: NUMACell) -> int | None:
    """Return the smallest page size of a node in KiB, or None without pages."""
    return min((pages.size_kb for pages in host.mempages), default=None)


def find_shared_cpu_shortage(
    host: NUMACell, cell: InstanceNUMACell, limits: numa.NUMATopologyLimits | None
) -> Rejection | None:
    """Return a rejection for missing shared CPUs, or None.

    Even with overcommit, an instance never gets more shared CPUs than the node has.
    """
    requested, total = len(cell.cpuset), len(host.cpuset)
    if requested > total:
        return _reject("shared_cpus", requested=requested, total=total)
    if limits is None:
        return None
    ratio = limits.cpu_allocation_ratio
    limit = total * ratio
    if host.cpu_usage + requested <= limit:
        return None
    amounts = {"free": limit - host.cpu_usage, "total": total, "allocation_ratio": ratio}
    return _reject("shared_cpus", requested=requested, **amounts)


def pin_cell(host: NUMACell, cell: InstanceNUMACell, reserved: int) -> PinnedCPUs | Rejection:
    """Pin the CPUs of an instance's NUMA node, or return a rejection.

    ``reserved`` is the number of extra CPUs for the emulator's threads. As in nova, a node without
    pinned CPUs is accepted if it has shared CPUs, needs no CPUs for the emulator's threads, and
    does not have the thread policy ``isolate``.
    """
    requested, free = len(cell.pcpuset), host.avail_pcpus
    if not requested and (reserved or cell.cpu_thread_policy == ISOLATE or not cell.cpuset):
        return _reject("no_dedicated_cpus")
    if requested + reserved > free:
        amounts = {"free": free, "total": len(host.pcpuset)}
        extra = {"emulator_cpus": reserved} if reserved else {}
        return _reject("dedicated_cpus", requested=requested, **extra, **amounts)
    cores = host.free_cores
    if cell.cpu_thread_policy == ISOLATE and host.has_threads:
        return _pin_isolated(host, cell, cores, reserved)
    needs_siblings = cell.cpu_thread_policy == REQUIRE
    chosen = _choose_cpus(cores, requested, siblings_only=needs_siblings)
    if chosen is None:
        cause, min_threads = ("sibling_threads", 2) if needs_siblings else ("reported_cores", 1)
        threads = sum(len(core) for core in cores if len(core) >= min_threads)
        return _reject(cause, requested=requested, free=threads)
    return _add_reserved(cell, chosen, chain(*cores), reserved)


def _describe_pages(host: NUMACell, size: int, *, with_free: bool) -> dict[str, int]:
    """Return the pages of a size, and their memory: of all, or of free pages."""
    pages = host.find_pages(size)
    total, free = (pages.total, pages.free) if pages else (0, 0)
    memory = (free if with_free else total) * size // 1024
    values = {"size_kb": size, "total": total, "memory_mb": memory}
    return {**values, "free": free} if with_free else values


def _pin_isolated(
    host: NUMACell, cell: InstanceNUMACell, cores: Sequence[Sequence[int]], reserved: int
) -> PinnedCPUs | Rejection:
    """Pin each CPU to a separate core whose threads are all free.

    As in nova, a host with several threads per core supports this policy only if its shared and its
    dedicated CPUs are the same, as on hosts before Train.
    """
    if host.cpuset != host.pcpuset:
        return _reject("isolated_threads")
    requested, width = len(cell.pcpuset), max(map(len, host.siblings))
    chosen = [core[0] for core in cores if len(core) == width]
    if len(chosen) < requested:
        return _reject("separate_cores", requested=requested, free=len(chosen))
    return _add_reserved(cell, chosen[:requested], (core[0] for core in cores), reserved)


def _add_reserved(
    cell: InstanceNUMACell, chosen: Sequence[int], free: Iterable[int], reserved: int
) -> PinnedCPUs | Rejection:
    used = frozenset(chosen)
    remaining = [cpu for cpu in free if cpu not in used]
    if len(remaining) < reserved:
        return _reject("emulator_cpus", requested=reserved, free=len(remaining))
    pins = dict(zip(sorted(cell.pcpuset), chosen, strict=True))
    return PinnedCPUs(pins, frozenset(remaining[:reserved]))


def _choose_cpus(
    cores: Sequence[Sequence[int]], requested: int, *, siblings_only: bool
) -> Sequence[int] | None:
    """Choose the host's CPUs for pinning, full cores first, or return None.

    Cores with a single free thread are used last, or never with ``siblings_only``.
    """
    for threads in range(max(map(len, cores), default=0), 1 if siblings_only else 0, -1):
        full = (core[:threads] for core in cores if len(core) >= threads)
        cpus = list(chain.from_iterable(full))
        if len(cpus) >= requested:
            return cpus[:requested]
    all_cpus = list(chain.from_iterable(cores))
    return None if siblings_only or len(all_cpus) < requested else all_cpus[:requested]


_AllocationCandidate = Mapping[str, Any]
_Fitted = tuple[FittedNUMACell, ...]


def select_fitting_candidates(
    host: numa.NUMATopology,
    instance: InstanceNUMATopology,
    limits: numa.NUMATopologyLimits,
    devices: Devices | None,
    candidates: Sequence[_AllocationCandidate] | None,
    budget: FitBudget | None = None,
) -> Sequence[_AllocationCandidate] | Rejection | None:
    """Return the allocation candidates that fit, or the rejection of the host.

    Candidates differ in their providers of PCI devices. Returns None if the instance fits and the
    candidate does not matter, because ``devices`` or ``candidates`` is None. ``budget`` is the
    budget of steps for all hosts of the request.
    """
    budget = budget or FitBudget()
    budget.start_host()
    placements = _prepare_placements(host, instance, limits, devices)
    if isinstance(placements, Rejection):
        return placements
    if devices is None or candidates is None:
        result = placements.find_first(devices, budget)
        return result if isinstance(result, Rejection) else None
    rejection = _reject("candidates")
    fitting: list[_AllocationCandidate] = []
    for number, candidate in enumerate(candidates):
        if number and not budget.start_candidate():
            # Trying thousands of further candidates would take seconds.
            return fitting or _note_incomplete_search(rejection)
        result = placements.find_first(replace(devices, mapping=candidate["mappings"]), budget)
        if isinstance(result, Rejection):
            rejection = result
        else:
            fitting.append(candidate)
        if budget.is_infeasible:  # independent of the devices
            return rejection
    return fitting or rejection


def fit_to_host(
    host: numa.NUMATopology,
    instance: InstanceNUMATopology,
    limits: numa.NUMATopologyLimits | None = None,
    devices: Devices | None = None,
) -> tuple[FittedNUMACell, ...] | Rejection:
    """Place the instance's NUMA nodes on a host, or return a rejection.

    Each node of the instance is placed on a different node of the host. Without ``limits``, the
    overcommit of memory and shared CPUs is not limited.
    """
    placements = _prepare_placements(host, instance, limits, devices)
    return (
        placements
        if isinstance(placements, Rejection)
        else placements.find_first(devices, FitBudget())
    )


def _note_incomplete_search(rejection: Rejection) -> Rejection:
    return replace(rejection, values={**rejection.values, "incomplete": True})


def with_usage(host: numa.NUMATopology, fitted: Iterable[FittedNUMACell]) -> numa.NUMATopology:
    """Return a copy of a host's NUMA nodes, with an instance's usage added."""
    by_id = {cell.id: cell for cell in fitted}
    return numa.NUMATopology(
        _add_usage(cell, by_id[cell.id]) if cell.id in by_id else cell for cell in host.cells
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """The nodes of a host that fit an instance's node, evaluated on demand.

    ``reserved`` is the number of CPUs for the emulator's threads. ``fits`` maps the index of a
    host's node to whether it fits. Nodes of the instance with equal requests share ``fits``.
    """

    cell: numa.InstanceNUMACell
    cells: Sequence[NUMACell]
    limits: numa.NUMATopologyLimits | None
    reserved: int
    fits: dict[int, bool]
    results: dict[int, FittedNUMACell | Rejection] = field(default_factory=dict)

    def get_result(self, place: int) -> FittedNUMACell | Rejection:
        if place not in self.results:
            self.results[place] = fit_cell(self.cells[place], self.cell, self.limits, self.reserved)
        return self.results[place]

    def __iter__(self) -> Iterator[int]:
        return (place for place in range(len(self.cells)) if self._fits_at(place))

    def _fits_at(self, place: int) -> bool:
        fits = self.fits.get(place)
        if fits is None:
            fits = self.fits[place] = isinstance(self.get_result(place), FittedNUMACell)
        return fits

    def find_rejection(self) -> Rejection | None:
        causes: list[tuple[Rejection, list[int]]] = []
        for place, cell in enumerate(self.cells):
            result = self.get_result(place)
            if not isinstance(result, Rejection):
                return None
            # Hosts have few NUMA nodes. Nodes with the same shortage share a part.
            ids = next((ids for cause, ids in causes if cause == result), None)
            if ids is None:
                causes.append((result, ids := []))
            ids.append(cell.id)
        parts = tuple(
            replace(cause, values={**cause.values, "host_nodes": sorted(ids)})
            for cause, ids in causes
        )
        return replace(_reject("node", instance_node=self.cell.id), parts=parts)


@dataclass(frozen=True, slots=True)
class _Placements:
    """A host's NUMA nodes, best first, and their fits by instance node.

    ``networks`` are the requested networks that the host reports near to NUMA nodes.
    """

    cells: Sequence[NUMACell]
    rows: Sequence[_Row]
    networks: numa.NetworkMetadata

    def find_first(self, devices: Devices | None, budget: FitBudget) -> _Fitted | Rejection:
        rejections: list[Callable[[], Rejection]] = []

        def is_near(places: Sequence[int]) -> bool:
            rejection = self._check_distance(places, devices)
            rejections.extend([rejection] if rejection else [])
            return rejection is None

        def list_kinds() -> Sequence[Hashable]:
            counts = (lambda _: None) if devices is None else devices.build_node_key()
            return [(counts(cell.id), *_match_networks(cell, self.networks)) for cell in self.cells]

        # Checking two requests for devices costs about as much as a step.
        steps_per_check = STEPS_PER_CHECK + (0 if devices is None else len(devices.requests) // 2)
        arrangement = find_arrangement(self.rows, is_near, list_kinds, budget, steps_per_check)
        if arrangement is not None:
            return self._list_fitted_cells(arrangement)
        rejection = rejections[0]() if rejections else self._build_rejection()
        return _note_incomplete_search(rejection) if budget.is_exhausted else rejection

    def _build_rejection(self) -> Rejection:
        options = [
            {
                "instance_node": row.cell.id,
                "host_nodes": sorted(self.cells[place].id for place in row),
            }
            for row in self.rows
        ]
        return _reject("arrangement", options=options)

    def _list_fitted_cells(self, places: Sequence[int]) -> _Fitted:
        chosen = (row.get_result(place) for row, place in zip(self.rows, places, strict=True))
        return tuple(cell for cell in chosen if isinstance(cell, FittedNUMACell))

    def _check_distance(
        self, places: Sequence[int], devices: Devices | None
    ) -> Callable[[], Rejection] | None:
        """Return a builder of the rejection if devices or networks are too far.

        Returns None if they are near enough to the nodes. A builder saves time, because hundreds of
        sets of nodes may be tried, and only the first rejection is built.
        """
        if devices is not None and not devices.can_serve(self._list_fitted_cells(places)):
            return lambda: reject_far_devices(devices.near, len(devices.requests))
        if not can_reach_networks([self.cells[place] for place in places], self.networks):
            return lambda: _reject_far_networks(self.cells, self.networks)
        return None


def _prepare_placements(
    host: numa.NUMATopology,
    instance: InstanceNUMATopology,
    limits: numa.NUMATopologyLimits | None,
    devices: Devices | None,
) -> _Placements | Rejection:
    if len(host) < len(instance):
        return _reject("nodes", requested=len(instance), actual=len(host))
    cells = sort_cells(host, instance, devices, packing=limits is not None and limits.packing)
    # The emulator's threads run on the first node.
    isolated = instance.emulator_threads_isolated
    fits: dict[Hashable, dict[int, bool]] = {}
    rows = []
    for number, cell in enumerate(instance.cells):
        reserved = int(isolated and number == 0)
        amounts = (len(cell.cpuset), len(cell.pcpuset), cell.memory, cell.pagesize)
        key = (*amounts, cell.cpu_policy, cell.cpu_thread_policy, reserved)
        rows.append(_Row(cell, cells, limits, reserved, fits.setdefault(key, {})))
    for row in rows:
        if rejection := row.find_rejection():
            return rejection
    networks = bind_to_nodes(host, None if limits is None else limits.network_metadata)
    return _Placements(cells, rows, networks)


def sort_cells(
    host: numa.NUMATopology,
    instance: InstanceNUMATopology,
    devices: Devices | None,
    *,
    packing: bool = False,
) -> Sequence[NUMACell]:
    """Sort the host's nodes: least used first, or last with ``packing``.

    Nodes with PCI devices come first for an instance that requests devices, and last for other
    instances. The usage of CPUs counts before the usage of memory. If the instance needs every
    node, the order is unchanged.
    """
    if len(host) <= len(instance):
        return host.cells
    is_pinned = instance.cpu_policy in (DEDICATED, MIXED)
    near = devices.near if devices is not None else Counter[int]()
    device_sign = -1 if devices is not None and devices.requests else 1
    usage_sign = -1 if packing else 1

    def get_sort_key(cell: NUMACell) -> tuple[int, int, int]:
        cpus = -cell.avail_pcpus if is_pinned else cell.cpu_usage
        return device_sign * near[cell.id], usage_sign * cpus, usage_sign * -cell.avail_memory

    return sorted(host.cells, key=get_sort_key)


def bind_to_nodes(
    host: numa.NUMATopology, requested: numa.NetworkMetadata | None
) -> numa.NetworkMetadata:
    """Return the requested networks that the host reports near to nodes."""
    if requested is None:
        return numa.NetworkMetadata()
    available = _merge_networks(host.cells)
    return numa.NetworkMetadata(
        physnets=requested.physnets & available.physnets,
        tunneled=requested.tunneled and available.tunneled,
    )


def can_reach_networks(cells: Collection[NUMACell], requested: numa.NetworkMetadata) -> bool:
    """Return whether the NUMA nodes are near to all requested networks."""
    available = _merge_networks(cells)
    return requested.physnets <= available.physnets and (
        available.tunneled or not requested.tunneled
    )


def _match_networks(cell: NUMACell, requested: numa.NetworkMetadata) -> tuple[Hashable, ...]:
    available = cell.network_metadata
    return available.physnets & requested.physnets, requested.tunneled and available.tunneled


def _merge_networks(cells: Collection[NUMACell]) -> numa.NetworkMetadata:
    return numa.NetworkMetadata(
        physnets=frozenset().union(*(cell.network_metadata.physnets for cell in cells)),
        tunneled=any(cell.network_metadata.tunneled for cell in cells),
    )


def _add_usage(host: NUMACell, fitted: FittedNUMACell) -> NUMACell:
    cpus = fitted.host_cpus
    if fitted.cpu_thread_policy == ISOLATE:  # the instance shares no core
        cpus = cpus.union(*(core for core in host.siblings if core & cpus)) & host.pcpuset
    # Memory without a page size uses the smallest pages.
    size = fitted.pagesize or find_smallest_page(host)
    return replace(
        host,
        memory_usage=host.memory_usage + fitted.memory,
        cpu_usage=host.cpu_usage + len(fitted.cpuset),
        pinned_cpus=host.pinned_cpus | cpus,
        mempages=tuple(
            replace(pages, used=pages.used + fitted.memory * 1024 // size)
            if pages.size_kb == size
            else pages
            for pages in host.mempages
        ),
    )


def reject_far_devices(devices: Mapping[int, int], requested: int) -> Rejection:
    """Build the rejection of a host with devices far from fitting nodes."""
    places = [{"host_nodes": [node], "count": count} for node, count in sorted(devices.items())]
    return _reject("devices", requested=requested, devices=places)


def _reject_far_networks(host: Iterable[NUMACell], requested: numa.NetworkMetadata) -> Rejection:
    cells = sorted(host, key=lambda cell: cell.id)
    networks = [
        {
            "name": name,
            "host_nodes": [cell.id for cell in cells if name in cell.network_metadata.physnets],
        }
        for name in sorted(requested.physnets)
    ]
    if not requested.tunneled:
        return _reject("networks", networks=networks)
    tunnels = [cell.id for cell in cells if cell.network_metadata.tunneled]
    return _reject("networks", networks=networks, tunnels=tunnels)


def _reject(cause: str, **values: Any) -> Rejection:
    return Rejection(kind="numa_topology", values={"cause": cause, **values})
