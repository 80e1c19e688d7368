"""NUMA nodes of hosts and of instances (nova's NUMATopology and InstanceNUMATopology names).

Values: what is taken away makes new ones, so that those of a report can be shared by requests.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self

from placement_sched.limits import MAX_NUMA_CANDIDATES, MAX_NUMA_STEPS

#: Words for page sizes, in the place of a size in KiB.
PAGES_SMALL, PAGES_LARGE, PAGES_ANY = -1, -2, -3


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
        """Return the networks of a JSON object."""
        physnets = frozenset(document.get("physnets") or ())
        return cls(physnets=physnets, tunneled=bool(document.get("tunneled")))

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object of the networks."""
        return {"physnets": sorted(self.physnets), "tunneled": self.tunneled}


@dataclass(frozen=True, kw_only=True)
class NUMACell:
    """One NUMA node of a host; memory in MB.

    ``cpuset`` are the CPUs that instances share, ``pcpuset`` those that are pinned, each to one
    virtual CPU (a host may have CPUs in both). ``siblings`` are the threads of each core. What
    follows from these is worked out once: many requests look at the same report.
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
        given = {one.name: document[one.name] for one in fields(cls)}
        given |= {name: frozenset(given[name]) for name in ("cpuset", "pcpuset", "pinned_cpus")}
        given["siblings"] = tuple(map(frozenset, given["siblings"]))
        given["mempages"] = tuple(NUMAPagesTopology(**pages) for pages in given["mempages"])
        given["network_metadata"] = NetworkMetadata.from_document(given["network_metadata"])
        return cls(**given)

    @cached_property
    def free_pcpus(self) -> frozenset[int]:
        """Return the CPUs for pinning that nothing is pinned to."""
        return self.pcpuset - self.pinned_cpus

    @cached_property
    def free_siblings(self) -> tuple[frozenset[int], ...]:
        """Return the threads of each core that are for pinning and free; some cores have none."""
        return tuple(threads & self.free_pcpus for threads in self.siblings)

    @cached_property
    def free_cores(self) -> tuple[tuple[int, ...], ...]:
        """Return the free threads of each core with some; a CPU is one if no cores are reported."""
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
        :class:`ValueError` for a size that the node has no pages of.
        """
        pages = self.pages_of(pagesize)
        if pages is None:
            raise ValueError(f"NUMA node {self.id} has no pages of {pagesize} KiB")
        number = pages.free if use_free else pages.total
        return memory <= number * pagesize and memory % pagesize == 0


class NUMATopology:
    """The NUMA nodes of a host; one without nodes is false.

    A report is read when its nodes are first looked at: most requests never do.
    """

    __slots__ = ("_cells", "_document")

    def __init__(
        self, cells: Iterable[NUMACell] = (), *, reported: Mapping[str, Any] | None = None
    ) -> None:
        self._document = reported
        self._cells = tuple(cells) if reported is None else None

    @property
    def cells(self) -> tuple[NUMACell, ...]:
        """Return the nodes, in the order of the report."""
        if self._cells is None:
            self._cells = tuple(map(NUMACell.from_document, (self._document or {})["cells"]))
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
    """The JSON object that is kept of a report, and what is read from it once for all requests.

    It is as ``report_forms.numa_topology`` completes it.
    """

    __slots__ = ("topology",)

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        self.topology = NUMATopology(reported=document)


