"""Which providers a list of them shows: one statement whatever is asked."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    bindparam,
    exists,
    not_,
    select,
    union,
)

from placement_sched.db import tables
from placement_sched.db.prepared import Prepared
from placement_sched.db.sql import Condition
from placement_sched.errors import Invalid
from placement_sched.model.placement.provider import Provider
from placement_sched.model.placement.query import AggregateTerms, TraitTerms
from placement_sched.store.placement import resource_classes, traits
from placement_sched.store.placement.capacity import has_room
from placement_sched.store.placement.resource_providers import PROVIDERS, read_providers, spelled

_PROVIDERS = tables.resource_providers.c


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
    conditions = [
        *_with_traits(connection, query.traits),
        *_with_resources(connection, query.resources),
        *map(_is_member, query.aggregates.member_of),
    ]
    if query.aggregates.forbidden:
        conditions.append(not_(_is_member(query.aggregates.forbidden)))
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
def _named(*, by_name: bool, uuids: int, members: int) -> Prepared:
    """Return the question for a provider, a tree or both; their uuids have so many spellings."""
    question = PROVIDERS
    if by_name:
        question = question.where(_PROVIDERS.name == bindparam("name"))
    if uuids:
        question = question.where(_is_one_of(_PROVIDERS.uuid, "asked_uuid", uuids))
    if members:
        tree = _tree(members).subquery("tree")
        question = question.join(tree, tree.c.id == _PROVIDERS.id)
    return Prepared(question)


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


def _with_resources(connection: Connection, amounts: Mapping[str, int]) -> list[Condition]:
    ids = resource_classes.ids_by_name(connection, amounts)
    if missing := sorted(set(amounts) - set(ids)):
        raise Invalid(
            "Invalid resource class in resources parameter: "
            f"No such resource class {', '.join(missing)}."
        )
    return [_has_free(ids[name], amount) for name, amount in amounts.items()]


def _has_free(class_id: int, amount: int) -> Condition:
    owned = tables.inventories.alias()
    return exists().where(
        owned.c.resource_provider_id == _PROVIDERS.id,
        owned.c.resource_class_id == class_id,
        has_room(owned, amount),
    )


def _with_traits(connection: Connection, terms: TraitTerms) -> list[Condition]:
    ids = traits.ids_by_name(connection, terms.names)
    if missing := sorted(terms.names - set(ids)):
        raise Invalid(
            f'Invalid trait(s) in "required" parameter: No such trait(s): {", ".join(missing)}.'
        )
    conditions = [_has_trait([ids[name] for name in sorted(any_of)]) for any_of in terms.required]
    if terms.forbidden:
        conditions.append(not_(_has_trait([ids[name] for name in sorted(terms.forbidden)])))
    return conditions


def _has_trait(trait_ids: Collection[int]) -> Condition:
    carried = tables.resource_provider_traits.c
    return exists().where(
        carried.resource_provider_id == _PROVIDERS.id, carried.trait_id.in_(trait_ids)
    )


def _is_member(uuids: Collection[str]) -> Condition:
    membership = tables.resource_provider_aggregates.c
    members = (
        select(membership.resource_provider_id)
        .join(
            tables.placement_aggregates, tables.placement_aggregates.c.id == membership.aggregate_id
        )
        .where(tables.placement_aggregates.c.uuid.in_(sorted(uuids)))
    )
    return _PROVIDERS.id.in_(members)
