"""Which providers a list of them shows: one statement whatever is asked."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sqlalchemy import ColumnElement, Connection, and_, exists, not_, or_, select

from placement_sched.db.tables import (
    inventories,
    placement_aggregates,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
)
from placement_sched.errors import Invalid
from placement_sched.model.provider import Provider
from placement_sched.model.query import AggregateTerms, TraitTerms
from placement_sched.store import resource_classes, traits
from placement_sched.store.resource_providers import PROVIDERS, read_providers, spelled
from placement_sched.store.room import has_room

Condition = ColumnElement[bool]
_PROVIDERS = resource_providers.c


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
        *_in_aggregates(query.aggregates),
    ]
    found = read_providers(connection, PROVIDERS.where(*conditions))
    # MariaDB compares names without regard to case, or to spaces at their end.
    return tuple(one for one in found if not query.name or one.name == query.name)


def _named(query: ProviderQuery) -> list[Condition]:
    conditions: list[Condition] = []
    if query.name:
        conditions.append(_PROVIDERS.name == query.name)
    if query.uuid:
        conditions.append(_PROVIDERS.uuid.in_(_spellings(query.uuid)))
    if query.in_tree:
        member = resource_providers.alias()
        uuids = _spellings(query.in_tree)
        roots = select(member.c.root_provider_id).where(member.c.uuid.in_(uuids))
        conditions.append(
            or_(
                _PROVIDERS.root_provider_id.in_(roots),
                _PROVIDERS.uuid.in_(uuids),
            )
        )
    return conditions


def _spellings(uuid: str) -> list[str]:
    """Return a uuid as it is written and as we keep it."""
    return sorted(set(spelled(uuid).values()))


def _with_resources(connection: Connection, amounts: Mapping[str, int]) -> list[Condition]:
    ids = resource_classes.ids_by_name(connection, amounts)
    if missing := sorted(set(amounts) - set(ids)):
        raise Invalid(
            "Invalid resource class in resources parameter: "
            f"No such resource class {', '.join(missing)}."
        )
    conditions: list[Condition] = []
    for name, amount in amounts.items():
        owned = inventories.alias()
        conditions.append(
            exists().where(
                owned.c.resource_provider_id == _PROVIDERS.id,
                owned.c.resource_class_id == ids[name],
                has_room(owned, amount),
            )
        )
    return conditions


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
    carried = resource_provider_traits.c
    return exists().where(
        and_(carried.resource_provider_id == _PROVIDERS.id, carried.trait_id.in_(trait_ids))
    )


def _in_aggregates(terms: AggregateTerms) -> list[Condition]:
    conditions = [_is_member(uuids) for uuids in terms.member_of]
    if terms.forbidden:
        conditions.append(not_(_is_member(terms.forbidden)))
    return conditions


def _is_member(uuids: Collection[str]) -> Condition:
    """Return whether the provider itself is in one of the aggregates."""
    membership = resource_provider_aggregates.c
    members = (
        select(membership.resource_provider_id)
        .join(placement_aggregates, placement_aggregates.c.id == membership.aggregate_id)
        .where(placement_aggregates.c.uuid.in_(sorted(uuids)))
    )
    return _PROVIDERS.id.in_(members)
