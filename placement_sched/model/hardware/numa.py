# SPDX-License-Identifier: Apache-2.0
"""NUMA nodes of hosts and instances, as in nova's NUMATopology.

Values are immutable, so that requests can share the values of a report.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self

from placement_sched.limits import MAX_NUMA_CANDIDATES, MAX_NUMA_STEPS
from placement_sched.model.document import PluginValue

#: nova's numbers for the page size keywords, in place of a size in KiB.
PAGES_SMALL, PAGES_LARGE, PAGES_ANY = -1, -2, -3


@dataclass(frozen=True, slots=True, kw_only=True)
class NUMAPagesTopology(PluginValue):
    """The memory pages of a NUMA node that have the same size (in KiB)."""

    size_kb: int
    total: int
    used: int = 0
    reserved: int = 0

    @property
    def free(self) -> int:
        """Return the number of free pages."""
        return self.total - self.used - self.reserved

    @property
    def free_kb(self) -> int:
        """Return the free memory in KiB."""
        return self.free * self.size_kb


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkMetadata(PluginValue):
    """The networks near to a NUMA node, or the networks of an instance."""

    physnets: frozenset[str] = frozenset()
    tunneled: bool = False

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read the networks from their JSON object."""
        physnets = frozenset(document.get("physnets") or ())
        return cls(physnets=physnets, tunneled=bool(document.get("tunneled")))

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object that :meth:`from_document` reads."""
        return {"physnets": sorted(self.physnets), "tunneled": self.tunneled}


@dataclass(frozen=True, kw_only=True)
class NUMACell(PluginValue):
    """A NUMA node of a host, with memory in MB.

    ``cpuset`` are the shared CPUs, and ``pcpuset`` the CPUs for pinning. A CPU may be in both sets.
    ``siblings`` has the threads of each core. Derived values are cached, because many requests use
    the same report.
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
        """Read a NUMA node from a cell of a stored report."""
        values = {item.name: document[item.name] for item in fields(cls)}
        values |= {name: frozenset(values[name]) for name in ("cpuset", "pcpuset", "pinned_cpus")}
        values["siblings"] = tuple(map(frozenset, values["siblings"]))
        values["mempages"] = tuple(NUMAPagesTopology(**pages) for pages in values["mempages"])
        values["network_metadata"] = NetworkMetadata.from_document(values["network_metadata"])
        return cls(**values)

    @cached_property
    def free_pcpus(self) -> frozenset[int]:
        """Return the CPUs for pinning that are not pinned."""
        return self.pcpuset - self.pinned_cpus

    @cached_property
    def free_siblings(self) -> tuple[frozenset[int], ...]:
        """Return the threads of each core that are free for pinning, maybe none."""
        return tuple(threads & self.free_pcpus for threads in self.siblings)

    @cached_property
    def free_cores(self) -> tuple[tuple[int, ...], ...]:
        """Return the free threads of each core that has a free thread.

        If the host reports no cores, each CPU is a core.
        """
        if not self.siblings:
            return tuple((cpu,) for cpu in sorted(self.free_pcpus))
        return tuple(tuple(sorted(threads)) for threads in self.free_siblings if threads)

    @property
    def avail_pcpus(self) -> int:
        """Return the number of free CPUs for pinning."""
        return len(self.free_pcpus)

    @property
    def avail_memory(self) -> int:
        """Return the free memory in MB."""
        return self.memory - self.memory_usage

    @cached_property
    def has_threads(self) -> bool:
        """Return whether any core has several threads."""
        return any(len(threads) > 1 for threads in self.siblings)

    def find_pages(self, size_kb: int) -> NUMAPagesTopology | None:
        """Return the pages of a size in KiB, or None without such pages."""
        return next((pages for pages in self.mempages if pages.size_kb == size_kb), None)

    def can_fit_pagesize(self, pagesize: int, memory: int, use_free: bool = True) -> bool:
        """Return whether ``memory`` (KiB) fits into whole pages of this size.

        With ``use_free``, only free pages count. Raises :class:`ValueError` if the node has no
        pages of this size.
        """
        pages = self.find_pages(pagesize)
        if pages is None:
            raise ValueError(f"NUMA node {self.id} has no pages of {pagesize} KiB")
        number = pages.free if use_free else pages.total
        return memory <= number * pagesize and memory % pagesize == 0


