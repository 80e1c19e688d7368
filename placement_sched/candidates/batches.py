"""The candidates of provider trees: trees in batches, each kind of trees combined once.

Hosts of one kind have the same tree but for its providers. The combinations of a kind are found in
numbers of providers, and the uuids of all of its trees are put in their places at once.

Finding out which trees of a whole cloud may serve takes as long as the cloud is large, and most
requests fit most trees. So trees are read in batches: the first ones as they come, and if few of
those serve, only the trees that may. If no statement is needed to find these, and many candidates
are wanted, no others are read at all.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, repeat
from math import ceil
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_sched.candidates.combine import Budget, Combination, combinations
from placement_sched.candidates.request import TreeSearch
from placement_sched.candidates.trees import ProviderTrees, TreeReader
from placement_sched.model.candidates_query import AllocationRequest, Layout

#: What makes the layout of a combination, of the first slot that has the provider of each slot.
LayoutOf = Callable[[tuple[int, ...]], Layout]

#: Number of characters of the answer that cost one step of the budget.
STEP = 40
#: The characters of a candidate, each provider, each slot and each amount, without their names.
_CANDIDATE, _PROVIDER, _SLOT, _AMOUNT = 34, 60, 46, 8

#: The fewest and the most trees that are read at once, and how many make another batch worth it.
_FEW, _MANY = 16, 10_000
_SOME = 128
#: How many combinations a tree is expected to have before any is found.
_PER_TREE = 4
#: If only one tree in this many has a provider for each slot, it pays to select those that do.
_SPARSE = 4
#: How many times more trees are selected after those that may serve did not suffice.
_GROWTH = 4
#: Maximum number of kinds of trees that are kept from one batch to the next.
_MAX_KINDS = 1000

_Numbers = NDArray[np.int64]


class _NotedBudget(Budget):
    """The budget of a search, counting what is spent."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.spent = 0

    def spend(self, steps: int) -> None:
        """Take steps away; raises as the search's own budget does."""
        self._budget.spend(steps)
        self.spent += steps


@dataclass(slots=True)
class _Kind:
    """Trees that are alike, and their combinations as far as they were needed.

    ``steps`` are what one tree costs with none of them, with the first, and so on. Finding them
    spends the steps of one tree.
    """

    others: Iterator[Combination]
    noted: _NotedBudget
    prices: Sequence[int]
    steps: list[int] = field(default_factory=lambda: [0])
    combinations: list[Combination] = field(default_factory=list)

    def find(self, most: int | None) -> int:
        """Find this many combinations, all if None; return how many of these there are."""
        known = self.combinations
        while most is None or len(known) < most:
            chosen = next(self.others, None)
            if chosen is None:
                self.steps[-1] = self.noted.spent
                break
            known.append(chosen)
            self.noted.spend(self.price(chosen))
            self.steps.append(self.noted.spent)
        return len(known) if most is None else min(len(known), most)

    def price(self, chosen: Combination) -> int:
        """Return what it costs to keep a combination."""
        return self.prices[len(set(chosen))]


@dataclass(slots=True)
class _Batch:
    """Trees, the kind of each by number, and the first tree of each kind."""

    trees: ProviderTrees
    of_trees: _Numbers
    firsts: Sequence[int]
    kinds: list[_Kind]


