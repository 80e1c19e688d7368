"""The PCI devices that a host has free, in pools of devices that are alike, and where they are.

Source: nova's documentation, "Attaching physical PCI devices to guests", and nova 34's
``PciDeviceStats`` observed.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from placement_sched.errors import Conflict
from placement_sched.model.hardware import pci_matching
from placement_sched.model.hardware.numa import InstanceNUMACell
from placement_sched.model.hardware.pci_matching import (
    Demand,
    Mappings,
    Pool,
    Pools,
    ReportedPool,
    number_of,
)
from placement_sched.model.hardware.requested_pci import InstancePCIRequest, InstancePCIRequests
from placement_sched.model.verdict import Refusal

Requests = Sequence[InstancePCIRequest]
Cells = Sequence[InstanceNUMACell] | None


class ReportedPools:
    """The pools as a host's report has them: read when first asked for, the same for all."""

    def __init__(
        self, pools: Sequence[Mapping[str, Any]], numa_topology: Mapping[str, Any] | None = None
    ) -> None:
        self._reported = pools
        self._numa_topology = numa_topology

    @cached_property
    def pools(self) -> tuple[Pool, ...]:
        """Return the pools, those with fewer tags first: they are what nova takes first."""
        return tuple(sorted(map(ReportedPool.of, self._reported), key=len))

    @cached_property
    def free(self) -> int:
        """Return how many devices there are."""
        return number_of(self._reported)

    @cached_property
    def sockets(self) -> Mapping[int, int | None]:
        """Return the socket of each of the host's NUMA nodes, by their ids."""
        cells = (self._numa_topology or {}).get("cells", ())
        return {cell["id"]: cell.get("socket") for cell in cells}


