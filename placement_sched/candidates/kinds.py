"""The candidates of trees that are alike, found once for each kind of trees and filled in for all.

Hosts of one kind have the same tree but for its providers. Where these are at hand as columns, the
combinations of a kind are found in numbers of providers, and the uuids of all of its trees are put
in their places at once. ``enumerate`` looks at one tree after the other, of any source; property
tests compare what both find.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise, repeat

import numpy as np
from numpy.typing import NDArray

from placement_sched.candidates.alike import NotedBudget
from placement_sched.candidates.combine import Combination, ProviderTree, combinations, lacks_traits
from placement_sched.candidates.enumerate import first_size, is_many, next_size, prices_of
from placement_sched.candidates.source import TreeColumns
from placement_sched.candidates.tree_loader import TreeLoader, with_ancestors
from placement_sched.model.placement.candidate import AllocationRequest, Layout

#: What makes the layout of a combination, of the first slot that has the provider of each slot.
LayoutOf = Callable[[tuple[int, ...]], Layout]

#: So many kinds of trees are known from one batch to the next.
_KINDS = 1000

_Numbers = NDArray[np.int64]


@dataclass(slots=True)
class CandidatesOfKinds:
    """Allocation requests in their order, and the ids of the providers that serve, each once."""

    requests: list[AllocationRequest] = field(default_factory=list)
    serving: list[int] = field(default_factory=list)


def find_in_kinds(
    loader: TreeLoader, limit: int | None, layout_of: LayoutOf
) -> CandidatesOfKinds | None:
    """Return the first candidates by the ids of roots and providers; None is without limit.

    Returns None where trees are to be looked at one by one: where their providers are not at hand
    as columns, where others share with them, where what is free decides, and where a few trees
    are enough. Raises :class:`TooComplex` where the budget does not suffice.
    """
    search, source = loader.search, loader.source
    size = first_size(limit)
    if not source.reads_cheaply or not is_many(size):
        return None
    if search.names.topology.sharing or loader.looks_at_capacity:
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
    of one kind where their ``keys`` are the same, of ``width`` bytes for each provider.
    """

    columns: TreeColumns
    bounds: _Numbers
    roots: NDArray[np.object_]
    parents: _Numbers | None
    keys: bytes
    width: int

    def __iter__(self) -> Iterator[tuple[bytes, slice]]:
        """Yield the key of each tree, and its rows."""
        for first, end in pairwise(self.bounds.tolist()):
            yield self.keys[first * self.width : end * self.width], slice(first, end)

    def filled(
        self, trees: Sequence[int], wanted: Sequence[Combination], layout_of: LayoutOf
    ) -> Iterator[tuple[int, Sequence[AllocationRequest], Sequence[int]]]:
        """Yield each of these trees of one kind, its allocation requests and who serves them."""
        starts = self.bounds[trees]
        roots = self.roots[trees].tolist()
        numbers = list(dict.fromkeys(chain.from_iterable(wanted)))
        uuids = {one: self.columns.uuids[starts + one].tolist() for one in numbers}
        columns = []
        for chosen in wanted:
            layout = layout_of(tuple(map(chosen.index, chosen)))
            places = zip(*(uuids[one] for one in dict.fromkeys(chosen)), strict=True)
            columns.append(map(AllocationRequest._make, zip(repeat(layout), places, roots)))
        serving = self.columns.ids[starts[:, None] + np.array(numbers)].tolist()
        return zip(trees, zip(*columns, strict=True), serving, strict=True)


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
        # Trees of a kind of which as many candidates are wanted.
        alike: dict[tuple[bytes, int], list[int]] = defaultdict(list)
        for tree, (key, rows) in enumerate(trees):
            kind = self._known.get(key)
            is_new = kind is None
            if kind is None:
                kind = self._known[key] = self._kind(trees, rows)
            number = kind.find(lacking)
            if not is_new:
                self.loader.budget.spend(kind.steps[number])
            if number:
                alike[key, number].append(tree)
            if lacking is not None:
                lacking -= number
                if not lacking:
                    break
        requests: list[Sequence[AllocationRequest]] = [()] * len(trees.roots)
        serving: list[Sequence[int]] = [()] * len(trees.roots)
        for (key, number), some in alike.items():
            wanted = self._known[key].combinations[:number]
            for tree, of_tree, ids in trees.filled(some, wanted, self.layout_of):
                requests[tree], serving[tree] = of_tree, ids
        self.found.requests += chain.from_iterable(requests)
        self.found.serving += chain.from_iterable(serving)

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
    keys = np.hstack(parts)
    return _Trees(
        columns=columns,
        bounds=np.append(starts, len(ids)),
        roots=columns.uuids[ids == roots],
        parents=parents,
        keys=keys.tobytes(),
        width=keys.shape[1],
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
