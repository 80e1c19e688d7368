"""Placement aggregates: uuids under which providers are grouped."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection, select

from placement_sched.db.tables import placement_aggregates, resource_provider_aggregates
from placement_sched.store.placement.associations import Associations

_AGGREGATES, _MEMBERS = placement_aggregates.c, resource_provider_aggregates.c

#: Who is in which aggregate.
MEMBERS = Associations(
    "an aggregate", resource_provider_aggregates, _MEMBERS.aggregate_id, _AGGREGATES.uuid
)
replace_many = MEMBERS.replace_many
add_members = MEMBERS.add
remove_members = MEMBERS.remove
providers_in = MEMBERS.providers_of
of_providers = MEMBERS.of_providers
by_provider_id = MEMBERS.by_provider_id


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
