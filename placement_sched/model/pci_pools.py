"""The PCI devices that a host has free, in pools of devices that are alike.

Source: nova's documentation, "Attaching physical PCI devices to guests", and nova 34's
``PciDeviceStats`` observed.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, Self

from placement_sched.errors import Conflict
from placement_sched.model.pci_matching import (
    Demand,
    Mappings,
    Pool,
    Pools,
    left_after,
    number_of,
    providers_of,
    shortage,
)
from placement_sched.model.pci_request import InstancePCIRequest
from placement_sched.model.verdict import Refusal


class Cell(Protocol):
    """A NUMA node of an instance; ``id`` is that of the host's node which it is to be on."""

    @property
    def id(self) -> int:
        """Return the number of the host's node."""


class ReportedPools:
    """The pools as a host's report has them: read when first asked for, the same for all."""

    def __init__(
        self,
        pools: Sequence[Mapping[str, Any]],
        numa_topology: Mapping[str, Any] | None = None,
    ) -> None:
        self._reported = pools
        self._numa_topology = numa_topology

    @cached_property
    def pools(self) -> tuple[Pool, ...]:
        """Return the pools, those with fewer tags first: they are what nova takes first."""
        return tuple(sorted(map(dict, self._reported), key=len))

    @cached_property
    def free(self) -> int:
        """Return how many devices there are."""
        return sum(pool["count"] for pool in self._reported)

    @cached_property
    def sockets(self) -> Mapping[int, int | None]:
        """Return the socket of each of the host's NUMA nodes, by their ids."""
        cells = (self._numa_topology or {}).get("cells", ())
        return {cell["id"]: cell.get("socket") for cell in cells}


class PciPools:
    """What one host state has of them, less what instances of the same request took.

    What is reported stays as it is: the first look at :attr:`pools`, or the first device that is
    taken, makes a copy.
    """

    __slots__ = ("_own", "_reported")

    def __init__(self, reported: ReportedPools) -> None:
        self._reported = reported
        self._own: list[Pool] | None = None

    @classmethod
    def of(
        cls,
        pools: Sequence[Mapping[str, Any]],
        numa_topology: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return pools of their own, reported nowhere."""
        return cls(ReportedPools(pools, numa_topology))

    @property
    def pools(self) -> list[Pool]:
        """Return the pools, each a dict with ``count`` and what its devices have in common."""
        if self._own is None:
            self._own = [dict(pool) for pool in self._reported.pools]
        return self._own

    @property
    def free(self) -> int:
        """Return how many devices are left."""
        return self._reported.free if self._own is None else number_of(self._own)

    def __iter__(self) -> Iterator[Pool]:
        return iter([dict(pool) for pool in self._now])

    def support_requests(
        self,
        requests: Sequence[InstancePCIRequest],
        provider_mapping: Mappings | None = None,
        numa_cells: Sequence[Cell] | None = None,
    ) -> bool:
        """Return whether the host has the devices for all requests together.

        ``provider_mapping`` is that of an allocation candidate; with ``numa_cells`` the requests'
        NUMA policies count.
        """
        pools: Pools = self._now
        for request in requests:
            left = left_after(pools, self._demand(request, provider_mapping, numa_cells))
            if left is None:
                return False
            pools = left
        return True

    def apply_requests(
        self,
        requests: Sequence[InstancePCIRequest],
        provider_mapping: Mappings | None = None,
        numa_cells: Sequence[Cell] | None = None,
    ) -> None:
        """Take the devices away.

        Raises :class:`~placement_sched.errors.Conflict` where there are not enough; what earlier
        requests of the list took stays taken, as in nova.
        """
        for request in requests:
            demand = self._demand(request, provider_mapping, numa_cells)
            left = left_after(self.pools, demand)
            if left is None:
                refusal = shortage(self.pools, demand)
                raise Conflict(refusal.reason if refusal else "PCI devices are lacking")
            self._own = left

    def why_not(
        self,
        requests: Sequence[InstancePCIRequest],
        provider_mapping: Mappings | None = None,
        numa_cells: Sequence[Cell] | None = None,
    ) -> Refusal | None:
        """Return which request the devices do not suffice for, with numbers; None if they do."""
        pools: Pools = self._now
        for request in requests:
            demand = self._demand(request, provider_mapping, numa_cells)
            left = left_after(pools, demand)
            if left is None:
                return shortage(pools, demand)
            pools = left
        return None

    @property
    def _now(self) -> Pools:
        return self._reported.pools if self._own is None else self._own

    def _demand(
        self,
        request: InstancePCIRequest,
        mappings: Mappings | None,
        cells: Sequence[Cell] | None,
    ) -> Demand:
        return Demand(
            request,
            providers_of(request, mappings),
            frozenset(cell.id for cell in cells or ()),
            self._reported.sockets,
        )
