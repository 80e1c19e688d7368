"""Which trees to look at next: a few as they come, and where few of those serve, the few that may.

To find out which trees of a whole cloud may serve takes as long as the cloud is large. Most
requests fit most trees, and then it is enough to look at the first ones.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from math import ceil
from random import Random

from sqlalchemy import Connection

from placement_sched.candidates.combine import Budget
from placement_sched.candidates.forest import Forest, roots_of, serving_roots
from placement_sched.candidates.harvest import Basket, Harvest
from placement_sched.candidates.trees import Stand, read_first, read_trees

#: The fewest and the most trees that are read at once, and how many it takes to be worth it.
_FEW, _MANY = 16, 10_000
_SOME = 128
#: How many combinations a tree is thought to have, as long as nothing is known.
_PER_TREE = 4
#: Where only one tree in so many has a provider for each slot, it pays to ask which ones.
_SPARSE = 4
#: How many more trees are asked for when those that may serve did not suffice.
_GROWTH = 4


def stands(
    connection: Connection, forest: Forest, harvest: Harvest, basket: Basket
) -> Iterator[Stand]:
    """Yield trees in the order in which they are to be looked at, for as long as they are wanted.

    What the basket has got from those before says how many come next.
    """
    if harvest.only is not None:
        yield read_trees(connection, forest, harvest.only, harvest.budget)
        return
    if harvest.random is not None:
        yield from _drawn(connection, forest, harvest, basket, harvest.random)
        return
    looked, after, size = 0, 0, _first(harvest)
    while True:
        stand = read_first(connection, forest, size, after, harvest.budget)
        yield stand
        if len(stand.roots) < size:
            return
        looked, after = looked + size, stand.roots[-1]
        if _is_sparse(stand):
            yield from _serving(connection, forest, harvest, after)
            return
        size = _next(basket, looked)


def _is_sparse(stand: Stand) -> bool:
    return len(stand.trees) * _SPARSE < len(stand.roots)


def _first(harvest: Harvest) -> int:
    if harvest.limit is None:
        return _FEW * _FEW
    wanted = harvest.limit if harvest.breadth_first else harvest.limit // _PER_TREE
    return min(max(wanted, _FEW), _MANY)


def _next(basket: Basket, looked: int) -> int:
    """Return how many more trees may be enough, going by what those looked at have given.

    Never very few: to ask once more costs as much as some trees do.
    """
    if basket.lacking is None:
        return _MANY
    expected = basket.lacking * looked / max(len(basket.found), 1)
    return min(max(ceil(expected * 1.25), min(looked, _SOME)), _MANY)


def _serving(
    connection: Connection, forest: Forest, harvest: Harvest, after: int
) -> Iterator[Stand]:
    """Yield the trees behind ``after`` that may serve."""
    size = harvest.limit
    while roots := serving_roots(connection, forest, size, after):
        for first in range(0, len(roots), _MANY):
            helping = roots[first : first + _MANY]
            yield read_trees(connection, forest, helping, harvest.budget)
        if size is None or len(roots) < size:
            return
        after, size = roots[-1], size * _GROWTH


def _drawn(
    connection: Connection, forest: Forest, harvest: Harvest, basket: Basket, lot: Random
) -> Iterator[Stand]:
    """Yield trees in an order drawn by lot, in which each that serves is as likely as another.

    It is drawn among all trees; where few serve, among the others that may.
    """
    roots = list(connection.scalars(roots_of(forest)))
    lot.shuffle(roots)
    looked, size = 0, _first(harvest)
    while helping := roots[looked : looked + size]:
        stand = read_trees(connection, forest, helping, harvest.budget)
        yield stand
        looked += len(helping)
        if looked < len(roots) and _is_sparse(stand):
            rest = set(serving_roots(connection, forest, None)).difference(roots[:looked])
            drawn = lot.sample(sorted(rest), len(rest))
            yield from _in_helpings(connection, forest, drawn, size, harvest.budget)
            return
        size = _next(basket, looked)


def _in_helpings(
    connection: Connection, forest: Forest, roots: Sequence[int], size: int, budget: Budget
) -> Iterator[Stand]:
    """Yield the trees of these roots, a few at first."""
    rest = iter(roots)
    while helping := list(islice(rest, size)):
        yield read_trees(connection, forest, helping, budget)
        size = min(size * _GROWTH, _MANY)