class NUMATopology(PluginValue):
    """The NUMA nodes of a host, false in conditions without nodes.

    A report is parsed on first access to its nodes, which most requests never need.
    """

    __slots__ = ("_cells", "_document")

    def __init__(
        self, cells: Iterable[NUMACell] = (), *, reported: Mapping[str, Any] | None = None
    ) -> None:
        self._document = reported
        self._cells = tuple(cells) if reported is None else None

    @property
    def cells(self) -> tuple[NUMACell, ...]:
        """Return the nodes in the order of the report."""
        if self._cells is None:
            self._cells = tuple(map(NUMACell.from_document, (self._document or {})["cells"]))
        return self._cells

    @property
    def has_threads(self) -> bool:
        """Return whether any core of any node has several threads."""
        return any(cell.has_threads for cell in self.cells)

    def __len__(self) -> int:
        return len(self.cells)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NUMATopology) and self.cells == other.cells

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"NUMATopology(cells={self.cells!r})"


class ReportedTopology(dict[str, Any]):
    """The stored JSON object of a NUMA topology, parsed once for all requests.

    It has all keys, because ``schemas/node_report.py`` added the keys that the report lacked.
    """

    __slots__ = ("topology",)

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        self.topology = NUMATopology(reported=document)


@dataclass(frozen=True, slots=True, kw_only=True)
class NUMATopologyLimits(PluginValue):
    """Limits for the use of a host's NUMA nodes.

    ``network_metadata`` has the requested networks. With ``packing`` the most used nodes are tried
    first, otherwise the least used nodes. The JSON object in a selection omits ``packing``.
    """

    cpu_allocation_ratio: float
    ram_allocation_ratio: float
    network_metadata: NetworkMetadata | None = None
    packing: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object for the limits of a selection."""
        network = self.network_metadata
        return {
            "cpu_allocation_ratio": self.cpu_allocation_ratio,
            "ram_allocation_ratio": self.ram_allocation_ratio,
            "network_metadata": network and network.as_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceNUMACell(PluginValue):
    """A NUMA node of an instance, with memory in MB.

    ``cpuset`` are its floating virtual CPUs, and ``pcpuset`` its pinned virtual CPUs. ``pagesize``
    is in KiB, or :data:`PAGES_SMALL`, :data:`PAGES_LARGE` or :data:`PAGES_ANY`. None or 0 means
    that no page size is requested.
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
        """Read a NUMA node from JSON, with its position as default id."""
        values: dict[str, Any] = {item.name: document.get(item.name) for item in fields(cls)}
        values |= {name: frozenset(values[name] or ()) for name in ("cpuset", "pcpuset")}
        return cls(**{**values, "id": position if values["id"] is None else values["id"]})

    @property
    def total_cpus(self) -> frozenset[int]:
        """Return the virtual CPUs of the node, pinned or not."""
        return self.cpuset | self.pcpuset

    def __len__(self) -> int:
        return len(self.total_cpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedNUMACell(InstanceNUMACell):
    """A NUMA node of an instance, placed on the host's node ``id``.

    ``cpu_pinning`` maps pinned virtual CPUs to CPUs of the host. ``cpuset_reserved`` are CPUs of
    the host that only the emulator's threads use. ``pagesize`` is a size, never a keyword.
    """

    cpu_pinning: Mapping[int, int] = field(default_factory=dict)
    cpuset_reserved: frozenset[int] = frozenset()

    @property
    def host_cpus(self) -> frozenset[int]:
        """Return the CPUs of the host that only this node of the instance uses."""
        return self.cpuset_reserved.union(self.cpu_pinning.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceNUMATopology(PluginValue):
    """The NUMA nodes of an instance, and its emulator threads policy.

    An object without nodes is false in conditions.
    """

    cells: tuple[InstanceNUMACell, ...] = ()
    emulator_threads_policy: str | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read the topology from ``numa_topology`` of a request spec."""
        cells = document["cells"]
        return cls(
            cells=tuple(map(InstanceNUMACell.from_document, cells, range(len(cells)))),
            emulator_threads_policy=document.get("emulator_threads_policy"),
        )

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def cpu_policy(self) -> str | None:
        """Return the CPU policy, which is the same for all nodes."""
        return self.cells[0].cpu_policy if self.cells else None

    @property
    def emulator_threads_isolated(self) -> bool:
        """Return whether the emulator's threads have a CPU of their own."""
        return self.emulator_threads_policy == "isolate"


#: Minimum number of steps per host, so that at least the first arrangement is checked.
MIN_STEPS = 50
#: Cost, in steps, of checking a set of NUMA nodes against devices and networks.
STEPS_PER_CHECK = 10


class FitBudget:
    """The steps that the NUMA searches of a request may take on all hosts."""

    def __init__(self, steps: int | None = None) -> None:
        """Allow ``steps`` steps, by default :data:`MAX_NUMA_STEPS`."""
        self._request_steps = MAX_NUMA_STEPS if steps is None else steps
        self._host_steps, self._candidates = MIN_STEPS, MAX_NUMA_CANDIDATES
        #: Whether the last search ended before all arrangements were tried.
        self.is_exhausted = False
        #: Whether the last search proved that the instance's nodes do not all fit at once.
        self.is_infeasible = False

    @property
    def remaining(self) -> int:
        """Return the number of steps that remain for the current host."""
        return max(self._request_steps, self._host_steps)

    def start_host(self) -> None:
        """Allow the next host at least :data:`MIN_STEPS` steps."""
        self._host_steps = MIN_STEPS

    def start_candidate(self) -> bool:
        """Return whether a further allocation candidate may be tried.

        The first :data:`MAX_NUMA_CANDIDATES` candidates get at least :data:`MIN_STEPS` steps each.
        """
        if self._candidates:
            self._candidates -= 1
            self._host_steps = MIN_STEPS
        return self.remaining > 0

    def consume(self, steps: int) -> None:
        """Subtract the steps of a search from the budget."""
        self._request_steps = max(self._request_steps - steps, 0)
        self._host_steps = max(self._host_steps - steps, 0)


def find_arrangement(
    places: Sequence[Iterable[int]],
    accepts: Callable[[Sequence[int]], bool | None],
    kinds: Callable[[], Sequence[Hashable]] | None = None,
    budget: FitBudget | None = None,
    steps_per_check: int = STEPS_PER_CHECK,
) -> tuple[int, ...] | None:
    """Return the first arrangement of items that ``accepts`` allows.

    The items are the NUMA nodes of an instance, and the places the NUMA nodes of a host. An
    arrangement has a different place for each item. Returns None without such an arrangement.
    ``places`` has the places that fit each item, best first, and is iterated repeatedly. Earlier
    items get their best places first. The result of ``accepts`` must be the same for another order
    of the places, and for other places of equal ``kinds``. Without ``kinds`` all places differ.

    The kinds of the used places determine whether the remaining items fit. Therefore, each
    combination of kinds is tried only once, and the number of attempts does not grow with the
    factorial of the nodes (nova's bug 1978372). Once an item found no free place, the search checks
    before each further step that all remaining items can have a place. If ``budget`` is used
    up, the result is None, and ``budget.is_exhausted`` is true. Each call of ``accepts`` after the
    first costs ``steps_per_check`` steps.
    """
    return _Search(places, accepts, kinds, budget or FitBudget(), steps_per_check).run()


class _Search:
    def __init__(
        self,
        places: Sequence[Iterable[int]],
        accepts: Callable[[Sequence[int]], bool | None],
        kinds: Callable[[], Sequence[Hashable]] | None,
        budget: FitBudget,
        steps_per_check: int,
    ) -> None:
        self._places, self._accepts, self._kinds, self._budget = places, accepts, kinds, budget
        # The first arrangement costs the minimum for a host.
        self._next_costs, self._steps_per_check = STEPS_PER_CHECK, steps_per_check
        self._steps = budget.remaining
        self._failed_kinds: set[tuple[int, ...]] = set()
        # Whether an item ever found no free place, and whether the items cannot all have a place.
        self._is_tight = self._is_infeasible = False

    def run(self) -> tuple[int, ...] | None:
        steps_before, budget = self._steps, self._budget
        arrangement = self._arrange(())
        budget.is_infeasible = self._is_infeasible
        budget.is_exhausted = arrangement is None and self._steps < 0 and not self._is_infeasible
        budget.consume(steps_before - self._steps)
        return arrangement

    def _arrange(self, used: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the first accepted arrangement that begins with the used places.

        The search goes down a tree, whose levels are the items. With 2 items on 3 places::

            ()  ->  (0,)  ->  (0, 1)  rejected
                              (0, 2)  rejected: (0,) has failed, and so has its kind
                    (1,)  ->  not searched if place 1 is of the kind of place 0
                    (2,)  ->  (2, 0)  accepted
        """
        # Kinds are computed only after the first failure, because most hosts have no failure.
        if self._failed_kinds and self._list_kinds(used) in self._failed_kinds:
            return None
        if len(used) == len(self._places):
            arrangement = self._check(used)
        else:
            arrangement = self._place_next(used)
        if arrangement is None and self._steps >= 0:
            self._failed_kinds.add(self._list_kinds(used))
        return arrangement

    def _check(self, arrangement: tuple[int, ...]) -> tuple[int, ...] | None:
        self._steps -= self._next_costs
        if self._steps < 0:
            return None
        self._next_costs = self._steps_per_check
        return arrangement if self._accepts(arrangement) else None

    def _place_next(self, used: tuple[int, ...]) -> tuple[int, ...] | None:
        self._steps -= 1
        if self._steps < 0 or (self._is_tight and not self._can_place_all(used)):
            return None
        has_free = False
        for place in self._places[len(used)]:
            if self._steps < 0 or self._is_infeasible:
                return None
            if place not in used:
                has_free = True
                if (arrangement := self._arrange((*used, place))) is not None:
                    return arrangement
        if not has_free and not self._is_tight:
            # On most hosts an item always finds a place, so that this check would only cost time.
            self._is_tight = True
            self._is_infeasible = not self._can_place_all(())
        return None

    def _can_place_all(self, used: Sequence[int]) -> bool:
        """Return whether all remaining items can get different places."""
        items: dict[int, int] = {}  # a bipartite matching, extended by augmenting paths

        def assign_place(item: int, visited: set[int]) -> bool:
            for place in self._fitting[item]:
                if place not in visited:
                    visited.add(place)
                    if place not in items or assign_place(items[place], visited):
                        items[place] = item
                        return True
            return False

        remaining = range(len(used), len(self._places))
        self._steps -= len(remaining)
        return all(assign_place(item, set(used)) for item in remaining)

    @cached_property
    def _fitting(self) -> Sequence[Sequence[int]]:
        return [tuple(places) for places in self._places]

    def _list_kinds(self, used: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(map(self._kind_numbers.__getitem__, used)))

    @cached_property
    def _kind_numbers(self) -> Mapping[int, int]:
        """Map places to numbers of their kind.

        Places of the same kind that fit the same items have the same number.
        """
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
