# SPDX-License-Identifier: Apache-2.0
"""Provider columns that a request loads if there is no provider cache.

An SQL statement selects a superset of the providers or trees that may serve. Only their rows are
loaded, and are evaluated like the rows of the provider cache.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from itertools import chain
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Connection

from placement_sched.candidates.columns import ProviderColumns
from placement_sched.candidates.providers import ProviderSource
from placement_sched.candidates.request import (
    ResolvedNames,
    Search,
    Slot,
    Topology,
    check_names,
    list_traits,
    select_minimal_sets,
)
from placement_sched.candidates.tree_index import TreeIndex
from placement_sched.db import tables
from placement_sched.db.collations import convert_to_unicode
from placement_sched.db.sql import Condition, map_ids, select_scalars_in_batches
from placement_sched.model.candidates_query import CandidateProvider, CandidatesQuery, RequestGroup
from placement_sched.model.provider import MAX_INT, SHARES
from placement_sched.store.placement import provider_state, traits
from placement_sched.store.placement.provider_search import (
    evaluate_per_row,
    has_amounts,
    has_any_trait,
    is_member,
    limit_planned,
    meets_traits,
)

_PROVIDER = tables.resource_providers.c
_TREE = tables.resource_providers.alias("tree").c
_TRAITS, _AGGREGATES = tables.resource_provider_traits, tables.resource_provider_aggregates

#: Maximum number of trait sets that SQL checks for each tree.
_MAX_TRAIT_SETS = 16
#: Kinds of rows of the statement that resolves names.
_CLASS, _TRAIT, _AGGREGATE, _TOPOLOGY = range(4)


def select_single_providers(
    query: CandidatesQuery, names: ResolvedNames, limit: int | None = None, after: int = 0
) -> sa.Select[int]:
    """Build the statement for providers that serve a single group.

    The statement selects ids above ``after``. Every provider of the cloud must be a root.
    """
    (group,) = query.groups
    conditions = [*meets_traits(query.root, names.traits), *_yield_conditions(group, names)]
    amounts = [*has_amounts((names.classes[name], amount) for name, amount in group.resources)]
    statement = (
        sa.select(_PROVIDER.id)
        .where(
            _PROVIDER.root_provider_id.is_not(None),
            _PROVIDER.id > after,
            *limit_planned(conditions),
        )
        .order_by(_PROVIDER.id)
    )
    if conditions and amounts:
        # The sums of allocations are the most expensive part. The limit keeps MariaDB from merging
        # the subquery and computing the sums for all providers first.
        narrowed = statement.limit(MAX_INT).subquery("narrowed")
        statement = (
            sa.select(_PROVIDER.id)
            .join(narrowed, narrowed.c.id == _PROVIDER.id)
            .order_by(_PROVIDER.id)
        )
    return statement.where(*amounts).limit(limit)


def find_sharing_trees(
    connection: Connection, sharing_trait: int, aggregates: Collection[int]
) -> Iterator[int]:
    """Return the ids of all providers whose tree has a provider that shares.

    Only sharing providers in any of ``aggregates`` count.
    """
    sharer = tables.resource_providers.alias("sharer")
    membership = _AGGREGATES.c
    statement = (
        sa.select(_PROVIDER.id)
        .distinct()
        .join(sharer, sharer.c.root_provider_id == _PROVIDER.root_provider_id)
        .join(_TRAITS, _TRAITS.c.resource_provider_id == sharer.c.id)
        .join(_AGGREGATES, membership.resource_provider_id == sharer.c.id)
        .where(_TRAITS.c.trait_id == sharing_trait)
    )
    return select_scalars_in_batches(connection, statement, membership.aggregate_id, aggregates)


def _select_roots(search: Search, after: int) -> sa.Select[int]:
    conditions = meets_traits(search.query.root, search.names.traits, _TREE.id)
    return sa.select(_TREE.id).where(_TREE.id > after, *conditions).order_by(_TREE.id)


def _build_slot_condition(slot: Slot, names: ResolvedNames, pairs: sa.CTE | None) -> Condition:
    own = _exists_in_tree(*_yield_slot_conditions(slot, names, in_trees=not slot.suffix))
    if pairs is None:
        return own
    sharing = sa.select(pairs.c.root_id).join(
        tables.resource_providers, _PROVIDER.id == pairs.c.provider_id
    )
    shared = sharing.where(*_yield_slot_conditions(slot, names, in_trees=False))
    return sa.or_(own, _TREE.id.in_(shared))


def _exists_in_tree(*conditions: Condition) -> Condition:
    return sa.exists().where(_PROVIDER.root_provider_id == _TREE.id, *conditions)


def _select_sharing_pairs() -> sa.CTE:
    """Select pairs of a sharing provider and a root whose tree it serves.

    Source: Placement documentation, "Modeling with Provider Trees".
    """
    traits, shared = tables.traits, _AGGREGATES.alias("shared")
    joined, member = _AGGREGATES.alias("joined"), tables.resource_providers.alias("member")
    # Few providers share, but query planners would start with the large aggregates.
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


def _has_unknown_aggregates(group: RequestGroup, names: ResolvedNames) -> bool:
    return not all(map(names.find_aggregate_ids, group.aggregates.member_of))


def _yield_conditions(
    group: RequestGroup, names: ResolvedNames, *, in_trees: bool = False
) -> Iterator[Condition]:
    """Yield the conditions to serve a group, without amounts."""
    if group.in_tree is not None:
        member = tables.resource_providers.alias("member")
        root = sa.select(member.c.root_provider_id).where(member.c.uuid == group.in_tree)
        yield _PROVIDER.root_provider_id == root.scalar_subquery()
    yield from meets_traits(group.traits, names.traits)
    for aggregates in select_minimal_sets(
        map(names.find_aggregate_ids, group.aggregates.member_of)
    ):
        yield _build_membership(aggregates, in_trees=in_trees)
    if forbidden := names.find_aggregate_ids(group.aggregates.forbidden):
        yield evaluate_per_row(sa.not_(_build_membership(forbidden, in_trees=in_trees)))


def _yield_slot_conditions(
    slot: Slot, names: ResolvedNames, *, in_trees: bool
) -> Iterator[Condition]:
    """Yield the conditions to serve a slot, with the expensive amounts last."""
    yield from _yield_conditions(slot.group, names, in_trees=in_trees)
    yield from has_amounts(slot.amounts)


def _build_membership(aggregates: frozenset[int], *, in_trees: bool) -> Condition:
    own = is_member(_PROVIDER.id, aggregates)
    if not in_trees:
        return own
    # A query planner would assume that the OR holds for half of all providers.
    return evaluate_per_row(sa.or_(is_member(_PROVIDER.root_provider_id, aggregates), own))


class LoadedProviders(ProviderSource):
    """The providers that a request has loaded, for use by a single thread.

    Each method loads missing rows. Its statements may read different states of the database.
    """

    reads_cheaply = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._columns = ProviderColumns(provider_state.build_empty_names(connection))
        self._index: TreeIndex | None = None
        self._loaded: set[int] = set()
        self._loaded_trees: set[int] = set()
        self._is_whole = False

    @contextmanager
    def open_columns(
        self,
        providers: Iterable[int] = (),
        roots: Collection[int] = (),
        *,
        whole: bool = False,
        with_names: bool = False,
    ) -> Iterator[tuple[ProviderColumns, TreeIndex]]:
        """Load missing rows of these providers, and return columns and tree index."""
        if with_names and not self._columns.names.traits:
            self._columns.names = provider_state.read_names(self._connection, with_aggregates=False)
        if whole and not self._is_whole:
            for batch in provider_state.read_all_providers(self._connection):
                self._columns.replace([row[0] for row in batch.providers], batch)
            self._is_whole = True
        elif not self._is_whole:
            self._load_trees(roots)
            self._load(providers)
        if self._index is None or not self._index.is_current:
            self._index = TreeIndex(self._columns, self._sharing_trait)
        yield self._columns, self._index

    def _load(self, ids: Iterable[int]) -> None:
        missing = [key for key in ids if key not in self._loaded]
        if missing:
            rows = provider_state.read_providers(self._connection, missing)
            self._columns.replace(missing, rows)
            self._loaded.update(missing)

    def _load_trees(self, roots: Collection[int]) -> None:
        """Load whole trees, and the trees of providers that share with them."""
        missing = [root for root in roots if root not in self._loaded_trees]
        if not missing:
            return
        self._loaded_trees.update(missing)
        root, query = _PROVIDER.root_provider_id, sa.select(_PROVIDER.id)
        members = list(select_scalars_in_batches(self._connection, query, root, missing))
        self._load(members)
        memberships = self._columns.memberships
        if self._sharing_trait is not None and len(memberships.rows):
            own = np.isin(memberships.rows, self._columns.find_rows(members))
            aggregates = np.unique(memberships.values["aggregate"][own]).tolist()
            sharers = find_sharing_trees(self._connection, self._sharing_trait, aggregates)
            self._load(sharers)

    def resolve(self, query: CandidatesQuery) -> ResolvedNames:
        """Resolve all names of a query with a single SQL statement."""
        requested_traits = list_traits(query) | {SHARES}
        requested_aggregates = {uuid for group in query.groups for uuid in group.aggregates.uuids}
        statement = _select_names(with_aggregates=bool(requested_aggregates))
        values = {"traits": sorted(requested_traits), "aggregates": sorted(requested_aggregates)}
        ids_by_kind: tuple[dict[str, int], ...] = ({}, {}, {}, {})
        for kind, number, name in self._connection.execute(statement, values).all():
            ids_by_kind[kind][name] = number
        classes, trait_ids, aggregates, topology_ids = ids_by_kind
        topology = Topology(
            has_nested=bool(topology_ids["nested"]), has_sharing=bool(topology_ids["sharing"])
        )
        names = check_names(query, ResolvedNames(classes, trait_ids, aggregates, topology))
        self._sharing_trait = names.traits.get(SHARES) if names.topology.has_sharing else None
        return names

    @cached_property
    def _sharing_trait(self) -> int | None:
        """Return the id of the sharing trait, or None if no provider shares."""
        return traits.map_ids(self._connection, [SHARES]).get(SHARES)

    def map_ids(self, uuids: Collection[str]) -> Mapping[str, int]:
        """Map the uuids of providers to their ids."""
        return map_ids(self._connection, _PROVIDER.uuid, uuids)

    def find_single_providers(
        self, query: CandidatesQuery, names: ResolvedNames, limit: int | None
    ) -> tuple[CandidateProvider, ...]:
        """Return the first providers, sorted by id, that serve a single group."""
        providers: list[CandidateProvider] = []
        after = 0
        while True:
            missing = None if limit is None else limit - len(providers)
            ids = self._find_single_provider_ids(query, names, missing, after)
            providers += self.select_serving(query, names, ids)
            if missing is None or len(ids) < missing or len(providers) == limit:
                return tuple(providers)
            after = ids[-1]

    def _find_single_provider_ids(
        self, query: CandidatesQuery, names: ResolvedNames, limit: int | None = None, after: int = 0
    ) -> Sequence[int]:
        (group,) = query.groups
        if _has_unknown_aggregates(group, names):
            return ()
        statement = select_single_providers(query, names, limit, after)
        return self._connection.scalars(statement).all()

    def find_roots(self, search: Search, limit: int | None = None, after: int = 0) -> list[int]:
        """Return the first roots above id ``after`` that meet ``root_required``."""
        statement = _select_roots(search, after).limit(limit)
        # A provider without a parent is a root. This condition can use an index.
        is_root = _TREE.parent_provider_id.is_(None), _TREE.root_provider_id.is_not(None)
        return list(self._connection.scalars(statement.where(*is_root)))

    def find_serving_roots(
        self, search: Search, limit: int | None = None, after: int = 0
    ) -> list[int]:
        """Return the first root ids above ``after`` whose trees may serve."""
        if any(_has_unknown_aggregates(slot.group, search.names) for slot in search.slots):
            return []
        has_sharing = search.names.topology.has_sharing
        # Traits are not checked if providers share, as a sharing provider may have the trait.
        sets = search.rules.trait_choices[: 0 if has_sharing else _MAX_TRAIT_SETS]
        pairs = _select_sharing_pairs() if has_sharing else None
        conditions = chain(
            (_exists_in_tree(has_any_trait(_PROVIDER.id, trait_ids)) for trait_ids in sets),
            (_build_slot_condition(slot, search.names, pairs) for slot in search.distinct_slots),
        )
        statement = _select_roots(search, after).where(
            _TREE.id == _TREE.root_provider_id, *limit_planned(conditions)
        )
        return list(self._connection.scalars(statement.limit(limit)))


# Cached, because building the statement takes longer than executing it.
@cache
def _select_names(*, with_aggregates: bool) -> sa.CompoundSelect[*tuple[Any, ...]]:
    traits, classes = tables.traits.c, tables.resource_classes.c
    sharing_trait = sa.select(traits.id).where(traits.name == SHARES).scalar_subquery()
    # Both conditions use an index.
    any_child = sa.exists().where(tables.resource_providers.c.parent_provider_id.is_not(None))
    any_sharing = sa.exists().where(tables.resource_provider_traits.c.trait_id == sharing_trait)
    named = traits.name.in_(sa.bindparam("traits", expanding=True))
    parts: list[sa.Select[*tuple[Any, ...]]] = [
        sa.select(sa.literal(_TRAIT), traits.id, convert_to_unicode(traits.name)).where(named),
        sa.select(sa.literal(_CLASS), classes.id, convert_to_unicode(classes.name)),
        sa.select(sa.literal(_TOPOLOGY), sa.case((any_child, 1), else_=0), sa.literal("nested")),
        sa.select(sa.literal(_TOPOLOGY), sa.case((any_sharing, 1), else_=0), sa.literal("sharing")),
    ]
    if with_aggregates:
        aggregates = tables.placement_aggregates.c
        named = aggregates.uuid.in_(sa.bindparam("aggregates", expanding=True))
        parts.append(
            sa.select(
                sa.literal(_AGGREGATE), aggregates.id, convert_to_unicode(aggregates.uuid)
            ).where(named)
        )
    return sa.union_all(*parts)
