# SPDX-License-Identifier: Apache-2.0
"""Nova cells and the reachability of their databases."""

from collections.abc import Collection
from dataclasses import fields
from datetime import datetime

from sqlalchemy import Connection, delete, select, update

from placement_sched.db import sql
from placement_sched.db.tables import cells
from placement_sched.model.instance import NovaCell

_COLUMNS = cells.c
#: Length of the column ``failure``, in characters.
_MAX_FAILURE = 255


def list_cells(connection: Connection) -> tuple[NovaCell, ...]:
    """Return all cells, sorted by the time of their first record."""
    columns = (_COLUMNS[field.name] for field in fields(NovaCell))
    rows = connection.execute(select(*columns).order_by(_COLUMNS.id)).mappings()
    return tuple(NovaCell(**{**row, "disabled": bool(row["disabled"])}) for row in rows)


def put(connection: Connection, nova_cells: Collection[NovaCell], now: datetime) -> None:
    """Create cells, or update their names and disabled flags."""
    rows = [
        {
            "uuid": cell.uuid,
            "name": cell.name,
            "disabled": int(cell.disabled),
            "created_at": now,
            "updated_at": now,
        }
        for cell in nova_cells
    ]
    changing = ("name", "disabled", "updated_at")
    sql.insert_or_update(connection, cells, rows, key=("uuid",), changing=changing)


def remove(connection: Connection, uuids: Collection[str]) -> int:
    """Delete cells and return their number."""
    return sql.change_in_batches(connection, delete(cells), _COLUMNS.uuid, sorted(uuids))


def record_read(connection: Connection, uuids: Collection[str], now: datetime) -> None:
    """Record that the databases of cells were read, and end their outages."""
    statement = update(cells).values(read_at=now, away_since=None, failure=None)
    sql.change_in_batches(connection, statement, _COLUMNS.uuid, sorted(uuids))


def record_failure(connection: Connection, uuid: str, failure: str, now: datetime) -> None:
    """Record a failure of a cell's database, and when its outage began."""
    row = update(cells).where(_COLUMNS.uuid == uuid)
    connection.execute(row.values(failure=failure[:_MAX_FAILURE]))
    connection.execute(row.where(_COLUMNS.away_since.is_(None)).values(away_since=now))
