"""The NUMA nodes of an instance on those of a host.

Sources: nova's documentation, "CPU topologies", "Huge pages" and "Networking".
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat

from placement_sched.model.host_numa import (
    NetworkMetadata,
    NUMACell,
    NUMATopology,
    NUMATopologyLimits,
)
from placement_sched.model.numa_topology import (
    FittedNUMACell,
    InstanceNUMACell,
    InstanceNUMATopology,
)
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.hardware.host_fit_cell import Shortage, fit_cell
from placement_sched.scheduler.hardware.host_fit_devices import Devices
from placement_sched.scheduler.hardware.host_fit_networks import bound_to_nodes, reach
from placement_sched.scheduler.hardware.host_fit_order import in_order
from placement_sched.scheduler.hardware.host_fit_reasons import (
    devices_elsewhere,
    fit_apart,
    fits_nowhere,
    networks_elsewhere,
    too_few_nodes,
)
from placement_sched.scheduler.hardware.host_fit_search import first_arrangement


def fit_to_host(
    host: NUMATopology,
    instance: InstanceNUMATopology,
    limits: NUMATopologyLimits | None = None,
    devices: Devices | None = None,
) -> tuple[FittedNUMACell, ...] | Refusal:
    """Return the instance's nodes as they would be on the host, or why they cannot be there.

    Each gets a node of the host for itself. Without ``limits`` the host may give away its memory
    and its shared CPUs any number of times.
    """
    ways = ways_on(host, instance, limits, devices)
    return ways if isinstance(ways, Refusal) else ways.first(devices)


@dataclass(frozen=True, slots=True)
class Row:
    """One node of an instance on each node of a host, looked at where it comes to that.

    ``reserved`` is how many CPUs the emulator's threads get there.
    """

    asked: InstanceNUMACell
    cells: Sequence[NUMACell]
    limits: NUMATopologyLimits | None
    reserved: int
    found: dict[int, FittedNUMACell | Shortage] = field(default_factory=dict)

    def at(self, place: int) -> FittedNUMACell | Shortage:
        """Return the node on the host's node at this place, or what that lacks."""
        if place not in self.found:
            self.found[place] = fit_cell(self.cells[place], self.asked, self.limits, self.reserved)
        return self.found[place]

    def __iter__(self) -> Iterator[int]:
        """Yield the places where it fits."""
        places = range(len(self.cells))
        return (place for place in places if isinstance(self.at(place), FittedNUMACell))

    def refusal(self) -> Refusal | None:
        """Return why it fits nowhere, unless it fits somewhere."""
        if next(iter(self), None) is not None:
            return None
        every = (self.at(place) for place in range(len(self.cells)))
        shortages = (one for one in every if isinstance(one, Shortage))
        return fits_nowhere(self.cells, self.asked, shortages)


@dataclass(frozen=True, slots=True)
class Ways:
    """The nodes of a host, those tried first in front, with each node of an instance there.

    ``networks`` are those asked that the host has at certain nodes.
    """

    cells: Sequence[NUMACell]
    rows: Sequence[Row]
    networks: NetworkMetadata

    def first(self, devices: Devices | None) -> tuple[FittedNUMACell, ...] | Refusal:
        """Return the first way that is near to networks and devices, or why there is none."""
        refusals: list[Refusal] = []

        def near(places: Sequence[int]) -> bool:
            refusal = self._far(places, devices)
            refusals.extend([refusal] if refusal else [])
            return refusal is None

        found = first_arrangement(self.rows, near)
        if found is not None:
            return self._fitted(found)
        return next(iter(refusals), None) or fit_apart(
            self.cells, {row.asked.id: list(row) for row in self.rows}
        )

    def _fitted(self, places: Sequence[int]) -> tuple[FittedNUMACell, ...]:
        chosen = (row.at(place) for row, place in zip(self.rows, places, strict=True))
        return tuple(one for one in chosen if isinstance(one, FittedNUMACell))

    def _far(self, places: Sequence[int], devices: Devices | None) -> Refusal | None:
        """Return what is too far from the nodes at these places."""
        if devices is not None and not devices.serve(self._fitted(places)):
            return devices_elsewhere(devices.near, len(devices.requests))
        if not reach([self.cells[place] for place in places], self.networks):
            return networks_elsewhere(self.cells, self.networks)
        return None


def ways_on(
    host: NUMATopology,
    instance: InstanceNUMATopology,
    limits: NUMATopologyLimits | None,
    devices: Devices | None,
) -> Ways | Refusal:
    """Return how an instance would fit on a host, whoever provides its devices, or why not."""
    if len(host) < len(instance):
        return too_few_nodes(host, instance)
    packing = limits is not None and limits.packing
    cells = in_order(host, instance, devices, packing=packing)
    # The emulator's threads stay with the first node.
    reserved = chain([int(instance.emulator_threads_isolated)], repeat(0))
    rows = [
        Row(asked, cells, limits, number)
        for asked, number in zip(instance.cells, reserved, strict=False)
    ]
    for row in rows:
        if refusal := row.refusal():
            return refusal
    networks = bound_to_nodes(host, None if limits is None else limits.network_metadata)
    return Ways(cells, rows, networks)
