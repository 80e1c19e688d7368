"""Flavors listed: who may see which, in what order, from where on."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    and_,
    collate,
    exists,
    func,
    literal,
    or_,
    select,
)

from placement_sched.db.tables import flavor_projects, flavors
from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor
from placement_sched.store.flavors import extra_specs_of, of_row

_FLAVORS = flavors.c
_TEXTS = ("flavorid", "name", "description")
#: What every flavor has the same, so that it orders nothing.
_EQUAL = ("disabled", "vcpu_weight")

#: The names by which flavors can be sorted, as nova has them.
SORT_KEYS = (
    *_TEXTS,
    *_EQUAL,
    "created_at",
    "ephemeral_gb",
    "id",
    "is_public",
    "memory_mb",
    "root_gb",
    "rxtx_factor",
    "swap",
    "updated_at",
    "vcpus",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which flavors are listed, and how.

    ``is_public`` None means public and private ones alike. Private ones that are for the project
    ``project_id`` count as public. ``marker`` is the id of the flavor behind which the list begins;
    with ``confined``, a private one of others is no such flavor.
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


def search(connection: Connection, wanted: Wanted, *, extra_specs: bool) -> tuple[Flavor, ...]:
    """Return the flavors that are wanted, in their order, with their extra specs if asked.

    Raises :class:`Invalid` for a marker that is no flavor.
    """
    query = select(flavors).where(*_conditions(wanted)).limit(wanted.limit)
    key = _sort_key(connection, wanted.sort_key)
    if wanted.marker is not None:
        query = _behind(connection, query, wanted, key)
    order = [key, _FLAVORS.id]
    rows = connection.execute(
        query.order_by(*(each.desc() if wanted.descending else each.asc() for each in order))
    ).all()
    found = extra_specs_of(connection, [row.id for row in rows]) if extra_specs else {}
    return tuple(of_row(row, found.get(row.id, {})) for row in rows)


def _conditions(wanted: Wanted) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.is_public is not None:
        conditions.append(_seen(wanted) if wanted.is_public else _FLAVORS.is_public == 0)
    if wanted.min_memory_mb is not None:
        conditions.append(_FLAVORS.memory_mb >= literal(wanted.min_memory_mb, BigInteger))
    if wanted.min_root_gb is not None:
        conditions.append(_FLAVORS.root_gb >= literal(wanted.min_root_gb, BigInteger))
    return conditions


def _seen(wanted: Wanted) -> ColumnElement[bool]:
    """Return what flavors meet that are public, or for the project."""
    columns = flavor_projects.c
    is_for = exists().where(
        columns.flavor_id == _FLAVORS.id, columns.project_id == wanted.project_id
    )
    return or_(_FLAVORS.is_public == 1, is_for)


def _sort_key(connection: Connection, name: str) -> ColumnElement[Any]:
    """Return what orders by this name: texts by their bytes, and nothing before everything.

    So the order is the same on every database.
    """
    if name in _EQUAL:
        return _FLAVORS.id
    column = _FLAVORS[name]
    if name in _TEXTS:
        return _by_bytes(connection, func.coalesce(column, ""))
    if name in {"created_at", "updated_at"}:
        return func.coalesce(column, datetime(1970, 1, 1))  # noqa: DTZ001 - as the tables keep it
    return column


def _by_bytes(connection: Connection, text: ColumnElement[str]) -> ColumnElement[str]:
    return collate(text, "C") if connection.dialect.name == "postgresql" else text


def _behind(
    connection: Connection, query: Select[Any], wanted: Wanted, key: ColumnElement[Any]
) -> Select[Any]:
    """Return the query narrowed to what comes behind the marker."""
    marked = select(_FLAVORS.id, _FLAVORS.flavorid, key).where(_FLAVORS.flavorid == wanted.marker)
    at = connection.execute(marked.where(_seen(wanted)) if wanted.confined else marked).first()
    if at is None or at.flavorid != wanted.marker:
        raise Invalid(f"marker [{wanted.marker}] not found")
    number, _, value = at
    further = key < value if wanted.descending else key > value
    behind = _FLAVORS.id < number if wanted.descending else _FLAVORS.id > number
    return query.where(or_(further, and_(key == value, behind)))
