"""Facts about providers that the search and its explanation need, from columns.

The columns are those of the provider cache (:class:`CachedProviders`), or those that were loaded
for one request (``loader``). Both are evaluated by the same code.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import repeat
from random import Random

import numpy as np
from numpy.typing import NDArray

from placement_sched.candidates import constraints
from placement_sched.candidates.cache import ProviderCache
from placement_sched.candidates.columns import Mask, ProviderColumns, RowNumbers
from placement_sched.candidates.combine import FreeCapacity
from placement_sched.candidates.constraints import ConstraintEvaluator, CountedRoot
from placement_sched.candidates.request import ResolvedNames, Topology, TreeSearch, checked
from placement_sched.candidates.tree_index import TreeIndex
from placement_sched.db.failover import History
from placement_sched.db.sql import SIZE, batches
from placement_sched.model.candidates_query import CandidateProvider, CandidatesQuery

#: So many providers are looked at first for each that a limit lets through, and how many times as
#: many next.
_BLOCK, _GROWTH = 8, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderContents:
    """What summaries show of providers, by their ids.

    ``capacities`` are by class id. ``traits`` are keys of ``trait_sets``, which has the names of
    each set. ``ids_recur``: a new provider may get the id of a deleted provider.
    """

    capacities: Mapping[int, Mapping[int, int]]
    traits: Mapping[int, Hashable]
    trait_sets: Mapping[Hashable, Sequence[str]]
    ids_recur: bool


class ProviderSource(ABC):
    """Provider columns, and the questions of a search about them.

    ``history`` is the history of the database that they were read in (``db/failover.py``).
    ``reads_cheaply``: all providers are in the columns, so that no question sends a statement.
    ``describes_once``: the very same object describes a provider until anything about it changes,
    its used amounts included.
    """

    history: History
    reads_cheaply: bool
    describes_once: bool

    @abstractmethod
    def held(
        self, providers: Iterable[int] = (), roots: Collection[int] = (), *, whole: bool = False
    ) -> AbstractContextManager[tuple[ProviderColumns, TreeIndex]]:
        """Give the columns, and the trees in them; other threads do not change them meanwhile.

        At least the providers of these ids are in them, the trees of these roots with all that
        share with them, and with ``whole`` all providers.
        """

    @abstractmethod
    def resolve(self, query: CandidatesQuery) -> ResolvedNames:
        """Return the ids of all names used; raises :class:`UnknownNames`."""

    @abstractmethod
    def ids_of(self, uuids: Collection[str]) -> Mapping[str, int]:
        """Return the ids of the providers of these uuids."""

    def serving_alone(
        self, query: CandidatesQuery, names: ResolvedNames, limit: int | None
    ) -> tuple[CandidateProvider, ...]:
        """Return the first providers, by id, that serve a request of one group alone."""
        with self.held(whole=True) as (cloud, shape):
            evaluator = ConstraintEvaluator(shape, names)
            (group,) = query.groups
            if group.in_tree is not None:
                few = evaluator.rows_in_tree(group.in_tree)
                return tuple(cloud.described(few[_alone(evaluator, query, few)][:limit]))
            found: list[CandidateProvider] = []
            start, size = 0, len(cloud) if limit is None else _BLOCK * limit
            while start < len(cloud) and (limit is None or len(found) < limit):
                block = slice(start, min(start + size, len(cloud)))
                rows = np.flatnonzero(_alone(evaluator, query, block)) + start
                rows = rows[cloud.providers.roots[rows] != 0]
                if limit is not None:
                    rows = rows[: limit - len(found)]
                found += cloud.described(rows.astype(np.int32))
                start, size = block.stop, size * _GROWTH
        return tuple(found)

    def _ids_alone(self, query: CandidatesQuery, names: ResolvedNames) -> Sequence[int]:
        """Return the ids of all providers that serve a request of one group alone."""
        with self.held(whole=True) as (cloud, shape):
            serving = _alone(ConstraintEvaluator(shape, names), query, slice(0, len(cloud)))
            return _ids(cloud, np.flatnonzero(serving).astype(np.int32))

    def sampled_alone(
        self, query: CandidatesQuery, names: ResolvedNames, limit: int | None, random: Random
    ) -> tuple[CandidateProvider, ...]:
        """Return ``limit`` of the providers that serve alone, each as likely as any other."""
        ids = self._ids_alone(query, names)
        drawn = random.sample(ids, len(ids) if limit is None else min(limit, len(ids)))
        by_id = {one.id: one for one in self.serving_of(query, names, drawn)}
        return tuple([by_id[key] for key in drawn if key in by_id])

    def serving_of(
        self, query: CandidatesQuery, names: ResolvedNames, ids: Collection[int]
    ) -> tuple[CandidateProvider, ...]:
        """Return the providers of these ids that serve a request of one group alone, by id."""
        with self.held(ids) as (cloud, shape):
            rows = np.sort(cloud.rows_of(ids))
            return tuple(
                cloud.described(rows[_alone(ConstraintEvaluator(shape, names), query, rows)])
            )

    def describe(
        self, serving: Collection[int], *, whole: bool
    ) -> tuple[tuple[CandidateProvider, ...], tuple[CandidateProvider, ...] | None]:
        """Return the providers of these ids, and if ``whole`` all of their trees, by id."""
        with self.held(serving) as (cloud, shape):
            rows, trees = np.sort(cloud.rows_of(serving)), None
            if whole:
                roots = cloud.providers.roots[rows]
                trees = tuple(cloud.described(shape.rows_of_trees(roots[roots != 0])))
            by_id = {one.id: one for one in cloud.described(rows)}
        return tuple([by_id[key] for key in serving if key in by_id]), trees

    def whole_trees(self, providers: Sequence[CandidateProvider]) -> tuple[CandidateProvider, ...]:
        """Return all providers of the trees that these are of."""
        found: dict[int, CandidateProvider] = {}
        ids = [one.id for one in providers]
        with self.held(ids) as (cloud, shape):
            # As many at once as one statement takes: the order is that of the answer.
            for batch in batches(ids, SIZE):
                roots = cloud.providers.roots[cloud.rows_of(batch)]
                whole = cloud.described(shape.rows_of_trees(roots[roots != 0]))
                found.update((one.id, one) for one in whole)
        return tuple(found.values())

    def roots(self, search: TreeSearch, limit: int | None = None, after: int = 0) -> list[int]:
        """Return the first ``limit`` roots, with ids above ``after``, that are as required."""
        with self.held(whole=True) as (cloud, shape):
            return _ids(cloud, constraints.roots(shape, search, after)[:limit])

    def serving_roots(
        self, search: TreeSearch, limit: int | None = None, after: int = 0
    ) -> list[int]:
        """Return the first ``limit`` roots, with ids above ``after``, of trees that may serve.

        Each slot has a provider there that could serve it alone.
        """
        with self.held(whole=True) as (cloud, shape):
            return _ids(cloud, constraints.serving_roots(shape, search, after)[:limit])

    def free(self, places: Collection[tuple[int, int]]) -> Mapping[tuple[int, int], FreeCapacity]:
        """Return what is free at these places, each a provider's and a class's id.

        Where a provider has an inventory of a class that another place names, that is there, too.
        """
        found: dict[tuple[int, int], FreeCapacity] = {}
        ids = {provider for provider, _ in places}
        with self.held(ids) as (cloud, _):
            rows = np.sort(cloud.rows_of(ids))
            for class_id in sorted({class_id for _, class_id in places}):
                columns = cloud.classes.get(class_id)
                if columns is None:
                    continue
                at, there = columns.stock.places(rows)
                values, at = columns.stock.values, at[there]
                for key, capacity, used, most in zip(
                    _ids(cloud, rows[there]),
                    values["capacity"][at].tolist(),
                    values["used"][at].tolist(),
                    values["max_unit"][at].tolist(),
                    strict=True,
                ):
                    found[key, class_id] = FreeCapacity(int(capacity) - used, most)
        return found

    def free_columns(
        self, providers: Sequence[int], classes: Collection[int]
    ) -> Mapping[int, NDArray[np.float64]]:
        """Return by class what is free of it on each of these providers, 0 where it has none.

        They are whole numbers, and exact where smaller than 2**53.
        """
        ids = np.fromiter(providers, np.int64, len(providers))
        found = {class_id: np.zeros(len(ids)) for class_id in classes}
        with self.held(providers) as (cloud, _):
            present, rows = cloud.places_of(ids)
            known = np.flatnonzero(present)
            for class_id, column in found.items():
                if (columns := cloud.classes.get(class_id)) is None:
                    continue
                at, there = columns.stock.places(rows)
                values, at = columns.stock.values, at[there]
                column[known[there]] = np.trunc(values["capacity"][at]) - values["used"][at]
        return found

    def contents(self, ids: Collection[int]) -> ProviderContents:
        """Return what summaries show of the providers of these ids."""
        with self.held(ids) as (cloud, _):
            return _contents(cloud, ids)

    def used(self, classes: Mapping[int, tuple[int, ...]]) -> Mapping[int, tuple[int, ...]]:
        """Return by provider what is allocated of each of its ``classes``, in their order."""
        alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for key, some in classes.items():
            alike[some].append(key)
        found: dict[int, tuple[int, ...]] = {}
        with self.held(classes) as (cloud, _):
            for some, keys in alike.items():
                amounts = _used(cloud, np.array(keys, np.int64), some)
                rows = zip(*amounts, strict=True) if some else repeat((), len(keys))
                found.update(zip(keys, rows, strict=True))
        return found


class CachedProviders(ProviderSource):
    """All providers, as the provider cache of this process has them.

    Each question holds the cache, and so is answered of one moment.
    """

    reads_cheaply = True
    describes_once = True

    def __init__(self, cache: ProviderCache, history: History = None) -> None:
        """``history`` is that of the connection by which the cache was brought up to date."""
        self.cache, self.history = cache, history

    def held(
        self,
        providers: Iterable[int] = (),  # noqa: ARG002 - all are there
        roots: Collection[int] = (),  # noqa: ARG002
        *,
        whole: bool = False,  # noqa: ARG002
    ) -> AbstractContextManager[tuple[ProviderColumns, TreeIndex]]:
        """Hold the cache."""
        return self.cache.held()

    def resolve(self, query: CandidatesQuery) -> ResolvedNames:
        """Return the ids of all names used."""
        with self.cache.held() as (cloud, shape):
            names, topology = cloud.names, Topology(shape.nested, bool(len(shape.sharers)))
        return checked(
            query, ResolvedNames(names.classes, names.traits, names.aggregates, topology)
        )

    def ids_of(self, uuids: Collection[str]) -> Mapping[str, int]:
        """Return the ids of the providers of these uuids."""
        with self.cache.held() as (cloud, _):
            return cloud.ids_of(uuids)


def _ids(cloud: ProviderColumns, rows: RowNumbers) -> list[int]:
    found: list[int] = cloud.providers.ids[rows].tolist()
    return found


def _alone(
    evaluator: ConstraintEvaluator, query: CandidatesQuery, rows: slice | RowNumbers
) -> Mask:
    """Return which of the rows serve a request of one group where every provider stands alone."""
    (group,) = query.groups
    found = evaluator.serving(group, CountedRoot.OWN, rows)
    evaluator.having(query.root, rows, found)
    return found


def _contents(cloud: ProviderColumns, ids: Collection[int]) -> ProviderContents:
    keys = np.sort(np.fromiter(ids, np.int64, len(ids)))
    there, rows = cloud.places_of(keys)
    present = keys[there].tolist()
    capacities: dict[int, dict[int, int]] = {key: {} for key in ids}
    for class_id in sorted(cloud.classes):
        stock = cloud.classes[class_id].stock
        at, has = stock.places(rows)
        amounts = stock.values["capacity"][at[has]].tolist()
        for key, amount in zip(keys[there][has].tolist(), amounts, strict=True):
            capacities[key][class_id] = int(amount)
    words = [row.tobytes() for row in cloud.traits.words[rows]]
    traits = dict.fromkeys(ids, b"") | dict(zip(present, words, strict=True))
    names = {key: name for name, key in cloud.names.traits.items()}
    sets = {
        one: [names[trait] for trait in cloud.traits.ids_in(one) if trait in names]
        for one in {b"", *words}
    }
    return ProviderContents(
        capacities=capacities, traits=traits, trait_sets={**sets}, ids_recur=cloud.names.ids_recur
    )


def _used(
    cloud: ProviderColumns, ids: NDArray[np.int64], classes: Sequence[int]
) -> list[list[int]]:
    """Return for each of the classes how much of it is used of each of the providers."""
    present, rows = cloud.places_of(ids)
    known = np.flatnonzero(present)
    amounts: list[list[int]] = []
    for class_id in classes:
        found = np.zeros(len(ids), np.int64)
        if (columns := cloud.classes.get(class_id)) is not None:
            at, there = columns.stock.places(rows)
            found[known[there]] = columns.stock.values["used"][at[there]]
        amounts.append(found.tolist())
    return amounts
