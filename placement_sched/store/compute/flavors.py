# SPDX-License-Identifier: Apache-2.0
"""Flavors with extra specs and project access, and flavors of instances."""

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
    get_max_length,
)
from placement_sched.model.document import Json
from placement_sched.model.flavor import Flavor
from placement_sched.model.grouping import AT_ONCE, group_rows, nest_rows, split_batches

#: The change counter that rises with every change of a flavor, its extra specs or its projects.
SUBJECT = "flavors"

_FLAVORS = flavors.c
_SPECS = flavor_extra_specs.c
_PROJECTS = flavor_projects.c
_ATTRIBUTES = {attribute.name for attribute in fields(Flavor)}
#: The columns with the values of a flavor's attributes.
_PLAIN = tuple(c.name for c in _FLAVORS if c.name in _ATTRIBUTES - {"id", "is_public"})
_TEXTS = ("flavorid", "name", "description")
#: Attributes that are equal for all flavors, and so do not affect the order.
_CONSTANT = ("disabled", "vcpu_weight")
#: The sort keys of nova: all columns.
SORT_KEYS = (*_TEXTS, *_CONSTANT, *sorted({str(c.name) for c in _FLAVORS} - {*_TEXTS}))
_COLUMNS = embedded_flavors.c


def find_by_flavorid(connection: Connection, flavorid: str) -> Flavor | None:
    """Return the flavor with this id and its extra specs, or None."""
    candidates = _read(connection, _FLAVORS.flavorid == flavorid)
    # MariaDB ignores trailing spaces.
    return next((flavor for flavor in candidates if flavor.flavorid == flavorid), None)


def list_flavors(connection: Connection) -> tuple[Flavor, ...]:
    """Return all flavors with extra specs, in the order of creation."""
    return _read(connection, sa.true())


def find_by_flavorid_or_name(connection: Connection, text: str) -> Flavor | None:
    """Return the flavor with this id, else with this name, or None."""
    candidates = _read(connection, or_(_FLAVORS.flavorid == text, _FLAVORS.name == text))
    by_id = next((flavor for flavor in candidates if flavor.flavorid == text), None)
    return by_id or next((flavor for flavor in candidates if flavor.name == text), None)


def find_flavorid(connection: Connection, name: str) -> str | None:
    """Return the id of the flavor with this name, or None."""
    return connection.scalar(select(_FLAVORS.flavorid).where(_FLAVORS.name == name))


def add_many(connection: Connection, new: Sequence[Flavor], now: datetime) -> None:
    """Create flavors, whose ids and names are unused, and extra specs."""
    if not new:
        return
    connection.execute(
        insert(flavors), [{**_build_row(flavor), "created_at": now} for flavor in new]
    )
    ids = map_ids_by_flavorid(connection)
    _add_specs(connection, {ids[str(flavor.flavorid)]: flavor.extra_specs for flavor in new}, now)


def change(connection: Connection, row_id: int, flavor: Flavor, now: datetime) -> None:
    """Update the flavor with this row id, and replace its extra specs."""
    values = {**_build_row(flavor), "updated_at": now}
    connection.execute(update(flavors).where(_FLAVORS.id == row_id).values(values))
    connection.execute(delete(flavor_extra_specs).where(_SPECS.flavor_id == row_id))
    _add_specs(connection, {row_id: flavor.extra_specs}, now)


def replace_projects(
    connection: Connection, projects: Mapping[int, Iterable[str]], now: datetime
) -> None:
    """Replace the projects with access to flavors, by row id of the flavor."""
    statement = delete(flavor_projects)
    sql.change_in_batches(connection, statement, _PROJECTS.flavor_id, sorted(projects))
    rows = [
        {"flavor_id": row_id, "project_id": project, "created_at": now}
        for row_id, project_ids in projects.items()
        for project in sorted(project_ids)
    ]
    sql.insert_rows(connection, flavor_projects, rows)


