"""Takes combinations from trees until there are enough: a whole tree at a time, or in turn."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random

from sqlalchemy import Connection

from placement_sched.candidates.combine import Combination, Rules, Tree, combinations
from placement_sched.candidates.trees import Forest, read_trees, serving_roots

#: How many more trees are looked at when those looked at so far had too few combinations.
_GROWTH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Harvest:
    """How many combinations to take (None: all), in which order, and drawn by lot or not."""

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

    Under a limit only so many trees are read at first as might be enough.
    """
    seen: dict[Combination, Served] = {}
    for roots in _helpings(connection, forest, harvest):
        trees = read_trees(connection, forest, roots)
        sources = [
            _served(root, tree, forest.rules) for root, tree in zip(roots, trees, strict=True)
        ]
        for served in _in_turn(sources) if harvest.breadth_first else _one_by_one(sources):
            seen.setdefault(served.providers, served)
            if harvest.limit is not None and len(seen) >= harvest.limit:
                return tuple(seen.values())
    return tuple(seen.values())


def _served(root: int, tree: Tree, rules: Rules) -> Iterator[Served]:
    """Yield the combinations of one tree (a function, so that each source keeps its own root)."""
    for chosen in combinations(tree, rules):
        yield Served(root, chosen)


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


def _one_by_one(sources: Iterable[Iterable[Served]]) -> Iterator[Served]:
    for source in sources:
        yield from source


def _in_turn(sources: Iterable[Iterable[Served]]) -> Iterator[Served]:
    waiting = [iter(source) for source in sources]
    while waiting:
        left = []
        for source in waiting:
            served = next(source, None)
            if served is not None:
                yield served
                left.append(source)
        waiting = left
