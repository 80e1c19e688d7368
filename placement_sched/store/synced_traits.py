# SPDX-License-Identifier: Apache-2.0
"""Record of the traits that ``sync_traits`` has added to providers."""

from collections.abc import Collection, Mapping
from datetime import datetime

from sqlalchemy import Connection, Delete, bindparam, delete, exists, select, update

from placement_sched.db import sql
from placement_sched.db.tables import resource_providers, synced_traits
from placement_sched.model.provider_sync import ProviderTrait

_COLUMNS = synced_traits.c

_OF_PAIR = (_COLUMNS.provider_uuid == bindparam("provider"), _COLUMNS.trait == bindparam("name"))
_FORGET = delete(synced_traits).where(*_OF_PAIR)
# Provider ids are never reused: if the id is gone, a provider with the same uuid is another one.
_IS_OUTLIVED = _COLUMNS.provider_id.is_not(None) & ~exists().where(
    resource_providers.c.id == _COLUMNS.provider_id
)
_REBIND = (
    update(synced_traits)
    .where(*_OF_PAIR)
    .values(aggregate_uuid=bindparam("aggregate"), updated_at=bindparam("now"))
)


def read(connection: Connection) -> dict[ProviderTrait, str]:
    """Map the recorded traits of existing providers to the aggregates that require them."""
    query = select(_COLUMNS.provider_uuid, _COLUMNS.trait, _COLUMNS.aggregate_uuid)
    rows = connection.execute(query.where(~_IS_OUTLIVED))
    return {(provider, trait): aggregate for provider, trait, aggregate in rows}


def record_pairs(
    connection: Connection,
    pairs: Mapping[ProviderTrait, str],
    ids: Mapping[str, int],
    now: datetime,
) -> None:
    """Record which aggregate requires each trait that ``sync_traits`` has added.

    ``pairs`` maps the uuid of a provider and the name of a trait to the uuid of the aggregate.
    Earlier records of these pairs are replaced. ``ids`` maps provider uuids to ids.
    """
    rows = [
        {
            "provider_uuid": provider,
            "trait": trait,
            "aggregate_uuid": aggregate,
            "provider_id": ids[provider],
            "created_at": now,
            "updated_at": now,
        }
        for (provider, trait), aggregate in sorted(pairs.items())
    ]
    key, changing = ("provider_uuid", "trait"), ("aggregate_uuid", "provider_id", "updated_at")
    sql.insert_or_update(connection, synced_traits, rows, key=key, changing=changing)


def rebind(connection: Connection, pairs: Mapping[ProviderTrait, str], now: datetime) -> None:
    """Record another aggregate for pairs that are already recorded."""
    rows = [
        {"provider": provider, "name": trait, "aggregate": aggregate, "now": now}
        for (provider, trait), aggregate in sorted(pairs.items())
    ]
    if rows:
        connection.execute(_REBIND, rows)


def forget(connection: Connection, pairs: Collection[ProviderTrait]) -> None:
    """Remove pairs of provider uuid and trait from the record."""
    _delete(connection, _FORGET, pairs)


def forget_outlived(connection: Connection) -> None:
    """Remove pairs whose provider no longer exists from the record."""
    # The query locks no providers.
    query = select(_COLUMNS.provider_uuid, _COLUMNS.trait).where(_IS_OUTLIVED)
    pairs = [(provider, trait) for provider, trait in connection.execute(query)]
    _delete(connection, _FORGET.where(_IS_OUTLIVED), pairs)


def _delete(connection: Connection, statement: Delete, pairs: Collection[ProviderTrait]) -> None:
    if rows := [{"provider": provider, "name": trait} for provider, trait in sorted(pairs)]:
        connection.execute(statement, rows)
