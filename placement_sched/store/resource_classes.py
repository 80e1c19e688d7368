"""Resource classes: standard ones by the position os-resource-classes gives, and custom ones."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import os_resource_classes
from sqlalchemy import (
    Connection,
    Row,
    Select,
    bindparam,
    delete,
    func,
    select,
    text,
    update,
)
from sqlalchemy.exc import IntegrityError

from placement_sched.db.batches import batches
from placement_sched.db.insert import insert_missing, inserted
from placement_sched.db.tables import inventories, resource_classes
from placement_sched.errors import ConcurrentUpdate, Duplicate, Error, InUse, NotFound
from placement_sched.model.resource_class import ResourceClass

#: Custom classes are numbered from here on, as OpenStack placement does, so that both services
#: on one database leave each other's numbers alone.
FIRST_CUSTOM_ID = 10000

#: How often another number is tried where rivals without our lock take the next one.
_NUMBERS_TRIED = 10

#: Standard classes are numbered by their position, in every database and for good, and every
#: start sees to it that they are there.
_STANDARD_IDS = {name: number for number, name in enumerate(os_resource_classes.STANDARDS)}

_IDS = select(resource_classes.c.name, resource_classes.c.id).where(
    resource_classes.c.name.in_(bindparam("names", expanding=True))
)
# MariaDB shares a lock of the whole row only where a column is read that the index of names lacks.
_HELD_IDS = _IDS.add_columns(resource_classes.c.created_at).with_for_update(
    read=True, key_share=True
)


def all_names(connection: Connection) -> frozenset[str]:
    """Return the name of every resource class."""
    return frozenset(connection.scalars(select(resource_classes.c.name)))


def all_by_id(connection: Connection) -> dict[int, str]:
    """Return the name of every resource class by its id; there are dozens, not thousands."""
    rows = connection.execute(select(resource_classes.c.id, resource_classes.c.name))
    return {row.id: row.name for row in rows}


def ids_by_name(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    """Return the ids of those of ``names`` that are there; only for custom ones it asks."""
    return _ids(connection, _IDS, names)


def names_by_id(connection: Connection, ids: Iterable[int]) -> dict[int, str]:
    """Return the names of those of ``ids`` that are there."""
    return {
        number: name
        for batch in batches(set(ids))
        for number, name in connection.execute(
            select(resource_classes.c.id, resource_classes.c.name).where(
                resource_classes.c.id.in_(batch)
            )
        )
    }


def held_ids_by_name(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    """Return the ids of those of ``names`` that are there, and that stay until the caller commits.

    Placement's inventories have no foreign key to their class. Who writes one holds the class by
    this lock, for which :func:`remove` waits; standard classes are never deleted.
    """
    return _ids(connection, _HELD_IDS, names)


def _ids(
    connection: Connection, question: Select[*tuple[Any, ...]], names: Iterable[str]
) -> dict[str, int]:
    wanted = set(names)
    ids = {name: _STANDARD_IDS[name] for name in wanted & _STANDARD_IDS.keys()}
    for batch in batches(wanted - ids.keys()):
        ids |= {row.name: row.id for row in connection.execute(question, {"names": batch})}
    return ids


def by_name(connection: Connection, name: str) -> ResourceClass:
    """Return the class of this name; raises :class:`NotFound`."""
    row = connection.execute(_select().where(resource_classes.c.name == name)).one_or_none()
    # MariaDB may compare without heed of case.
    if row is None or row.name != name:
        raise NotFound(f"No such resource class {name}.")
    return _resource_class(row)


def all_classes(connection: Connection) -> tuple[ResourceClass, ...]:
    """Return every class by id, the standard ones first."""
    return tuple(_resource_class(row) for row in connection.execute(_select()))


def add(connection: Connection, name: str, now: datetime) -> None:
    """Create a custom class; raises :class:`Duplicate` where the name is taken."""
    # Custom classes are numbered one after the other; whoever makes one holds the first row.
    first = select(resource_classes.c.id).where(resource_classes.c.id == 0)
    connection.execute(first.with_for_update())
    for _ in range(_NUMBERS_TRIED):
        if name in ids_by_name(connection, [name]):
            raise _taken(f"Conflicting resource class already exists: {name}")
        if _added(connection, name, now):
            return
    raise ConcurrentUpdate(f"Others keep creating resource classes beside {name}; try again.")


def _added(connection: Connection, name: str, now: datetime) -> bool:
    """Return whether a class was created; OpenStack's own placement may take its number first.

    That service, on the same database, does not know of our lock.
    """
    highest = connection.scalar(select(func.max(resource_classes.c.id)))
    number = max(FIRST_CUSTOM_ID, (highest or 0) + 1)
    row = {"id": number, "name": name, "created_at": now, "updated_at": now}
    return inserted(connection, resource_classes, row)


def rename(connection: Connection, old: ResourceClass, name: str, now: datetime) -> None:
    """Give a custom class another name; raises :class:`Duplicate` where it is taken."""
    statement = update(resource_classes).where(resource_classes.c.id == old.id)
    try:
        connection.execute(statement.values(name=name, updated_at=now))
    except IntegrityError:
        raise _taken(f"Resource class already exists: {name}") from None


def remove(connection: Connection, gone: ResourceClass) -> None:
    """Delete a class; raises :class:`InUse` while a provider has an inventory of it."""
    held = select(resource_classes.c.id).where(resource_classes.c.id == gone.id)
    if connection.scalar(held.with_for_update()) is None:
        raise NotFound(f"No such resource class {gone.name}.")
    users = select(inventories.c.id).where(inventories.c.resource_class_id == gone.id).limit(1)
    if connection.scalar(users) is not None:
        raise InUse(
            f"Error in delete resource class: Cannot delete resource class {gone.name}. "
            "Class is in use in inventory."
        )
    connection.execute(delete(resource_classes).where(resource_classes.c.id == gone.id))


def _taken(words: str) -> Duplicate:
    # Only providers' names have an error code of their own.
    return Duplicate(words, code=Error.code)


def _select() -> Select[int, str, datetime, datetime]:
    columns = resource_classes.c
    return select(columns.id, columns.name, columns.created_at, columns.updated_at).order_by(
        columns.id
    )


def _resource_class(row: Row[int, str, datetime, datetime]) -> ResourceClass:
    return ResourceClass(
        id=row.id, name=row.name, created_at=row.created_at, updated_at=row.updated_at
    )


def add_standard(connection: Connection, names: Iterable[str], now: datetime) -> None:
    """Create the standard classes of these names under their fixed numbers, from 0 on."""
    rows = [{"id": _STANDARD_IDS[name], "name": name, "created_at": now} for name in names]
    if connection.dialect.name in {"mysql", "mariadb"}:
        # Without this mode MariaDB takes the number 0 as a request for the next free one.
        connection.execute(
            text("SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO')")
        )
    insert_missing(connection, resource_classes, rows)
