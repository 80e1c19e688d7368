# SPDX-License-Identifier: Apache-2.0
"""Search of resource providers."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import chain
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    CompoundSelect,
    Connection,
    Select,
    and_,
    bindparam,
    case,
    exists,
    not_,
    select,
    union,
)

from placement_sched.db import tables
from placement_sched.db.sql import Condition, FrequentStatement
from placement_sched.errors import Invalid
from placement_sched.model.candidates_query import AggregateTerms, TraitTerms
from placement_sched.model.grouping import split_batches
from placement_sched.model.provider import Provider
from placement_sched.store.placement import aggregates, resource_classes, traits
from placement_sched.store.placement.capacity import build_capacity_condition
from placement_sched.store.placement.resource_providers import (
    PROVIDERS,
    build_spellings,
    read_providers,
)

_PROVIDERS = tables.resource_providers.c
#: Maximum number of conditions that the database plans as joins. Planning 7 joins takes 10 ms.
MAX_PLANNED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderQuery:
    """The filters of a provider list (None or empty: no filter).

    ``in_tree`` is the uuid of any provider of the tree. ``resources`` maps classes to amounts that
    must be free on the provider itself.
    """

    name: str | None = None
    uuid: str | None = None
    in_tree: str | None = None
    resources: Mapping[str, int] = field(default_factory=dict)
    traits: TraitTerms = field(default_factory=TraitTerms)
    aggregates: AggregateTerms = field(default_factory=AggregateTerms)


def search(connection: Connection, query: ProviderQuery) -> tuple[Provider, ...]:
    """Return matching providers by id, or raise Invalid for unknown names."""
    traits_and_aggregates = chain(
        _with_traits(connection, query.traits), _with_aggregates(connection, query.aggregates)
    )
    amounts = _with_resources(connection, query.resources)
    conditions = [*limit_planned(traits_and_aggregates), *amounts]
    uuids, members = _list_spellings(query.uuid), _list_spellings(query.in_tree)
    named_statement = _build_identity_statement(
        by_name=bool(query.name), uuids=len(uuids), members=len(members)
    )
    names = {
        "name": query.name,
        **_build_parameters("uuid_value", uuids),
        **_build_parameters("member_value", members),
    }
    statement = named_statement.statement.where(*conditions) if conditions else named_statement
    matching = read_providers(connection, statement, names)
    # MariaDB ignores the case of names, and spaces at the end.
    return tuple(provider for provider in matching if not query.name or provider.name == query.name)


@cache  # each nova-compute sends these queries every minute
def _build_identity_statement(*, by_name: bool, uuids: int, members: int) -> FrequentStatement:
    """Build the statement for name, uuid and tree, by numbers of spellings."""
    statement = PROVIDERS
    if by_name:
        statement = statement.where(_PROVIDERS.name == bindparam("name"))
    if uuids:
        statement = statement.where(_equals_any(_PROVIDERS.uuid, "uuid_value", uuids))
    if members:
        tree = _select_tree(members).subquery("tree")
        statement = statement.join(tree, tree.c.id == _PROVIDERS.id)
    return FrequentStatement(statement)


def _select_tree(members: int) -> CompoundSelect[Any]:
    """Build the query of all ids in the tree of a member.

    It is a union of the member and of all providers with the same root, because with OR the
    databases scan all providers. Members created before nested providers may have no root.
    """
    member, relative = (tables.resource_providers.alias(name) for name in ("member", "relative"))
    is_named = _equals_any(member.c.uuid, "member_value", members)
    has_same_root = relative.c.root_provider_id == member.c.root_provider_id
    return union(
        select(member.c.id).where(is_named),
        select(relative.c.id).join_from(member, relative, has_same_root).where(is_named),
    )


def _equals_any(column: ColumnElement[str], name: str, count: int) -> Condition:
    """Build the condition that a column equals any of several parameters.

    :func:`_build_parameters` has their names. ``name`` must not be a column name, because
    SQLAlchemy names its own parameters by column and number.
    """
    values = [bindparam(f"{name}_{index}", type_=column.type) for index in range(count)]
    return column == values[0] if count == 1 else column.in_(values)


def _build_parameters(name: str, values: Collection[str]) -> dict[str, str]:
    return {f"{name}_{index}": value for index, value in enumerate(values)}


def _list_spellings(uuid: str | None) -> list[str]:
    return sorted(set(build_spellings(uuid).values())) if uuid else []


def _with_resources(connection: Connection, amounts: Mapping[str, int]) -> Iterator[Condition]:
    ids = resource_classes.map_ids(connection, amounts)
    if missing := sorted(set(amounts) - set(ids)):
        raise Invalid(
            "Invalid resource class in resources parameter: "
            f"No such resource class {', '.join(missing)}."
        )
    yield from has_amounts((ids[name], amount) for name, amount in amounts.items())


def _with_traits(connection: Connection, terms: TraitTerms) -> Iterator[Condition]:
    ids = traits.map_ids(connection, terms.names)
    if missing := sorted(terms.names - set(ids)):
        raise Invalid(
            f'Invalid trait(s) in "required" parameter: No such trait(s): {", ".join(missing)}.'
        )
    return meets_traits(terms, ids)


def _with_aggregates(connection: Connection, terms: AggregateTerms) -> Iterator[Condition]:
    # An unknown aggregate has no providers. MariaDB ignores the case of uuids.
    rows = aggregates.map_ids(connection, terms.uuids) if terms.uuids else {}
    ids = {uuid.lower(): number for uuid, number in rows.items()}
    for any_of in terms.member_of:
        yield is_member(_PROVIDERS.id, (ids[uuid] for uuid in any_of if uuid in ids))
    if forbidden := [ids[uuid] for uuid in terms.forbidden if uuid in ids]:
        yield evaluate_per_row(not_(is_member(_PROVIDERS.id, forbidden)))


# Conditions on a provider, which are also used for allocation candidates.


def has_amounts(amounts: Iterable[tuple[int, int]]) -> Iterator[Condition]:
    """Yield SQL conditions for pairs of class id and free amount."""
    for number, batch in enumerate(split_batches(amounts, MAX_PLANNED)):
        yield evaluate_per_row(_has_amounts(batch)) if number else _has_amounts(batch)


@lru_cache(maxsize=1024)  # flavors repeat, and building takes longer than sending
def _has_amounts(amounts: tuple[tuple[int, int], ...]) -> Condition:
    owned = [(tables.inventories.alias(), *pair) for pair in amounts]
    keys = (
        and_(alias.c.resource_provider_id == _PROVIDERS.id, alias.c.resource_class_id == class_id)
        for alias, class_id, _ in owned
    )
    return exists().where(
        *keys, build_capacity_condition([(alias, amount) for alias, _, amount in owned])
    )


def meets_traits(
    terms: TraitTerms, ids: Mapping[str, int], provider: ColumnElement[int] = _PROVIDERS.id
) -> Iterator[Condition]:
    """Yield the SQL conditions for the required and forbidden traits."""
    trait = tables.resource_provider_traits.c.trait_id
    for any_of in terms.required:
        yield has_any_trait(provider, (ids[name] for name in any_of))
    if terms.forbidden:
        forbidden = _select_owners(trait, (ids[name] for name in terms.forbidden))
        yield not_(forbidden.where(trait.table.c.resource_provider_id == provider).exists())


def has_any_trait(provider: ColumnElement[Any], ids: Iterable[int]) -> Condition:
    """Build the condition that a provider has any of these traits."""
    # With IN, but not with EXISTS, SQLite begins with the few providers of a rare trait.
    return _is_owner(provider, tables.resource_provider_traits.c.trait_id, tuple(sorted(ids)))


def is_member(provider: ColumnElement[Any], ids: Iterable[int]) -> Condition:
    """Build the condition that a provider is in any of these aggregates."""
    joined = tables.resource_provider_aggregates.c.aggregate_id
    return _is_owner(provider, joined, tuple(sorted(ids)))


@lru_cache(maxsize=1024)
def _is_owner(provider: ColumnElement[Any], member: Column[int], ids: tuple[int, ...]) -> Condition:
    return provider.in_(_select_owners(member, ids))


def _select_owners(member: Column[int], ids: Iterable[int]) -> Select[int]:
    return select(member.table.c.resource_provider_id).where(member.in_(sorted(ids)))


def limit_planned(conditions: Iterable[Condition]) -> Iterator[Condition]:
    """Limit the number of conditions that are planned as joins."""
    for number, condition in enumerate(conditions):
        yield condition if number < MAX_PLANNED else evaluate_per_row(condition)


def evaluate_per_row(condition: Condition) -> Condition:
    """Make the database evaluate a condition per row, without a join.

    Planners turn EXISTS and IN into joins and try many join orders: planning twenty joins takes
    minutes.
    """
    return case((condition, 1), else_=0) != 0
