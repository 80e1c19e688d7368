# SPDX-License-Identifier: Apache-2.0
"""Search for candidates in batches of provider trees.

Trees have the same shape if their providers serve the same slots under the same limits
(:attr:`ProviderTrees.keys <placement_sched.candidates.trees.ProviderTrees.keys>` are equal). The
combinations of a shape are computed once, with indexes of providers, and the uuids of the providers
of all its trees are filled in together.

Most requests fit most trees, and checking the trees of a whole cloud takes time in proportion to
the size of the cloud. Therefore trees are read in batches: first all trees in id order and, if few
of them have a combination, only trees with a provider for each slot. If finding such trees needs no
SQL statement and the limit is high, only such trees are read from the start.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice, pairwise, repeat
from math import ceil
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_sched.candidates.combine import Combination, ProviderTree, iterate_combinations
from placement_sched.candidates.trees import ProviderTrees, TreeReader
from placement_sched.model.candidates_query import AllocationRequest, Layout

#: Returns the layout of a combination. The argument has for each slot the first slot with the same
#: provider.
LayoutBuilder = Callable[[tuple[int, ...]], Layout]

#: Number of characters of the response that cost one step of the budget.
CHARACTERS_PER_STEP = 40
#: Characters of a candidate, a provider, a slot and an amount in the response, without their names.
_CANDIDATE, _PROVIDER, _SLOT, _AMOUNT = 34, 60, 46, 8

#: Minimum and maximum number of trees in a batch.
_MIN_BATCH, _MAX_BATCH = 16, 10_000
#: Minimum number of trees in a later batch, because each batch has a fixed cost.
_MIN_NEXT_BATCH = 128
#: Assumed number of combinations of a tree, for the size of the first batch.
_PER_TREE = 4
#: If less than 1/_SPARSE of the trees have a provider for each slot, only such trees are read.
_SPARSE = 4
#: Growth factor of a batch that finds too few candidates.
_GROWTH = 4
#: Maximum number of tree shapes that are cached from one batch to the next.
_MAX_SHAPES = 1000

_Numbers = NDArray[np.int64]


@dataclass(slots=True)
class _Shape:
    """The combinations of trees of the same shape, generated when needed."""

    pending: Iterator[Combination]
    combinations: list[Combination] = field(default_factory=list)

    def find(self, limit: int | None) -> int:
        """Find up to ``limit`` combinations (None: all), and return their number."""
        cached = self.combinations
        cached += islice(self.pending, None if limit is None else max(limit - len(cached), 0))
        return len(cached) if limit is None else min(len(cached), limit)


@dataclass(slots=True)
class _Batch:
    """Trees that are read together, with the shape of each tree."""

    trees: ProviderTrees
    shape_numbers: _Numbers
    first_trees: Sequence[int]
    shapes: list[_Shape]


@dataclass(slots=True, kw_only=True)
class CandidateBatches:
    """A running search, with the candidates found so far in ``requests``.

    ``limit`` None means all. With ``in_turn``, each tree contributes a first candidate before any
    second. With ``random``, trees and providers are shuffled. ``root_ids`` restricts the search.
    """

    reader: TreeReader
    build_layout: LayoutBuilder
    limit: int | None
    in_turn: bool = False
    random: Random | None = None
    root_ids: Sequence[int] | None = None
    requests: list[AllocationRequest] = field(default_factory=list)
    _providers: list[_Numbers] = field(default_factory=list)
    _shapes: dict[bytes, _Shape] = field(default_factory=dict)
    _shared_combinations: set[tuple[int, ...]] = field(default_factory=set)

    @property
    def missing_count(self) -> int | None:
        """Return the number of candidates still to find, or None without a limit."""
        return None if self.limit is None else max(self.limit - len(self.requests), 0)

    @property
    def provider_ids(self) -> list[int]:
        """Return the ids of the providers in the candidates, sorted."""
        if not self._providers:
            return []
        ids: list[int] = np.unique(np.concatenate(self._providers)).tolist()
        return ids

    def run(self) -> None:
        """Find candidates up to the limit, and add them to ``requests``.

        Raises :class:`TooComplex` if the budget is exceeded.
        """
        if self.missing_count == 0:
            return
        batches = []
        for trees in self._read_trees():
            batch = self._group_by_shape(trees)
            self._take_combinations(batch, 0, 1 if self.in_turn else None)
            if self.missing_count == 0:
                return
            batches.append(batch)
        turn = 1
        while self.in_turn and batches:
            batches = [batch for batch in batches if self._take_combinations(batch, turn, turn + 1)]
            turn += 1

    def _group_by_shape(self, trees: ProviderTrees) -> _Batch:
        """Group trees by shape, or each by itself if the order is random."""
        if len(self._shapes) > _MAX_SHAPES:
            self._shapes.clear()
        keys: Sequence[Any] = trees.keys if self.random is None else range(len(trees))
        numbers: dict[Any, int] = {}
        shape_numbers = [numbers.setdefault(key, len(numbers)) for key in keys]
        distinct = np.array(shape_numbers, np.int64)
        first_trees = np.searchsorted(np.maximum.accumulate(distinct), np.arange(len(numbers)))
        return _Batch(trees, distinct, first_trees.tolist(), [])

    def _get_shape(self, batch: _Batch, number: int) -> _Shape:
        """Return a shape by its number, and build all earlier shapes first."""
        while number >= len(batch.shapes):
            first = batch.first_trees[len(batch.shapes)]
            key = batch.trees.keys[first] if self.random is None else None
            shape = None if key is None else self._shapes.get(key)
            if shape is None:
                tree = batch.trees.build_tree(first)
                if (random := self.random) is not None:
                    options = tuple(random.sample(each, len(each)) for each in tree.options)
                    tree = replace(tree, options=options)
                shape = _Shape(self._yield_combinations(tree))
                if key is not None:
                    self._shapes[key] = shape
            batch.shapes.append(shape)
        return batch.shapes[number]

    def _yield_combinations(self, tree: ProviderTree) -> Iterator[Combination]:
        """Yield the combinations of a tree, and charge the budget for each."""
        budget, price = self.reader.budget, self._price
        for combination in iterate_combinations(tree, self.reader.search.rules, budget):
            budget.consume(price)
            yield combination

    @property
    def _price(self) -> int:
        """Return an upper bound of the cost of a candidate in steps."""
        slots = sum(
            _PROVIDER
            + _SLOT
            + len(slot.suffix)
            + sum(len(name) + _AMOUNT for name, _ in slot.group.resources)
            for slot in self.reader.search.slots
        )
        return (_CANDIDATE + slots) // CHARACTERS_PER_STEP

    def _take_combinations(self, batch: _Batch, first: int, end: int | None) -> bool:
        """Add candidates for combinations ``first`` to ``end`` - 1 of each tree.

        ``end`` None means all. Stops at the limit. Returns whether any combination was found.
        """
        if batch.trees.may_repeat:
            return self._take_distinct(batch, first, end)
        counts = self._count_combinations(batch, first, end)
        trees = np.repeat(np.arange(len(counts)), counts)
        places = np.arange(len(trees)) - np.repeat(np.cumsum(counts) - counts, counts) + first
        self._add_candidates(batch, trees, places)
        return bool(len(trees))

    def _count_combinations(self, batch: _Batch, first: int, end: int | None) -> _Numbers:
        """Count the combinations to take from each tree, and charge for them."""
        missing_count, shape_numbers = self.missing_count, batch.shape_numbers
        counts_by_shape = np.zeros(len(batch.first_trees), np.int64)
        total = checked = paid = 0
        for number, tree in enumerate(batch.first_trees):
            total += int(counts_by_shape[shape_numbers[checked:tree]].sum())
            checked = tree
            if missing_count is not None and total >= missing_count:
                break
            shape, limit = self._get_shape(batch, number), end
            if missing_count is not None and end is None:
                limit = first + missing_count - total
            paid -= len(shape.combinations)
            counts_by_shape[number] = max(shape.find(limit) - first, 0)
            paid += len(shape.combinations)
        counts = counts_by_shape[shape_numbers]
        if missing_count is not None:
            counts = np.clip(missing_count - (np.cumsum(counts) - counts), 0, counts)
        self.reader.budget.consume(max(int(counts.sum()) - paid, 0) * self._price)
        return counts

    def _take_distinct(self, batch: _Batch, first: int, end: int | None) -> bool:
        """Add combinations like :meth:`_take_combinations`, without repetitions.

        Several trees may have the same combination if it consists of sharing providers alone.
        """
        pairs: list[tuple[int, int]] = []
        has_any, missing_count = False, self.missing_count
        budget, price = self.reader.budget, self._price
        ids, is_sharer, bounds = batch.trees.ids, batch.trees.is_sharer, batch.trees.bounds
        for tree, number in enumerate(batch.shape_numbers.tolist()):
            shape, start = self._get_shape(batch, number), int(bounds[tree])
            for place in count(first) if end is None else range(first, end):
                is_paid = place >= len(shape.combinations)
                if len(pairs) == missing_count or shape.find(place + 1) <= place:
                    break
                has_any = True
                rows = [start + position for position in shape.combinations[place]]
                if is_sharer[rows].all():
                    key = tuple(ids[rows].tolist())
                    if key in self._shared_combinations:
                        budget.consume(1)
                        continue
                    self._shared_combinations.add(key)
                budget.consume(1 if is_paid else price)
                pairs.append((tree, place))
        selected = np.array(pairs, np.int64).reshape(-1, 2)
        self._add_candidates(batch, selected[:, 0], selected[:, 1])
        return has_any

    def _add_candidates(self, batch: _Batch, trees: _Numbers, places: _Numbers) -> None:
        """Add candidates for combinations ``places[i]`` of trees ``trees[i]``."""
        columns = batch.trees
        filled: list[Any] = [None] * len(trees)
        if not len(trees):
            return
        width = int(places.max()) + 1
        groups = batch.shape_numbers[trees] * width + places
        order = np.argsort(groups, kind="stable")
        ordered = groups[order]
        ends = [*(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(order)]
        for first, end in pairwise([0, *ends]):
            indexes = order[first:end]
            number, place = divmod(int(groups[indexes[0]]), width)
            choice = batch.shapes[number].combinations[place]
            layout = self.build_layout(tuple(map(choice.index, choice)))
            rows = columns.bounds[trees[indexes]] + np.array(list(dict.fromkeys(choice)))[:, None]
            roots = columns.root_uuids[trees[indexes]].tolist()
            uuids = zip(*columns.uuids[rows].tolist(), strict=True)
            candidates = map(AllocationRequest._make, zip(repeat(layout), uuids, roots))
            for index, request in zip(indexes.tolist(), candidates, strict=True):
                filled[index] = request
            self._providers.append(columns.ids[rows.ravel()])
        self.requests += filled

    def _read_trees(self) -> Iterator[ProviderTrees]:
        if self.root_ids is not None:
            yield self.reader.read(self.root_ids)
        elif self.random is not None:
            yield from self._read_at_random(self.random)
        else:
            yield from self._read_by_id()

    def _read_by_id(self) -> Iterator[ProviderTrees]:
        checked, after, size = 0, 0, self._compute_first_size()
        source, search = self.reader.source, self.reader.search
        if source.reads_cheaply and size > _MIN_BATCH:
            yield from self._read_in_batches(source.find_serving_roots(search))
            return
        while roots := source.find_roots(search, size, after):
            trees = self.reader.read(roots)
            yield trees
            if len(roots) < size:
                return
            checked, after = checked + size, roots[-1]
            if len(trees) * _SPARSE < len(roots):
                yield from self._read_serving(after)
                return
            size = self._estimate_next_size(checked)

    def _read_in_batches(self, roots: Sequence[int]) -> Iterator[ProviderTrees]:
        checked, size = 0, self._compute_first_size()
        if len(roots) <= 2 * size:  # one batch costs less than two
            size = min(len(roots), _MAX_BATCH)
        while batch := roots[checked : checked + size]:
            yield self.reader.read(batch)
            checked += len(batch)
            size = self._estimate_next_size(checked)

    def _read_serving(self, after: int) -> Iterator[ProviderTrees]:
        size, reader = self.limit, self.reader
        while roots := reader.source.find_serving_roots(reader.search, size, after):
            for first in range(0, len(roots), _MAX_BATCH):
                yield reader.read(roots[first : first + _MAX_BATCH])
            if size is None or len(roots) < size:
                return
            after, size = roots[-1], size * _GROWTH

    def _read_at_random(self, random: Random) -> Iterator[ProviderTrees]:
        """Yield trees in random order, and only serving trees if few may serve."""
        reader = self.reader
        roots = list(reader.source.find_roots(reader.search))
        random.shuffle(roots)
        checked, size = 0, self._compute_first_size()
        while batch := roots[checked : checked + size]:
            trees = reader.read(batch)
            yield trees
            checked += len(batch)
            if checked < len(roots) and len(trees) * _SPARSE < len(batch):
                unread = set(reader.source.find_serving_roots(reader.search)).difference(
                    roots[:checked]
                )
                roots, checked = random.sample(sorted(unread), len(unread)), 0
                while batch := roots[checked : checked + size]:
                    yield reader.read(batch)
                    checked, size = checked + size, min(size * _GROWTH, _MAX_BATCH)
                return
            size = self._estimate_next_size(checked)

    def _compute_first_size(self) -> int:
        if self.limit is None:
            return _MIN_BATCH * _MIN_BATCH
        return min(max(self.limit // (1 if self.in_turn else _PER_TREE), _MIN_BATCH), _MAX_BATCH)

    def _estimate_next_size(self, checked: int) -> int:
        if self.missing_count is None:
            return _MAX_BATCH
        expected = self.missing_count * checked / max(len(self.requests), 1)
        return min(max(ceil(expected * 1.25), min(checked, _MIN_NEXT_BATCH)), _MAX_BATCH)
