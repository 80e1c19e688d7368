"""The NUMA nodes of an instance on those of a host.

Sources: nova's documentation, "CPU topologies", "Huge pages" and "Networking" ("NUMA Affinity");
"Configuration Options", ``[compute] packing_host_numa_cells_allocation_strategy``.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from placement_sched.model.hardware import numa
from placement_sched.model.hardware.cpu_policy import DEDICATED, ISOLATE, MIXED
from placement_sched.model.hardware.numa import FittedNUMACell, InstanceNUMATopology, NUMACell
from placement_sched.model.hardware.numa_arrangement import JUDGED, Effort, first_arrangement
from placement_sched.model.hardware.numa_cell_fit import fit_cell, smallest_page
from placement_sched.model.hardware.pci_pools import Devices
from placement_sched.model.verdict import Refusal

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
