"""Resource classes: standard ones by the position os-resource-classes gives, and custom ones."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import os_resource_classes
from sqlalchemy import Connection, Select, bindparam, delete, func, select, text, update

from placement_sched.db import sql
from placement_sched.db.tables import inventories, resource_classes
from placement_sched.errors import ConcurrentUpdate, Duplicate, Error, InUse, NotFound
from placement_sched.model.provider import ResourceClass
from placement_sched.model.retry import retrying
from placement_sched.store import change_counters

#: What is held by who writes an inventory of a custom class, against who deletes one.
SUBJECT = "resource_classes"

#: Custom classes are numbered from here on, as OpenStack placement does, so that both services
#: on one database leave each other's numbers alone.
FIRST_CUSTOM_ID = 10000

#: How often another number is tried where writers without our lock take the next one.
_NUMBERS_TRIED = 10

#: Standard classes are numbered by their position, in every database and for good, and every
#: start sees to it that they are there.
_STANDARD_IDS = {name: number for number, name in enumerate(os_resource_classes.STANDARDS)}

_COLUMNS = resource_classes.c
_CLASSES: Select[Any] = select(resource_classes).order_by(_COLUMNS.id)
_IDS = select(_COLUMNS.name, _COLUMNS.id).where(
    _COLUMNS.name.in_(bindparam("names", expanding=True))
)
# MariaDB shares a lock of the whole row only where a column is read that the index of names lacks.
_HELD_IDS = _IDS.add_columns(_COLUMNS.created_at).with_for_update(read=True, key_share=True)


def all_names(connection: Connection) -> frozenset[str]:
    """Return the name of every resource class."""
    return frozenset(connection.scalars(select(_COLUMNS.name)))


def all_by_id(connection: Connection) -> dict[int, str]:
    """Return the name of every resource class by its id; there are dozens, not thousands."""
    return dict(map(tuple, connection.execute(select(_COLUMNS.id, _COLUMNS.name))))


def ids_by_name(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    """Return the ids of those of ``names`` that are there; only for custom ones it asks."""
    return _ids(connection, _IDS, names)


def held_ids_by_name(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    """Return the ids of those of ``names`` that are there, and that stay until the caller commits.

    Placement's inventories have no foreign key to their class. Who writes one holds the class by
    this lock, for which :func:`remove` waits; standard classes are never deleted.
    """
    ids = _ids(connection, _HELD_IDS, names)
    if not ids.keys() <= _STANDARD_IDS.keys():
        change_counters.share(connection, SUBJECT)
    return ids


def _ids(
    connection: Connection, question: Select[*tuple[Any, ...]], names: Iterable[str]
) -> dict[str, int]:
    wanted = set(names)
    ids = {name: _STANDARD_IDS[name] for name in wanted & _STANDARD_IDS.keys()}
    for batch in sql.batches(wanted - ids.keys()):
        ids |= {row.name: row.id for row in connection.execute(question, {"names": batch})}
    return ids


def by_name(connection: Connection, name: str) -> ResourceClass:
    """Return the class of this name; raises :class:`NotFound`."""
    row = connection.execute(_CLASSES.where(_COLUMNS.name == name)).one_or_none()
    # MariaDB may compare without regard to case.
    if row is None or row.name != name:
        raise NotFound(f"No such resource class {name}.")
    return ResourceClass(**row._asdict())


def all_classes(connection: Connection) -> tuple[ResourceClass, ...]:
    """Return every class by id, the standard ones first."""
    return tuple(ResourceClass(**row._asdict()) for row in connection.execute(_CLASSES))


def add(connection: Connection, name: str, now: datetime) -> None:
    """Create a custom class; raises :class:`Duplicate` where the name is taken."""
    # Custom classes are numbered one after the other; who makes one holds the first row.
    first = select(_COLUMNS.id).where(_COLUMNS.id == 0)
    connection.execute(first.with_for_update())
    retrying(lambda: _add(connection, name, now), _NUMBERS_TRIED)


def _add(connection: Connection, name: str, now: datetime) -> None:
    """Create a custom class unless OpenStack's own placement takes its number first.

    That service, on the same database, does not know of our lock. Raises
    :class:`ConcurrentUpdate` where it does.
    """
    if name in ids_by_name(connection, [name]):
        raise _taken(f"Conflicting resource class already exists: {name}")
    highest = connection.scalar(select(func.max(_COLUMNS.id)))
    number = max(FIRST_CUSTOM_ID, (highest or 0) + 1)
    row = {"id": number, "name": name, "created_at": now, "updated_at": now}
    if not sql.inserted(connection, resource_classes, row):
        raise ConcurrentUpdate(f"Concurrent requests kept {name} from being created; try again.")


def rename(connection: Connection, old: ResourceClass, name: str, now: datetime) -> None:
    """Give a custom class another name; raises :class:`Duplicate` where it is taken."""
    change = update(resource_classes).where(_COLUMNS.id == old.id)
    with sql.refused_as(_taken(f"Resource class already exists: {name}")):
        connection.execute(change.values(name=name, updated_at=now))


def remove(connection: Connection, gone: ResourceClass) -> None:
    """Delete a class; raises :class:`InUse` while a provider has an inventory of it."""
    change_counters.exclude(connection, [SUBJECT])
    held = select(_COLUMNS.id).where(_COLUMNS.id == gone.id)
    if connection.scalar(held.with_for_update()) is None:
        raise NotFound(f"No such resource class {gone.name}.")
    users = select(inventories.c.id).where(inventories.c.resource_class_id == gone.id).limit(1)
    if connection.scalar(users) is not None:
        raise InUse(
            f"Error in delete resource class: Cannot delete resource class {gone.name}. "
            "Class is in use in inventory."
        )
    connection.execute(delete(resource_classes).where(_COLUMNS.id == gone.id))


def _taken(words: str) -> Duplicate:
    # Only providers' names have an error code of their own.
    return Duplicate(words, code=Error.code)


def add_standard(connection: Connection, names: Iterable[str], now: datetime) -> None:
    """Create the standard classes of these names under their fixed numbers, from 0 on."""
    rows = [{"id": _STANDARD_IDS[name], "name": name, "created_at": now} for name in names]
    if connection.dialect.name in {"mysql", "mariadb"}:
        # Without this mode MariaDB takes the number 0 as a request for the next free one.
        mode = "SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO')"
        connection.execute(text(mode))
    sql.insert_missing(connection, resource_classes, rows)
