"""What hosts still have for instances of a request, each alone or of providers that they share.

Where each host may take of all shared providers of its component, whichever it chose, an order of
placing does not matter: the component takes what its hosts take, and at most what the pool has. Any
other component depends on that order.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from placement_sched.candidates.providers import ProviderSource
from placement_sched.model.candidates_query import AllocationRequest, Candidates
from placement_sched.scheduler.host_state import HostState, candidates_of

#: A way to place an instance: the amounts that it takes, each with its place in ``Stock.free``.
Way = tuple[tuple[int, int], ...]

#: Below it a floating point number is a whole number exactly.
_EXACT = 2.0**53


class Stop(NamedTuple):
    """Why a host takes no more: a resource class that ran out, or the stage that refuses it."""

    reason: str
    detail: str = ""
    is_resource: bool = False


#: The stop of a host whose count did not end in time.
UNFINISHED = Stop("capacity_budget")


@dataclass(slots=True)
class Stock:
    """What is free of what candidates use, and how candidates name it.

    ``free`` has a place for each provider, by the number in ``rows``, of each class, by the place
    of its first in ``firsts``; it goes down as instances are placed. ``stops`` are for the classes
    in order. Places in ``pooled`` are those of a :class:`SharedPool`, and are part of no way.
    """

    rows: Mapping[str, int]
    free: list[int]
    firsts: Mapping[str, int]
    stops: Sequence[Stop]
    pooled: set[int] = field(default_factory=set)

    @classmethod
    def of(
        cls, source: ProviderSource, candidates: Candidates, classes: Mapping[str, int]
    ) -> "Stock":
        """Return what is free of all that these candidates use; ``classes`` are ids by name.

        Of two classes that are equally scarce the one of the lower id is named.
        """
        layouts = {id(request.layout): request.layout for request in candidates.requests}.values()
        used = {name for layout in layouts for amounts in layout.amounts for name in amounts}
        names = sorted(used, key=classes.__getitem__)
        ids = [provider.id for provider in candidates.providers]
        free: list[int] = []
        columns = source.free_columns(ids, [classes[name] for name in names]) if ids else {}
        for class_id, column in columns.items():
            if (np.abs(column) < _EXACT).all():
                free += column.astype(np.int64).tolist()
            else:
                known = source.free([(key, class_id) for key in ids])
                amounts = [known.get((key, class_id)) for key in ids]
                free += [each.amount if each else 0 for each in amounts]
        rows = {provider.uuid: row for row, provider in enumerate(candidates.providers)}
        firsts = {name: at * len(ids) for at, name in enumerate(names)}
        return cls(rows, free, firsts, [Stop(name, is_resource=True) for name in names])

    def way(self, candidate: Any) -> Way:
        """Return the way of a candidate, as the search made it or as JSON of it."""
        rows, firsts = self.rows, self.firsts
        if isinstance(candidate, AllocationRequest):
            parts: Iterable[tuple[str, Mapping[str, int]]] = zip(
                candidate.uuids, candidate.layout.amounts, strict=True
            )
        else:
            given = candidate["allocations"].items()
            parts = ((uuid, part["resources"]) for uuid, part in given)
        way = [
            (firsts[name] + rows[uuid], amount)
            for uuid, resources in parts
            for name, amount in resources.items()
        ]
        return tuple([each for each in way if each[0] not in self.pooled] if self.pooled else way)

    def times(self, way: Way) -> int:
        """Return how many instances may still be placed in this way."""
        free = self.free
        return min([free[place] // amount for place, amount in way], default=0)

    def take(self, way: Way, times: int = 1) -> None:
        """Note that so many instances are placed in this way."""
        for place, amount in way:
            self.free[place] -= amount * times

    def stop(self, place: int) -> Stop:
        """Return the stop for the class of a place."""
        return self.stops[place // len(self.rows)]

    def scarcest(self, way: Way) -> Stop:
        """Return the class of which the smallest part is left of what one instance asks."""
        free = self.free
        return self.stop(min([(free[place] / amount, place) for place, amount in way])[1])

    def free_for(self, ways: Iterable[Way]) -> dict[str, int]:
        """Return by class what is free of all that instances take of in these ways."""
        amounts: dict[str, int] = {}
        for place in {place for way in ways for place, _ in way}:
            name = self.stop(place).reason
            amounts[name] = amounts.get(name, 0) + max(self.free[place], 0)
        return amounts


@dataclass(frozen=True, slots=True, eq=False)
class SharedPool:
    """Shared providers with room for ``most`` instances, and the class that ends them.

    ``own`` is what each instance takes of its host itself, by class.
    """

    most: int
    stop: Stop
    own: Mapping[str, int]


@dataclass(slots=True, eq=False)
class HostCount:
    """How many instances a compute node takes, why it takes no more, and what is free there then.

    ``free`` is by resource class. Hosts with the same ``pool`` take together no more than that has.
    """

    host: str
    uuid: str | None
    stop: Stop = UNFINISHED
    pool: SharedPool | None = None
    instances: int = 0
    free: Mapping[str, int] | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class Ledger(HostCount):
    """The account of a host with candidates; ``every`` is by all of these, ``ways`` by those left.

    ``offers`` are candidates with their ways, if instances are placed by rounds. ``left`` is how
    many candidates it is still offered with when it takes no more.
    """

    state: HostState
    every: Sequence[Way]
    ways: Sequence[Way]
    offers: Sequence[tuple[Any, Way]] = ()
    left: int = 0

    @classmethod
    def of(cls, state: HostState, stock: Stock, pool: SharedPool | None) -> "Ledger":
        """Return the account of a host before anything is placed."""
        # The garbage collector leaves tuples of numbers alone: there may be tens of thousands.
        every = tuple([stock.way(each) for each in candidates_of(state)])
        return cls(state.host, state.uuid, pool=pool, state=state, every=every, ways=every)

    def keep_left(self, stock: Stock) -> None:
        """Keep only the ways that filters left."""
        candidates = candidates_of(self.state)
        if len(candidates) < len(self.every):
            self.ways = [stock.way(each) for each in candidates]

    def fill(self, stock: Stock) -> None:
        """Place as many instances as there is room for, each in the first way that is left."""
        for way in self.ways:
            if (times := stock.times(way)) > 0:
                stock.take(way, times)
                self.instances += times
        self.end(stock)

    def end(self, stock: Stock, stop: Stop | None = None) -> None:
        """Note why it takes no more; without a stop no way has room for another instance."""
        self.stop = stop or stock.scarcest((self.ways or self.every)[-1])
        if stop or self.ways is not self.every:
            # Candidates of a pool that take the same of the host stand for the pool: one counts.
            every = self.every if self.pool is None else set(self.every)
            self.left = sum([stock.times(way) > 0 for way in every])
        if self.stop.is_resource:
            self.free = stock.free_for(self.every)


def find_pools(
    candidates: Candidates, hosts: Sequence[HostState], stock: Stock
) -> Sequence[SharedPool | None] | None:
    """Return for each host the pool it takes of; None if the order of placing counts."""
    roots = {provider.uuid: provider.root_uuid for provider in candidates.providers}
    pools: list[SharedPool | None] = [None] * len(hosts)
    if all(roots[uuid] == each.root_uuid for each in candidates.requests for uuid in each.uuids):
        return pools
    ways = [[stock.way(each) for each in candidates_of(host)] for host in hosts]
    users: dict[int, set[int]] = defaultdict(set)
    for number, host_ways in enumerate(ways):
        for place in {place for way in host_ways for place, _ in way}:
            users[place].add(number)
    shared = {place: numbers for place, numbers in users.items() if len(numbers) > 1}
    for numbers in _components(shared.values()):
        pool = _pool([ways[at] for at in numbers], shared, stock)
        if pool is None:
            return None
        for at in numbers:
            pools[at] = pool
    stock.pooled.update(shared)
    return pools


def _components(linked: Iterable[set[int]]) -> list[set[int]]:
    """Return the sets that come of joining those with members in common."""
    sets: list[set[int]] = []
    for members in linked:
        touching = [each for each in sets if not each.isdisjoint(members)]
        sets = [each for each in sets if each.isdisjoint(members)]
        sets.append(members.union(*touching))
    return sets


def _pool(
    hosts: Sequence[Sequence[Way]], shared: Collection[int], stock: Stock
) -> SharedPool | None:
    """Return what hosts of these ways share; None where it has room for a number that varies."""
    parts = [[_split(way, shared) for way in ways] for ways in hosts]
    options = {pooled for pooled, _ in parts[0]}
    places = [place for way in options for place, _ in way]
    if () in options or len(places) != len(set(places)):
        return None
    for pairs in parts:
        owns = {own for _, own in pairs}
        if {pooled for pooled, _ in pairs} != options or len(pairs) != len(owns) * len(options):
            return None
    last = min(options, key=lambda way: (stock.times(way), way))
    own: Counter[str] = Counter()
    for place, amount in parts[0][0][1]:
        own[stock.stop(place).reason] += amount
    return SharedPool(sum(map(stock.times, options)), stock.scarcest(last), own)


def _split(way: Way, shared: Collection[int]) -> tuple[Way, Way]:
    """Return what is taken of shared providers, and what of a host's own."""
    pooled = sorted(each for each in way if each[0] in shared)
    own = (each for each in way if each[0] not in shared)
    return tuple(pooled), tuple(own)
