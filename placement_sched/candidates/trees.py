# SPDX-License-Identifier: Apache-2.0
"""Columns of provider trees, with the slots that each provider serves.

:mod:`placement_sched.candidates.request` defines slots, and
:mod:`placement_sched.candidates.tree_index` defines sharing providers. The own providers of a tree
are the providers in the tree, in contrast to providers of other trees that share with it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement_sched.candidates.columns import Mask, RowNumbers, truncate_capacities
from placement_sched.candidates.combine import FreeCapacity, ProviderTree, WorkBudget, can_serve
from placement_sched.candidates.constraints import (
    ConstraintEvaluator,
    CountedRoot,
    can_use_sharing,
    compute_slot_masks,
)
from placement_sched.candidates.providers import ProviderSource
from placement_sched.candidates.request import Search
from placement_sched.candidates.tree_index import TreeIndex

_Numbers = NDArray[np.int64]

#: Number of conditions per tree that cost no step, and of further conditions that cost a step.
_FREE_CONDITIONS, _CONDITIONS_PER_STEP = 50, 2
#: Number of providers that may serve a slot, and of trees that share a provider, per step.
_OPTIONS_PER_STEP, _SHARING_PAIRS_PER_STEP = 20, 5


class _UseColumns(NamedTuple):
    rows: RowNumbers
    trees: _Numbers
    serves: Mask
    is_shared: Mask


class _Uses(_UseColumns):
    """Pairs of tree and provider, which serves some ``distinct_slots``."""

    def select_uses(self, selection: Mask | _Numbers) -> "_Uses":
        return _Uses._make(column[selection] for column in self)

    def merge(self, others: "_Uses") -> "_Uses":
        pairs: Iterable[Any] = zip(self, others, strict=True)
        return _Uses._make(np.concatenate(pair) for pair in pairs)

    @cached_property
    def starts(self) -> _Numbers:
        """Return the index of each tree's first use, for uses sorted by tree."""
        is_first = np.ones(len(self.trees), np.bool_)
        is_first[1:] = self.trees[1:] != self.trees[:-1]
        return np.flatnonzero(is_first)

    def select_trees(self, selection: Mask) -> "_Uses":
        if selection.all():
            return self
        return self.select_uses(np.repeat(selection, np.diff(self.starts, append=len(self.rows))))


