"""Provider columns that are loaded for one request, where a process has no provider cache.

SQL narrows the providers or trees to those that may serve (``narrowing``). Their rows are loaded,
and evaluated as the provider cache is.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from itertools import chain
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection, select

from placement_sched.candidates.columns import ProviderColumns
from placement_sched.candidates.providers import ProviderContents, ProviderSource
from placement_sched.candidates.request import (
    ResolvedNames,
    SlotGroup,
    Topology,
    TreeSearch,
    checked,
    least_sets,
    traits_of,
)
from placement_sched.candidates.tree_index import TreeIndex
from placement_sched.db import tables
from placement_sched.db.collations import in_unicode
from placement_sched.db.failover import history_of
from placement_sched.db.sql import Condition, ids_by, rows_among
from placement_sched.db.tables import resource_providers
from placement_sched.model.candidates_query import CandidateProvider, CandidatesQuery, RequestGroup
from placement_sched.model.provider import MAX_INT, SHARES
from placement_sched.store.placement import provider_state, traits
from placement_sched.store.placement.provider_search import (
    has_amounts,
    has_any_trait,
    is_member,
    meets_traits,
    planned,
    row_by_row,
)

_PROVIDER = tables.resource_providers.c
_TREE = tables.resource_providers.alias("tree").c
_TRAITS, _AGGREGATES = tables.resource_provider_traits, tables.resource_provider_aggregates

#: Maximum number of sets of traits that must be somewhere in a tree.
_MAX_TRAIT_SETS = 16


def ids_alone(
    connection: Connection,
    query: CandidatesQuery,
    names: ResolvedNames,
    limit: int | None = None,
    after: int = 0,
) -> Sequence[int]:
    """Return the ids, above ``after``, of providers that serve a request of one group alone.

    For a cloud in which every provider is a tree by itself.
    """
    (group,) = query.groups
    if _names_no_aggregate(group, names):
        return ()
    return connection.scalars(select_alone(query, names, limit, after)).all()


def select_alone(
    query: CandidatesQuery, names: ResolvedNames, limit: int | None = None, after: int = 0
) -> sa.Select[int]:
    """Return the statement of :func:`ids_alone`."""
    (group,) = query.groups
    others = [*meets_traits(query.root, names.traits), *_conditions(group, names)]
    amounts = [*has_amounts((names.classes[name], amount) for name, amount in group.resources)]
    statement = (
        sa.select(_PROVIDER.id)
        .where(_PROVIDER.root_provider_id.is_not(None), _PROVIDER.id > after, *planned(others))
        .order_by(_PROVIDER.id)
    )
    if others and amounts:
        # The sums of allocations cost most. Without a limit, which keeps this statement apart,
        # MariaDB makes them for all providers first.
        narrowed = statement.limit(MAX_INT).subquery("narrowed")
        statement = (
            sa.select(_PROVIDER.id)
            .join(narrowed, narrowed.c.id == _PROVIDER.id)
            .order_by(_PROVIDER.id)
        )
    return statement.where(*amounts).limit(limit)


def roots(
    connection: Connection, search: TreeSearch, limit: int | None = None, after: int = 0
) -> list[int]:
    """Return the ids, above ``after``, of the roots that have the required traits."""
    statement = _roots(search, after).limit(limit)
    # A provider without a parent is a root. An index has them.
    is_root = _TREE.parent_provider_id.is_(None), _TREE.root_provider_id.is_not(None)
    return list(connection.scalars(statement.where(*is_root)))


def serving_roots(
    connection: Connection, search: TreeSearch, limit: int | None, after: int = 0
) -> list[int]:
    """Return the ids, above ``after``, of the roots of trees that may serve.

    Each slot has a provider in the tree, or that shares with it.
    """
    if any(_names_no_aggregate(slot.group, search.names) for slot in search.slots):
        return []
    has_sharing = search.names.topology.sharing
    # A sharing provider might have the traits.
    sets = search.rules.trait_choices[: 0 if has_sharing else _MAX_TRAIT_SETS]
    pairs = _sharing_pairs() if has_sharing else None
    conditions = chain(
        (_in_tree(has_any_trait(_PROVIDER.id, some)) for some in sets),
        (_has_provider(slot, pairs) for slot in search.distinct_slots),
    )
    statement = _roots(search, after).where(
        _TREE.id == _TREE.root_provider_id, *planned(conditions)
    )
    return list(connection.scalars(statement.limit(limit)))


def trees_of_sharers(
    connection: Connection, shares: int, aggregates: Collection[int]
) -> Iterator[int]:
    """Yield the ids of the providers in the trees of all that share via these aggregates.

    ``shares`` is the id of the trait of sharing providers.
    """
    sharer = tables.resource_providers.alias("sharer")
    joined = _AGGREGATES.c
    statement = (
        sa.select(_PROVIDER.id)
        .distinct()
        .join(sharer, sharer.c.root_provider_id == _PROVIDER.root_provider_id)
        .join(_TRAITS, _TRAITS.c.resource_provider_id == sharer.c.id)
        .join(_AGGREGATES, joined.resource_provider_id == sharer.c.id)
        .where(_TRAITS.c.trait_id == shares)
    )
    for (key,) in rows_among(connection, statement, joined.aggregate_id, aggregates):
        yield key


def _roots(search: TreeSearch, after: int) -> sa.Select[int]:
    conditions = meets_traits(search.root, search.names.traits, _TREE.id)
    return sa.select(_TREE.id).where(_TREE.id > after, *conditions).order_by(_TREE.id)


def _has_provider(slot: SlotGroup, pairs: sa.CTE | None) -> Condition:
    """Return whether a tree has, or shares, a provider for a slot."""
    own = _in_tree(*_serves(slot, in_trees=not slot.slot.suffix))
    if pairs is None:
        return own
    sharing = sa.select(pairs.c.root_id).join(
        tables.resource_providers, _PROVIDER.id == pairs.c.provider_id
    )
    return sa.or_(own, _TREE.id.in_(sharing.where(*_serves(slot, in_trees=False))))


def _in_tree(*conditions: Condition) -> Condition:
    return sa.exists().where(_PROVIDER.root_provider_id == _TREE.id, *conditions)


def _sharing_pairs() -> sa.CTE:
    """Return the ids of sharing providers and of the roots of the trees that they share with.

    A provider with the trait MISC_SHARES_VIA_AGGREGATE shares with every tree in which a provider
    is in one of its aggregates (Placement documentation, "Modeling with Provider Trees").
    """
    traits, shared = tables.traits, _AGGREGATES.alias("shared")
    joined, member = _AGGREGATES.alias("joined"), tables.resource_providers.alias("member")
    # Few providers share. Planners do not know that, and would begin with the large aggregates.
    sharers = (
        sa.select(shared.c.resource_provider_id, shared.c.aggregate_id)
        .join(_TRAITS, _TRAITS.c.resource_provider_id == shared.c.resource_provider_id)
        .join(traits, traits.c.id == _TRAITS.c.trait_id)
        .where(traits.c.name == SHARES)
        .distinct()
        .cte("sharers")
        .prefix_with("MATERIALIZED", dialect="postgresql")
    )
    return (
        sa.select(
            sharers.c.resource_provider_id.label("provider_id"),
            member.c.root_provider_id.label("root_id"),
        )
        .select_from(member)
        .join(joined, joined.c.resource_provider_id == member.c.id)
        .join(sharers, sharers.c.aggregate_id == joined.c.aggregate_id)
        .distinct()
        .cte("sharing_pairs")
    )


def _names_no_aggregate(group: RequestGroup, names: ResolvedNames) -> bool:
    """Return whether a group requires an aggregate, and none of these exists."""
    return not all(map(names.aggregate_ids, group.aggregates.member_of))


def _conditions(
    group: RequestGroup, names: ResolvedNames, *, in_trees: bool = False
) -> Iterator[Condition]:
    """Yield the conditions on a provider that serves a group, but for the amounts.

    ``in_trees``: the aggregates of the root count, too.
    """
    if group.in_tree is not None:
        member = tables.resource_providers.alias("member")
        root = sa.select(member.c.root_provider_id).where(member.c.uuid == group.in_tree)
        yield _PROVIDER.root_provider_id == root.scalar_subquery()
    yield from meets_traits(group.traits, names.traits)
    for aggregates in least_sets(map(names.aggregate_ids, group.aggregates.member_of)):
        yield _is_member(aggregates, in_trees=in_trees)
    if forbidden := names.aggregate_ids(group.aggregates.forbidden):
        yield row_by_row(sa.not_(_is_member(forbidden, in_trees=in_trees)))


def _serves(slot: SlotGroup, *, in_trees: bool) -> Iterator[Condition]:
    """Yield the conditions on a provider that serves a slot, the amounts last.

    SQLite evaluates them in this order, and the sums of allocations cost most.
    """
    yield from _conditions(slot.group, slot.names, in_trees=in_trees)
    yield from has_amounts(slot.slot.amounts)


def _is_member(aggregates: frozenset[int], *, in_trees: bool) -> Condition:
    itself = is_member(_PROVIDER.id, aggregates)
    if not in_trees:
        return itself
    # Planners take an OR to hold for half of all providers.
    return row_by_row(sa.or_(is_member(_PROVIDER.root_provider_id, aggregates), itself))


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
            sharers = trees_of_sharers(self._connection, self._sharing_trait, aggregates)
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
            ids = ids_alone(self._connection, query, names, lacking, after)
            found += self.serving_of(query, names, ids)
            if lacking is None or len(ids) < lacking or len(found) == limit:
                return tuple(found)
            after = ids[-1]

    def _ids_alone(self, query: CandidatesQuery, names: ResolvedNames) -> Sequence[int]:
        return ids_alone(self._connection, query, names)

    def whole_trees(self, providers: Sequence[CandidateProvider]) -> tuple[CandidateProvider, ...]:
        """Return all providers of the trees that these are of."""
        with self.held([one.id for one in providers]) as (cloud, _):
            roots = np.unique(cloud.providers.roots[cloud.rows_of(one.id for one in providers)])
        with self.held(roots=roots[roots != 0].tolist()):
            return super().whole_trees(providers)

    def roots(self, search: TreeSearch, limit: int | None = None, after: int = 0) -> list[int]:
        """Return the first roots after a root that are as required."""
        return roots(self._connection, search, limit, after)

    def serving_roots(
        self, search: TreeSearch, limit: int | None = None, after: int = 0
    ) -> list[int]:
        """Return the first roots after a root whose trees may serve."""
        return serving_roots(self._connection, search, limit, after)

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
