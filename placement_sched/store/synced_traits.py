"""The record of the traits that ``sync_traits`` has put on providers."""

from collections.abc import Collection, Mapping
from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, select

from placement_sched.db.insert import insert_or_update
from placement_sched.db.tables import synced_traits

_COLUMNS = synced_traits.c

_FORGET = delete(synced_traits).where(
    _COLUMNS.provider_uuid == bindparam("provider"), _COLUMNS.trait == bindparam("name")
)


def all_pairs(connection: Connection) -> dict[tuple[str, str], str]:
    """Return the aggregate for which each trait was put, by provider uuid and trait."""
    query = select(_COLUMNS.provider_uuid, _COLUMNS.trait, _COLUMNS.aggregate_uuid)
    return {
        (provider, trait): aggregate for provider, trait, aggregate in connection.execute(query)
    }


def remember(connection: Connection, pairs: Mapping[tuple[str, str], str], now: datetime) -> None:
    """Note for which aggregate traits are put on providers; a pair noted before gets this one."""
    rows = [
        {
            "provider_uuid": provider,
            "trait": trait,
            "aggregate_uuid": aggregate,
            "created_at": now,
            "updated_at": now,
        }
        for (provider, trait), aggregate in sorted(pairs.items())
    ]
    insert_or_update(
        connection,
        synced_traits,
        rows,
        key=("provider_uuid", "trait"),
        changing=("aggregate_uuid", "updated_at"),
    )


def forget(connection: Connection, pairs: Collection[tuple[str, str]]) -> None:
    """Take pairs of provider uuid and trait out of the record."""
    rows = [{"provider": provider, "name": trait} for provider, trait in sorted(pairs)]
    if rows:
        connection.execute(_FORGET, rows)