@dataclass(frozen=True, kw_only=True)
class ProviderTrees:
    """Columns of trees that have a provider for every slot of a search.

    Columns with a value per tree: ``roots`` (id of the root), ``root_uuids``, and ``bounds`` (index
    of the first provider, with the end as an additional value). Columns with a value per provider,
    sorted by id within a tree: ``ids``, ``uuids``, ``serves`` (mask of ``distinct_slots``),
    ``covers`` (mask of trait sets), ``is_sharer``, ``other_tree_roots`` (id of its root in another
    tree, else 0), and ``parents`` (index of the parent within the tree, -1 for none). ``free`` has
    by class the free amounts and ``max_unit``. Unless a rule needs ``parents`` or
    ``other_tree_roots``, they are zeros.
    """

    search: Search
    roots: _Numbers
    root_uuids: NDArray[np.object_]
    bounds: _Numbers
    ids: _Numbers
    uuids: NDArray[np.object_]
    serves: Mask
    covers: Mask
    is_sharer: Mask
    other_tree_roots: _Numbers
    parents: _Numbers
    free: Mapping[int, tuple[_Numbers, _Numbers]]

    def __len__(self) -> int:
        return len(self.roots)

    @cached_property
    def may_repeat(self) -> bool:
        """Return whether sharing providers alone may combine, in several trees."""
        return bool(self.serves[self.is_sharer].any(axis=0).all())

    @cached_property
    def keys(self) -> Sequence[bytes]:
        """Return a key for each tree, equal for trees of the same shape."""
        parts = [np.packbits(np.hstack((self.serves, self.covers)), axis=1)]
        numbers = [self.is_sharer, *self._limits.values()]
        if self.search.rules.subtrees:
            numbers.append(self.parents)
        if self.search.rules.single_per_tree:
            numbers.append(self.other_tree_roots)
        is_used = [bool(column.any()) for column in numbers]
        parts += [
            column.astype(np.int64).reshape(-1, 1).view(np.uint8)
            for column, used in zip(numbers, is_used, strict=True)
            if used
        ]
        rows = np.hstack(parts)
        text, width, named = rows.tobytes(), rows.shape[1], bytes(is_used)
        bounds = (self.bounds * width).tolist()
        return [named + text[first:end] for first, end in pairwise(bounds)]

    @cached_property
    def _limits(self) -> Mapping[int, _Numbers]:
        """Map each resource class to the limit of each provider.

        The limit is 0 if the slots that the provider can serve at the same time fit together, and
        otherwise the capacity plus 1, so that a capacity of 0 differs.
        """
        rules, distinct = self.search.rules, self.search.distinct_slots
        sizes = np.array([len(positions) for positions in self.search.equal_slots], np.int64)
        is_plain = np.array([not slot.suffix for slot in distinct], np.bool_)
        limits = {}
        for class_id, (free, max_unit) in self.free.items():
            amounts = np.array([dict(slot.amounts).get(class_id, 0) for slot in distinct])
            served = self.serves & (amounts > 0)
            is_contested = served @ sizes > 1
            if rules.isolate:  # a provider serves one group with a suffix at most
                is_contested &= (served & is_plain).any(axis=1)
            total, capacity = served @ (sizes * amounts), np.minimum(free, max_unit)
            limits[class_id] = np.where(is_contested & (capacity < total), capacity + 1, 0)
        return limits

    def list_provider_ids(self, number: int) -> list[int]:
        """Return the ids of the providers of a tree."""
        ids: list[int] = self.ids[slice(*self.bounds[number : number + 2].tolist())].tolist()
        return ids

    def build_tree(self, number: int, *, with_all_free: bool = False) -> ProviderTree:
        """Build a tree, with indexes of the tree's columns as providers.

        ``free`` has the capacities that limit a provider, or all ``with_all_free``.
        """
        rows = slice(*self.bounds[number : number + 2].tolist())
        serves, search = self.serves[rows], self.search
        options: list[tuple[int, ...]] = [()] * len(search.slots)
        for positions, served in zip(search.equal_slots, serves.T, strict=True):
            indexes = tuple(np.flatnonzero(served).tolist())
            for position in positions:
                options[position] = indexes
        covers: dict[int, int] = {}
        if search.rules.trait_choices:
            for index, sets in enumerate(self.covers[rows]):
                covers[index] = sum(1 << bit for bit in np.flatnonzero(sets).tolist())
        return ProviderTree(
            options=tuple(options),
            free=dict(self._yield_free_capacity(rows, with_all=with_all_free)),
            covers=covers,
            lineage=_build_lineage(self.parents[rows].tolist()) if search.rules.subtrees else {},
            roots=dict(enumerate(self.other_tree_roots[rows].tolist()))
            if search.rules.single_per_tree
            else {},
        )

    def _yield_free_capacity(
        self, rows: slice, *, with_all: bool
    ) -> Iterator[tuple[tuple[int, int], FreeCapacity]]:
        if with_all:
            for class_id, columns in self.free.items():
                amounts = zip(*(column[rows].tolist() for column in columns), strict=True)
                for index, (free, max_unit) in enumerate(amounts):
                    yield (index, class_id), FreeCapacity(free, max_unit)
            return
        for class_id, limits in self._limits.items():
            for index, amount in enumerate(limits[rows].tolist()):
                if amount:
                    yield (index, class_id), FreeCapacity(amount - 1, amount - 1)

    def check(self, budget: WorkBudget) -> Iterator[tuple[int, bool]]:
        """Yield the root of each tree, and whether the tree has any combination.

        Trees with equal :attr:`keys` are checked once. Raises :class:`TooComplex`.
        """
        serving: dict[bytes, bool] = {}
        for number, (root, key) in enumerate(zip(self.roots.tolist(), self.keys, strict=True)):
            if key not in serving:
                serving[key] = can_serve(self.build_tree(number), self.search.rules, budget)
            yield root, serving[key]


