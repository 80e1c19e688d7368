"""Facts about providers as the database has them: a statement or two for each question."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, and_, case, select

from placement_sched.candidates import constraints, provider_trees, single_provider
from placement_sched.candidates import resolve as resolving
from placement_sched.candidates.combine import FreeCapacity
from placement_sched.candidates.constraints import ConditionStyle
from placement_sched.candidates.resolve import ResolvedNames
from placement_sched.candidates.slots import TreeSearch
from placement_sched.candidates.source import ProviderContents, SharingPair, TreeProvider
from placement_sched.candidates.summary_rows import read_contents, read_used
from placement_sched.db.histories import History, history_of
from placement_sched.db.sql import among, batches
from placement_sched.db.tables import resource_provider_traits, resource_providers
from placement_sched.model.placement.candidate import CandidateProvider, Usages
from placement_sched.model.placement.query import CandidatesQuery
from placement_sched.store.placement import capacity


@dataclass(frozen=True, slots=True)
class DatabaseProviders:
    """The providers in the database, as :class:`ProviderSource` has them."""

    connection: Connection

    @property
    def history(self) -> History:
        """That of the connection."""
        return history_of(self.connection)

    @property
    def reads_cheaply(self) -> bool:
        """Each question is a statement."""
        return False

    @property
    def describes_once(self) -> bool:
        """Each statement describes its providers again."""
        return False

    def resolve(self, query: CandidatesQuery) -> ResolvedNames:
        """Return the ids of all names used; raises :class:`UnknownNames`."""
        return resolving.resolve(self.connection, query)

    def serving_alone(
        self, query: CandidatesQuery, names: ResolvedNames, limit: int | None
    ) -> tuple[tuple[CandidateProvider, ...], Usages]:
        """Return the first providers that serve alone, and on PostgreSQL what is used of them."""
        (group,) = query.groups
        classes = [names.classes[name] for name, _ in group.resources]
        sums = constraints.usage_sums(self.connection, classes)
        style = ConditionStyle(sums=sums)
        serving = constraints.all_of(constraints.alone(query, names, style))
        return single_provider.first_providers(self.connection, serving, sums, limit)

    def sampled_alone(
        self, query: CandidatesQuery, names: ResolvedNames, limit: int | None, random: Random
    ) -> tuple[CandidateProvider, ...]:
        """Return some that serve alone, drawn at random by id; only those drawn are described."""
        serving = constraints.all_of(constraints.alone(query, names))
        return single_provider.sample(self.connection, serving, limit, random)

    def serving_alone_of(
        self, query: CandidatesQuery, names: ResolvedNames, uuids: Collection[str]
    ) -> tuple[CandidateProvider, ...]:
        """Return those of the providers of these uuids that serve alone, by id."""
        of_these = among(self.connection, resource_providers.c.uuid, uuids)
        serving = constraints.all_of(constraints.alone(query, names, constraints.EACH_PROVIDER))
        condition = and_(serving, of_these)
        return single_provider.first_providers(self.connection, condition, None, None)[0]

    def ids_of(self, uuids: Collection[str]) -> Mapping[str, int]:
        """Return the ids of the providers of these uuids."""
        return single_provider.ids_of(self.connection, uuids)

    def describe_found(
        self, known: Mapping[int, TreeProvider], serving: Collection[int], *, whole: bool
    ) -> tuple[tuple[CandidateProvider, ...], tuple[CandidateProvider, ...] | None]:
        """Return the providers that serve, and if ``whole`` all of their trees, which are known."""
        found, unknown = _described(known, serving)
        others = single_provider.describe(self.connection, unknown)
        return (*found, *others), _whole_trees_of(known, serving) if whole else None

    def whole_trees(self, providers: Sequence[CandidateProvider]) -> tuple[CandidateProvider, ...]:
        """Return all providers of the trees that these are of."""
        return single_provider.whole_trees(self.connection, providers)

    def first_trees(self, search: TreeSearch, size: int, after: int) -> Sequence[TreeProvider]:
        """Return the providers of the first trees after a root."""
        return provider_trees.providers_of_first(self.connection, search, size, after)

    def trees(self, search: TreeSearch, roots: Sequence[int]) -> Sequence[TreeProvider]:
        """Return the providers of the trees of these roots."""
        return provider_trees.providers_of(self.connection, search, roots)

    def tree_columns(self, search: TreeSearch, roots: Sequence[int]) -> None:
        """Return None: there are no columns."""

    def sharing(self, search: TreeSearch, ids: Sequence[int]) -> Sequence[TreeProvider]:
        """Return the providers of these ids, with the slots of another tree that each serves."""
        return provider_trees.providers_of(self.connection, search, ids, sharing=True)

    def sharing_pairs(
        self, search: TreeSearch, roots: Sequence[int], aggregates: Sequence[frozenset[str]]
    ) -> Sequence[SharingPair]:
        """Return what shares with the trees of these roots."""
        pairs = provider_trees.sharing_with_trees(self.connection, roots)
        anchor = pairs.c.anchor_id
        flags = [
            case((constraints.root_in_aggregates(uuids, search.names, anchor), 1), else_=0)
            for uuids in aggregates
        ]
        return self.connection.execute(select(pairs.c.provider_id, anchor, *flags)).all()

    def roots(self, search: TreeSearch) -> list[int]:
        """Return all roots that are as required, by id."""
        return list(self.connection.scalars(provider_trees.roots_of(search)))

    def serving_roots(self, search: TreeSearch, limit: int | None, after: int = 0) -> list[int]:
        """Return the first roots after one whose trees may serve."""
        return provider_trees.serving_roots(self.connection, search, limit, after)

    def free(self, places: Collection[tuple[int, int]]) -> Mapping[tuple[int, int], FreeCapacity]:
        """Return what is free at these places."""
        found = capacity.free(self.connection, places)
        return {key: FreeCapacity(amount, most) for key, (amount, most) in found.items()}

    def free_columns(
        self, providers: Sequence[int], classes: Collection[int]
    ) -> Mapping[int, NDArray[np.float64]]:
        """Return by class what is free of it on each of these providers."""
        places = [(key, class_id) for key in providers for class_id in classes]
        free, nothing = capacity.free(self.connection, places), (0, 0)

        def column(class_id: int) -> NDArray[np.float64]:
            amounts = (float(free.get((key, class_id), nothing)[0]) for key in providers)
            return np.fromiter(amounts, np.float64, len(providers))

        return {class_id: column(class_id) for class_id in classes}

    def covers(self, providers: Iterable[int], bits: Mapping[int, int]) -> Mapping[int, int]:
        """Return by provider the bits of all its traits."""
        carried = resource_provider_traits.c
        found: dict[int, int] = defaultdict(int)
        for batch in batches(providers):
            statement = select(carried.resource_provider_id, carried.trait_id).where(
                among(self.connection, carried.resource_provider_id, batch),
                carried.trait_id.in_(sorted(bits)),
            )
            for provider, trait in self.connection.execute(statement).all():
                found[provider] |= bits[trait]
        return found

    def parents(self, roots: Collection[int]) -> Mapping[int, int | None]:
        """Return the id of the parent of each provider of these trees."""
        found: dict[int, int | None] = {}
        columns = resource_providers.c
        for batch in batches(roots):
            statement = select(columns.id, columns.parent_provider_id).where(
                among(self.connection, columns.root_provider_id, batch)
            )
            found.update((key, parent) for key, parent in self.connection.execute(statement))
        return found

    def contents(self, ids: Collection[int]) -> ProviderContents:
        """Return what summaries show of the providers of these ids, read in three statements."""
        return read_contents(self.connection, ids)

    def used(
        self, classes: Mapping[int, tuple[int, ...]], only: frozenset[int] | None
    ) -> Mapping[int, tuple[int, ...]]:
        """Return by provider what is allocated of each of its classes."""
        return read_used(self.connection, classes, only)


def _described(
    providers: Mapping[int, TreeProvider], ids: Iterable[int]
) -> tuple[list[CandidateProvider], list[int]]:
    """Return the providers of these ids, and the ids of those whose root or parent is unknown."""
    known, unknown = [], []
    for key in ids:
        one = providers[key]
        if one.root in providers and (one.parent is None or one.parent in providers):
            known.append(_candidate_provider(one, providers))
        else:
            unknown.append(key)
    return known, unknown


def _whole_trees_of(
    providers: Mapping[int, TreeProvider], ids: Iterable[int]
) -> tuple[CandidateProvider, ...]:
    """Return all providers of the trees of these ids, by id, all of which are known."""
    roots = {providers[key].root for key in ids}
    whole = sorted(one for one in providers.values() if one.root in roots)
    return tuple([_candidate_provider(one, providers) for one in whole])


def _candidate_provider(
    one: TreeProvider, providers: Mapping[int, TreeProvider]
) -> CandidateProvider:
    parent = None if one.parent is None else providers[one.parent].uuid
    return CandidateProvider(one.id, one.uuid, one.generation, providers[one.root].uuid, parent)
