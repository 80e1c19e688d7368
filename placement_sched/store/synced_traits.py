"""The record of the traits that ``sync_traits`` has put on providers."""

from collections.abc import Collection, Mapping
from datetime import datetime

from sqlalchemy import Connection, Delete, bindparam, delete, exists, select, update

from placement_sched.db import sql
from placement_sched.db.tables import resource_providers, synced_traits
from placement_sched.model.provider_sync import TraitRecord

_COLUMNS = synced_traits.c

_OF_PAIR = (_COLUMNS.provider_uuid == bindparam("provider"), _COLUMNS.trait == bindparam("name"))
_FORGET = delete(synced_traits).where(*_OF_PAIR)
# The id of a provider is never given to another: where it is gone, the uuid is another's, if any.
_FORGET_OUTLIVED = _FORGET.where(
    _COLUMNS.provider_id.is_not(None),
    ~exists().where(resource_providers.c.id == _COLUMNS.provider_id),
)
_REBIND = (
    update(synced_traits)
    .where(*_OF_PAIR)
    .values(aggregate_uuid=bindparam("aggregate"), updated_at=bindparam("now"))
)


def read(connection: Connection) -> TraitRecord:
    """Return what was put where, and for which aggregate."""
    there = resource_providers.c.id
    query = select(
        _COLUMNS.provider_uuid, _COLUMNS.trait, _COLUMNS.aggregate_uuid, _COLUMNS.provider_id, there
    ).outerjoin_from(synced_traits, resource_providers, there == _COLUMNS.provider_id)
    pairs, outlived = {}, set()
    for provider, trait, aggregate, noted, found in connection.execute(query):
        if noted == found:
            pairs[provider, trait] = aggregate
        else:
            outlived.add((provider, trait))
    return TraitRecord(pairs, frozenset(outlived))


def provider_ids(connection: Connection, trait: str, providers: Collection[str]) -> dict[str, int]:
    """Return the ids of the providers that a trait was put on, by uuid, where they are known."""
    query = select(_COLUMNS.provider_uuid, _COLUMNS.provider_id).where(
        _COLUMNS.trait == trait, _COLUMNS.provider_id.is_not(None)
    )
    return dict(map(tuple, sql.rows_among(connection, query, _COLUMNS.provider_uuid, providers)))


def remember(
    connection: Connection,
    pairs: Mapping[tuple[str, str], str],
    ids: Mapping[str, int],
    now: datetime,
) -> None:
    """Note for which aggregate traits are put on providers; a pair noted before is replaced.

    ``ids`` are the providers', by uuid.
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


def rebind(connection: Connection, pairs: Mapping[tuple[str, str], str], now: datetime) -> None:
    """Note another aggregate for pairs of the record."""
    rows = [
        {"provider": provider, "name": trait, "aggregate": aggregate, "now": now}
        for (provider, trait), aggregate in sorted(pairs.items())
    ]
    if rows:
        connection.execute(_REBIND, rows)


def forget(connection: Connection, pairs: Collection[tuple[str, str]]) -> None:
    """Take pairs of provider uuid and trait out of the record."""
    _delete(connection, _FORGET, pairs)


def forget_outlived(connection: Connection, pairs: Collection[tuple[str, str]]) -> None:
    """Take pairs out of the record, but for those whose provider is there."""
    _delete(connection, _FORGET_OUTLIVED, pairs)


def _delete(connection: Connection, gone: Delete, pairs: Collection[tuple[str, str]]) -> None:
    if rows := [{"provider": provider, "name": trait} for provider, trait in sorted(pairs)]:
        connection.execute(gone, rows)
