"""Flavors: the rows, their extra specs, and the projects that the private ones are for."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, or_, select, true, update

from placement_sched.db.batches import batches
from placement_sched.db.tables import flavor_extra_specs, flavor_projects, flavors
from placement_sched.model.flavor import Flavor

#: The change counter that rises with every change of a flavor, its extra specs or its projects.
SUBJECT = "flavors"

_FLAVORS = flavors.c
_SPECS = flavor_extra_specs.c
_PROJECTS = flavor_projects.c
_SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap", "rxtx_factor")


def by_flavorid(connection: Connection, flavorid: str) -> Flavor | None:
    """Return the flavor of this id, with its extra specs, or None."""
    found = _read(connection, _FLAVORS.flavorid == flavorid)
    # MariaDB finds "a" for "a " as well.
    return next((each for each in found if each.flavorid == flavorid), None)


def all_flavors(connection: Connection) -> tuple[Flavor, ...]:
    """Return every flavor with its extra specs, in the order in which they were made."""
    return _read(connection, true())


def by_flavorid_or_name(connection: Connection, text: str) -> Flavor | None:
    """Return the flavor of this id, else of this name, with its extra specs, or None."""
    found = _read(connection, or_(_FLAVORS.flavorid == text, _FLAVORS.name == text))
    by_id = next((each for each in found if each.flavorid == text), None)
    return by_id or next((each for each in found if each.name == text), None)


def flavorid_of_name(connection: Connection, name: str) -> str | None:
    """Return the id of the flavor of this name, or None."""
    return connection.scalar(select(_FLAVORS.flavorid).where(_FLAVORS.name == name))


def add(connection: Connection, flavor: Flavor, now: datetime) -> None:
    """Keep a new flavor; the caller knows that its id and its name are free."""
    connection.execute(insert(flavors), {**_row(flavor), "created_at": now})


def add_many(connection: Connection, new: Sequence[Flavor], now: datetime) -> None:
    """Keep new flavors with their extra specs; the caller knows that ids and names are free."""
    if not new:
        return
    connection.execute(insert(flavors), [{**_row(flavor), "created_at": now} for flavor in new])
    ids = ids_by_flavorid(connection)
    _add_specs(connection, {ids[str(flavor.flavorid)]: flavor.extra_specs for flavor in new}, now)


def change(connection: Connection, number: int, flavor: Flavor, now: datetime) -> None:
    """Make of the flavor of this row what ``flavor`` is; its id stays."""
    values = {**_row(flavor), "updated_at": now}
    connection.execute(update(flavors).where(_FLAVORS.id == number).values(values))
    connection.execute(delete(flavor_extra_specs).where(_SPECS.flavor_id == number))
    _add_specs(connection, {number: flavor.extra_specs}, now)


def replace_projects(
    connection: Connection, projects: Mapping[int, Iterable[str]], now: datetime
) -> None:
    """Make these the only projects that flavors are for, by the numbers of their rows."""
    for batch in batches(sorted(projects)):
        connection.execute(delete(flavor_projects).where(_PROJECTS.flavor_id.in_(batch)))
    rows = [
        {"flavor_id": number, "project_id": project, "created_at": now}
        for number, some in projects.items()
        for project in sorted(some)
    ]
    if rows:
        connection.execute(insert(flavor_projects), rows)


def ids_by_flavorid(connection: Connection) -> dict[str, int]:
    """Return the number of the row of every flavor."""
    rows = connection.execute(select(_FLAVORS.flavorid, _FLAVORS.id))
    return {row.flavorid: row.id for row in rows}


def _row(flavor: Flavor) -> dict[str, Any]:
    row = {name: getattr(flavor, name) for name in ("flavorid", "name", *_SIZES, "description")}
    return {**row, "is_public": int(flavor.is_public)}


def _add_specs(
    connection: Connection, by_number: Mapping[int, Mapping[str, str]], now: datetime
) -> None:
    rows = [
        {"flavor_id": number, "key": key, "value": value, "created_at": now}
        for number, some in by_number.items()
        for key, value in some.items()
    ]
    if rows:
        connection.execute(insert(flavor_extra_specs), rows)


def describe(connection: Connection, number: int, text: str | None, now: datetime) -> None:
    """Change what is told of a flavor."""
    connection.execute(
        update(flavors).where(_FLAVORS.id == number).values(description=text, updated_at=now)
    )


def remove(connection: Connection, number: int) -> None:
    """Delete a flavor with its extra specs and its list of projects."""
    connection.execute(delete(flavor_extra_specs).where(_SPECS.flavor_id == number))
    connection.execute(delete(flavor_projects).where(_PROJECTS.flavor_id == number))
    connection.execute(delete(flavors).where(_FLAVORS.id == number))


def set_extra_specs(
    connection: Connection, number: int, changes: Mapping[str, str], now: datetime
) -> None:
    """Set extra specs of a flavor; those not named stay."""
    if not changes:
        return
    connection.execute(
        delete(flavor_extra_specs).where(_SPECS.flavor_id == number, _SPECS.key.in_(changes))
    )
    rows = [
        {"flavor_id": number, "key": key, "value": value, "created_at": now}
        for key, value in changes.items()
    ]
    connection.execute(insert(flavor_extra_specs), rows)


def remove_extra_spec(connection: Connection, number: int, key: str) -> None:
    """Delete one extra spec of a flavor."""
    connection.execute(
        delete(flavor_extra_specs).where(_SPECS.flavor_id == number, _SPECS.key == key)
    )


def extra_specs_of(connection: Connection, numbers: Iterable[int]) -> dict[int, dict[str, str]]:
    """Return the extra specs of flavors, by key, for those that have any."""
    found: dict[int, dict[str, str]] = defaultdict(dict)
    query = (
        select(_SPECS.flavor_id, _SPECS.key, _SPECS.value)
        .where(_SPECS.flavor_id.in_(numbers))
        .order_by(_SPECS.flavor_id, _SPECS.key)
    )
    for number, key, value in connection.execute(query):
        found[number][key] = value
    return dict(found)


def projects_of(connection: Connection, number: int) -> tuple[str, ...]:
    """Return the projects that a flavor is for, in order."""
    query = select(_PROJECTS.project_id).where(_PROJECTS.flavor_id == number)
    return tuple(sorted(connection.scalars(query)))


def is_for(connection: Connection, number: int, project_id: str) -> bool:
    """Return whether a project is among those that a flavor is for."""
    query = select(_PROJECTS.flavor_id).where(
        _PROJECTS.flavor_id == number, _PROJECTS.project_id == project_id
    )
    return connection.scalar(query) is not None


def add_project(connection: Connection, number: int, project_id: str, now: datetime) -> None:
    """Put a project among those a flavor is for; the caller knows that it is not there."""
    row = {"flavor_id": number, "project_id": project_id, "created_at": now}
    connection.execute(insert(flavor_projects), row)


def remove_project(connection: Connection, number: int, project_id: str) -> bool:
    """Take a project from those a flavor is for; return whether it was there."""
    gone = delete(flavor_projects).where(
        _PROJECTS.flavor_id == number, _PROJECTS.project_id == project_id
    )
    return bool(connection.execute(gone).rowcount)


def of_row(row: Row[Any], extra_specs: Mapping[str, str]) -> Flavor:
    """Return the flavor of a row of the table."""
    return Flavor(
        id=row.id,
        flavorid=row.flavorid,
        name=row.name,
        is_public=bool(row.is_public),
        description=row.description,
        extra_specs=extra_specs,
        **{name: getattr(row, name) for name in _SIZES},
    )


def _read(connection: Connection, condition: Any) -> tuple[Flavor, ...]:
    """Return the flavors that meet the condition, by id, in one statement."""
    query = (
        select(flavors, _SPECS.key, _SPECS.value)
        .outerjoin(flavor_extra_specs, _SPECS.flavor_id == _FLAVORS.id)
        .where(condition)
        .order_by(_FLAVORS.id, _SPECS.key)
    )
    rows: dict[int, Row[Any]] = {}
    extra_specs: dict[int, dict[str, str]] = defaultdict(dict)
    for row in connection.execute(query):
        rows[row.id] = row
        if row.key is not None:
            extra_specs[row.id][row.key] = row.value
    return tuple(of_row(row, extra_specs[number]) for number, row in rows.items())
