"""Takes combinations from trees until there are enough: a whole tree at a time, or in turn."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from random import Random

from sqlalchemy import Connection

from placement_sched.candidates.combine import Budget, Combination, combinations
from placement_sched.candidates.trees import Forest, read_trees, serving_roots

#: How many more trees are looked at when those looked at so far had too few combinations.
_GROWTH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Harvest:
    """How many combinations to take (None: all), in which order, and drawn by lot or not."""

    budget: Budget
    limit: int | None
    breadth_first: bool = False
    random: Random | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """A combination, and the root of the tree that it serves."""

    root: int
    providers: Combination


def gather(connection: Connection, forest: Forest, harvest: Harvest) -> tuple[Served, ...]:
    """Return the combinations that serve the request, no two with the same providers.

    Under a limit only so many trees are read at first as might be enough. Raises
    :class:`TooComplex` where the harvest's budget does not suffice.
    """
    seen: dict[Combination, Served] = {}
    sources = _sources(connection, forest, harvest)
    for served in _in_turn(sources) if harvest.breadth_first else chain.from_iterable(sources):
        seen.setdefault(served.providers, served)
        if harvest.limit is not None and len(seen) >= harvest.limit:
            break
    return tuple(seen.values())


def _sources(
    connection: Connection, forest: Forest, harvest: Harvest
) -> Iterator[Iterator[Served]]:
    """Yield the combinations of each tree; trees are read as they are asked for."""
    for roots in _helpings(connection, forest, harvest):
        trees = read_trees(connection, forest, roots)
        for root, tree in zip(roots, trees, strict=True):
            lot = harvest.random
            drawn = tree if lot is None else replace(tree, options=_shuffled(tree.options, lot))
            yield _served(root, combinations(drawn, forest.rules, harvest.budget))


def _served(root: int, found: Iterable[Combination]) -> Iterator[Served]:
    """Yield the combinations of one tree (a function, so that each source keeps its own root)."""
    for chosen in found:
        yield Served(root, chosen)


def _shuffled(options: Iterable[Sequence[int]], lot: Random) -> tuple[Sequence[int], ...]:
    return tuple(lot.sample(providers, len(providers)) for providers in options)


def _helpings(connection: Connection, forest: Forest, harvest: Harvest) -> Iterator[list[int]]:
    """Yield roots in the order in which their trees are to be looked at."""
    if harvest.random is not None:
        roots = serving_roots(connection, forest, None)
        harvest.random.shuffle(roots)
        rest = iter(roots)
        many = harvest.limit or len(roots)
        while helping := list(islice(rest, many)):
            yield helping
            many *= _GROWTH
        return
    after, size = 0, harvest.limit
    while helping := serving_roots(connection, forest, size, after):
        yield helping
        if size is None or len(helping) < size:
            return
        after, size = helping[-1], size * _GROWTH


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
