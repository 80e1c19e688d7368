"""The PCI devices that a host has free, in pools of devices that are alike, and where they are.

Source: nova's documentation, "Attaching physical PCI devices to guests", and nova 34's
``PciDeviceStats`` observed.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self
from weakref import WeakValueDictionary

from oslo_utils.strutils import bool_from_string

from placement_sched.errors import Conflict
from placement_sched.model.hardware.numa import InstanceNUMACell
from placement_sched.model.hardware.pci_requests import (
    OF_PLACEMENT,
    InstancePCIRequest,
    InstancePCIRequests,
)
from placement_sched.model.verdict import Refusal

Pool = dict[str, Any]
Pools = Sequence[Pool]


class ReportedPool(Pool):
    """A pool as a host reports it; pools of devices that are alike have the same ``kind``.

    The kind is everything but :data:`_OF_A_HOST`; None where that cannot be compared. So of ten
    thousand hosts each kind is compared with a request once.
    """

    __slots__ = ("kind",)

    def __init__(self, pool: Mapping[str, Any], kind: Hashable = None) -> None:
        """Copy a pool; of one of a known ``kind``, that is the copy's."""
        super().__init__(pool)
        self.kind = kind

    @classmethod
    def of(cls, pool: Mapping[str, Any]) -> Self:
        """Return a pool of a report."""
        try:
            kind = frozenset(item for item in pool.items() if item[0] not in _OF_A_HOST)
            return cls(pool, _KINDS.setdefault(kind, kind))
        except TypeError:  # a plugin's pools may hold lists
            return cls(pool)


#: The resource providers of each group of a candidate: uuids by the group's suffix.
Mappings = Mapping[str, Sequence[str]]

#: Types of device that are given only to requests for this type.
_ONLY_IF_NAMED = ("type-PF", "vdpa")
#: What differs between pools of devices that are alike.
_OF_A_HOST = frozenset({"count", "rp_uuid"})
#: Each kind once, so that equal ones are the same object.
_KINDS: WeakValueDictionary[Hashable, Hashable] = WeakValueDictionary()
#: So many keys are looked for in a pool one by one.
_FEW = 16


@dataclass(frozen=True)
class Demand:
    """One request at one host: ``cells`` are the host's NUMA nodes that the instance is to be on.

    ``sockets`` has the socket of each of the host's NUMA nodes, ``providers`` how many devices
    placement gives of each resource provider; where it gives none, any pool may be used.
    """

    request: InstancePCIRequest
    providers: Counter[str]
    cells: frozenset[int]
    sockets: Mapping[int, int | None]

    @property
    def count(self) -> int:
        """Return how many devices are asked for."""
        return self.request.count

    @cached_property
    def policy(self) -> str:
        """Return how near to the cells the devices must be."""
        return self.request.numa_policy or "legacy"

    def values(self, key: str) -> list[Any]:
        """Return the value of ``key`` in each spec, None where it is not set."""
        return [spec.get(key) for spec in self.request.spec]


def providers_of(request: InstancePCIRequest, mappings: Mappings | None) -> Counter[str]:
    """Return how many devices a request is given of each provider; nothing where none is known.

    The group of each device is named ``<request_id>-<number>``. Without mappings the ``rp_uuids``
    of the request's first spec count, which nova writes there once hosts are chosen. Placement
    does not know the devices of ports.
    """
    if request.source == InstancePCIRequest.NEUTRON_PORT:
        return Counter()
    if not mappings:
        uuids = request.spec[0].get("rp_uuids") if request.spec else None
        return Counter(str(uuids).split(",")) if uuids else Counter()
    return Counter(
        providers[0]
        for suffix, providers in mappings.items()
        if providers and suffix.rpartition("-")[:2] == (str(request.request_id), "-")
    )


def with_providers(requests: InstancePCIRequests, mappings: Mappings) -> InstancePCIRequests:
    """Return the requests with the providers of their devices in ``rp_uuids``, as nova writes them.

    So that it is known later, with other candidates, which devices were taken.
    """
    found = []
    for one in requests.requests:
        providers = ",".join(providers_of(one, mappings).elements())
        specs = tuple({**spec, "rp_uuids": providers} for spec in one.spec)
        found.append(replace(one, spec=specs) if providers else one)
    return InstancePCIRequests(requests=tuple(found))