def map_ids_by_flavorid(connection: Connection) -> dict[str, int]:
    """Map the flavor ids of all flavors to row ids."""
    rows = connection.execute(select(_FLAVORS.flavorid, _FLAVORS.id))
    return {row.flavorid: row.id for row in rows}


def _build_row(flavor: Flavor) -> dict[str, Any]:
    row = {name: getattr(flavor, name) for name in _PLAIN}
    return {**row, "is_public": int(flavor.is_public)}


def _add_specs(
    connection: Connection, specs_by_row_id: Mapping[int, Mapping[str, str]], now: datetime
) -> None:
    rows = [
        {"flavor_id": row_id, "key": key, "value": value, "created_at": now}
        for row_id, extra_specs in specs_by_row_id.items()
        for key, value in extra_specs.items()
    ]
    sql.insert_rows(connection, flavor_extra_specs, rows)


def set_description(connection: Connection, row_id: int, text: str | None, now: datetime) -> None:
    """Set the description of a flavor."""
    statement = update(flavors).where(_FLAVORS.id == row_id)
    connection.execute(statement.values(description=text, updated_at=now))


def remove(connection: Connection, row_id: int) -> None:
    """Delete a flavor with its extra specs and project access."""
    for table in (flavor_extra_specs, flavor_projects):
        connection.execute(delete(table).where(table.c.flavor_id == row_id))
    connection.execute(delete(flavors).where(_FLAVORS.id == row_id))


def set_extra_specs(
    connection: Connection, row_id: int, changes: Mapping[str, str], now: datetime
) -> None:
    """Set extra specs of a flavor and keep other extra specs."""
    if changes:
        old = delete(flavor_extra_specs).where(_SPECS.flavor_id == row_id)
        connection.execute(old.where(_SPECS.key.in_(changes)))
        _add_specs(connection, {row_id: changes}, now)


def remove_extra_spec(connection: Connection, row_id: int, key: str) -> None:
    """Delete an extra spec of a flavor."""
    connection.execute(
        delete(flavor_extra_specs).where(_SPECS.flavor_id == row_id, _SPECS.key == key)
    )


def map_extra_specs(connection: Connection, row_ids: Iterable[int]) -> dict[int, dict[str, str]]:
    """Map the row ids of flavors with extra specs to their extra specs."""
    query = select(_SPECS.flavor_id, _SPECS.key, _SPECS.value).where(_SPECS.flavor_id.in_(row_ids))
    return nest_rows(connection.execute(query.order_by(_SPECS.flavor_id, _SPECS.key)))


def list_projects(connection: Connection, row_id: int) -> tuple[str, ...]:
    """Return the projects with access to a flavor, sorted."""
    query = select(_PROJECTS.project_id).where(_PROJECTS.flavor_id == row_id)
    return tuple(sorted(connection.scalars(query)))


def map_projects(connection: Connection) -> dict[int, set[str]]:
    """Map the row ids of flavors to the projects with access."""
    rows = connection.execute(select(_PROJECTS.flavor_id, _PROJECTS.project_id))
    return {row_id: set(projects) for row_id, projects in group_rows(rows).items()}


def add_project(connection: Connection, row_id: int, project_id: str, now: datetime) -> None:
    """Give a project access to a flavor, which it must not have yet."""
    row = {"flavor_id": row_id, "project_id": project_id, "created_at": now}
    connection.execute(insert(flavor_projects), row)


def remove_project(connection: Connection, row_id: int, project_id: str) -> bool:
    """Remove a project's access to a flavor and return whether it had access."""
    statement = delete(flavor_projects).filter_by(flavor_id=row_id, project_id=project_id)
    return bool(connection.execute(statement).rowcount)


def build_flavor(row: Row[Any], extra_specs: Mapping[str, str]) -> Flavor:
    """Build the flavor of a table row."""
    return Flavor(
        id=row.id,
        is_public=bool(row.is_public),
        extra_specs=extra_specs,
        **{name: getattr(row, name) for name in _PLAIN},
    )


