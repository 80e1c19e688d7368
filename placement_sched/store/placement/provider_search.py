"""Which providers a list of them shows: one statement whatever is asked."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, exists, not_, or_, select

from placement_sched.db import tables
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
        *_named(query),
        *_with_traits(connection, query.traits),
        *_with_resources(connection, query.resources),
        *map(_is_member, query.aggregates.member_of),
    ]
    if query.aggregates.forbidden:
        conditions.append(not_(_is_member(query.aggregates.forbidden)))
    found = read_providers(connection, PROVIDERS.where(*conditions))
    # MariaDB compares names without regard to case, or to spaces at their end.
    return tuple(one for one in found if not query.name or one.name == query.name)


def _named(query: ProviderQuery) -> list[Condition]:
    conditions: list[Condition] = []
    if query.name:
        conditions.append(_PROVIDERS.name == query.name)
    if query.uuid:
        conditions.append(_PROVIDERS.uuid.in_(set(spelled(query.uuid).values())))
    if query.in_tree:
        member, uuids = tables.resource_providers.alias(), set(spelled(query.in_tree).values())
        roots = select(member.c.root_provider_id).where(member.c.uuid.in_(uuids))
        conditions.append(or_(_PROVIDERS.root_provider_id.in_(roots), _PROVIDERS.uuid.in_(uuids)))
    return conditions


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
