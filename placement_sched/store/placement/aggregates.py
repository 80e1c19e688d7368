"""Placement aggregates: uuids under which providers are grouped."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection, func, select

from placement_sched.db.tables import (
    placement_aggregates,
    resource_provider_aggregates,
    resource_providers,
)
from placement_sched.store.placement.associations import Associations
from placement_sched.store.placement.resource_providers import BySpelling

_AGGREGATES, _MEMBERS = placement_aggregates.c, resource_provider_aggregates.c

#: Who is in which aggregate.
MEMBERS = Associations(
    "an aggregate", resource_provider_aggregates, _MEMBERS.aggregate_id, _AGGREGATES.uuid
)
ids_by_uuid = MEMBERS.ids
replace_many = MEMBERS.replace_many
add_members = MEMBERS.add
remove_members = MEMBERS.remove
providers_in = MEMBERS.providers_of
of_providers = MEMBERS.of_providers
by_provider_id = MEMBERS.by_provider_id
# One question for the provider and its aggregates: asking twice takes nearly twice as long.
_BY_UUID = BySpelling.of(
    select(
        resource_providers.c.uuid,
        func.coalesce(resource_providers.c.generation, 0),
        _AGGREGATES.uuid.label("aggregate"),
    )
    .select_from(resource_providers)
    .outerjoin(
        resource_provider_aggregates, _MEMBERS.resource_provider_id == resource_providers.c.id
    )
    .outerjoin(placement_aggregates, _AGGREGATES.id == _MEMBERS.aggregate_id)
    .order_by(_AGGREGATES.id)
)


def by_provider_uuid(connection: Connection, uuid: str) -> tuple[int, tuple[str, ...]]:
    """Return a provider's generation, and its aggregates' uuids; raises :class:`NotFound`."""
    rows = _BY_UUID.rows(connection, uuid)
    return rows[0][1], tuple(aggregate for _, _, aggregate in rows if aggregate is not None)


def of_provider(connection: Connection, provider_id: int) -> tuple[str, ...]:
    """Return the uuids of the aggregates that a provider is in."""
    query = select(_AGGREGATES.uuid).join(
        resource_provider_aggregates, _MEMBERS.aggregate_id == _AGGREGATES.id
    )
    mine = query.where(_MEMBERS.resource_provider_id == provider_id)
    return tuple(connection.scalars(mine.order_by(_AGGREGATES.id)))


def replace(
    connection: Connection, provider_id: int, uuids: Collection[str], now: datetime
) -> bool:
    """Make these a provider's only aggregates, creating missing ones; return whether it changed.

    The caller has locked the provider, and bumps its generation where the caller's version wants.
    """
    wanted, found = set(uuids), set(of_provider(connection, provider_id))
    gone = MEMBERS.ids(connection, found - wanted).values()
    new = MEMBERS.ensure(connection, wanted - found, now).values()
    MEMBERS.change(connection, provider_id, gone, new, now)
    return wanted != found
