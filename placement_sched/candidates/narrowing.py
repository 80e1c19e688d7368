"""SQL that narrows the providers of a cloud to those that may serve a request.

It returns every provider and tree that serves, and perhaps more: what serves is decided by the
evaluator (``constraints``), once the rows of these are loaded.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import chain

import sqlalchemy as sa
from sqlalchemy import Connection

from placement_sched.candidates.request import ResolvedNames, SlotGroup, TreeSearch, least_sets
from placement_sched.db import tables
from placement_sched.db.sql import Condition, rows_among
from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup
from placement_sched.model.provider import MAX_INT, SHARES
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