@dataclass(slots=True, kw_only=True)
class CandidateBatches:
    """Takes ``limit`` candidates (None: all) of trees, in turn or not, at random or not.

    ``only`` are the roots of the trees to read; None is all trees. ``requests`` are the candidates
    so far.
    """

    reader: TreeReader
    layout_of: LayoutOf
    limit: int | None
    in_turn: bool = False
    random: Random | None = None
    only: Sequence[int] | None = None
    requests: list[AllocationRequest] = field(default_factory=list)
    _providers: list[_Numbers] = field(default_factory=list)
    _known: dict[bytes, _Kind] = field(default_factory=dict)
    _of_sharers: set[tuple[int, ...]] = field(default_factory=set)

    @property
    def lacking(self) -> int | None:
        """Return how many more are wanted; None is all there are."""
        return None if self.limit is None else max(self.limit - len(self.requests), 0)

    @property
    def serving(self) -> list[int]:
        """Return the ids of the providers in the candidates, ascending."""
        if not self._providers:
            return []
        found: list[int] = np.unique(np.concatenate(self._providers)).tolist()
        return found

    def run(self) -> None:
        """Find the candidates.

        Under a limit only as many trees are read as seem to be enough. Raises :class:`TooComplex`
        if the budget does not suffice.
        """
        if self.lacking == 0:
            return
        batches = []
        for trees in self._trees():
            batch = self._batch(trees)
            self._take(batch, 0, 1 if self.in_turn else None)
            if self.lacking == 0:
                return
            batches.append(batch)
        turn = 1
        while self.in_turn and batches:
            batches = [batch for batch in batches if self._take(batch, turn, turn + 1)]
            turn += 1

    def _batch(self, trees: ProviderTrees) -> _Batch:
        """Return the kinds of these trees; of trees that are shuffled, each is one by itself."""
        if len(self._known) > _MAX_KINDS:
            self._known.clear()
        keys: Sequence[Any] = trees.keys if self.random is None else range(len(trees))
        numbers: dict[Any, int] = {}
        of_trees = [numbers.setdefault(key, len(numbers)) for key in keys]
        distinct = np.array(of_trees, np.int64)
        firsts = np.searchsorted(np.maximum.accumulate(distinct), np.arange(len(numbers)))
        return _Batch(trees, distinct, firsts.tolist(), [])

    def _kind(self, batch: _Batch, number: int) -> _Kind:
        """Return a kind of the trees of a batch; kinds are made in the order of their numbers."""
        while number >= len(batch.kinds):
            first = batch.firsts[len(batch.kinds)]
            key = batch.trees.keys[first] if self.random is None else None
            kind = None if key is None else self._known.get(key)
            if kind is None:
                kind = self._new_kind(batch.trees, first)
                if key is not None:
                    self._known[key] = kind
            batch.kinds.append(kind)
        return batch.kinds[number]

    def _new_kind(self, trees: ProviderTrees, number: int) -> _Kind:
        tree, search = trees.tree(number), self.reader.search
        if (random := self.random) is not None:
            options = tuple(random.sample(some, len(some)) for some in tree.options)
            tree = replace(tree, options=options)
        noted = _NotedBudget(self.reader.budget)
        return _Kind(combinations(tree, search.rules, noted), noted, prices_of(search))

    def _take(self, batch: _Batch, first: int, end: int | None) -> bool:
        """Take the combinations from ``first`` to ``end`` of each tree, as many as are lacking.

        Return whether any tree has one. Each tree costs what it costs alone, at most.
        """
        if batch.trees.may_repeat:
            return self._take_distinct(batch, first, end)
        counts = self._counts(batch, first, end)
        trees = np.repeat(np.arange(len(counts)), counts)
        places = np.arange(len(trees)) - np.repeat(np.cumsum(counts) - counts, counts) + first
        self._fill(batch, trees, places)
        return bool(len(trees))

    def _counts(self, batch: _Batch, first: int, end: int | None) -> _Numbers:
        """Return how many combinations are taken of each tree, and pay for all trees."""
        lacking, of_trees = self.lacking, batch.of_trees
        of_kinds = np.zeros(len(batch.firsts), np.int64)
        found = checked = paid = 0
        for number, tree in enumerate(batch.firsts):
            found += int(of_kinds[of_trees[checked:tree]].sum())
            checked = tree
            if lacking is not None and found >= lacking:
                break
            kind, most = self._kind(batch, number), end
            before = kind.noted.spent
            if lacking is not None:
                most = min(first + lacking - found, first + lacking if end is None else end)
            of_kinds[number] = max(kind.find(most) - first, 0)
            paid += kind.noted.spent - before
        counts = of_kinds[of_trees]
        if lacking is not None:
            ends = np.cumsum(counts)
            reached = int(np.searchsorted(ends, lacking)) + 1
            counts = np.clip(lacking - (ends - counts), 0, counts)
            of_trees = of_trees[:reached]
        cost = _cost(batch.kinds, of_trees, counts[: len(of_trees)], first)
        self.reader.budget.spend(max(cost - paid, 0))
        return counts

    def _take_distinct(self, batch: _Batch, first: int, end: int | None) -> bool:
        """Take combinations as :meth:`_take` does, those of sharing providers alone once."""
        pairs: list[tuple[int, int]] = []
        has_any, spend, lacking = False, self.reader.budget.spend, self.lacking
        ids, is_sharer, bounds = batch.trees.ids, batch.trees.is_sharer, batch.trees.bounds
        for tree, number in enumerate(batch.of_trees.tolist()):
            kind, place, start = self._kind(batch, number), first, int(bounds[tree])
            while (end is None or place < end) and len(pairs) != lacking:
                is_found = place < len(kind.combinations)
                if kind.find(place + 1) <= place:
                    break
                has_any, chosen = True, kind.combinations[place]
                rows = [start + one for one in chosen]
                cost = kind.steps[place + 1] - kind.steps[place] if is_found else 0
                if is_sharer[rows].all():
                    key = tuple(ids[rows].tolist())
                    if key in self._of_sharers:
                        spend(max(cost - kind.price(chosen), 0))
                        place += 1
                        continue
                    self._of_sharers.add(key)
                spend(cost)
                pairs.append((tree, place))
                place += 1
        taken = np.array(pairs, np.int64).reshape(-1, 2)
        self._fill(batch, taken[:, 0], taken[:, 1])
        return has_any

    def _fill(self, batch: _Batch, trees: _Numbers, places: _Numbers) -> None:
        """Add a candidate for each tree and place of a combination of its kind."""
        columns, requests = batch.trees, [None] * len(trees)
        filled: list[Any] = requests
        if not len(trees):
            return
        width = int(places.max()) + 1
        groups = batch.of_trees[trees] * width + places
        order = np.argsort(groups, kind="stable")
        ordered = groups[order]
        ends = [*(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(order)]
        for first, end in pairwise([0, *ends]):
            some = order[first:end]
            number, place = divmod(int(groups[some[0]]), width)
            chosen = batch.kinds[number].combinations[place]
            layout = self.layout_of(tuple(map(chosen.index, chosen)))
            rows = columns.bounds[trees[some]] + np.array(list(dict.fromkeys(chosen)))[:, None]
            roots = columns.root_uuids[trees[some]].tolist()
            uuids = zip(*columns.uuids[rows].tolist(), strict=True)
            made = map(AllocationRequest._make, zip(repeat(layout), uuids, roots))
            for at, request in zip(some.tolist(), made, strict=True):
                filled[at] = request
            self._providers.append(columns.ids[rows.ravel()])
        self.requests += filled

    def _trees(self) -> Iterator[ProviderTrees]:
        """Yield trees in batches, which are read as they are needed."""
        if self.only is not None:
            yield self.reader.read(self.only)
        elif self.random is not None:
            yield from self._at_random(self.random)
        else:
            yield from self._by_id()

    def _by_id(self) -> Iterator[ProviderTrees]:
        checked, after, size = 0, 0, self._first_size()
        source, search = self.reader.source, self.reader.search
        if source.reads_cheaply and size > _FEW:
            yield from self._of(source.serving_roots(search))
            return
        while roots := source.roots(search, size, after):
            trees = self.reader.read(roots)
            yield trees
            if len(roots) < size:
                return
            checked, after = checked + size, roots[-1]
            if len(trees) * _SPARSE < len(roots):
                yield from self._serving(after)
                return
            size = self._next_size(checked)

    def _of(self, roots: Sequence[int]) -> Iterator[ProviderTrees]:
        """Yield the trees of these roots, in as many batches as are needed."""
        checked, size = 0, self._first_size()
        if len(roots) <= 2 * size:  # one batch costs less than two
            size = min(len(roots), _MANY)
        while some := roots[checked : checked + size]:
            yield self.reader.read(some)
            checked += len(some)
            size = self._next_size(checked)

    def _serving(self, after: int) -> Iterator[ProviderTrees]:
        size, reader = self.limit, self.reader
        while roots := reader.source.serving_roots(reader.search, size, after):
            for first in range(0, len(roots), _MANY):
                yield reader.read(roots[first : first + _MANY])
            if size is None or len(roots) < size:
                return
            after, size = roots[-1], size * _GROWTH

    def _at_random(self, random: Random) -> Iterator[ProviderTrees]:
        """Yield trees at random from all; if few serve, from the others that may."""
        reader = self.reader
        roots = list(reader.source.roots(reader.search))
        random.shuffle(roots)
        checked, size = 0, self._first_size()
        while some := roots[checked : checked + size]:
            trees = reader.read(some)
            yield trees
            checked += len(some)
            if checked < len(roots) and len(trees) * _SPARSE < len(some):
                rest = set(reader.source.serving_roots(reader.search)).difference(roots[:checked])
                roots, checked = random.sample(sorted(rest), len(rest)), 0
                while some := roots[checked : checked + size]:
                    yield reader.read(some)
                    checked, size = checked + size, min(size * _GROWTH, _MANY)
                return
            size = self._next_size(checked)

    def _first_size(self) -> int:
        """Return how many trees to read first."""
        if self.limit is None:
            return _FEW * _FEW
        return min(max(self.limit // (1 if self.in_turn else _PER_TREE), _FEW), _MANY)

    def _next_size(self, checked: int) -> int:
        """Return how many more trees may be enough, as far as those checked can show.

        Never very few: another batch costs as much as some trees do.
        """
        if self.lacking is None:
            return _MANY
        expected = self.lacking * checked / max(len(self.requests), 1)
        return min(max(ceil(expected * 1.25), min(checked, _SOME)), _MANY)


def prices_of(search: TreeSearch) -> Sequence[int]:
    """Return the steps that it costs to keep a candidate, by the number of its providers."""
    # The amounts of slots that one provider serves are added up, so that this may be too much.
    fixed = _CANDIDATE + sum(
        _SLOT + len(slot.slot.suffix) + sum(len(name) + _AMOUNT for name, _ in slot.group.resources)
        for slot in search.slots
    )
    return [(fixed + _PROVIDER * number) // STEP for number in range(len(search.slots) + 1)]


def _cost(kinds: Sequence[_Kind], of_trees: _Numbers, counts: _Numbers, first: int) -> int:
    """Return the steps of this many combinations of each tree, from ``first`` on."""
    width = int(counts.max(initial=0)) + 1
    groups, sizes = np.unique(of_trees * width + counts, return_counts=True)
    cost = 0
    for group, size in zip(groups.tolist(), sizes.tolist(), strict=True):
        number, count = divmod(group, width)
        steps = kinds[number].steps
        last = len(steps) - 1
        cost += size * (steps[min(first + count, last)] - (steps[min(first, last)] if first else 0))
    return cost