class PciPools:
    """The pools of one host state, less what instances of the same request took.

    ``provider_mapping`` of its methods is that of an allocation candidate; with ``numa_cells`` the
    requests' NUMA policies count. A report is never changed: the first look at :attr:`pools` makes
    a copy, and what is taken is taken of a copy as well.
    """

    __slots__ = ("_left", "_own", "_reported")

    def __init__(self, reported: ReportedPools) -> None:
        self._reported = reported
        # Once a plugin has had a look at the pools it may have changed any of these.
        self._own: list[Pool] | None = None
        self._left: Pools | None = None

    @classmethod
    def of(
        cls, pools: Sequence[Mapping[str, Any]], numa_topology: Mapping[str, Any] | None = None
    ) -> Self:
        """Return these pools, as a report of its own."""
        return cls(ReportedPools(pools, numa_topology))

    @property
    def pools(self) -> list[Pool]:
        """Return the pools, each a dict with ``count`` and what its devices have in common."""
        if self._own is None:
            self._own = [dict(pool) for pool in self.now]
        return self._own

    @property
    def free(self) -> int:
        """Return how many devices are left."""
        untouched = self._own is None and self._left is None
        return self._reported.free if untouched else number_of(self.now)

    def __iter__(self) -> Iterator[Pool]:
        return iter([dict(pool) for pool in self.now])

    def support_requests(
        self, requests: Requests, provider_mapping: Mappings | None = None, numa_cells: Cells = None
    ) -> bool:
        """Return whether the host has the devices for all requests together."""
        steps = self._steps(requests, provider_mapping, numa_cells)
        return all(left is not None for _, _, left in steps)

    def apply_requests(
        self, requests: Requests, provider_mapping: Mappings | None = None, numa_cells: Cells = None
    ) -> None:
        """Take the devices away.

        Raises :class:`~placement_sched.errors.Conflict` where there are not enough; what earlier
        requests of the list took stays taken, as in nova.
        """
        for pools, demand, left in self._steps(requests, provider_mapping, numa_cells):
            if left is None:
                refusal = pci_matching.shortage(pools, demand)
                raise Conflict(refusal.reason if refusal else "PCI devices are lacking")
            if self._own is None:
                self._left = left
            else:
                self._own = left

    def why_not(
        self, requests: Requests, provider_mapping: Mappings | None = None, numa_cells: Cells = None
    ) -> Refusal | None:
        """Return which request the devices do not suffice for, with numbers; None if they do."""
        for pools, demand, left in self._steps(requests, provider_mapping, numa_cells):
            if left is None:
                return pci_matching.shortage(pools, demand)
        return None

    def candidates_for(
        self, requests: Requests, candidates: Sequence[Mapping[str, Any]]
    ) -> list[Mapping[str, Any]] | Refusal:
        """Return the allocation candidates whose devices are free, or why none is left."""
        good = [one for one in candidates if self.support_requests(requests, one["mappings"])]
        if good:
            return good
        if not candidates:
            return Refusal("no allocation candidate of the host is left")
        why = self.why_not(requests, candidates[0]["mappings"])
        if why is None:  # it was refused just now
            raise AssertionError("the devices suffice")
        if len(candidates) == 1:
            return why
        reason = f"none of {len(candidates)} allocation candidates fits, the first: {why.reason}"
        return Refusal(reason, why.asked, why.has)

    def what_counts(
        self, requests: Requests, provider_mapping: Mappings | None = None
    ) -> Callable[[int], Hashable]:
        """Return what of a NUMA node counts for :meth:`support_requests`, by the node's id.

        The answer stays where nodes stand for others of which the same counts. That is the devices
        asked for, and not of which node they are, unless several requests compete for them: what
        the first of these takes depends on the order of the pools.
        """
        asked = [(one, pci_matching.providers_of(one, provider_mapping)) for one in requests]
        compete = len(requests) > 1 and any(found for _, found in asked)
        by_node: dict[int | None, list[str]] = {}
        specified = (pci_matching.as_specified(self.now, request) for request in requests)
        numbers = Counter(id(pool) for pools in specified for pool in pools)
        for pool in self.now:
            if number := numbers[id(pool)]:
                compete = compete or number > 1
                text = repr(sorted((key, pool[key]) for key in pool if key != "numa_node"))
                by_node.setdefault(pool["numa_node"], []).append(text)
        by_socket = any(one.numa_policy == "socket" for one in requests)
        sockets = self._reported.sockets if by_socket else {}

        def counts(node: int) -> Hashable:
            there = tuple(sorted(by_node.get(node, ())))
            return there, node if compete and there else None, sockets.get(node)

        return counts

    @property
    def now(self) -> Pools:
        """Return the pools as they are, to be read only: without a copy, whose kinds are lost."""
        if self._own is not None:
            return self._own
        return self._reported.pools if self._left is None else self._left

    def _steps(
        self, requests: Requests, mappings: Mappings | None, cells: Cells
    ) -> Iterator[tuple[Pools, Demand, list[Pool] | None]]:
        """Yield, for each request, the pools before it, its demand, and the pools after it.

        These are None where they do not suffice, and that is the last.
        """
        pools, ids = self.now, frozenset(cell.id for cell in cells or ())
        for request in requests:
            found = pci_matching.providers_of(request, mappings)
            demand = Demand(request, found, ids, self._reported.sockets)
            left = pci_matching.left_after(pools, demand)
            yield pools, demand, left
            if left is None:
                return
            pools = left


@dataclass(frozen=True, slots=True)
class Devices:
    """A host's PCI devices, the requests for them, and the providers of an allocation candidate.

    ``stats`` is ``host_state.pci_stats``: :class:`PciPools`, or what a plugin put in its place.
    """

    stats: Any
    requests: Requests = ()
    mapping: Mapping[str, Sequence[str]] | None = None

    @property
    def near(self) -> Counter[int]:
        """Return the number of devices by NUMA node."""
        counts: Counter[int] = Counter()
        for pool in self.stats.now if isinstance(self.stats, PciPools) else self.stats.pools:
            if pool.get("numa_node") is not None:
                counts[pool["numa_node"]] += pool["count"]
        return counts

    def serve(self, cells: Sequence[InstanceNUMACell]) -> bool:
        """Return whether these NUMA nodes are near enough to all requested devices."""
        asked = self.requests
        return not asked or bool(self.stats.support_requests(asked, self.mapping, cells))

    def what_counts(self) -> Callable[[int], Hashable]:
        """Return what of a NUMA node counts for :meth:`serve`, by the node's id.

        Of what a plugin put in the place of the devices it is not known: each node is its own.
        """
        if not self.requests:
            return lambda _node: None
        if isinstance(self.stats, PciPools):
            return self.stats.what_counts(self.requests, self.mapping)
        return lambda node: node


def devices_of(
    stats: Any, requests: InstancePCIRequests | None, mapping: Mapping[str, Sequence[str]] | None
) -> Devices | None:
    """Return a host's devices and the requests for them; None where the host reports none."""
    if not hasattr(stats, "support_requests"):
        return None
    return Devices(stats, () if requests is None else requests.requests, mapping)
