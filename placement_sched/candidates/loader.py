"""Provider columns that are loaded for one request, where a process has no provider cache.

SQL narrows the providers or trees to those that may serve (``narrowing``). Their rows are loaded,
and evaluated as the provider cache is.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection, select

from placement_sched.candidates import narrowing
from placement_sched.candidates.columns import ProviderColumns
from placement_sched.candidates.providers import ProviderContents, ProviderSource
from placement_sched.candidates.request import (
    ResolvedNames,
    Topology,
    TreeSearch,
    checked,
    traits_of,
)
from placement_sched.candidates.tree_index import TreeIndex
from placement_sched.db import tables
from placement_sched.db.collations import in_unicode
from placement_sched.db.failover import history_of
from placement_sched.db.sql import ids_by, rows_among
from placement_sched.db.tables import resource_providers
from placement_sched.model.candidates_query import CandidateProvider, CandidatesQuery
from placement_sched.model.provider import SHARES
from placement_sched.store.placement import provider_state, traits

_COLUMNS = resource_providers.c
#: The kinds of rows of the statement that resolves names.
_CLASS, _TRAIT, _AGGREGATE, _TOPOLOGY = range(4)


class LoadedProviders(ProviderSource):
    """The providers that one request has loaded so far; each question loads what it needs.

    For one thread. Each statement sees the database at a moment of its own.
    """

    reads_cheaply = False
    describes_once = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.history = history_of(connection)
        self._cloud = ProviderColumns(provider_state.no_names(connection))
        self._shape: tuple[int, TreeIndex] | None = None
        self._loaded: set[int] = set()
        self._loaded_trees: set[int] = set()
        self._is_whole = False

    @contextmanager
    def held(
        self, providers: Iterable[int] = (), roots: Collection[int] = (), *, whole: bool = False
    ) -> Iterator[tuple[ProviderColumns, TreeIndex]]:
        """Give the columns, with what they lack of these loaded."""
        if not self._is_whole:
            if whole:
                self._load_all()
            else:
                self._load_trees(roots)
                self._load(providers)
        if self._shape is None or self._shape[0] != self._cloud.shape:
            self._shape = (self._cloud.shape, TreeIndex(self._cloud, self._sharing_trait))
        yield self._cloud, self._shape[1]

    def _load_all(self) -> None:
        for some in provider_state.read_all_providers(self._connection):
            self._cloud.replace([row[0] for row in some.providers], some)
        self._is_whole = True

    def _load(self, ids: Iterable[int]) -> None:
        lacking = [key for key in ids if key not in self._loaded]
        if lacking:
            rows = provider_state.read_providers(self._connection, lacking)
            self._cloud.replace(lacking, rows)
            self._loaded.update(lacking)

    def _load_trees(self, roots: Collection[int]) -> None:
        """Load whole trees, and the whole trees of all providers that share with them."""
        lacking = [root for root in roots if root not in self._loaded_trees]
        if not lacking:
            return
        self._loaded_trees.update(lacking)
        members = self._members_of(lacking)
        self._load(members)
        joined = self._cloud.memberships
        if self._sharing_trait is not None and len(joined.rows):
            own = np.isin(joined.rows, self._cloud.rows_of(members))
            aggregates = np.unique(joined.values["aggregate"][own]).tolist()
            sharers = narrowing.trees_of_sharers(self._connection, self._sharing_trait, aggregates)
            self._load(sharers)

    def _members_of(self, roots: Collection[int]) -> list[int]:
        root = _COLUMNS.root_provider_id
        return [row[0] for row in rows_among(self._connection, select(_COLUMNS.id), root, roots)]

    def resolve(self, query: CandidatesQuery) -> ResolvedNames:
        """Return the ids of all names used, read with one statement."""
        names = resolve(self._connection, query)
        self._sharing_trait = names.traits.get(SHARES) if names.topology.sharing else None
        return names

    @cached_property
    def _sharing_trait(self) -> int | None:
        """The id of the trait of sharing providers, None if no provider shares."""
        return traits.ids_by_name(self._connection, [SHARES]).get(SHARES)

    def ids_of(self, uuids: Collection[str]) -> Mapping[str, int]:
        """Return the ids of the providers of these uuids."""
        return ids_by(self._connection, _COLUMNS.uuid, uuids)

    def serving_alone(
        self, query: CandidatesQuery, names: ResolvedNames, limit: int | None
    ) -> tuple[CandidateProvider, ...]:
        """Return the first providers, by id, that serve a request of one group alone."""
        found: list[CandidateProvider] = []
        after = 0
        while True:
            lacking = None if limit is None else limit - len(found)
            ids = narrowing.ids_alone(self._connection, query, names, lacking, after)
            found += self.serving_of(query, names, ids)
            if lacking is None or len(ids) < lacking or len(found) == limit:
                return tuple(found)
            after = ids[-1]

    def _ids_alone(self, query: CandidatesQuery, names: ResolvedNames) -> Sequence[int]:
        return narrowing.ids_alone(self._connection, query, names)

    def whole_trees(self, providers: Sequence[CandidateProvider]) -> tuple[CandidateProvider, ...]:
        """Return all providers of the trees that these are of."""
        with self.held([one.id for one in providers]) as (cloud, _):
            roots = np.unique(cloud.providers.roots[cloud.rows_of(one.id for one in providers)])
        with self.held(roots=roots[roots != 0].tolist()):
            return super().whole_trees(providers)

    def roots(self, search: TreeSearch, limit: int | None = None, after: int = 0) -> list[int]:
        """Return the first roots after a root that are as required."""
        return narrowing.roots(self._connection, search, limit, after)

    def serving_roots(
        self, search: TreeSearch, limit: int | None = None, after: int = 0
    ) -> list[int]:
        """Return the first roots after a root whose trees may serve."""
        return narrowing.serving_roots(self._connection, search, limit, after)

    def contents(self, ids: Collection[int]) -> ProviderContents:
        """Return what summaries show of the providers of these ids."""
        if not self._cloud.names.traits:
            self._cloud.names = provider_state.read_names(self._connection, with_aggregates=False)
        return super().contents(ids)


def resolve(connection: Connection, query: CandidatesQuery) -> ResolvedNames:
    """Return the ids of all names used, found with one statement.

    Raises :class:`UnknownNames` for classes and traits that do not exist, naming each of them.
    """
    wanted_traits = traits_of(query) | {SHARES}
    wanted_aggregates = {uuid for group in query.groups for uuid in group.aggregates.uuids}
    statement = _statement(with_aggregates=bool(wanted_aggregates))
    values = {"traits": sorted(wanted_traits), "aggregates": sorted(wanted_aggregates)}
    found: tuple[dict[str, int], ...] = ({}, {}, {}, {})
    for kind, number, name in connection.execute(statement, values).all():
        found[kind][name] = number
    classes, trait_ids, aggregates, shapes = found
    topology = Topology(nested=bool(shapes["nested"]), sharing=bool(shapes["sharing"]))
    return checked(query, ResolvedNames(classes, trait_ids, aggregates, topology))


# Each form is built once: building takes longer than executing.
@cache
def _statement(*, with_aggregates: bool) -> sa.CompoundSelect[*tuple[Any, ...]]:
    traits, classes = tables.traits.c, tables.resource_classes.c
    shares = sa.select(traits.id).where(traits.name == SHARES).scalar_subquery()
    # Each of these is answered by an index.
    any_child = sa.exists().where(tables.resource_providers.c.parent_provider_id.is_not(None))
    any_sharing = sa.exists().where(tables.resource_provider_traits.c.trait_id == shares)
    named = traits.name.in_(sa.bindparam("traits", expanding=True))
    parts: list[sa.Select[*tuple[Any, ...]]] = [
        sa.select(sa.literal(_TRAIT), traits.id, in_unicode(traits.name)).where(named),
        sa.select(sa.literal(_CLASS), classes.id, in_unicode(classes.name)),
        sa.select(sa.literal(_TOPOLOGY), sa.case((any_child, 1), else_=0), sa.literal("nested")),
        sa.select(sa.literal(_TOPOLOGY), sa.case((any_sharing, 1), else_=0), sa.literal("sharing")),
    ]
    if with_aggregates:
        known = tables.placement_aggregates.c
        named = known.uuid.in_(sa.bindparam("aggregates", expanding=True))
        parts.append(
            sa.select(sa.literal(_AGGREGATE), known.id, in_unicode(known.uuid)).where(named)
        )
    return sa.union_all(*parts)
