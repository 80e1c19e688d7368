"""Provider trees as columns: which of their providers serve which slot of a request."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from placement_sched.candidates.columns import Mask, RowNumbers, whole_capacities
from placement_sched.candidates.combine import Budget, FreeCapacity, ProviderTree, can_serve
from placement_sched.candidates.constraints import (
    ConstraintEvaluator,
    CountedRoot,
    admits,
    masks_of,
)
from placement_sched.candidates.providers import ProviderSource
from placement_sched.candidates.request import TreeSearch, conditions_of
from placement_sched.candidates.tree_index import TreeIndex

_Numbers = NDArray[np.int64]

#: Number of conditions for each tree that cost nothing, and of further conditions for one step.
_FREE_CONDITIONS, _CONDITIONS = 50, 2
#: Number of providers that may serve a slot, and of trees that share a provider, for one step.
_NOTED, _SHARED_NOTED = 20, 5


@dataclass(frozen=True)
class _Uses:
    """Providers that trees may use: the row of each, the number of the tree, and what it serves.

    ``serves`` has a column for each of the search's ``distinct_slots``.
    """

    rows: RowNumbers
    trees: _Numbers
    serves: Mask
    is_shared: Mask

    def of(self, some: Mask | _Numbers) -> "_Uses":
        """Return some of the uses."""
        return _Uses(self.rows[some], self.trees[some], self.serves[some], self.is_shared[some])

    def with_others(self, others: "_Uses") -> "_Uses":
        return _Uses(
            np.concatenate((self.rows, others.rows)),
            np.concatenate((self.trees, others.trees)),
            np.concatenate((self.serves, others.serves)),
            np.concatenate((self.is_shared, others.is_shared)),
        )

    @cached_property
    def starts(self) -> _Numbers:
        """The first use of each tree, if these are in the order of trees."""
        is_first = np.ones(len(self.trees), np.bool_)
        is_first[1:] = self.trees[1:] != self.trees[:-1]
        return np.flatnonzero(is_first)

    def of_trees(self, is_kept: Mask) -> "_Uses":
        """Return the uses of some of the trees."""
        if is_kept.all():
            return self
        return self.of(np.repeat(is_kept, np.diff(self.starts, append=len(self.rows))))


@dataclass(frozen=True, kw_only=True)
class ProviderTrees:
    """Trees that have a provider for every slot of a search, one after the other.

    Of each tree: the id and the uuid of its root, and in ``bounds`` its first provider; the last
    bound is the end. Of each provider, in a tree by id: ``ids``, ``uuids``, which of the search's
    ``distinct_slots`` it ``serves``, which of the sets of traits it ``covers``, whether it shares
    with other trees, the id of its root if that is another tree (``homes``, else 0), the number in
    the tree of its parent (-1 for none), and by class what is free and the greatest ``max_unit``.
    ``parents`` and ``homes`` are zeros if no rule depends on them.
    """

    search: TreeSearch
    roots: _Numbers
    root_uuids: NDArray[np.object_]
    bounds: _Numbers
    ids: _Numbers
    uuids: NDArray[np.object_]
    serves: Mask
    covers: Mask
    is_sharer: Mask
    homes: _Numbers
    parents: _Numbers
    free: Mapping[int, tuple[_Numbers, _Numbers]]

    def __len__(self) -> int:
        return len(self.roots)

    @cached_property
    def may_repeat(self) -> bool:
        """Whether sharing providers alone may serve, and so several trees in the same way."""
        return bool(self.serves[self.is_sharer].any(axis=0).all())

    @cached_property
    def keys(self) -> Sequence[bytes]:
        """A key for each tree: trees with the same key have the same combinations, in numbers."""
        parts = [np.packbits(np.hstack((self.serves, self.covers)), axis=1)]
        numbers = [self.is_sharer, *self._room.values()]
        if self.search.rules.subtrees:
            numbers.append(self.parents)
        if self.search.rules.one_of_a_tree:
            numbers.append(self.homes)
        is_used = [bool(each.any()) for each in numbers]
        parts += [
            each.astype(np.int64).reshape(-1, 1).view(np.uint8)
            for each, used in zip(numbers, is_used, strict=True)
            if used
        ]
        rows = np.hstack(parts)
        text, width, named = rows.tobytes(), rows.shape[1], bytes(is_used)
        bounds = (self.bounds * width).tolist()
        return [named + text[first:end] for first, end in pairwise(bounds)]

    @cached_property
    def _room(self) -> Mapping[int, _Numbers]:
        """What slots may take together of each class, 0 if that is no less than they request.

        The amount is one more, so that 0 says nothing else.
        """
        rules, distinct = self.search.rules, self.search.distinct_slots
        sizes = np.array([len(positions) for positions in self.search.equal_slots], np.int64)
        is_plain = np.array([not slot.slot.suffix for slot in distinct], np.bool_)
        found = {}
        for class_id, (free, most) in self.free.items():
            amounts = np.array([dict(slot.slot.amounts).get(class_id, 0) for slot in distinct])
            served = self.serves & (amounts > 0)
            is_contested = served @ sizes > 1
            if rules.isolate:  # a provider serves one group with a suffix at most
                is_contested &= (served & is_plain).any(axis=1)
            total, room = served @ (sizes * amounts), np.minimum(free, most)
            found[class_id] = np.where(is_contested & (room < total), room + 1, 0)
        return found

    def ids_of(self, number: int) -> list[int]:
        """Return the ids of the providers of a tree."""
        found: list[int] = self.ids[slice(*self.bounds[number : number + 2].tolist())].tolist()
        return found

    def tree(self, number: int, *, with_all_free: bool = False) -> ProviderTree:
        """Return a tree, with numbers from 0 in place of its providers.

        ``free`` has what limits a provider, or all amounts of classes that several slots request.
        """
        rows = slice(*self.bounds[number : number + 2].tolist())
        serves, search = self.serves[rows], self.search
        options: list[tuple[int, ...]] = [()] * len(search.slots)
        for positions, served in zip(search.equal_slots, serves.T, strict=True):
            some = tuple(np.flatnonzero(served).tolist())
            for position in positions:
                options[position] = some
        covers: dict[int, int] = {}
        if search.rules.trait_choices:
            for one, sets in enumerate(self.covers[rows]):
                covers[one] = sum(1 << bit for bit in np.flatnonzero(sets).tolist())
        return ProviderTree(
            options=tuple(options),
            free=dict(self._free(rows, with_all=with_all_free)),
            covers=covers,
            lineage=_lineage(self.parents[rows].tolist()) if search.rules.subtrees else {},
            roots=dict(enumerate(self.homes[rows].tolist())) if search.rules.one_of_a_tree else {},
        )

    def _free(
        self, rows: slice, *, with_all: bool
    ) -> Iterator[tuple[tuple[int, int], FreeCapacity]]:
        if with_all:
            for class_id, columns in self.free.items():
                amounts = zip(*(column[rows].tolist() for column in columns), strict=True)
                for one, (free, most) in enumerate(amounts):
                    yield (one, class_id), FreeCapacity(free, most)
            return
        for class_id, room in self._room.items():
            for one, amount in enumerate(room[rows].tolist()):
                if amount:
                    yield (one, class_id), FreeCapacity(amount - 1, amount - 1)

    def check(self, budget: Budget) -> Iterator[tuple[int, bool]]:
        """Yield the root of each tree, and whether the tree can serve; each kind is tried once.

        Raises :class:`TooComplex` if the budget does not suffice.
        """
        serving: dict[bytes, bool] = {}
        for number, (root, key) in enumerate(zip(self.roots.tolist(), self.keys, strict=True)):
            if key not in serving:
                serving[key] = can_serve(self.tree(number), self.search.rules, budget)
            yield root, serving[key]


@dataclass(frozen=True, slots=True)
class TreeReader:
    """Reads trees for a search; raises :class:`TooComplex` beyond the budget.

    A tree that only sharing providers serve is left out if an earlier tree has the same. With
    ``for_explanation`` no tree is left out that has a provider for every slot, even one that lacks
    a trait.
    """

    source: ProviderSource
    search: TreeSearch
    budget: Budget
    for_explanation: bool = False
    _pools: set[bytes] = field(default_factory=set)

    def read(self, roots: Sequence[int]) -> ProviderTrees:
        """Return the trees of these roots that have a provider for every slot, in this order."""
        conditions = max(0, conditions_of(self.search) - _FREE_CONDITIONS)
        self.budget.spend(len(roots) * conditions // _CONDITIONS)
        with self.source.held(roots=roots) as (cloud, shape):
            there, root_rows = cloud.places_of(np.fromiter(roots, np.int64, len(roots)))
            order = np.argsort(root_rows)
            numbers = np.flatnonzero(there)[order]
            uses = self._complete(shape, self._uses(shape, root_rows[order], numbers))
            return self._columns(shape, uses, np.array(roots, np.int64))

    def _uses(self, shape: TreeIndex, roots: RowNumbers, numbers: _Numbers) -> _Uses:
        """Return the providers that serve a slot of the trees of these ascending roots."""
        rows = shape.rows_of_trees(shape.cloud.providers.ids[roots])
        trees = numbers[np.searchsorted(roots, shape.root_rows[rows])]
        serves = masks_of(shape, self.search, rows, CountedRoot.OWN)
        has_slot: Mask = np.logical_or.reduce(serves, axis=1)
        uses = _Uses(rows, trees, serves, np.zeros(len(rows), np.bool_)).of(has_slot)
        if self.search.names.topology.sharing:
            uses = uses.with_others(self._shared(shape, roots, numbers))
        if self.search.rules.subtrees:
            uses = uses.with_others(_ancestors(shape, uses))
        return uses.of(np.lexsort((uses.rows, uses.trees)))

    def _shared(self, shape: TreeIndex, roots: RowNumbers, numbers: _Numbers) -> _Uses:
        """Return the providers that share with these trees, and serve a slot of them."""
        pairs = shape.sharing_with(roots)
        self.budget.spend(len(pairs) // _SHARED_NOTED)
        sharers, anchors = (each[pairs] for each in shape.sharing)
        distinct, places = shape.distinct_sharers
        serves = masks_of(shape, self.search, distinct, CountedRoot.OTHER)[places[pairs]]
        evaluator = ConstraintEvaluator(shape, self.search.names)
        for bit, slot in enumerate(self.search.distinct_slots):
            serves[:, bit] &= admits(slot, evaluator, anchors)
        trees = numbers[np.searchsorted(roots, anchors)]
        has_slot: Mask = np.logical_or.reduce(serves, axis=1)
        return _Uses(sharers, trees, serves, np.ones(len(pairs), np.bool_)).of(has_slot)

    def _complete(self, shape: TreeIndex, uses: _Uses) -> _Uses:
        """Leave the trees that may serve, and spend what it costs to note their providers."""
        if self.search.names.topology.sharing and not self.for_explanation and len(uses.rows):
            uses = uses.of_trees(self._is_new(shape, uses))
        if not len(uses.rows):
            return uses
        starts = uses.starts
        sizes = [len(positions) for positions in self.search.equal_slots]
        noted = np.add.reduceat(uses.serves @ np.array(sizes, np.int64), starts)
        self.budget.spend(int((noted // _NOTED).sum()))
        has_each = np.logical_or.reduceat(uses.serves, starts, axis=0)
        is_complete: Mask = np.logical_and.reduce(has_each, axis=1)
        choices = self.search.rules.trait_choices
        if choices and not self.for_explanation:
            is_plain = [not slot.slot.suffix for slot in self.search.distinct_slots]
            counted = uses.serves[:, np.array(is_plain)].any(axis=1)
            for traits in choices:
                has_one = counted & shape.cloud.traits.any_of(traits, uses.rows)
                is_complete &= np.logical_or.reduceat(has_one, starts)
        return uses.of_trees(is_complete)

    def _is_new(self, shape: TreeIndex, uses: _Uses) -> Mask:
        """Return for each tree whether none before it has the same, of sharing providers alone."""
        starts, ids = uses.starts, shape.cloud.providers.ids[uses.rows]
        has_own = np.logical_or.reduceat(~uses.is_shared, starts)
        is_new = np.ones(len(starts), np.bool_)
        bounds = np.append(starts, len(ids))
        for tree in np.flatnonzero(~has_own).tolist():
            rows = slice(*bounds[tree : tree + 2].tolist())
            key = ids[rows].tobytes() + uses.serves[rows].tobytes()
            is_new[tree] = key not in self._pools
            self._pools.add(key)
        return is_new

    def _columns(self, shape: TreeIndex, uses: _Uses, roots: _Numbers) -> ProviderTrees:
        cloud, rules, rows, starts = shape.cloud, self.search.rules, uses.rows, uses.starts
        providers, zeros = cloud.providers, np.zeros(len(rows), np.int64)
        covers = np.zeros((len(rows), len(rules.trait_choices)), np.bool_)
        for bit, choices in enumerate(rules.trait_choices):
            covers[:, bit] = cloud.traits.any_of(choices, rows)
        covers &= uses.serves.any(axis=1, keepdims=True)
        is_sharer = np.zeros(len(rows), np.bool_)
        if self.search.names.topology.sharing:
            # Also of those that share with trees which are not in the columns yet.
            is_sharer = np.isin(rows, shape.sharers)
        found = roots[uses.trees[starts]]
        homes = np.where(uses.is_shared, providers.roots[rows], 0) if rules.one_of_a_tree else zeros
        return ProviderTrees(
            search=self.search,
            roots=found,
            root_uuids=providers.uuids[cloud.rows_of(found)],
            bounds=np.append(starts, len(rows)),
            ids=providers.ids[rows],
            uuids=providers.uuids[rows],
            serves=uses.serves,
            covers=covers,
            is_sharer=is_sharer,
            homes=homes,
            parents=_parents(shape, uses) if rules.subtrees else zeros,
            free={class_id: _free(shape, rows, class_id) for class_id in self._repeated()},
        )

    def _repeated(self) -> list[int]:
        """Return the classes that several slots request."""
        slots = self.search.rules.slots
        classes = [class_id for slot in slots for class_id, _ in slot.amounts]
        return sorted({class_id for class_id in classes if classes.count(class_id) > 1})


def _free(shape: TreeIndex, rows: RowNumbers, class_id: int) -> tuple[_Numbers, _Numbers]:
    """Return what is free of a class on each provider, and its ``max_unit``; 0 if it has none."""
    columns = shape.cloud.classes.get(class_id)
    free, most = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    if columns is not None:
        places, there = columns.stock.places(rows)
        values, at = columns.stock.values, places[there]
        free[there] = whole_capacities(values["capacity"][at]) - values["used"][at]
        most[there] = values["max_unit"][at]
    return free, most


def _parent_rows(shape: TreeIndex, rows: RowNumbers) -> _Numbers:
    """Return the row of the parent of each provider, -1 for none."""
    there, found = shape.cloud.places_of(shape.cloud.providers.parents[rows])
    parents = np.full(len(rows), -1, np.int64)
    parents[there] = found
    return parents


def _ancestors(shape: TreeIndex, uses: _Uses) -> _Uses:
    """Return the providers above these that are not among them, tree by tree."""
    number = len(shape.cloud)
    below = uses.trees * number + uses.rows
    seen = known = np.unique(below)
    while len(below):
        parents = _parent_rows(shape, (below % number).astype(np.int32))
        has_parent = parents >= 0
        above = np.unique((below // number * number + parents)[has_parent])
        # A provider that moves between two statements may be above itself.
        below = np.setdiff1d(above, seen, assume_unique=True)
        seen = np.union1d(seen, below)
    keys = np.setdiff1d(seen, known, assume_unique=True)
    serves = np.zeros((len(keys), uses.serves.shape[1]), np.bool_)
    rows = (keys % number).astype(np.int32)
    return _Uses(rows, keys // number, serves, np.zeros(len(keys), np.bool_))


def _parents(shape: TreeIndex, uses: _Uses) -> _Numbers:
    """Return the number in its tree of the parent of each provider, -1 for none."""
    number, rows = len(shape.cloud), _parent_rows(shape, uses.rows)
    if not len(rows):
        return rows
    keys = uses.trees * number + uses.rows
    order = np.argsort(keys)
    wanted = uses.trees * number + rows
    places = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    starts = uses.starts
    first = np.repeat(starts, np.diff(starts, append=len(keys)))
    return np.where((rows >= 0) & (keys[places] == wanted), places - first, -1)


def _lineage(parents: Sequence[int]) -> dict[int, frozenset[int]]:
    """Return each provider of a tree with all above it, by their numbers."""
    found: dict[int, frozenset[int]] = {}
    for one in range(len(parents)):
        line: set[int] = set()
        above = one
        while above >= 0 and above not in line:
            line.add(above)
            above = parents[above]
        found[one] = frozenset(line)
    return found