def left_after(pools: Pools, demand: Demand) -> list[Pool] | None:
    """Return the pools without the devices that a request takes, or None if they do not suffice.

    Those that match are emptied in their order, but near ones first; where placement names
    providers, theirs. Pools that are empty then are left out.
    """
    fitting = pools
    for _, keep in _STEPS:
        before, fitting = fitting, keep(fitting, demand)
        # Most steps leave the pools as they are: of ten thousand hosts that need not be counted.
        if fitting is not before and (not fitting or number_of(fitting) < demand.count):
            return None
    if demand.providers:
        if _is_split(pools):
            return None
        left = {id(pool): pool["count"] - demand.providers[pool["rp_uuid"]] for pool in fitting}
    else:
        left = dict(_emptied(fitting, demand.count))
    rest = []
    for pool in pools:
        number = left.get(id(pool))
        if number is None:
            rest.append(pool)
        elif number > 0:
            rest.append(_with_count(pool, number))
    return rest


def shortage(pools: Pools, demand: Demand) -> Refusal | None:
    """Return why the pools do not suffice, step by step with numbers, or None where they do."""
    fitting, steps = pools, [f"{number_of(pools)} free"]
    for name, keep in _STEPS:
        before, fitting = number_of(fitting), keep(fitting, demand)
        has = number_of(fitting)
        if has != before:
            steps.append(f"{has} {name(demand)}")
        if not fitting or has < demand.count:
            return _refusal(demand, steps, has)
    if demand.providers and _is_split(pools):
        steps.append("but devices of one resource provider are in several pools")
        return _refusal(demand, steps, number_of(fitting))
    return None


def as_specified(pools: Pools, request: InstancePCIRequest) -> list[Pool]:
    """Return the pools whose devices are as a request specifies."""
    if request.named & _OF_A_HOST:
        return [pool for pool in pools if _suits(pool, request)]
    suits = request.suits
    found: list[Pool] = []
    for pool in pools:
        kind = pool.kind if isinstance(pool, ReportedPool) else None
        suitable = suits.get(kind)
        if suitable is None:
            suitable = _suits(pool, request)
            if kind is not None:
                suits[kind] = suitable
        if suitable:
            found.append(pool)
    return found


def number_of(pools: Iterable[Mapping[str, Any]]) -> int:
    """Return how many devices there are in pools."""
    return sum(pool["count"] for pool in pools)


def _refusal(demand: Demand, steps: Iterable[str], has: int) -> Refusal:
    alias, port = demand.request.alias_name, demand.request.requester_id
    asker = f"port {port}" if alias is None else f"PCI alias {alias}"
    devices = f"{demand.count} device{'s' * (demand.count != 1)}"
    return Refusal(f"{devices} for {asker} requested; {', '.join(steps)}", demand.count, has)


def _emptied(pools: Pools, count: int) -> Iterator[tuple[int, int]]:
    for pool in pools:
        taken = min(count, pool["count"])
        count -= taken
        yield id(pool), pool["count"] - taken
        if not count:
            return


def _with_count(pool: Pool, number: int) -> Pool:
    changed = {**pool, "count": number}
    return ReportedPool(changed, pool.kind) if isinstance(pool, ReportedPool) else changed


def _is_split(pools: Pools) -> bool:
    """Return whether devices of one provider are in several pools: which to take is not known."""
    uuids = [pool["rp_uuid"] for pool in pools if "rp_uuid" in pool]
    return len(set(uuids)) < len(uuids)


def _suits(pool: Pool, request: InstancePCIRequest) -> bool:
    """Return whether the devices of a pool are as one of the request's specs has them."""
    # There are many more pools than kinds of them, and a request may name more keys than they have.
    named, suits = request.named, request.suits
    if len(named) <= _FEW:
        has: Hashable = tuple(map(pool.get, named))
    else:
        has = tuple(item for item in pool.items() if item[0] in named)
    try:
        suitable = suits.get(has)
    except TypeError:  # a plugin's pools may hold lists
        return any(_matches(pool, spec) for spec in request.spec)
    if suitable is None:
        suitable = suits[has] = any(_matches(pool, spec) for spec in request.spec)
    return suitable