@dataclass(frozen=True, slots=True)
class TreeReader:
    """Read the trees of a search within a budget.

    A tree without own providers for the slots is left out if an earlier tree has the same sharing
    providers. With ``for_explanation``, every tree with a provider for each slot is returned, even
    if no provider has a required trait. Raises :class:`TooComplex` if the budget is exceeded.
    """

    source: ProviderSource
    search: Search
    budget: WorkBudget
    for_explanation: bool = False
    _sharing_only_keys: set[bytes] = field(default_factory=set)

    def read(self, roots: Sequence[int]) -> ProviderTrees:
        """Return the trees with a provider for every slot, in order of ``roots``."""
        conditions = max(0, self.search.conditions - _FREE_CONDITIONS)
        self.budget.consume(len(roots) * conditions // _CONDITIONS_PER_STEP)
        with self.source.open_columns(roots=roots) as (columns, index):
            exists, root_rows = columns.find_existing_rows(np.fromiter(roots, np.int64, len(roots)))
            order = np.argsort(root_rows)
            numbers = np.flatnonzero(exists)[order]
            uses = self._select_complete_trees(
                index, self._find_uses(index, root_rows[order], numbers)
            )
            return self._build_trees(index, uses, np.array(roots, np.int64))

    def _find_uses(self, index: TreeIndex, roots: RowNumbers, numbers: _Numbers) -> _Uses:
        rows = index.find_tree_rows(index.columns.providers.ids[roots])
        trees = numbers[np.searchsorted(roots, index.root_rows[rows])]
        serves = compute_slot_masks(index, self.search, rows, CountedRoot.OWN)
        has_slot: Mask = np.logical_or.reduce(serves, axis=1)
        uses = _Uses(rows, trees, serves, np.zeros(len(rows), np.bool_)).select_uses(has_slot)
        if self.search.names.topology.has_sharing:
            uses = uses.merge(self._find_shared_uses(index, roots, numbers))
        if self.search.rules.subtrees:
            uses = uses.merge(_find_ancestors(index, uses))
        return uses.select_uses(np.lexsort((uses.rows, uses.trees)))

    def _find_shared_uses(self, index: TreeIndex, roots: RowNumbers, numbers: _Numbers) -> _Uses:
        """Find the sharing providers that serve any slot of these trees."""
        pairs = index.find_sharing_pairs(roots)
        self.budget.consume(len(pairs) // _SHARING_PAIRS_PER_STEP)
        sharers, anchors = (rows[pairs] for rows in index.sharing_pairs)
        distinct, positions = index.distinct_sharers
        serves = compute_slot_masks(index, self.search, distinct, CountedRoot.OTHER)[
            positions[pairs]
        ]
        evaluator = ConstraintEvaluator(index, self.search.names)
        for bit, slot in enumerate(self.search.distinct_slots):
            serves[:, bit] &= can_use_sharing(slot, evaluator, anchors)
        trees = numbers[np.searchsorted(roots, anchors)]
        has_slot: Mask = np.logical_or.reduce(serves, axis=1)
        return _Uses(sharers, trees, serves, np.ones(len(pairs), np.bool_)).select_uses(has_slot)

    def _select_complete_trees(self, index: TreeIndex, uses: _Uses) -> _Uses:
        """Select the trees that may serve, and consume steps for all providers."""
        if self.search.names.topology.has_sharing and not self.for_explanation and len(uses.rows):
            uses = uses.select_trees(self._is_new(index, uses))
        if not len(uses.rows):
            return uses
        starts = uses.starts
        sizes = [len(positions) for positions in self.search.equal_slots]
        option_counts = np.add.reduceat(uses.serves @ np.array(sizes, np.int64), starts)
        self.budget.consume(int((option_counts // _OPTIONS_PER_STEP).sum()))
        has_each = np.logical_or.reduceat(uses.serves, starts, axis=0)
        is_complete: Mask = np.logical_and.reduce(has_each, axis=1)
        choices = self.search.rules.trait_choices
        if choices and not self.for_explanation:
            is_plain = [not slot.suffix for slot in self.search.distinct_slots]
            counted = uses.serves[:, np.array(is_plain)].any(axis=1)
            for traits in choices:
                has_trait = counted & index.columns.traits.has_any_trait(traits, uses.rows)
                is_complete &= np.logical_or.reduceat(has_trait, starts)
        return uses.select_trees(is_complete)

    def _is_new(self, index: TreeIndex, uses: _Uses) -> Mask:
        """Return which trees do not repeat an earlier tree of sharing providers."""
        starts, ids = uses.starts, index.columns.providers.ids[uses.rows]
        has_own = np.logical_or.reduceat(~uses.is_shared, starts)
        is_new = np.ones(len(starts), np.bool_)
        bounds = np.append(starts, len(ids))
        for tree in np.flatnonzero(~has_own).tolist():
            rows = slice(*bounds[tree : tree + 2].tolist())
            key = ids[rows].tobytes() + uses.serves[rows].tobytes()
            is_new[tree] = key not in self._sharing_only_keys
            self._sharing_only_keys.add(key)
        return is_new

    def _build_trees(self, index: TreeIndex, uses: _Uses, roots: _Numbers) -> ProviderTrees:
        columns, rules, rows, starts = index.columns, self.search.rules, uses.rows, uses.starts
        providers, zeros = columns.providers, np.zeros(len(rows), np.int64)
        covers = np.zeros((len(rows), len(rules.trait_choices)), np.bool_)
        for bit, choices in enumerate(rules.trait_choices):
            covers[:, bit] = columns.traits.has_any_trait(choices, rows)
        covers &= uses.serves.any(axis=1, keepdims=True)
        is_sharer = np.zeros(len(rows), np.bool_)
        if self.search.names.topology.has_sharing:
            # Providers that share only with trees that are not loaded also count.
            is_sharer = np.isin(rows, index.sharers)
        tree_roots = roots[uses.trees[starts]]
        other_tree_roots = (
            np.where(uses.is_shared, providers.roots[rows], 0) if rules.single_per_tree else zeros
        )
        requested = Counter(class_id for slot in rules.slots for class_id, _ in slot.amounts)
        return ProviderTrees(
            search=self.search,
            roots=tree_roots,
            root_uuids=providers.uuids[columns.find_rows(tree_roots)],
            bounds=np.append(starts, len(rows)),
            ids=providers.ids[rows],
            uuids=providers.uuids[rows],
            serves=uses.serves,
            covers=covers,
            is_sharer=is_sharer,
            other_tree_roots=other_tree_roots,
            parents=_find_parents(index, uses) if rules.subtrees else zeros,
            free={
                class_id: _read_free(index, rows, class_id)
                for class_id, count in sorted(requested.items())
                if count > 1
            },
        )


def _read_free(index: TreeIndex, rows: RowNumbers, class_id: int) -> tuple[_Numbers, _Numbers]:
    """Return free amounts and ``max_unit`` by row (0: no inventory)."""
    columns = index.columns.classes.get(class_id)
    free, max_unit = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    if columns is not None:
        has_inventory, (capacity, used, units) = columns.select_values(
            rows, "capacity", "used", "max_unit"
        )
        free[has_inventory] = truncate_capacities(capacity) - used
        max_unit[has_inventory] = units
    return free, max_unit


def _find_parent_rows(index: TreeIndex, rows: RowNumbers) -> _Numbers:
    has_parent, parent_rows = index.columns.find_existing_rows(
        index.columns.providers.parents[rows]
    )
    parents = np.full(len(rows), -1, np.int64)
    parents[has_parent] = parent_rows
    return parents


def _find_ancestors(index: TreeIndex, uses: _Uses) -> _Uses:
    number = len(index.columns)
    below = uses.trees * number + uses.rows
    visited = initial = np.unique(below)
    while len(below):
        parents = _find_parent_rows(index, (below % number).astype(np.int32))
        has_parent = parents >= 0
        above = np.unique((below // number * number + parents)[has_parent])
        # If a provider moves between two SQL statements, it may seem to be its own ancestor.
        below = np.setdiff1d(above, visited, assume_unique=True)
        visited = np.union1d(visited, below)
    keys = np.setdiff1d(visited, initial, assume_unique=True)
    serves = np.zeros((len(keys), uses.serves.shape[1]), np.bool_)
    rows = (keys % number).astype(np.int32)
    return _Uses(rows, keys // number, serves, np.zeros(len(keys), np.bool_))


def _find_parents(index: TreeIndex, uses: _Uses) -> _Numbers:
    """Return the index of each provider's parent within its tree, or -1."""
    number, rows = len(index.columns), _find_parent_rows(index, uses.rows)
    if not len(rows):
        return rows
    keys = uses.trees * number + uses.rows
    order = np.argsort(keys)
    parent_keys = uses.trees * number + rows
    positions = order[np.minimum(np.searchsorted(keys, parent_keys, sorter=order), len(keys) - 1)]
    starts = uses.starts
    first = np.repeat(starts, np.diff(starts, append=len(keys)))
    return np.where((rows >= 0) & (keys[positions] == parent_keys), positions - first, -1)


def _build_lineage(parents: Sequence[int]) -> dict[int, frozenset[int]]:
    lineage: dict[int, frozenset[int]] = {}
    for index in range(len(parents)):
        ancestors: set[int] = set()
        above = index
        while above >= 0 and above not in ancestors:
            ancestors.add(above)
            above = parents[above]
        lineage[index] = frozenset(ancestors)
    return lineage
