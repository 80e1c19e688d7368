"""The candidates of trees that are alike, found once for each kind of trees and filled in for all.

Hosts of one kind have the same tree but for its providers. Where these are at hand as columns, the
combinations of a kind are found in numbers of providers, and the uuids of all of its trees are put
in their places at once. ``enumerate`` looks at one tree after the other, of any source; property
tests compare what both find.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placement_sched.candidates.alike import NotedBudget
from placement_sched.candidates.combine import Combination, ProviderTree, combinations, lacks_traits
from placement_sched.candidates.enumerate import first_size, is_many, next_size, prices_of
from placement_sched.candidates.mirrored_trees import TreeColumns
from placement_sched.candidates.tree_loader import TreeLoader, with_ancestors
from placement_sched.model.placement.candidate import AllocationRequest, Layout

#: What makes the layout of a combination, of the first slot that has the provider of each slot.
LayoutOf = Callable[[tuple[int, ...]], Layout]

#: So many kinds of trees are known from one batch to the next.
_KINDS = 1000

_Numbers = NDArray[np.int64]


@dataclass(slots=True)
class CandidatesOfKinds:
    """Allocation requests in their order, and the ids of the providers that serve, as keys."""

    requests: list[AllocationRequest] = field(default_factory=list)
    serving: dict[int, None] = field(default_factory=dict)


def find_in_kinds(
    loader: TreeLoader, limit: int | None, layout_of: LayoutOf
) -> CandidatesOfKinds | None:
    """Return the first candidates by the ids of roots and providers; None is without limit.

    Returns None where trees are to be looked at one by one: where the source has no columns for
    this search, where what is free decides, where it matters which trees providers that share are
    of themselves, and where a few trees are enough. Raises :class:`TooComplex` where the budget
    does not suffice.
    """
    search, source = loader.search, loader.source
    size = first_size(limit)
    if not source.reads_cheaply or not is_many(size):
        return None
    of_own_trees = search.rules.subtrees or search.rules.one_of_a_tree
    if loader.looks_at_capacity or (search.names.topology.sharing and of_own_trees):
        return None
    kinds = _Kinds(loader, layout_of)
    roots = source.serving_roots(search, None)
    looked_at, size = 0, len(roots) if len(roots) <= 2 * size else size
    while some := roots[looked_at : looked_at + size]:
        columns = loader.read_columns(some)
        if columns is None:
            return None
        kinds.take(columns, limit)
        looked_at += len(some)
        number = len(kinds.found.requests)
        if number == limit:
            break
        size = next_size(None if limit is None else limit - number, looked_at, number)
    return kinds.found


@dataclass(frozen=True, slots=True)
class _Trees:
    """Trees as columns: where each begins, the uuid of its root, and which are alike.

    ``parents`` are numbers in the tree, -1 for none; None where no rule looks at them. Trees are
    of one kind where their ``keys`` are the same.
    """

    columns: TreeColumns
    bounds: _Numbers
    roots: NDArray[np.object_]
    parents: _Numbers | None
    keys: Sequence[bytes]

    def rows(self, tree: int) -> slice:
        """Return the rows of a tree."""
        return slice(*self.bounds[tree : tree + 2].tolist())


@dataclass(slots=True)
class _Kind:
    """Trees that are alike, and as many of their combinations as were wanted so far.

    ``steps`` are what one tree costs with none of them, with the first, and so on. Finding them
    spends the steps of one tree.
    """

    others: Iterator[Combination]
    noted: NotedBudget
    prices: Sequence[int]
    steps: list[int]
    combinations: list[Combination] = field(default_factory=list)

    def find(self, most: int | None) -> int:
        """Find so many combinations; return how many of these there are."""
        known = self.combinations
        while most is None or len(known) < most:
            chosen = next(self.others, None)
            if chosen is None:
                self.steps[-1] += self.noted.taken()
                break
            known.append(chosen)
            self.noted.spend(self.prices[len(set(chosen))])
            self.steps.append(self.steps[-1] + self.noted.taken())
        return len(known) if most is None else min(len(known), most)


@dataclass(slots=True)
class _Wanted:
    """What is wanted of some trees: ``of_trees`` has the number of the kind of each.

    ``counts`` has by kind how many of its combinations are wanted of each of its trees.
    """

    of_trees: _Numbers
    counts: _Numbers
    kinds: list[_Kind] = field(default_factory=list)

    def cut(self, most: int) -> None:
        """Leave so many combinations; of the last tree perhaps not all that its kind has."""
        found = np.cumsum(self.counts[self.of_trees])
        if not len(found) or found[-1] < most:
            return
        last = int(np.searchsorted(found, most))
        self.of_trees, self.counts = self.of_trees[: last + 1], self.counts[: len(self.kinds)]
        if excess := int(found[last]) - most:
            number = int(self.of_trees[last])
            self.of_trees[last] = len(self.kinds)
            self.kinds.append(self.kinds[number])
            self.counts = np.append(self.counts, self.counts[number] - excess)

    def trees(self) -> Sequence[_Numbers]:
        """Return the trees of each kind."""
        ends = np.cumsum(self._sizes())
        return np.split(np.argsort(self.of_trees, kind="stable"), ends)[:-1]

    def _sizes(self) -> _Numbers:
        return np.bincount(self.of_trees, minlength=len(self.kinds))

    def numbers(self) -> Sequence[Sequence[int]]:
        """Return by kind the providers of a tree that serve, by their numbers in it."""
        return [
            list(dict.fromkeys(chain.from_iterable(kind.combinations[:count])))
            for kind, count in zip(self.kinds, self.counts.tolist(), strict=True)
        ]

    def steps(self) -> int:
        """Return what all of these trees cost."""
        numbers = zip(self.kinds, self.counts.tolist(), self._sizes().tolist(), strict=True)
        return sum(kind.steps[count] * size for kind, count, size in numbers)


@dataclass(slots=True)
class _Kinds:
    """Takes the candidates of one batch of trees after the other."""

    loader: TreeLoader
    layout_of: LayoutOf
    found: CandidatesOfKinds = field(default_factory=CandidatesOfKinds)
    _known: dict[bytes, _Kind] = field(default_factory=dict)

    def take(self, columns: TreeColumns, limit: int | None) -> None:
        """Add the candidates of these trees to what was found, as many as are wanted."""
        if len(self._known) > _KINDS:
            self._known.clear()
        trees = _trees(columns, with_parents=bool(self.loader.search.rules.subtrees))
        lacking = None if limit is None else limit - len(self.found.requests)
        self._fill(trees, self._find(trees, lacking))

    def _find(self, trees: _Trees, lacking: int | None) -> _Wanted:
        """Find the combinations of each kind of these trees that are wanted, and pay for all trees.

        Each tree costs what it costs alone.
        """
        numbers: dict[bytes, int] = {}
        of_trees = [numbers.setdefault(key, len(numbers)) for key in trees.keys]
        wanted = _Wanted(np.array(of_trees, np.int64), np.zeros(len(numbers), np.int64))
        firsts = np.searchsorted(np.maximum.accumulate(wanted.of_trees), np.arange(len(numbers)))
        found, looked_at, paid = 0, 0, 0
        for key, first in zip(numbers, firsts.tolist(), strict=True):
            found += int(wanted.counts[wanted.of_trees[looked_at:first]].sum())
            looked_at = first
            if lacking is not None and found >= lacking:
                break
            kind, is_new = self._known.get(key), False
            if kind is None:
                kind, is_new = self._kind(trees, trees.rows(first)), True
                self._known[key] = kind
            number = kind.find(None if lacking is None else lacking - found)
            paid += kind.steps[number] if is_new else 0
            wanted.counts[len(wanted.kinds)] = number
            wanted.kinds.append(kind)
        if lacking is not None:
            wanted.cut(lacking)
        self.loader.budget.spend(wanted.steps() - paid)
        return wanted

    def _fill(self, trees: _Trees, wanted: _Wanted) -> None:
        """Put the providers of each tree into the combinations of its kind."""
        columns, counts = trees.columns, wanted.counts[wanted.of_trees]
        numbers = wanted.numbers()
        widths = np.array([len(some) for some in numbers], np.int64)[wanted.of_trees]
        requests: list[Any] = [None] * int(counts.sum())
        serving = np.empty(int(widths.sum()), np.int64)
        first_requests, first_serving = np.cumsum(counts) - counts, np.cumsum(widths) - widths
        for kind, number, used, some in zip(
            wanted.kinds, wanted.counts.tolist(), numbers, wanted.trees(), strict=True
        ):
            if not number:
                continue
            rows = trees.bounds[some] + np.array(used)[:, None]
            uuids = dict(zip(used, columns.uuids[rows].tolist(), strict=True))
            roots, firsts = trees.roots[some].tolist(), first_requests[some].tolist()
            for at, chosen in enumerate(kind.combinations[:number]):
                layout = self.layout_of(tuple(map(chosen.index, chosen)))
                places = zip(*(uuids[one] for one in dict.fromkeys(chosen)), strict=True)
                made = map(AllocationRequest._make, zip(repeat(layout), places, roots))
                for first, request in zip(firsts, made, strict=True):
                    requests[first + at] = request
            serving[first_serving[some] + np.arange(len(used))[:, None]] = columns.ids[rows]
        self.found.requests += requests
        self.found.serving.update(dict.fromkeys(serving.tolist()))

    def _kind(self, trees: _Trees, rows: slice) -> _Kind:
        """Return the kind of the tree of these rows, with numbers in place of its providers."""
        search, loader, columns = self.loader.search, self.loader, trees.columns
        options: list[tuple[int, ...]] = [()] * len(search.slots)
        for positions, serves in zip(search.equal_slots, columns.serves[rows].T, strict=True):
            some = tuple(np.flatnonzero(serves).tolist())
            for position in positions:
                options[position] = some
        covers = [np.flatnonzero(some).tolist() for some in columns.covers[rows]]
        tree = ProviderTree(
            options=tuple(options),
            covers={one: sum(1 << bit for bit in bits) for one, bits in enumerate(covers)},
            lineage={} if trees.parents is None else _lineage(trees.parents[rows].tolist()),
            roots=dict.fromkeys(range(len(covers)), 0),
        )
        noted = NotedBudget(loader.budget)
        others = combinations(tree, search.rules, noted)
        if lacks_traits(tree, search.rules):  # as where trees are looked at one by one
            others = iter(())
        return _Kind(others, noted, prices_of(search), [loader.pay_for(options)])


def _trees(columns: TreeColumns, *, with_parents: bool) -> _Trees:
    ids, roots = columns.ids, columns.roots
    starts = np.flatnonzero(np.diff(roots, prepend=0))
    parts = [np.packbits(columns.serves, axis=1), np.packbits(columns.covers, axis=1)]
    parents = None
    if with_parents:
        parents = _in_tree(columns, starts)
        parts.append(parents.astype(np.int32).reshape(-1, 1).view(np.uint8))
    keys, bounds = np.hstack(parts), np.append(starts, len(ids))
    text, width = keys.tobytes(), keys.shape[1]
    return _Trees(
        columns=columns,
        bounds=bounds,
        roots=columns.uuids[ids == roots],
        parents=parents,
        keys=[text[first:end] for first, end in pairwise((bounds * width).tolist())],
    )


def _in_tree(columns: TreeColumns, starts: _Numbers) -> _Numbers:
    """Return the number in its tree of the parent of each provider, -1 for none."""
    ids, number = columns.ids, len(columns.ids)
    by_id = np.argsort(ids)
    rows = by_id[np.minimum(np.searchsorted(ids, columns.parents, sorter=by_id), number - 1)]
    known = (ids[rows] == columns.parents) & (columns.roots[rows] == columns.roots)
    first = np.repeat(starts, np.diff(starts, append=number))
    return np.where(known, rows - first, -1)


def _lineage(numbers: Sequence[int]) -> dict[int, frozenset[int]]:
    """Return each provider of a tree with all above it, by their numbers."""
    parents = {one: None if above < 0 else above for one, above in enumerate(numbers)}
    return {one: with_ancestors(one, parents) for one in parents}
