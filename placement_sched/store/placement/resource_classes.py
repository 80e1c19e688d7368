# SPDX-License-Identifier: Apache-2.0
"""Resource classes: standard (of os-resource-classes) and custom classes."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import os_resource_classes
from sqlalchemy import Connection, Select, bindparam, delete, func, select, text, update

from placement_sched.db import sql
from placement_sched.db.tables import inventories, resource_classes
from placement_sched.errors import Duplicate, Error, InUse, NotFound, Overtaken
from placement_sched.model.grouping import split_batches
from placement_sched.model.provider import ResourceClass
from placement_sched.store import change_counters

#: The change counter that writers of inventories of custom classes hold, so that no request deletes
#: a class before they commit.
SUBJECT = "resource_classes"

#: The first id of custom classes, as in OpenStack placement, so that both services can use one
#: database.
FIRST_CUSTOM_ID = 10000

#: The ids of standard classes, in every database: positions in os-resource-classes.
_STANDARD_IDS = {name: number for number, name in enumerate(os_resource_classes.STANDARDS)}

_COLUMNS = resource_classes.c
_CLASSES: Select[Any] = select(resource_classes).order_by(_COLUMNS.id)
_IDS = select(_COLUMNS.name, _COLUMNS.id).where(
    _COLUMNS.name.in_(bindparam("names", expanding=True))
)
# MariaDB locks the whole row only if a column is read that is not in the index of names.
_HELD_IDS = _IDS.add_columns(_COLUMNS.created_at).with_for_update(read=True, key_share=True)


def list_names(connection: Connection) -> frozenset[str]:
    """Return the names of all resource classes."""
    return frozenset(connection.scalars(select(_COLUMNS.name)))


def map_names_by_id(connection: Connection) -> dict[int, str]:
    """Map the ids of all resource classes (some dozens) to names."""
    return dict(map(tuple, connection.execute(select(_COLUMNS.id, _COLUMNS.name))))


def map_ids(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    """Map existing names to ids, with a query only for custom classes."""
    return _map_ids(connection, _IDS, names)


def lock_ids(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    """Map existing names to ids, and lock the classes.

    The classes cannot be deleted until the caller commits. Inventories in OpenStack placement's
    schema have no foreign key to their class. Writers of an inventory therefore lock the class, and
    :func:`remove` waits for the lock. Standard classes are never deleted.
    """
    ids = _map_ids(connection, _HELD_IDS, names)
    if not ids.keys() <= _STANDARD_IDS.keys():
        change_counters.prevent_remote_bumps(connection, SUBJECT)
    return ids


def _map_ids(
    connection: Connection, statement: Select[*tuple[Any, ...]], names: Iterable[str]
) -> dict[str, int]:
    unique_names = set(names)
    ids = {name: _STANDARD_IDS[name] for name in unique_names & _STANDARD_IDS.keys()}
    for batch in split_batches(unique_names - ids.keys()):
        ids |= {row.name: row.id for row in connection.execute(statement, {"names": batch})}
    return ids


def get_by_name(connection: Connection, name: str) -> ResourceClass:
    """Return a resource class, or raise :class:`NotFound`."""
    row = connection.execute(_CLASSES.where(_COLUMNS.name == name)).one_or_none()
    # MariaDB ignores the case of names.
    if row is None or row.name != name:
        raise NotFound(f"No such resource class {name}.")
    return ResourceClass(**row._asdict())


def list_classes(connection: Connection) -> tuple[ResourceClass, ...]:
    """Return all resource classes, sorted by id, standard classes first."""
    return tuple(ResourceClass(**row._asdict()) for row in connection.execute(_CLASSES))


def add(connection: Connection, name: str, now: datetime) -> None:
    """Create a custom class with the next free id.

    Raises :class:`Duplicate` if the name is already used, and :class:`Overtaken` if OpenStack
    placement, which takes no lock, uses the id concurrently.
    """
    # Ids of custom classes are consecutive, so writers take turns by a lock on the first row.
    first = select(_COLUMNS.id).where(_COLUMNS.id == 0)
    connection.execute(first.with_for_update())
    if name in map_ids(connection, [name]):
        raise _build_duplicate_error(f"Conflicting resource class already exists: {name}")
    highest = connection.scalar(select(func.max(_COLUMNS.id)))
    class_id = max(FIRST_CUSTOM_ID, (highest or 0) + 1)
    row = {"id": class_id, "name": name, "created_at": now, "updated_at": now}
    if not sql.try_insert(connection, resource_classes, row):
        raise Overtaken(f"{name} could not be created because of concurrent requests. Try again.")


def rename(connection: Connection, old: ResourceClass, name: str, now: datetime) -> None:
    """Rename a custom class, or raise :class:`Duplicate` if the name exists."""
    statement = update(resource_classes).where(_COLUMNS.id == old.id)
    with sql.translate_rejection(_build_duplicate_error(f"Resource class already exists: {name}")):
        connection.execute(statement.values(name=name, updated_at=now))


def remove(connection: Connection, resource_class: ResourceClass) -> None:
    """Delete a class, or raise :class:`InUse`, or NotFound if it is gone."""
    change_counters.prevent_remote_access(connection, [SUBJECT])
    query = select(_COLUMNS.id).where(_COLUMNS.id == resource_class.id)
    if connection.scalar(query.with_for_update()) is None:
        raise NotFound(f"No such resource class {resource_class.name}.")
    users = (
        select(inventories.c.id)
        .where(inventories.c.resource_class_id == resource_class.id)
        .limit(1)
    )
    if connection.scalar(users) is not None:
        raise InUse(
            f"Error in delete resource class: Cannot delete resource class {resource_class.name}. "
            "Class is in use in inventory."
        )
    connection.execute(delete(resource_classes).where(_COLUMNS.id == resource_class.id))


def _build_duplicate_error(detail: str) -> Duplicate:
    # Only duplicate provider names have an error code of their own.
    return Duplicate(detail, code=Error.code)


def add_standard(connection: Connection, names: Iterable[str], now: datetime) -> None:
    """Create standard classes with their fixed ids, from 0 on."""
    rows = [{"id": _STANDARD_IDS[name], "name": name, "created_at": now} for name in names]
    if connection.dialect.name in {"mysql", "mariadb"}:
        # Without this mode MariaDB replaces the id 0 by the next free id.
        mode = "SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO')"
        connection.execute(text(mode))
    sql.insert_missing(connection, resource_classes, rows)
