"""Resource classes: standard ones by the position os-resource-classes gives, and custom ones."""

from collections.abc import Iterable
from datetime import datetime

import os_resource_classes
from sqlalchemy import Connection, select, text

from placement_sched.db.batches import batches
from placement_sched.db.insert import insert_missing
from placement_sched.db.tables import resource_classes

#: Custom classes are numbered from here on, as OpenStack placement does, so that both services
#: on one database leave each other's numbers alone.
FIRST_CUSTOM_ID = 10000


def all_names(connection: Connection) -> frozenset[str]:
    """Return the name of every resource class."""
    return frozenset(connection.scalars(select(resource_classes.c.name)))


def all_by_id(connection: Connection) -> dict[int, str]:
    """Return the name of every resource class by its id; there are dozens, not thousands."""
    rows = connection.execute(select(resource_classes.c.id, resource_classes.c.name))
    return dict(rows.tuples().all())


def ids_by_name(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    """Return the ids of those of ``names`` that are there."""
    return {
        name: number
        for batch in batches(set(names))
        for name, number in connection.execute(
            select(resource_classes.c.name, resource_classes.c.id).where(
                resource_classes.c.name.in_(batch)
            )
        ).tuples()
    }


def names_by_id(connection: Connection, ids: Iterable[int]) -> dict[int, str]:
    """Return the names of those of ``ids`` that are there."""
    return {
        number: name
        for batch in batches(set(ids))
        for number, name in connection.execute(
            select(resource_classes.c.id, resource_classes.c.name).where(
                resource_classes.c.id.in_(batch)
            )
        ).tuples()
    }


def add_standard(connection: Connection, names: Iterable[str], now: datetime) -> None:
    """Create the standard classes of these names under their fixed numbers, from 0 on."""
    rows = [
        {"id": os_resource_classes.STANDARDS.index(name), "name": name, "created_at": now}
        for name in names
    ]
    if connection.dialect.name in {"mysql", "mariadb"}:
        # Without this mode MariaDB takes the number 0 as a request for the next free one.
        connection.execute(
            text("SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO')")
        )
    insert_missing(connection, resource_classes, rows)
