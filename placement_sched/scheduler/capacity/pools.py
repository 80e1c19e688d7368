"""Hosts that take of one provider, such as a shared disk: how many instances they take together.

Where each host may take of all pools of its component, whichever it chose, an order of placing
does not matter: the component takes what its hosts take, and at most what the pools have. Any other
component depends on that order.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from placement_sched.model.placement.candidate import Candidates
from placement_sched.scheduler.capacity.ledger import InventoryKey, Ledger, Stock, Way

#: What one way takes of pools.
_Amounts = tuple[tuple[InventoryKey, int], ...]


@dataclass(frozen=True, slots=True)
class Component:
    """Hosts that share pools, which have room for ``most`` instances, ended by class ``reason``.

    ``own`` is what each instance takes of its host itself, by the id of the class.
    """

    ledgers: tuple[Ledger, ...]
    most: int
    reason: str
    own: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class SharedPools:
    """The components of hosts that share something.

    ``settled``: no count depends on the order of placing.
    """

    components: tuple[Component, ...] = ()
    settled: bool = True


def pools_of(found: Candidates, ledgers: Sequence[Ledger], stock: Stock) -> SharedPools:
    """Return the pools that hosts share, and leave each ledger only ways on its own providers."""
    roots = {provider.uuid: provider.root_uuid for provider in found.providers}
    foreign = any(roots[uuid] != one.root_uuid for one in found.requests for uuid in one.uuids)
    if not foreign:
        return SharedPools()
    users: dict[InventoryKey, set[int]] = defaultdict(set)
    for number, ledger in enumerate(ledgers):
        for way in ledger.every:
            for place, _ in way.amounts:
                users[place].add(number)
    shared = {place: some for place, some in users.items() if len(some) > 1}
    components = _components(shared.values())
    settled = [_settled([ledgers[at] for at in some], shared, stock) for some in components]
    if not all(settled):
        return SharedPools(settled=False)
    for some in components:
        for at in some:
            _own_only(ledgers[at], shared)
    return SharedPools(tuple(one for one in settled if one))


def _components(linked: Iterable[set[int]]) -> list[list[int]]:
    """Return the numbers in sets that are connected by having members in common."""
    sets: list[set[int]] = []
    for some in linked:
        touching = [one for one in sets if not one.isdisjoint(some)]
        sets = [one for one in sets if one.isdisjoint(some)]
        sets.append(some.union(*touching))
    return [sorted(one) for one in sets]


def _settled(
    ledgers: Sequence[Ledger], shared: dict[InventoryKey, set[int]], stock: Stock
) -> Component | None:
    """Return how many instances the pools of these hosts have room for; None where that varies."""
    choices = {frozenset(_of_pools(way, shared) for way in ledger.every) for ledger in ledgers}
    if len(choices) != 1:
        return None
    (options,) = choices
    places = [place for some in options for place, _ in some]
    if () in options or len(places) != len(set(places)):
        return None
    for ledger in ledgers:
        own = [_of_own(way, shared) for way in ledger.every]
        if len(ledger.every) != len(set(own)) * len(options):
            return None
    ways = [Way(None, some) for some in options]
    last = min(ways, key=lambda way: (stock.times(way), way.amounts))
    own_amounts: Counter[int] = Counter()
    for (_, class_id), amount in _of_own(ledgers[0].every[0], shared):
        own_amounts[class_id] += amount
    most = sum(map(stock.times, ways))
    return Component(tuple(ledgers), most, stock.scarcest(last), own_amounts)


def _own_only(ledger: Ledger, shared: dict[InventoryKey, set[int]]) -> None:
    firsts: dict[_Amounts, Way] = {}
    for way in ledger.every:
        own = _of_own(way, shared)
        firsts.setdefault(own, Way(way.candidate, own))
    ledger.every = tuple(firsts.values())
    ledger.ways = list(ledger.every)


def _of_pools(way: Way, shared: dict[InventoryKey, set[int]]) -> _Amounts:
    return tuple(sorted((place, amount) for place, amount in way.amounts if place in shared))


def _of_own(way: Way, shared: dict[InventoryKey, set[int]]) -> _Amounts:
    return tuple((place, amount) for place, amount in way.amounts if place not in shared)
