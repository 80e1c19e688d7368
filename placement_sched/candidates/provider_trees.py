"""The statements that select provider trees, their providers, and what shares with them.

All providers of trees come from one statement, a row each, with a flag for each slot of the request
that the provider could serve alone; so trees that are not looked at cost nothing. A provider with
the trait MISC_SHARES_VIA_AGGREGATE serves every tree of which a provider is in one of its
aggregates (Placement documentation, "Modeling with Provider Trees").
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any

from sqlalchemy import CTE, Connection, Select, Subquery, case, exists, or_, select

from placement_sched.candidates import constraints
from placement_sched.candidates.constraints import OWN_ROOT, providers_with_trait
from placement_sched.candidates.slots import NO_ROOT, SlotGroup, TreeSearch
from placement_sched.candidates.source import TreeProvider
from placement_sched.db import tables
from placement_sched.db.sql import Condition, among, batches
from placement_sched.db.tables import resource_providers
from placement_sched.model.placement.provider import SHARES

#: So many slots are planned as joins; the others are evaluated row by row.
_JOINED = 3
#: So many sets of traits that must be somewhere in a tree are part of the statement.
_SETS = 16

_provider = resource_providers.c
_TREE = (_provider.root_provider_id, _provider.parent_provider_id)
_DESCRIBED = (_provider.id, *_TREE, _provider.uuid, _provider.generation)
_ROOT = resource_providers.alias("tree").c
_IN_AGGREGATE = resource_providers.alias("member")


def providers_of_first(
    connection: Connection, search: TreeSearch, size: int, after: int
) -> list[TreeProvider]:
    """Return the providers of the first ``size`` trees whose roots have ids above ``after``.

    Their roots are as required; whether they can serve the request is not checked.
    """
    roots = roots_of(search, after).limit(size).subquery("roots")
    statement = _providers(search, OWN_ROOT)
    joined = statement.join(roots, roots.c.id == _provider.root_provider_id)
    return _read(connection, search, [joined])


def providers_of(
    connection: Connection, search: TreeSearch, ids: Sequence[int], *, sharing: bool = False
) -> list[TreeProvider]:
    """Return the providers of the trees of these roots.

    If ``sharing``, the providers of these ids, and which slots of another tree each could serve;
    what depends on the root of the other tree is left out.
    """
    statement = _providers(search, NO_ROOT if sharing else OWN_ROOT)
    key = _provider.id if sharing else _provider.root_provider_id
    some = (statement.where(among(connection, key, batch)) for batch in batches(ids, 10_000))
    return _read(connection, search, some)


def _providers(search: TreeSearch, root: constraints.RootColumn) -> Select[*tuple[Any, ...]]:
    columns = [
        case((slot.condition(root, constraints.EACH_PROVIDER), 1), else_=0)
        for slot in search.distinct_slots
    ]
    return select(*_DESCRIBED, *columns).select_from(resource_providers)


def _read(
    connection: Connection, search: TreeSearch, statements: Iterable[Select[*tuple[Any, ...]]]
) -> list[TreeProvider]:
    slots = search.equal_slots
    known: dict[tuple[int, ...], tuple[int, ...]] = {}
    found = []
    for statement in statements:
        for row in connection.execute(statement).all():
            flags = row[len(_DESCRIBED) :]
            serves = known.get(flags)
            if serves is None:
                served = (some for flag, some in zip(flags, slots, strict=True) if flag)
                serves = known[flags] = tuple(sorted(chain.from_iterable(served)))
            found.append(TreeProvider._make((*row[: len(_DESCRIBED)], serves)))
    return found


def roots_of(search: TreeSearch, after: int = 0) -> Select[int]:
    """Return the query of the roots with ids above ``after`` that are as required, by id.

    Whether their trees can serve the request is not checked.
    """
    return (
        select(_ROOT.id)
        .where(
            _ROOT.id > after,
            # A provider without a parent is a root; written so, since an index counts them.
            _ROOT.parent_provider_id.is_(None),
            _ROOT.root_provider_id.is_not(None),
            *_root_conditions(search),
        )
        .order_by(_ROOT.id)
    )


def serving_roots(
    connection: Connection, search: TreeSearch, limit: int | None, after: int = 0
) -> list[int]:
    """Return the first ``limit`` roots, with ids above ``after``, of trees that may serve.

    Each slot has a provider there that could serve it alone; whether they do together, only
    combining them shows.
    """
    sharing = search.names.topology.sharing
    pairs = sharing_pairs() if sharing else None
    # Which providers bring the traits required of several together is checked when they are
    # combined; a sharing provider might. The first sets, the smallest, leave the fewest trees; a
    # thousand in a statement would take longer than to look at the trees.
    traits_in_tree = (
        exists().where(
            _provider.root_provider_id == _ROOT.id, _provider.id.in_(providers_with_trait(choices))
        )
        for choices in search.rules.trait_choices[: 0 if sharing else _SETS]
    )
    statement = (
        select(_ROOT.id)
        .where(
            _ROOT.id > after,
            _ROOT.id == _ROOT.root_provider_id,
            *_root_conditions(search),
            *_first_joined(traits_in_tree),
            *_first_joined(_has_provider(slot, pairs) for slot in search.slots),
        )
        .order_by(_ROOT.id)
        .limit(limit)
    )
    return list(connection.scalars(statement))


def _root_conditions(search: TreeSearch) -> Iterator[Condition]:
    ids = search.names.traits
    for any_of in search.root.required:
        yield _ROOT.id.in_(providers_with_trait(ids[name] for name in any_of))
    if search.root.forbidden:
        yield _ROOT.id.not_in(providers_with_trait(ids[name] for name in search.root.forbidden))


def _first_joined(conditions: Iterable[Condition]) -> Iterator[Condition]:
    for number, condition in enumerate(conditions):
        yield condition if number < _JOINED else constraints.row_by_row(condition)


def _has_provider(slot: SlotGroup, pairs: CTE | None) -> Condition:
    own = exists().where(_provider.root_provider_id == _ROOT.id, slot.condition())
    if pairs is None:
        return own
    sharing = select(pairs.c.anchor_id).join(
        resource_providers, _provider.id == pairs.c.provider_id
    )
    return or_(own, _ROOT.id.in_(sharing.where(slot.condition(pairs.c.anchor_id))))


def sharing_pairs() -> CTE:
    """Return what shares with which tree: ``provider_id``, ``anchor_id`` (another tree's root).

    A common table expression, planned once for all groups of a request.
    """
    return _pairs().cte("sharing_pairs")


def sharing_with_trees(connection: Connection, roots: Sequence[int]) -> Subquery:
    """Return the same of the trees of these roots only."""
    of_these = among(connection, _IN_AGGREGATE.c.root_provider_id, roots)
    return _pairs().where(of_these).subquery("pairs")


@cache  # always the same, and building it takes longer than executing it for a few trees
def _pairs() -> Select[int, int | None]:
    # The sharing providers are selected first: they are few, and planners expect too much of the
    # members of large aggregates. DISTINCT changes nothing but keeps SQLite from joining them with
    # all the rest.
    provider = resource_providers.alias("sharing")
    carried, traits = tables.resource_provider_traits, tables.traits
    shared = tables.resource_provider_aggregates.alias("shared")
    sharing = (
        select(
            provider.c.id.label("provider_id"),
            provider.c.root_provider_id.label("root_id"),
            shared.c.aggregate_id.label("aggregate_id"),
        )
        .join(carried, carried.c.resource_provider_id == provider.c.id)
        .join(traits, traits.c.id == carried.c.trait_id)
        .join(shared, shared.c.resource_provider_id == provider.c.id)
        .where(traits.c.name == SHARES)
        .distinct()
        .cte("sharers")
        .prefix_with("MATERIALIZED", dialect="postgresql")
    )
    joined = tables.resource_provider_aggregates.alias("joined")
    return (
        select(sharing.c.provider_id, _IN_AGGREGATE.c.root_provider_id.label("anchor_id"))
        .select_from(_IN_AGGREGATE)
        .join(joined, joined.c.resource_provider_id == _IN_AGGREGATE.c.id)
        .join(sharing, sharing.c.aggregate_id == joined.c.aggregate_id)
        .where(_IN_AGGREGATE.c.root_provider_id != sharing.c.root_id)
        .distinct()
    )
