"""Takes combinations from trees until there are enough: a whole tree at a time, or in turn."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from random import Random

from sqlalchemy import Connection

from placement_sched.candidates.combine import Combination, combinations
from placement_sched.candidates.forest import Forest
from placement_sched.candidates.harvest import Basket, Harvest, Served
from placement_sched.candidates.helpings import stands
from placement_sched.candidates.parts import Part

#: So many characters of the answer count as one step of the budget.
STEP = 20

#: What a candidate is told in, and in it each provider and each slot, beside their names.
_CANDIDATE, _PROVIDER, _SLOT, _AMOUNT = 34, 60, 46, 8


def gather(connection: Connection, forest: Forest, harvest: Harvest) -> Basket:
    """Return the combinations that serve the request.

    Under a limit only so many trees are read as seem to be enough. Raises :class:`TooComplex`
    where the harvest's budget does not suffice.
    """
    basket = Basket(harvest.limit)
    if basket.lacking == 0:
        return basket
    sources = _sources(connection, forest, harvest, basket)
    fixed = sum(map(_told, forest.parts), _CANDIDATE)
    for served in _in_turn(sources) if harvest.breadth_first else chain.from_iterable(sources):
        if served.providers not in basket.found:
            told = fixed + _PROVIDER * len(set(served.providers))
            harvest.budget.spend(told // STEP)
            basket.found[served.providers] = served
        if basket.lacking == 0:
            break
    return basket


def _told(part: Part) -> int:
    """Return how many characters a slot takes in each candidate, the provider's place aside.

    The amounts of slots that one provider serves are told as one, so that this may be too much.
    """
    names = sum(len(name) + _AMOUNT for name, _ in part.group.resources)
    return _SLOT + len(part.slot.suffix) + names


def _sources(
    connection: Connection, forest: Forest, harvest: Harvest, basket: Basket
) -> Iterator[Iterator[Served]]:
    """Yield the combinations of each tree; trees are read as they are asked for.

    What is the same tree for several roots has nothing new to give a second time.
    """
    lot = harvest.random
    for stand in stands(connection, forest, harvest, basket):
        basket.members.update(stand.members)
        seen: set[int] = set()
        for root, tree in stand.trees.items():
            if id(tree) in seen:
                continue
            seen.add(id(tree))
            drawn = tree if lot is None else replace(tree, options=_shuffled(tree.options, lot))
            yield _served(root, combinations(drawn, forest.rules, harvest.budget))


def _served(root: int, found: Iterable[Combination]) -> Iterator[Served]:
    """Yield the combinations of one tree (a function, so that each source keeps its own root)."""
    for chosen in found:
        yield Served(root, chosen)


def _shuffled(options: Iterable[Sequence[int]], lot: Random) -> tuple[Sequence[int], ...]:
    return tuple(lot.sample(providers, len(providers)) for providers in options)


def _in_turn(sources: Iterable[Iterator[Served]]) -> Iterator[Served]:
    """Yield one of each source, then a second of each that has it, and so on.

    The first turn goes over all trees that serve at all, before any of them gives a second one.
    """
    waiting = []
    for source in sources:
        for served in islice(source, 1):
            yield served
            waiting.append(source)
    while waiting:
        left = []
        for source in waiting:
            for served in islice(source, 1):
                yield served
                left.append(source)
        waiting = left
