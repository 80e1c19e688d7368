"""Flavors: the rows, their extra specs, the projects that the private ones are for, and lists."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from hashlib import sha256
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row, and_, delete, insert, or_, select, update

from placement_sched.db import sql
from placement_sched.db.tables import (
    embedded_flavors,
    flavor_extra_specs,
    flavor_projects,
    flavors,
    longest,
)
from placement_sched.model.document import Json
from placement_sched.model.flavor import Flavor

#: The change counter that rises with every change of a flavor, its extra specs or its projects.
SUBJECT = "flavors"

_FLAVORS = flavors.c
_SPECS = flavor_extra_specs.c
_PROJECTS = flavor_projects.c
_ATTRIBUTES = {one.name for one in fields(Flavor)}
#: The columns that keep an attribute of a flavor as it is.
_KEPT = tuple(one.name for one in _FLAVORS if one.name in _ATTRIBUTES - {"id", "is_public"})


def by_flavorid(connection: Connection, flavorid: str) -> Flavor | None:
    """Return the flavor of this id, with its extra specs, or None."""
    found = _read(connection, _FLAVORS.flavorid == flavorid)
    # MariaDB finds "a" for "a " as well.
    return next((each for each in found if each.flavorid == flavorid), None)


def all_flavors(connection: Connection) -> tuple[Flavor, ...]:
    """Return every flavor with its extra specs, in the order in which they were made."""
    return _read(connection, sa.true())


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
    gone = delete(flavor_projects)
    sql.change_among(connection, gone, _PROJECTS.flavor_id, sorted(projects))
    rows = [
        {"flavor_id": number, "project_id": project, "created_at": now}
        for number, some in projects.items()
        for project in sorted(some)
    ]
    sql.insert_rows(connection, flavor_projects, rows)


def ids_by_flavorid(connection: Connection) -> dict[str, int]:
    """Return the number of the row of every flavor."""
    rows = connection.execute(select(_FLAVORS.flavorid, _FLAVORS.id))
    return {row.flavorid: row.id for row in rows}


def _row(flavor: Flavor) -> dict[str, Any]:
    row = {name: getattr(flavor, name) for name in _KEPT}
    return {**row, "is_public": int(flavor.is_public)}


def _add_specs(
    connection: Connection, by_number: Mapping[int, Mapping[str, str]], now: datetime
) -> None:
    rows = [
        {"flavor_id": number, "key": key, "value": value, "created_at": now}
        for number, some in by_number.items()
        for key, value in some.items()
    ]
    sql.insert_rows(connection, flavor_extra_specs, rows)


def describe(connection: Connection, number: int, text: str | None, now: datetime) -> None:
    """Change the description of a flavor."""
    change = update(flavors).where(_FLAVORS.id == number)
    connection.execute(change.values(description=text, updated_at=now))


def remove(connection: Connection, number: int) -> None:
    """Delete a flavor with its extra specs and its list of projects."""
    for table in (flavor_extra_specs, flavor_projects):
        connection.execute(delete(table).where(table.c.flavor_id == number))
    connection.execute(delete(flavors).where(_FLAVORS.id == number))


def set_extra_specs(
    connection: Connection, number: int, changes: Mapping[str, str], now: datetime
) -> None:
    """Set extra specs of a flavor; those not named stay."""
    if changes:
        old = delete(flavor_extra_specs).where(_SPECS.flavor_id == number)
        connection.execute(old.where(_SPECS.key.in_(changes)))
        _add_specs(connection, {number: changes}, now)


def remove_extra_spec(connection: Connection, number: int, key: str) -> None:
    """Delete one extra spec of a flavor."""
    connection.execute(
        delete(flavor_extra_specs).where(_SPECS.flavor_id == number, _SPECS.key == key)
    )


def extra_specs_of(connection: Connection, numbers: Iterable[int]) -> dict[int, dict[str, str]]:
    """Return the extra specs of flavors, by key, for those that have any."""
    found: dict[int, dict[str, str]] = defaultdict(dict)
    query = select(_SPECS.flavor_id, _SPECS.key, _SPECS.value).where(_SPECS.flavor_id.in_(numbers))
    for number, key, value in connection.execute(query.order_by(_SPECS.flavor_id, _SPECS.key)):
        found[number][key] = value
    return dict(found)


def projects_of(connection: Connection, number: int) -> tuple[str, ...]:
    """Return the projects that a flavor is for, in order."""
    query = select(_PROJECTS.project_id).where(_PROJECTS.flavor_id == number)
    return tuple(sorted(connection.scalars(query)))


def all_projects(connection: Connection) -> dict[int, set[str]]:
    """Return the projects that each flavor is for, by the number of its row."""
    found: dict[int, set[str]] = defaultdict(set)
    for number, project in connection.execute(select(_PROJECTS.flavor_id, _PROJECTS.project_id)):
        found[number].add(project)
    return found


def is_for(connection: Connection, number: int, project_id: str) -> bool:
    """Return whether a project is among those that a flavor is for."""
    query = select(_PROJECTS.flavor_id).filter_by(flavor_id=number, project_id=project_id)
    return connection.scalar(query) is not None


def add_project(connection: Connection, number: int, project_id: str, now: datetime) -> None:
    """Put a project among those a flavor is for; the caller knows that it is not there."""
    row = {"flavor_id": number, "project_id": project_id, "created_at": now}
    connection.execute(insert(flavor_projects), row)


def remove_project(connection: Connection, number: int, project_id: str) -> bool:
    """Take a project from those a flavor is for; return whether it was there."""
    gone = delete(flavor_projects).filter_by(flavor_id=number, project_id=project_id)
    return bool(connection.execute(gone).rowcount)


def of_row(row: Row[Any], extra_specs: Mapping[str, str]) -> Flavor:
    """Return the flavor of a row of the table."""
    return Flavor(
        id=row.id,
        is_public=bool(row.is_public),
        extra_specs=extra_specs,
        **{name: getattr(row, name) for name in _KEPT},
    )


def _read(connection: Connection, condition: Any) -> tuple[Flavor, ...]:
    # One statement: two would show the flavor of one moment with the extra specs of another.
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


_TEXTS = ("flavorid", "name", "description")
#: What every flavor has the same, so that it orders nothing.
_EQUAL = ("disabled", "vcpu_weight")

#: The names by which flavors can be sorted, as nova has them: all columns.
SORT_KEYS = (*_TEXTS, *_EQUAL, *sorted({str(one.name) for one in _FLAVORS} - {*_TEXTS}))


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorsWanted:
    """Which flavors are listed, and how.

    ``is_public`` None means public and private ones alike. Private ones that are for the project
    ``project_id`` count as public. ``marker`` is the id of the flavor after which the list begins;
    with ``confined``, it may not be a private one of other projects.
    """

    is_public: bool | None = True
    project_id: str = ""
    min_memory_mb: int | None = None
    min_root_gb: int | None = None
    sort_key: str = "flavorid"
    descending: bool = False
    marker: str | None = None
    confined: bool = False
    limit: int | None = None


def search(
    connection: Connection, wanted: FlavorsWanted, *, extra_specs: bool
) -> tuple[Flavor, ...]:
    """Return the flavors that are wanted, in their order, with their extra specs if asked.

    Raises :class:`Invalid` for a marker that is not a flavor.
    """
    key = _sort_key(connection, wanted.sort_key)
    query = sql.page(
        connection,
        select(flavors).where(*_conditions(wanted)),
        [(key, wanted.descending), (_FLAVORS.id, wanted.descending)],
        limit=wanted.limit,
        marked=_marked(wanted, wanted.marker) if wanted.marker is not None else None,
        missing=f"marker [{wanted.marker}] not found",
    )
    rows = connection.execute(query).all()
    found = extra_specs_of(connection, [row.id for row in rows]) if extra_specs else {}
    return tuple(of_row(row, found.get(row.id, {})) for row in rows)


def _conditions(wanted: FlavorsWanted) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.is_public is not None:
        conditions.append(_seen(wanted) if wanted.is_public else _FLAVORS.is_public == 0)
    for column, least in (
        (_FLAVORS.memory_mb, wanted.min_memory_mb),
        (_FLAVORS.root_gb, wanted.min_root_gb),
    ):
        if least is not None:
            conditions.append(column >= sa.literal(least, sa.BigInteger))
    return conditions


def _seen(wanted: FlavorsWanted) -> ColumnElement[bool]:
    is_theirs = and_(_PROJECTS.flavor_id == _FLAVORS.id, _PROJECTS.project_id == wanted.project_id)
    return or_(_FLAVORS.is_public == 1, sa.exists().where(is_theirs))


def _sort_key(connection: Connection, name: str) -> ColumnElement[Any]:
    column = _FLAVORS.id if name in _EQUAL else _FLAVORS[name]
    if isinstance(column.type, sa.String | sa.DateTime):
        return sql.same_order_everywhere(connection, column)
    return column


def _marked(wanted: FlavorsWanted, marker: str) -> ColumnElement[bool]:
    """Return whether a flavor is the marker; MariaDB alone takes "a" to equal "a "."""
    if len(marker) > longest(_FLAVORS.flavorid):
        return sa.false()
    is_marker = and_(
        _FLAVORS.flavorid == marker, _FLAVORS.flavorid.startswith(marker, autoescape=True)
    )
    return and_(is_marker, _seen(wanted)) if wanted.confined else is_marker


_COLUMNS = embedded_flavors.c
#: The flavors that this process has read, by digest, and how many it keeps.
_READ: dict[str, Json] = {}
_MOST = 10_000


def digest_of_flavor(text: str) -> str:
    """Return the digest by which the text of a flavor is kept: its SHA-256 in hex."""
    return sha256(text.encode()).hexdigest()


def keep_embedded(connection: Connection, texts: Mapping[str, str]) -> None:
    """Keep texts, given by their digests, those that are not there."""
    # Asked first: an insert that finds a row there would lock it, and so keep every other writer
    # of the same flavor waiting until this transaction ends.
    missing = texts.keys() - _texts(connection, texts, _COLUMNS.digest).keys()
    rows = [{"digest": digest, "flavor": texts[digest]} for digest in sorted(missing)]
    for batch in sql.batches(rows, sql.AT_ONCE):
        sql.insert_missing(connection, embedded_flavors, batch)


def read_embedded(connection: Connection, digests: Iterable[str]) -> dict[str, Json]:
    """Return the flavors of these digests: not to be changed, as instances share them."""
    wanted = set(digests)
    # A digest never means another text, so that what was read once is right for ever.
    found = {one: known for one in wanted if (known := _READ.get(one)) is not None}
    if missing := wanted - found.keys():
        texts = _texts(connection, missing, _COLUMNS.flavor)
        new = {digest: orjson.loads(text) for digest, text in texts.items()}
        if len(_READ) + len(new) > _MOST:
            _READ.clear()
        _READ.update(new)
        found |= new
    return found


def _texts(connection: Connection, digests: Iterable[str], column: Any) -> dict[str, str]:
    query = select(_COLUMNS.digest, column)
    rows = sql.rows_among(connection, query, _COLUMNS.digest, sorted(set(digests)))
    return dict(map(tuple, rows))
