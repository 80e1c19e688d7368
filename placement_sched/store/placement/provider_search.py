"""Which providers a list of them shows: one statement whatever is asked."""

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
from placement_sched.db.frequent_statements import FrequentStatement
from placement_sched.db.sql import Condition, batches
from placement_sched.errors import Invalid
from placement_sched.model.candidates_query import AggregateTerms, TraitTerms
from placement_sched.model.provider import Provider
from placement_sched.store.placement import aggregates, resource_classes, traits
from placement_sched.store.placement.capacity import have_room
from placement_sched.store.placement.resource_providers import PROVIDERS, read_providers, spelled

_PROVIDERS = tables.resource_providers.c
#: Maximum number of conditions that a planner orders: it tries the joins of seven for 10 ms.
MAX_PLANNED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderQuery:
    """What providers are asked for; what is None or empty asks for nothing.

    ``in_tree`` is the uuid of any provider of the tree; ``resources`` are amounts by class that
    must be free on the provider itself.
    """

    name: str | None = None
    uuid: str | None = None
    in_tree: str | None = None
    resources: Mapping[str, int] = field(default_factory=dict)
    traits: TraitTerms = field(default_factory=TraitTerms)
    aggregates: AggregateTerms = field(default_factory=AggregateTerms)


def search(connection: Connection, query: ProviderQuery) -> tuple[Provider, ...]:
    """Return the providers that meet the query, by id.

    Raises :class:`Invalid` for a trait or resource class that does not exist.
    """
    traits_and_aggregates = chain(
        _with_traits(connection, query.traits), _with_aggregates(connection, query.aggregates)
    )
    amounts = _with_resources(connection, query.resources)
    conditions = [*planned(traits_and_aggregates), *amounts]
    uuids, members = _spellings(query.uuid), _spellings(query.in_tree)
    named = _named(by_name=bool(query.name), uuids=len(uuids), members=len(members))
    names = {
        "name": query.name,
        **_numbered("asked_uuid", uuids),
        **_numbered("asked_member", members),
    }
    question = named.statement.where(*conditions) if conditions else named
    found = read_providers(connection, question, names)
    # MariaDB compares names without regard to case, or to spaces at their end.
    return tuple(one for one in found if not query.name or one.name == query.name)


# What each compute asks every minute names a tree and nothing else: the few forms of such questions
# are each built once.


@cache
def _named(*, by_name: bool, uuids: int, members: int) -> FrequentStatement:
    """Return the question for a provider, a tree or both; their uuids have so many spellings."""
    question = PROVIDERS
    if by_name:
        question = question.where(_PROVIDERS.name == bindparam("name"))
    if uuids:
        question = question.where(_is_one_of(_PROVIDERS.uuid, "asked_uuid", uuids))
    if members:
        tree = _tree(members).subquery("tree")
        question = question.join(tree, tree.c.id == _PROVIDERS.id)
    return FrequentStatement(question)


def _tree(members: int) -> CompoundSelect[Any]:
    """Return the question for the ids of a member of a tree and of all that have its root.

    By "or" each database would look at every provider that there is. From before nested providers
    the member may have no root.
    """
    member, fellow = (tables.resource_providers.alias(name) for name in ("member", "fellow"))
    is_named = _is_one_of(member.c.uuid, "asked_member", members)
    have_its_root = fellow.c.root_provider_id == member.c.root_provider_id
    return union(
        select(member.c.id).where(is_named),
        select(fellow.c.id).join_from(member, fellow, have_its_root).where(is_named),
    )


def _is_one_of(column: ColumnElement[str], name: str, number: int) -> Condition:
    """Return whether a column is one of the parameters that :func:`_numbered` makes.

    ``name`` is that of no column: SQLAlchemy names its own parameters by the columns, with numbers.
    """
    values = [bindparam(f"{name}_{index}", type_=column.type) for index in range(number)]
    return column == values[0] if number == 1 else column.in_(values)


def _numbered(name: str, values: Collection[str]) -> dict[str, str]:
    return {f"{name}_{index}": value for index, value in enumerate(values)}


def _spellings(uuid: str | None) -> list[str]:
    return sorted(set(spelled(uuid).values())) if uuid else []


