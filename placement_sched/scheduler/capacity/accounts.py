# SPDX-License-Identifier: Apache-2.0
"""Accounts of hosts and shared providers while instances are counted.

A way is an allocation candidate as pairs of a free amount and a requested amount. The stock of a
count (:class:`FreeCapacity`) has all free amounts. The hosts that share providers, directly or
through other hosts, are a component. If each host of a component can combine its own providers with
any of the shared providers, the order of placing does not matter: the shared providers are a pool,
and the component fits the sum of its hosts, up to the maximum of the pool. For any other component
the order matters.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from placement_sched.candidates.providers import ProviderSource
from placement_sched.model.candidates_query import AllocationRequest, Candidates
from placement_sched.scheduler.host_state import HostState, candidates_of

#: A way to place an instance: pairs of an index in ``FreeCapacity.free`` and an amount.
AllocationOption = tuple[tuple[int, int], ...]

#: Below this limit a float represents every integer exactly.
_MAX_EXACT_FLOAT = 2.0**53


class LimitReason(NamedTuple):
    """The limit of a host: an exhausted resource class, or the stage that rejects it."""

    reason: str
    detail: str = ""
    is_resource: bool = False


#: The limit of a host whose count did not finish in time.
UNFINISHED = LimitReason("capacity_budget")


@dataclass(slots=True)
class FreeCapacity:
    """Free amounts of the candidates' providers, by index.

    ``free`` has an element for each class and provider, at the index ``firsts`` of the class plus
    ``rows`` of the provider. The amounts decrease as instances are placed. ``stops`` has a limit
    for each class, in order. Indexes in ``pooled`` belong to a :class:`SharedPool`, and are left
    out of all ways.
    """

    rows: Mapping[str, int]
    free: list[int]
    firsts: Mapping[str, int]
    stops: Sequence[LimitReason]
    pooled: set[int] = field(default_factory=set)

    @classmethod
    def of(
        cls, source: ProviderSource, candidates: Candidates, classes: Mapping[str, int]
    ) -> "FreeCapacity":
        """Return the free amounts for these candidates.

        ``classes`` are class ids by name. Of two equally scarce classes, the class with the lower
        id is the limit.
        """
        layouts = {id(request.layout): request.layout for request in candidates.requests}.values()
        used = {name for layout in layouts for amounts in layout.amounts for name in amounts}
        names = sorted(used, key=classes.__getitem__)
        ids = [provider.id for provider in candidates.providers]
        free: list[int] = []
        columns = source.free_columns(ids, [classes[name] for name in names]) if ids else {}
        for class_id, column in columns.items():
            if (np.abs(column) < _MAX_EXACT_FLOAT).all():
                free += column.astype(np.int64).tolist()
            else:
                exact_free = source.free([(key, class_id) for key in ids])
                amounts = [exact_free.get((key, class_id)) for key in ids]
                free += [each.amount if each else 0 for each in amounts]
        rows = {provider.uuid: row for row, provider in enumerate(candidates.providers)}
        firsts = {name: index * len(ids) for index, name in enumerate(names)}
        return cls(rows, free, firsts, [LimitReason(name, is_resource=True) for name in names])

    def way(self, candidate: Any) -> AllocationOption:
        """Return the way of a candidate, which may be the candidate's JSON."""
        rows, firsts = self.rows, self.firsts
        if isinstance(candidate, AllocationRequest):
            parts: Iterable[tuple[str, Mapping[str, int]]] = zip(
                candidate.uuids, candidate.layout.amounts, strict=True
            )
        else:
            allocations = candidate["allocations"].items()
            parts = ((uuid, part["resources"]) for uuid, part in allocations)
        way = [
            (firsts[name] + rows[uuid], amount)
            for uuid, resources in parts
            for name, amount in resources.items()
        ]
        return tuple([each for each in way if each[0] not in self.pooled] if self.pooled else way)

    def times(self, way: AllocationOption) -> int:
        """Return the number of further instances that fit with these amounts."""
        free = self.free
        return min([free[index] // amount for index, amount in way], default=0)

    def take(self, way: AllocationOption, times: int = 1) -> None:
        """Subtract the amounts in ``way`` for each of a number of instances."""
        for index, amount in way:
            self.free[index] -= amount * times

    def stop(self, index: int) -> LimitReason:
        """Return the limit for the class at an index of ``free``."""
        return self.stops[index // len(self.rows)]

    def scarcest_class(self, way: AllocationOption) -> LimitReason:
        """Return the limit for the class with the smallest free amount per instance."""
        free = self.free
        return self.stop(min([(free[index] / amount, index) for index, amount in way])[1])

    def free_for(self, ways: Iterable[AllocationOption]) -> dict[str, int]:
        """Return the free amounts that these ways use, by class."""
        amounts: dict[str, int] = {}
        for index in {index for way in ways for index, _ in way}:
            name = self.stop(index).reason
            amounts[name] = amounts.get(name, 0) + max(self.free[index], 0)
        return amounts


@dataclass(frozen=True, slots=True, eq=False)
class SharedPool:
    """Shared providers with capacity for ``limit`` instances.

    ``stop`` is their scarcest resource class. ``own`` are the amounts that each instance uses on
    its host itself, by class.
    """

    limit: int
    stop: LimitReason
    own: Mapping[str, int]


@dataclass(slots=True, eq=False)
class HostCount:
    """The number of instances that fit on a compute node, and its limit.

    ``stop`` is the limit. ``free`` are the amounts by resource class that remain free. Hosts with
    the same ``pool`` together fit at most ``pool.limit`` instances.
    """

    host: str
    uuid: str | None
    stop: LimitReason = UNFINISHED
    pool: SharedPool | None = None
    instances: int = 0
    free: Mapping[str, int] | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class HostAccount(HostCount):
    """The account of a host with candidates.

    ``every`` are the ways of all candidates, and ``ways`` the ways of the candidates that passed
    the filters. If instances are placed in rounds, ``offers`` are candidates with their ways.
    ``left`` is the number of candidates that the search still finds for the full host.
    """

    state: HostState
    every: Sequence[AllocationOption]
    ways: Sequence[AllocationOption]
    offers: Sequence[tuple[Any, AllocationOption]] = ()
    left: int = 0

    @classmethod
    def of(cls, state: HostState, stock: FreeCapacity, pool: SharedPool | None) -> "HostAccount":
        """Return the account of a host before anything is placed."""
        # Tuples of numbers cost the garbage collector nothing: there may be tens of thousands.
        every = tuple([stock.way(each) for each in candidates_of(state)])
        return cls(state.host, state.uuid, pool=pool, state=state, every=every, ways=every)

    def keep_left(self, stock: FreeCapacity) -> None:
        """Keep only the ways of candidates that passed the filters."""
        candidates = candidates_of(self.state)
        if len(candidates) < len(self.every):
            self.ways = [stock.way(each) for each in candidates]

    def fill(self, stock: FreeCapacity) -> None:
        """Place as many instances as fit, each in the first remaining way."""
        for way in self.ways:
            if (times := stock.times(way)) > 0:
                stock.take(way, times)
                self.instances += times
        self.end(stock)

    def end(self, stock: FreeCapacity, stop: LimitReason | None = None) -> None:
        """Record the limit of the host, by default the scarcest resource class."""
        self.stop = stop or stock.scarcest_class((self.ways or self.every)[-1])
        if stop or self.ways is not self.every:
            # Candidates that differ only in the providers of the pool count once.
            every = self.every if self.pool is None else set(self.every)
            self.left = sum([stock.times(way) > 0 for way in every])
        if self.stop.is_resource:
            self.free = stock.free_for(self.every)


def find_pools(
    candidates: Candidates, hosts: Sequence[HostState], stock: FreeCapacity
) -> Sequence[SharedPool | None] | None:
    """Return the pool of each host, or None if the order of placing matters."""
    roots = {provider.uuid: provider.root_uuid for provider in candidates.providers}
    pools: list[SharedPool | None] = [None] * len(hosts)
    if all(roots[uuid] == each.root_uuid for each in candidates.requests for uuid in each.uuids):
        return pools
    ways = [[stock.way(each) for each in candidates_of(host)] for host in hosts]
    users: dict[int, set[int]] = defaultdict(set)
    for number, host_ways in enumerate(ways):
        for index in {index for way in host_ways for index, _ in way}:
            users[index].add(number)
    shared = {index: numbers for index, numbers in users.items() if len(numbers) > 1}
    for numbers in _join_overlapping(shared.values()):
        pool = _build_pool([ways[at] for at in numbers], shared, stock)
        if pool is None:
            return None
        for at in numbers:
            pools[at] = pool
    stock.pooled.update(shared)
    return pools


def _join_overlapping(linked: Iterable[set[int]]) -> list[set[int]]:
    sets: list[set[int]] = []
    for members in linked:
        touching = [each for each in sets if not each.isdisjoint(members)]
        sets = [each for each in sets if each.isdisjoint(members)]
        sets.append(members.union(*touching))
    return sets


def _build_pool(
    hosts: Sequence[Sequence[AllocationOption]], shared: Collection[int], stock: FreeCapacity
) -> SharedPool | None:
    """Return the pool of hosts with these ways, or None if the order matters."""
    parts = [[_split_way(way, shared) for way in ways] for ways in hosts]
    options = {pooled for pooled, _ in parts[0]}
    indexes = [index for way in options for index, _ in way]
    if () in options or len(indexes) != len(set(indexes)):
        return None
    for pairs in parts:
        owns = {own for _, own in pairs}
        if {pooled for pooled, _ in pairs} != options or len(pairs) != len(owns) * len(options):
            return None
    last = min(options, key=lambda way: (stock.times(way), way))
    own: Counter[str] = Counter()
    for index, amount in parts[0][0][1]:
        own[stock.stop(index).reason] += amount
    return SharedPool(sum(map(stock.times, options)), stock.scarcest_class(last), own)


def _split_way(
    way: AllocationOption, shared: Collection[int]
) -> tuple[AllocationOption, AllocationOption]:
    pooled = sorted(each for each in way if each[0] in shared)
    own = (each for each in way if each[0] not in shared)
    return tuple(pooled), tuple(own)
