"""Cells of nova: which there are, and whether the database of each answers."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, select, update

from placement_sched.db import sql
from placement_sched.db.tables import cells
from placement_sched.model.instance import NovaCell

_COLUMNS = cells.c
_LONGEST = 255
_KEPT = ("uuid", "name", "disabled", "read_at", "away_since", "failure")
_CELLS = select(*(_COLUMNS[name] for name in _KEPT))


def all_cells(connection: Connection) -> tuple[NovaCell, ...]:
    """Return every cell, in the order in which they became known here."""
    return tuple(map(_cell, connection.execute(_CELLS.order_by(_COLUMNS.id))))


def closed(connection: Connection) -> tuple[NovaCell, ...]:
    """Return the cells that are disabled, or whose databases do not answer."""
    of_these = (_COLUMNS.disabled != 0) | _COLUMNS.away_since.is_not(None)
    return tuple(map(_cell, connection.execute(_CELLS.where(of_these).order_by(_COLUMNS.id))))


def by_uuid(connection: Connection, uuid: str) -> NovaCell | None:
    """Return the cell of this uuid, or None."""
    row = connection.execute(_CELLS.where(_COLUMNS.uuid == uuid)).one_or_none()
    return None if row is None else _cell(row)


def put(connection: Connection, found: Collection[NovaCell], now: datetime) -> None:
    """Keep the names of cells and whether they are disabled; whether they answer stays."""
    rows = [
        {
            "uuid": one.uuid,
            "name": one.name,
            "disabled": int(one.disabled),
            "created_at": now,
            "updated_at": now,
        }
        for one in found
    ]
    changing = ("name", "disabled", "updated_at")
    sql.insert_or_update(connection, cells, rows, key=("uuid",), changing=changing)


def remove(connection: Connection, uuids: Collection[str]) -> int:
    """Delete cells; return how many there were."""
    return sql.change_among(connection, delete(cells), _COLUMNS.uuid, sorted(uuids))


def note_read(connection: Connection, uuids: Collection[str], now: datetime) -> None:
    """Note that the databases of these cells have answered: none of them is away any more."""
    answered = update(cells).values(read_at=now, away_since=None, failure=None)
    sql.change_among(connection, answered, _COLUMNS.uuid, sorted(uuids))


def note_away(connection: Connection, uuid: str, failure: str, now: datetime) -> None:
    """Note that a cell's database does not answer, and why; since when stays as it was noted."""
    row = update(cells).where(_COLUMNS.uuid == uuid)
    connection.execute(row.values(failure=failure[:_LONGEST]))
    connection.execute(row.where(_COLUMNS.away_since.is_(None)).values(away_since=now))


def _cell(row: Row[Any]) -> NovaCell:
    columns = row._asdict()
    return NovaCell(**{**columns, "disabled": bool(columns["disabled"])})