def _matches(pool: Pool, spec: Mapping[str, Any]) -> bool:
    for key, asked in spec.items():
        # Without regard to case; numbers of a pool are like no text of a spec.
        has = pool.get(key)
        compared = has.lower() if isinstance(has, str) else has
        if key not in OF_PLACEMENT and compared != (None if asked is None else str(asked).lower()):
            return False
    return True


def _near_enough(pools: Pools, demand: Demand) -> Pools:
    if not demand.cells:
        return pools
    near = [pool for pool in pools if pool["numa_node"] in demand.cells]
    if demand.policy == "required" or number_of(near) >= demand.count:
        return near
    if demand.policy == "socket":
        if None in demand.sockets.values():  # unless the host reports every socket
            return ()
        wanted = {demand.sockets[cell] for cell in demand.cells if cell in demand.sockets}
        return [pool for pool in pools if demand.sockets.get(pool["numa_node"]) in wanted]
    near_or_unknown = [pool for pool in pools if pool["numa_node"] in {None, *demand.cells}]
    if demand.policy == "legacy" or number_of(near_or_unknown) >= demand.count:
        return near_or_unknown
    return near_or_unknown + [pool for pool in pools if pool not in near_or_unknown]


def _of_types_asked(pools: Pools, demand: Demand) -> Pools:
    named, types = demand.values("dev_type"), [pool.get("dev_type") for pool in pools]
    withheld = [kind for kind in _ONLY_IF_NAMED if kind not in named]
    if not any(kind in types for kind in withheld):
        return pools
    return [pool for pool in pools if pool.get("dev_type") not in withheld]


def _managed_here(pools: Pools, demand: Demand) -> Pools:
    managed = [pool.get("remote_managed") for pool in pools]
    if not any(managed) or any(map(bool_from_string, demand.values("remote_managed"))):
        return pools
    return [pool for pool in pools if not bool_from_string(pool.get("remote_managed"))]


def _of_providers(pools: Pools, demand: Demand) -> Pools:
    if not demand.providers:
        return pools
    wanted: Mapping[Any, int] = demand.providers
    return [pool for pool in pools if 0 < wanted.get(pool.get("rp_uuid"), 0) <= pool["count"]]


def _migratable(pools: Pools, demand: Demand) -> Pools:
    if not demand.request.is_live_migratable():
        return pools
    return [pool for pool in pools if pool.get("live_migratable") == "true"]


def _spec_of(demand: Demand) -> str:
    specs = demand.request.described
    return f"with {specs}" if specs.strip(" or") else "as specified"


def _cells_of(demand: Demand) -> str:
    cells = ", ".join(map(str, sorted(demand.cells)))
    return f"near enough to NUMA nodes {cells} (policy {demand.policy})"


def _providers_of(demand: Demand) -> str:
    providers = ", ".join(f"{number} of {uuid}" for uuid, number in demand.providers.items())
    return f"where the allocation candidate takes them ({providers})"


#: What each step leaves, in words, and how.
_STEPS: tuple[tuple[Callable[[Demand], str], Callable[[Pools, Demand], Pools]], ...] = (
    (_spec_of, lambda pools, demand: as_specified(pools, demand.request)),
    (_cells_of, _near_enough),
    (lambda _: "besides physical functions and vdpa devices not requested", _of_types_asked),
    (lambda _: "besides remote managed ones not requested", _managed_here),
    (_providers_of, _of_providers),
    (lambda _: "live migratable", _migratable),
)


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
                refusal = shortage(pools, demand)
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
                return shortage(pools, demand)
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
        asked = [(one, providers_of(one, provider_mapping)) for one in requests]
        compete = len(requests) > 1 and any(found for _, found in asked)
        by_node: dict[int | None, list[str]] = {}
        specified = (as_specified(self.now, request) for request in requests)
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
            found = providers_of(request, mappings)
            demand = Demand(request, found, ids, self._reported.sockets)
            left = left_after(pools, demand)
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
