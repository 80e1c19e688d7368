"""Who is in which aggregates and who has which traits, by uuid: for whoever compares clouds."""

from collections import defaultdict
from collections.abc import Iterable

from sqlalchemy import Connection, Row, select

from placement_sched.db.batches import batches
from placement_sched.db.tables import (
    placement_aggregates,
    resource_provider_aggregates,
    resource_provider_traits,
    resource_providers,
    traits,
)

_MEMBERS = (
    select(placement_aggregates.c.uuid, resource_providers.c.uuid)
    .join(
        resource_provider_aggregates,
        resource_provider_aggregates.c.aggregate_id == placement_aggregates.c.id,
    )
    .join(
        resource_providers,
        resource_providers.c.id == resource_provider_aggregates.c.resource_provider_id,
    )
)
_CARRIERS = (
    select(traits.c.name, resource_providers.c.uuid)
    .join(resource_provider_traits, resource_provider_traits.c.trait_id == traits.c.id)
    .join(
        resource_providers,
        resource_providers.c.id == resource_provider_traits.c.resource_provider_id,
    )
)


def members(connection: Connection, aggregates: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the uuids of the providers in each of these aggregates, where it has any."""
    return _gathered(
        row
        for batch in batches(set(aggregates))
        for row in connection.execute(_MEMBERS.where(placement_aggregates.c.uuid.in_(batch)))
    )


def joined(connection: Connection, providers: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the uuids of the aggregates that each of these providers is in, where it is in any."""
    return _gathered(
        (provider, aggregate)
        for batch in batches(set(providers))
        for aggregate, provider in connection.execute(
            _MEMBERS.where(resource_providers.c.uuid.in_(batch))
        )
    )


def carriers(connection: Connection, names: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the uuids of the providers that have each of these traits, where any has it."""
    return _gathered(
        row
        for batch in batches(set(names))
        for row in connection.execute(_CARRIERS.where(traits.c.name.in_(batch)))
    )


def _gathered(rows: Iterable[Row[str, str] | tuple[str, str]]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for key, provider in rows:
        found[key].add(provider)
    return {key: frozenset(providers) for key, providers in found.items()}