def _with_resources(connection: Connection, amounts: Mapping[str, int]) -> Iterator[Condition]:
    ids = resource_classes.ids_by_name(connection, amounts)
    if missing := sorted(set(amounts) - set(ids)):
        raise Invalid(
            "Invalid resource class in resources parameter: "
            f"No such resource class {', '.join(missing)}."
        )
    yield from has_amounts((ids[name], amount) for name, amount in amounts.items())


def _with_traits(connection: Connection, terms: TraitTerms) -> Iterator[Condition]:
    ids = traits.ids_by_name(connection, terms.names)
    if missing := sorted(terms.names - set(ids)):
        raise Invalid(
            f'Invalid trait(s) in "required" parameter: No such trait(s): {", ".join(missing)}.'
        )
    return meets_traits(terms, ids)


def _with_aggregates(connection: Connection, terms: AggregateTerms) -> Iterator[Condition]:
    # An aggregate that is not there has no provider. MariaDB compares uuids without regard to case.
    found = aggregates.ids_by_uuid(connection, terms.uuids) if terms.uuids else {}
    ids = {uuid.lower(): number for uuid, number in found.items()}
    for any_of in terms.member_of:
        yield is_member(_PROVIDERS.id, (ids[uuid] for uuid in any_of if uuid in ids))
    if forbidden := [ids[uuid] for uuid in terms.forbidden if uuid in ids]:
        yield row_by_row(not_(is_member(_PROVIDERS.id, forbidden)))


# Conditions on a provider, which narrow allocation candidates as well.


def has_amounts(amounts: Iterable[tuple[int, int]]) -> Iterator[Condition]:
    """Yield whether a provider has room for amounts of classes, all that are planned together."""
    for number, some in enumerate(batches(amounts, MAX_PLANNED)):
        yield row_by_row(_has_amounts(some)) if number else _has_amounts(some)


@lru_cache(maxsize=1024)  # flavors repeat, and building this costs more than sending it
def _has_amounts(amounts: tuple[tuple[int, int], ...]) -> Condition:
    owned = [(tables.inventories.alias(), *one) for one in amounts]
    keys = (
        and_(one.c.resource_provider_id == _PROVIDERS.id, one.c.resource_class_id == class_id)
        for one, class_id, _ in owned
    )
    return exists().where(*keys, have_room([(one, amount) for one, _, amount in owned]))


def meets_traits(
    terms: TraitTerms, ids: Mapping[str, int], provider: ColumnElement[int] = _PROVIDERS.id
) -> Iterator[Condition]:
    """Yield whether a provider has a trait of each set, and none that is forbidden."""
    trait = tables.resource_provider_traits.c.trait_id
    for any_of in terms.required:
        yield has_any_trait(provider, (ids[name] for name in any_of))
    if terms.forbidden:
        forbidden = _owners(trait, (ids[name] for name in terms.forbidden))
        yield not_(forbidden.where(trait.table.c.resource_provider_id == provider).exists())


def has_any_trait(provider: ColumnElement[Any], ids: Iterable[int]) -> Condition:
    """Return whether a provider has one of these traits."""
    # IN, not EXISTS: only so SQLite begins with the few providers of a rare trait.
    return _is_owner(provider, tables.resource_provider_traits.c.trait_id, tuple(sorted(ids)))


def is_member(provider: ColumnElement[Any], ids: Iterable[int]) -> Condition:
    """Return whether a provider is in one of these aggregates."""
    joined = tables.resource_provider_aggregates.c.aggregate_id
    return _is_owner(provider, joined, tuple(sorted(ids)))


@lru_cache(maxsize=1024)
def _is_owner(provider: ColumnElement[Any], of: Column[int], ids: tuple[int, ...]) -> Condition:
    return provider.in_(_owners(of, ids))


def _owners(of: Column[int], ids: Iterable[int]) -> Select[int]:
    return select(of.table.c.resource_provider_id).where(of.in_(sorted(ids)))


def planned(conditions: Iterable[Condition]) -> Iterator[Condition]:
    """Yield conditions of which the first are planned as joins, the others row by row."""
    for number, condition in enumerate(conditions):
        yield condition if number < MAX_PLANNED else row_by_row(condition)


def row_by_row(condition: Condition) -> Condition:
    """Return a condition that is evaluated for each row rather than planned as a join.

    Planners make joins of EXISTS and IN, and try the joins in many orders: planning twenty of them
    takes minutes.
    """
    return case((condition, 1), else_=0) != 0