@dataclass(frozen=True, slots=True, kw_only=True)
class NUMATopologyLimits:
    """The allocation ratios of a host's NUMA nodes, and the networks that are asked.

    With ``packing`` the most used nodes are taken first, else the least used: what is taken away
    from a host is what its filter found. A selection does not show it.
    """

    cpu_allocation_ratio: float
    ram_allocation_ratio: float
    network_metadata: NetworkMetadata | None = None
    packing: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the limits as a selection shows them."""
        network = self.network_metadata
        return {
            "cpu_allocation_ratio": self.cpu_allocation_ratio,
            "ram_allocation_ratio": self.ram_allocation_ratio,
            "network_metadata": network and network.as_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceNUMACell:
    """One NUMA node of an instance.

    ``cpuset`` are its virtual CPUs that float, ``pcpuset`` those that are pinned; ``memory`` is
    in MB, ``pagesize`` in KiB or one of :data:`PAGES_SMALL`, :data:`PAGES_LARGE` and
    :data:`PAGES_ANY`; nothing is asked of pages where it is None or 0.
    """

    id: int
    cpuset: frozenset[int]
    pcpuset: frozenset[int] = frozenset()
    memory: int
    pagesize: int | None = None
    cpu_policy: str | None = None
    cpu_thread_policy: str | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any], position: int) -> Self:
        """Return the node that a request's JSON object describes; its id may be its position."""
        given: dict[str, Any] = {one.name: document.get(one.name) for one in fields(cls)}
        given |= {name: frozenset(given[name] or ()) for name in ("cpuset", "pcpuset")}
        return cls(**{**given, "id": position if given["id"] is None else given["id"]})

    @property
    def total_cpus(self) -> frozenset[int]:
        """Return its virtual CPUs, pinned or not."""
        return self.cpuset | self.pcpuset

    def __len__(self) -> int:
        return len(self.total_cpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedNUMACell(InstanceNUMACell):
    """One NUMA node of an instance on a host: ``id`` is that of the host's node.

    ``cpu_pinning`` has the host's CPU of each virtual one that is pinned, ``cpuset_reserved`` the
    host's CPUs for the emulator's threads alone; ``pagesize`` is a size, not a word for one.
    """

    cpu_pinning: Mapping[int, int] = field(default_factory=dict)
    cpuset_reserved: frozenset[int] = frozenset()

    @property
    def host_cpus(self) -> frozenset[int]:
        """Return the CPUs of the host that are for this node alone."""
        return self.cpuset_reserved.union(self.cpu_pinning.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceNUMATopology:
    """The NUMA nodes of an instance, and where its emulator's threads run; false without nodes."""

    cells: tuple[InstanceNUMACell, ...] = ()
    emulator_threads_policy: str | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the topology that a request's JSON object (contract, ``numa_topology``) gives."""
        cells = document["cells"]
        return cls(
            cells=tuple(map(InstanceNUMACell.from_document, cells, range(len(cells)))),
            emulator_threads_policy=document.get("emulator_threads_policy"),
        )

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def cpu_policy(self) -> str | None:
        """Return the CPU policy, of which all nodes have the same."""
        return self.cells[0].cpu_policy if self.cells else None

    @property
    def emulator_threads_isolated(self) -> bool:
        """Return whether the emulator's threads have a CPU of their own."""
        return self.emulator_threads_policy == "isolate"


#: So many steps every host may cost: the first arrangement is always tried.
LEAST_STEPS = 50
#: How many steps it costs to judge a set of nodes, by the devices and networks near them.
JUDGED = 10


class Effort:
    """How much work the search for arrangements may still make, on all hosts of one request."""

    def __init__(self, steps: int | None = None) -> None:
        """Allow so many steps, by default :data:`MAX_NUMA_STEPS`."""
        self._left = MAX_NUMA_STEPS if steps is None else steps
        self._here, self._candidates = LEAST_STEPS, MAX_NUMA_CANDIDATES
        #: Whether the last search ended before all was tried.
        self.gave_up = False
        #: Whether it found that the items have no places at once, whichever are accepted.
        self.has_no_room = False

    @property
    def left(self) -> int:
        """Return how many steps there still are for this host."""
        return max(self._left, self._here)

    def next_host(self) -> None:
        """Allow a further host the least."""
        self._here = LEAST_STEPS

    def next_candidate(self) -> bool:
        """Return whether a further candidate of the host may be tried, and allow it the least."""
        if self._candidates:
            self._candidates -= 1
            self._here = LEAST_STEPS
        return self.left > 0

    def spend(self, steps: int) -> None:
        """Take away what a search has cost."""
        self._left, self._here = max(self._left - steps, 0), max(self._here - steps, 0)


def first_arrangement(
    places: Sequence[Iterable[int]],
    accepts: Callable[[Sequence[int]], bool | None],
    kinds: Callable[[], Sequence[Hashable]] | None = None,
    effort: Effort | None = None,
    judged: int = JUDGED,
) -> tuple[int, ...] | None:
    """Return a place for each item, no place twice, that ``accepts`` takes; None without any.

    ``places`` has those where each item fits, best first, and is iterated many times: the earlier
    an item, the more its order counts. ``accepts`` must not care about the order of the places,
    nor which of several places of equal ``kinds`` there are; without those each place is its own.

    What is left does not depend on how the places taken so far were shared out, nor on which were
    taken of equal kinds where the same items fit. So each such choice is tried once: the
    number of ways does not grow with the factorial of the nodes (nova's bug 1978372). And once an
    item was left without a place it is seen ahead whether the others have room. None is
    returned as well where the search gives up, and ``effort`` says so. After the first time, to ask
    ``accepts`` costs ``judged`` steps.
    """
    return _Search(places, accepts, kinds, effort or Effort(), judged).run()


class _Search:
    def __init__(
        self,
        places: Sequence[Iterable[int]],
        accepts: Callable[[Sequence[int]], bool | None],
        kinds: Callable[[], Sequence[Hashable]] | None,
        effort: Effort,
        judged: int,
    ) -> None:
        self._places, self._accepts, self._kinds, self._effort = places, accepts, kinds, effort
        # The first arrangement is judged with the least that each host may cost.
        self._next_costs, self._judged = JUDGED, judged
        self._steps = effort.left
        self._hopeless: set[tuple[int, ...]] = set()
        # Whether an item was left without a place, and whether all are, wherever each goes.
        self._is_tight = self._has_no_room = False

    def run(self) -> tuple[int, ...] | None:
        before, effort = self._steps, self._effort
        found = self._rest(())
        effort.has_no_room = self._has_no_room
        effort.gave_up = found is None and self._steps < 0 and not self._has_no_room
        effort.spend(before - self._steps)
        return found

    def _rest(self, taken: tuple[int, ...]) -> tuple[int, ...] | None:
        # Nothing is asked about the places before the first failure: most hosts have none.
        if self._hopeless and self._alike(taken) in self._hopeless:
            return None
        complete = len(taken) == len(self._places)
        self._steps -= self._next_costs if complete else 1
        if self._steps < 0:
            return None
        if complete:
            self._next_costs = self._judged
            found = taken if self._accepts(taken) else None
        elif self._is_tight and not self._have_room(taken):
            found = None
        else:
            rest = (self._rest((*taken, place)) for place in self._free(taken))
            found = next((way for way in rest if way is not None), None)
        if found is None:
            self._hopeless.add(self._alike(taken))
        return found

    def _free(self, taken: tuple[int, ...]) -> Iterable[int]:
        were_any = False
        for place in self._places[len(taken)]:
            if self._steps < 0 or self._has_no_room:
                return
            if place not in taken:
                were_any = True
                yield place
        if not were_any and not self._is_tight:
            # Most hosts are never so full that it is worth to look ahead.
            self._is_tight = True
            self._has_no_room = not self._have_room(())

    def _have_room(self, taken: Sequence[int]) -> bool:
        """Return whether the other items have a place each at once, whichever are accepted.

        Each in turn gets one, for which earlier ones move on where they can (augmenting paths).
        """
        holders: dict[int, int] = {}

        def settle(item: int, seen: set[int]) -> bool:
            for place in self._fitting[item]:
                if place not in seen:
                    seen.add(place)
                    if place not in holders or settle(holders[place], seen):
                        holders[place] = item
                        return True
            return False

        rest = range(len(taken), len(self._places))
        self._steps -= len(rest)
        return all(settle(item, set(taken)) for item in rest)

    @cached_property
    def _fitting(self) -> Sequence[Sequence[int]]:
        return [tuple(places) for places in self._places]

    def _alike(self, taken: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(map(self._classes.__getitem__, taken)))

    @cached_property
    def _classes(self) -> Mapping[int, int]:
        """Return a number for each place, equal where the kind and the items that fit are."""
        fits: dict[int, list[int]] = {}
        for item, places in enumerate(self._places):
            for place in places:
                fits.setdefault(place, []).append(item)
        kinds = range(max(fits, default=-1) + 1) if self._kinds is None else self._kinds()
        numbers: dict[Hashable, int] = {}
        return {
            place: numbers.setdefault((kinds[place], tuple(items)), len(numbers))
            for place, items in fits.items()
        }