def _read(connection: Connection, condition: Any) -> tuple[Flavor, ...]:
    # One statement, so that flavors and extra specs are of the same moment.
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
    return tuple(build_flavor(row, extra_specs[row_id]) for row_id, row in rows.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorQuery:
    """The filters and the order of a flavor list.

    If ``is_public`` is None, public and private flavors are listed. If the project ``project_id``
    has access to a private flavor, the flavor counts as public. The list begins after the flavor
    with the id ``marker``. If ``confined``, the marker may not be a private flavor that the project
    cannot access.
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


def search(connection: Connection, query: FlavorQuery, *, extra_specs: bool) -> tuple[Flavor, ...]:
    """Return matching flavors, or raise Invalid for an unknown marker."""
    key: ColumnElement[Any] = _FLAVORS[query.sort_key if query.sort_key not in _CONSTANT else "id"]
    if isinstance(key.type, sa.String | sa.DateTime):
        key = sql.build_portable_order(connection, key)
    statement = sql.select_page(
        connection,
        select(flavors).where(*_build_conditions(query)),
        [(key, query.descending), (_FLAVORS.id, query.descending)],
        limit=query.limit,
        marked=_is_marker(query, query.marker) if query.marker is not None else None,
        missing=f"marker [{query.marker}] not found",
    )
    rows = connection.execute(statement).all()
    specs = map_extra_specs(connection, [row.id for row in rows]) if extra_specs else {}
    return tuple(build_flavor(row, specs.get(row.id, {})) for row in rows)


def _build_conditions(query: FlavorQuery) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if query.is_public is not None:
        conditions.append(_is_accessible(query) if query.is_public else _FLAVORS.is_public == 0)
    for column, minimum in (
        (_FLAVORS.memory_mb, query.min_memory_mb),
        (_FLAVORS.root_gb, query.min_root_gb),
    ):
        if minimum is not None:
            conditions.append(column >= sa.literal(minimum, sa.BigInteger))
    return conditions


def _is_accessible(query: FlavorQuery) -> ColumnElement[bool]:
    is_theirs = and_(_PROJECTS.flavor_id == _FLAVORS.id, _PROJECTS.project_id == query.project_id)
    return or_(_FLAVORS.is_public == 1, sa.exists().where(is_theirs))


def _is_marker(query: FlavorQuery, marker: str) -> ColumnElement[bool]:
    if len(marker) > get_max_length(_FLAVORS.flavorid):
        return sa.false()
    is_marker = and_(
        _FLAVORS.flavorid == marker, _FLAVORS.flavorid.startswith(marker, autoescape=True)
    )
    return and_(is_marker, _is_accessible(query)) if query.confined else is_marker


def compute_digest(text: str) -> str:
    """Return the SHA-256 digest in hex that identifies a flavor's JSON."""
    return sha256(text.encode()).hexdigest()


def store_embedded(connection: Connection, texts: Mapping[str, str]) -> None:
    """Store flavors, given as JSON by digest, unless already stored."""
    # Existing rows are excluded first: an insert would lock them, and writers of the same flavor
    # would wait until this transaction ends.
    missing = texts.keys() - _select_by_digest(connection, texts, _COLUMNS.digest).keys()
    rows = [{"digest": digest, "flavor": texts[digest]} for digest in sorted(missing)]
    for batch in split_batches(rows, AT_ONCE):
        sql.insert_missing(connection, embedded_flavors, batch)


def read_embedded(connection: Connection, digests: Iterable[str]) -> dict[str, Json]:
    """Map the digests of stored flavors to the flavors."""
    texts = _select_by_digest(connection, digests, _COLUMNS.flavor)
    return {digest: orjson.loads(text) for digest, text in texts.items()}


def _select_by_digest(
    connection: Connection, digests: Iterable[str], column: Any
) -> dict[str, str]:
    query = select(_COLUMNS.digest, column)
    rows = sql.select_in_batches(connection, query, _COLUMNS.digest, sorted(set(digests)))
    return dict(map(tuple, rows))
