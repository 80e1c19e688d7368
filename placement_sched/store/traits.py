"""Traits: names that providers may carry, standard ones and ``CUSTOM_`` ones."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import Connection, select

from placement_sched.db.insert import insert_missing
from placement_sched.db.tables import traits


def all_names(connection: Connection) -> frozenset[str]:
    """Return the name of every trait."""
    return frozenset(connection.scalars(select(traits.c.name)))


def add_missing(connection: Connection, names: Iterable[str], now: datetime) -> None:
    """Create the traits of these names that are not there yet."""
    insert_missing(connection, traits, [{"name": name, "created_at": now} for name in names])
