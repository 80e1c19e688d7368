"""PCI devices near the NUMA nodes that an instance gets.

Source: nova's documentation, "Attaching physical PCI devices to guests" (NUMA affinity policies).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from placement_sched.model.numa_topology import InstanceNUMACell
from placement_sched.model.pci_request import InstancePCIRequest, InstancePCIRequests


class PciStats(Protocol):
    """The PCI devices of a host that are free (``host_state.pci_stats``)."""

    @property
    def pools(self) -> Sequence[Mapping[str, Any]]:
        """Return what there is: each with ``numa_node`` and ``count`` among its keys."""

    def support_requests(
        self,
        pci_requests: Sequence[InstancePCIRequest],
        provider_mapping: Mapping[str, Sequence[str]] | None,
        numa_cells: Sequence[InstanceNUMACell] | None,
        /,
    ) -> bool:
        """Return whether all requests can be served to an instance on these NUMA nodes."""


@dataclass(frozen=True, slots=True)
class Devices:
    """A host's PCI devices, those that an instance asks for, and who would provide them."""

    stats: PciStats
    requests: Sequence[InstancePCIRequest] = ()
    mapping: Mapping[str, Sequence[str]] | None = None

    @property
    def near(self) -> Counter[int]:
        """Return the number of devices by NUMA node."""
        counts: Counter[int] = Counter()
        for pool in self.stats.pools:
            node = pool.get("numa_node")
            if node is not None:
                counts[node] += pool["count"]
        return counts

    def provided_by(self, mapping: Mapping[str, Sequence[str]]) -> Self:
        """Return the same, provided by others."""
        return replace(self, mapping=mapping)

    def serve(self, cells: Sequence[InstanceNUMACell]) -> bool:
        """Return whether these NUMA nodes are near enough to all that is asked for."""
        return not self.requests or self.stats.support_requests(self.requests, self.mapping, cells)


def devices_of(
    stats: Any,
    requests: InstancePCIRequests | None,
    mapping: Mapping[str, Sequence[str]] | None,
) -> Devices | None:
    """Return a host's devices beside what is asked of them; None where nobody can tell of them."""
    if not hasattr(stats, "support_requests"):
        return None
    return Devices(stats, () if requests is None else requests.requests, mapping)
