"""The NUMA nodes of a host, and what of them is taken (nova's NUMATopology attribute names).

Values: what is taken away makes new ones, so that those of a report can be shared by requests.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class NUMAPagesTopology:
    """Memory pages of one size (in KiB) in a NUMA node."""

    size_kb: int
    total: int
    used: int = 0
    reserved: int = 0

    @property
    def free(self) -> int:
        """Return how many pages are free."""
        return self.total - self.used - self.reserved

    @property
    def free_kb(self) -> int:
        """Return how many KiB are free."""
        return self.free * self.size_kb


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkMetadata:
    """Networks that NUMA nodes have the cards of, or that an instance is attached to."""

    physnets: frozenset[str] = frozenset()
    tunneled: bool = False

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return what a JSON object tells."""
        return cls(
            physnets=frozenset(document.get("physnets") or ()),
            tunneled=bool(document.get("tunneled")),
        )

    def as_json(self) -> dict[str, Any]:
        """Return the object that tells it."""
        return {"physnets": sorted(self.physnets), "tunneled": self.tunneled}


@dataclass(frozen=True, kw_only=True)
class NUMACell:
    """One NUMA node of a host; memory in MB.

    ``cpuset`` are the CPUs that instances share, ``pcpuset`` those that are pinned, each to one
    virtual CPU (a host may have CPUs in both). ``siblings`` are the threads of each core. What
    follows from these is found out once: many requests look at the same report.
    """

    id: int
    cpuset: frozenset[int] = frozenset()
    pcpuset: frozenset[int] = frozenset()
    memory: int = 0
    cpu_usage: int = 0
    memory_usage: int = 0
    pinned_cpus: frozenset[int] = frozenset()
    siblings: tuple[frozenset[int], ...] = ()
    mempages: tuple[NUMAPagesTopology, ...] = ()
    network_metadata: NetworkMetadata = field(default_factory=NetworkMetadata)
    socket: int | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the node that a cell of a kept report describes."""
        return cls(
            id=document["id"],
            cpuset=frozenset(document["cpuset"]),
            pcpuset=frozenset(document["pcpuset"]),
            memory=document["memory"],
            cpu_usage=document["cpu_usage"],
            memory_usage=document["memory_usage"],
            pinned_cpus=frozenset(document["pinned_cpus"]),
            siblings=tuple(map(frozenset, document["siblings"])),
            mempages=tuple(NUMAPagesTopology(**pages) for pages in document["mempages"]),
            network_metadata=NetworkMetadata.from_document(document["network_metadata"]),
            socket=document["socket"],
        )

    @cached_property
    def free_pcpus(self) -> frozenset[int]:
        """Return the CPUs for pinning that nothing is pinned to."""
        return self.pcpuset - self.pinned_cpus

    @cached_property
    def free_siblings(self) -> tuple[frozenset[int], ...]:
        """Return the threads of each core that are for pinning and free; some cores have none."""
        free = self.free_pcpus
        return tuple(threads & free for threads in self.siblings)

    @cached_property
    def free_cores(self) -> tuple[tuple[int, ...], ...]:
        """Return the free threads of each core that has some, in order of their numbers.

        Where no cores are told, each CPU is one.
        """
        if not self.siblings:
            return tuple((cpu,) for cpu in sorted(self.free_pcpus))
        return tuple(tuple(sorted(threads)) for threads in self.free_siblings if threads)

    @property
    def avail_pcpus(self) -> int:
        """Return how many CPUs for pinning are free."""
        return len(self.free_pcpus)

    @property
    def avail_memory(self) -> int:
        """Return how much memory is free, in MB."""
        return self.memory - self.memory_usage

    @cached_property
    def has_threads(self) -> bool:
        """Return whether a core has more than one thread."""
        return any(len(threads) > 1 for threads in self.siblings)

    def pages_of(self, size_kb: int) -> NUMAPagesTopology | None:
        """Return the pages of a size, if there are any such."""
        return next((pages for pages in self.mempages if pages.size_kb == size_kb), None)

    def can_fit_pagesize(self, pagesize: int, memory: int, use_free: bool = True) -> bool:
        """Return whether so many KiB fill up pages of this size (in KiB), of which enough are free.

        Without ``use_free``, whether there would be enough if all were. Raises
        :class:`ValueError` for a size of which there are no pages.
        """
        pages = self.pages_of(pagesize)
        if pages is None:
            raise ValueError(f"NUMA node {self.id} has no pages of {pagesize} KiB")
        number = pages.free if use_free else pages.total
        return memory <= number * pagesize and memory % pagesize == 0


class NUMATopology:
    """The NUMA nodes of a host; one without nodes is false.

    What a report tells of them is read when it is first looked at: most requests never do.
    """

    __slots__ = ("_cells", "_document")

    def __init__(self, cells: Iterable[NUMACell] = ()) -> None:
        self._cells: tuple[NUMACell, ...] | None = tuple(cells)
        self._document: Mapping[str, Any] = {}

    @classmethod
    def reported(cls, document: Mapping[str, Any]) -> Self:
        """Return what a kept report tells."""
        topology = cls()
        topology._document = document
        topology._cells = None
        return topology

    @property
    def cells(self) -> tuple[NUMACell, ...]:
        """Return the nodes, in the order in which the host tells them."""
        if self._cells is None:
            self._cells = tuple(map(NUMACell.from_document, self._document["cells"]))
        return self._cells

    @property
    def has_threads(self) -> bool:
        """Return whether a core of any node has more than one thread."""
        return any(cell.has_threads for cell in self.cells)

    def __len__(self) -> int:
        return len(self.cells)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NUMATopology) and self.cells == other.cells

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"NUMATopology(cells={self.cells!r})"


class ReportedTopology(dict[str, Any]):
    """The JSON object that is kept of a report, and what is read from it once for all requests."""

    __slots__ = ("topology",)

    topology: NUMATopology

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the object of a report, as ``report_forms.numa_topology`` makes it whole."""
        reported = cls(document)
        reported.topology = NUMATopology.reported(document)
        return reported


@dataclass(frozen=True, slots=True, kw_only=True)
class NUMATopologyLimits:
    """How often CPUs and memory of a NUMA node may be given away, and the networks that are asked.

    ``packing`` is which nodes are taken first, those most used or those least used: what is taken
    away from a host is what its filter found. It is told to nobody else.
    """

    cpu_allocation_ratio: float
    ram_allocation_ratio: float
    network_metadata: NetworkMetadata | None = None
    packing: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the limits as a selection tells them."""
        network = self.network_metadata
        return {
            "cpu_allocation_ratio": self.cpu_allocation_ratio,
            "ram_allocation_ratio": self.ram_allocation_ratio,
            "network_metadata": None if network is None else network.as_json(),
        }
