"""Enumerate combinations tree by tree, until there are enough: a whole tree at a time, or in turn.

Finding out which trees of a whole cloud may serve takes as long as the cloud is large, and most
requests fit most trees. So trees are read in batches: the first ones as they come, and where few of
those serve, only those that may. Where no statement has to be sent to find these out, and many are
wanted, no others are read at all.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, repeat
from math import ceil
from random import Random

from placement_sched.candidates.alike import TreesAlike
from placement_sched.candidates.combine import Combination
from placement_sched.candidates.mirrored_trees import TreeProvider
from placement_sched.candidates.slots import TreeSearch
from placement_sched.candidates.tree_loader import TreeBatch, TreeLoader

#: The root of a tree, and a combination that serves it.
_Found = tuple[int, Combination]

#: So many characters of the answer count as one step of the budget.
STEP = 40
#: The characters of a candidate, each provider, each slot and each amount, beside their names.
_CANDIDATE, _PROVIDER, _SLOT, _AMOUNT = 34, 60, 46, 8

#: The fewest and the most trees that are read at once, and how many make another batch worth it.
_FEW, _MANY = 16, 10_000
_SOME = 128
#: How many combinations a tree is expected to have before any is known.
_PER_TREE = 4
#: Where only one tree in so many has a provider for each slot, it pays to select those that do.
_SPARSE = 4
#: How many more trees are selected after those that may serve did not suffice.
_GROWTH = 4


@dataclass(slots=True, kw_only=True)
class Enumeration:
    """Takes ``limit`` combinations (None: all) of trees, breadth first or not, at random or not.

    ``only`` are the roots of the trees to look at; None is all trees. ``found`` are the
    combinations so far, with the root of the tree that each serves, and ``providers`` all, by id,
    of the trees read for it.
    """

    loader: TreeLoader
    limit: int | None
    breadth_first: bool = False
    random: Random | None = None
    only: Sequence[int] | None = None
    found: dict[Combination, int] = field(default_factory=dict)
    providers: dict[int, TreeProvider] = field(default_factory=dict)

    @property
    def lacking(self) -> int | None:
        """Return how many more are wanted; None is all there are."""
        return None if self.limit is None else max(self.limit - len(self.found), 0)

    def run(self) -> None:
        """Find the combinations that serve the request.

        Under a limit only so many trees are read as seem to be enough. Raises :class:`TooComplex`
        where the budget does not suffice.
        """
        if self.lacking == 0:
            return
        prices = prices_of(self.loader.search)
        trees, spend = self._trees(), self.loader.budget.spend
        found, limit = self.found, self.limit
        for root, chosen in _in_turn(trees) if self.breadth_first else chain.from_iterable(trees):
            if chosen not in found:
                spend(prices[len(set(chosen))])
                found[chosen] = root
                if len(found) == limit:
                    break

    def _trees(self) -> Iterator[Iterator[_Found]]:
        """Yield the combinations of each tree; batches are read as they are needed.

        Where several roots have the same tree, the others have no further combinations.
        """
        random = self.random
        alike = TreesAlike(self.loader.search.rules, self.loader.budget)
        # What the trees before have given determines the size of the next batch.
        batches = self._by_id() if random is None else self._at_random(random)
        if self.only is not None:
            batches = iter([self.loader.read_trees(self.only)])
        for batch in batches:
            self.providers.update(batch.providers)
            seen: set[int] = set()
            for root, tree in batch.trees.items():
                if id(tree) in seen:
                    continue
                seen.add(id(tree))
                drawn = tree
                if random is not None:
                    shuffled = (random.sample(some, len(some)) for some in tree.options)
                    drawn = replace(tree, options=tuple(shuffled))
                yield zip(repeat(root), alike.combinations(drawn), strict=False)

    def _by_id(self) -> Iterator[TreeBatch]:
        looked_at, after, size = 0, 0, self._first_size()
        source = self.loader.source
        if source.reads_cheaply and is_many(size):
            yield from self._of(source.serving_roots(self.loader.search, None))
            return
        while True:
            batch = self.loader.read_first(size, after)
            yield batch
            if len(batch.roots) < size:
                return
            looked_at, after = looked_at + size, batch.roots[-1]
            if _is_sparse(batch):
                yield from self._serving(after)
                return
            size = next_size(self.lacking, looked_at, len(self.found))

    def _of(self, roots: Sequence[int]) -> Iterator[TreeBatch]:
        """Yield the trees of these roots, in as many batches as are needed."""
        looked_at, size = 0, self._first_size()
        if len(roots) <= 2 * size:  # one batch costs less than two
            size = min(len(roots), _MANY)
        while some := roots[looked_at : looked_at + size]:
            yield self.loader.read_trees(some)
            looked_at += len(some)
            size = next_size(self.lacking, looked_at, len(self.found))

    def _serving(self, after: int) -> Iterator[TreeBatch]:
        size, loader = self.limit, self.loader
        while roots := loader.source.serving_roots(loader.search, size, after):
            for first in range(0, len(roots), _MANY):
                yield loader.read_trees(roots[first : first + _MANY])
            if size is None or len(roots) < size:
                return
            after, size = roots[-1], size * _GROWTH

    def _at_random(self, random: Random) -> Iterator[TreeBatch]:
        """Yield trees at random from all; where few serve, from the others that may."""
        loader = self.loader
        roots = loader.source.roots(loader.search)
        random.shuffle(roots)
        looked_at, size = 0, self._first_size()
        while some := roots[looked_at : looked_at + size]:
            batch = loader.read_trees(some)
            yield batch
            looked_at += len(some)
            if looked_at < len(roots) and _is_sparse(batch):
                serving = set(loader.source.serving_roots(loader.search, None))
                rest = serving.difference(roots[:looked_at])
                drawn = iter(random.sample(sorted(rest), len(rest)))
                while some := list(islice(drawn, size)):
                    yield loader.read_trees(some)
                    size = min(size * _GROWTH, _MANY)
                return
            size = next_size(self.lacking, looked_at, len(self.found))

    def _first_size(self) -> int:
        return first_size(self.limit, 1 if self.breadth_first else _PER_TREE)


def prices_of(search: TreeSearch) -> Sequence[int]:
    """Return the steps that it costs to keep a candidate, by the number of its providers."""
    # The amounts of slots that one provider serves are added up, so that this may be too much.
    fixed = _CANDIDATE + sum(
        _SLOT + len(slot.slot.suffix) + sum(len(name) + _AMOUNT for name, _ in slot.group.resources)
        for slot in search.slots
    )
    return [(fixed + _PROVIDER * number) // STEP for number in range(len(search.slots) + 1)]


def first_size(limit: int | None, per_tree: int = _PER_TREE) -> int:
    """Return how many trees to read first for so many candidates; None is all there are."""
    if limit is None:
        return _FEW * _FEW
    return min(max(limit // per_tree, _FEW), _MANY)


def is_many(size: int) -> bool:
    """Return whether so many trees are better found by a look at the whole cloud first."""
    return size > _FEW


def next_size(lacking: int | None, looked_at: int, found: int) -> int:
    """Return how many more trees may be enough, as far as those looked at can show.

    Never very few: another batch costs as much as some trees do.
    """
    if lacking is None:
        return _MANY
    expected = lacking * looked_at / max(found, 1)
    return min(max(ceil(expected * 1.25), min(looked_at, _SOME)), _MANY)


def _is_sparse(batch: TreeBatch) -> bool:
    return len(batch.trees) * _SPARSE < len(batch.roots)


def _in_turn(trees: Iterable[Iterator[_Found]]) -> Iterator[_Found]:
    """Yield one combination of each tree, then a second of each that has one, and so on.

    The first turn covers all trees that serve at all, before any of them has a second one.
    """
    while True:
        left = []
        for tree in trees:
            for one in islice(tree, 1):
                yield one
                left.append(tree)
        if not left:
            return
        trees = left
