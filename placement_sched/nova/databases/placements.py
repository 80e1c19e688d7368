"""Where nova put instances: their records, newest moves and the events of an action.

Read by instance uuid from the databases of the cells they are mapped to, deleted rows as well.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from oslo_log import log
from sqlalchemy import Column, DateTime, Integer, String, Table, Text
from sqlalchemy.engine import Connection

from placement_sched.config.settings import Settings
from placement_sched.db import sql
from placement_sched.nova.databases.cells import MappedCell, mapped_cells
from placement_sched.nova.databases.connections import (
    NovaAway,
    NovaDatabase,
    api_database,
    cell_database,
)
from placement_sched.nova.databases.tables import CELL, instance_mappings, instances

LOG = log.getLogger(__name__)

_ROW = (("created_at", DateTime), ("updated_at", DateTime), ("deleted", Integer))


def _table(name: str, *columns: Column[Any]) -> Table:
    own = (Column(column, type_) for column, type_ in _ROW)
    return Table(name, CELL, *own, Column("id", Integer, primary_key=True), *columns)


def _texts(*names: str) -> Iterable[Column[str]]:
    return [Column(name, String(255)) for name in names]


_UUID = "instance_uuid"
migrations = _table(
    "migrations",
    *_texts("source_compute", "dest_compute", "source_node", "dest_node", "status"),
    *_texts("migration_type", _UUID),
)
instance_actions = _table("instance_actions", *_texts("action", _UUID, "request_id"))
instance_actions_events = _table(
    "instance_actions_events",
    *_texts("event", "result", "host"),
    Column("action_id", Integer),
    Column("traceback", Text),
)
instance_faults = _table("instance_faults", *_texts(_UUID, "message"))

#: How nova's exception is called in the traceback of an event.
_NO_VALID_HOST = "NoValidHost"
#: A move's record is made before the scheduler is asked, at most so long.
_BEFORE = timedelta(seconds=60)
#: The ends of a move: one that had ended before the scheduler was asked is not the one asked for.
_ENDED = ("completed", "confirmed", "reverted", "done", "error", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class WantedRecord:
    """An instance that a request to the scheduler was for: its request id, and when it came."""

    instance: str
    request_id: str | None
    since: datetime


@dataclass(frozen=True, slots=True)
class ActionEvent:
    """A step of an action on an instance: where it was taken, and how it ended, if it did."""

    event: str
    host: str | None
    result: str | None
    is_no_valid_host: bool = False


@dataclass(frozen=True, slots=True)
class NovaMove:
    """A migration, resize, live migration or evacuation."""

    dest_compute: str | None
    dest_node: str | None
    status: str | None
    migration_type: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NovaRecord:
    """What nova has on record of an instance.

    ``is_buried`` where it is in cell0. ``events`` are those of the action of the request, the
    oldest first; ``migration`` the newest that the request can have made; ``fault`` the message of
    the newest fault since.
    """

    host: str | None = None
    node: str | None = None
    is_buried: bool = False
    migration: NovaMove | None = None
    events: tuple[ActionEvent, ...] = ()
    fault: str | None = field(default=None)


def cells_of(connection: Connection, uuids: Collection[str]) -> Mapping[str, int]:
    """Return the id of the cell mapping of each of these instances that has one (API database)."""
    own = instance_mappings.c
    query = sa.select(own.instance_uuid, own.cell_id).where(own.cell_id.is_not(None))
    return dict(sql.rows_among(connection, query, own.instance_uuid, uuids))


def records_of(
    connection: Connection, wanted: Sequence[WantedRecord], *, is_cell0: bool
) -> dict[str, NovaRecord]:
    """Return what one cell's database has of these instances; five statements."""
    by_uuid = {one.instance: one for one in wanted}
    own = instances.c
    query = sa.select(own.uuid, own.host, own.node).order_by(own.deleted.desc(), own.id)
    # One that lives comes last, and so counts, before any that was deleted.
    found = {
        uuid: NovaRecord(host=host, node=node, is_buried=is_cell0)
        for uuid, host, node in sql.rows_among(connection, query, own.uuid, by_uuid)
    }
    moves = _moves(connection, by_uuid)
    events = _events(connection, by_uuid)
    faults = _faults(connection, by_uuid)
    return {
        uuid: replace(
            record,
            migration=moves.get(uuid),
            events=tuple(events.get(uuid, ())),
            fault=faults.get(uuid),
        )
        for uuid, record in found.items()
    }


def _moves(connection: Connection, wanted: Mapping[str, WantedRecord]) -> dict[str, NovaMove]:
    own = migrations.c
    query = sa.select(migrations).order_by(own.id)
    found = {}
    for row in sql.rows_among(connection, query, own.instance_uuid, wanted):
        since = wanted[row.instance_uuid].since
        begun, changed = row.created_at, row.updated_at
        if begun is None or begun < since - _BEFORE:
            continue
        if row.status in _ENDED and (changed or begun) < since - timedelta(seconds=1):
            continue
        found[row.instance_uuid] = NovaMove(
            row.dest_compute, row.dest_node, row.status, row.migration_type
        )
    return found


def _events(
    connection: Connection, wanted: Mapping[str, WantedRecord]
) -> dict[str, list[ActionEvent]]:
    own = instance_actions.c
    query = sa.select(own.id, own.instance_uuid, own.request_id)
    actions = {
        key: uuid
        for key, uuid, request_id in sql.rows_among(connection, query, own.instance_uuid, wanted)
        if request_id == wanted[uuid].request_id
    }
    step = instance_actions_events.c
    of_actions = sa.select(
        step.action_id, step.event, step.host, step.result, step.traceback
    ).order_by(step.id)
    found: dict[str, list[ActionEvent]] = {}
    for row in sql.rows_among(connection, of_actions, step.action_id, actions):
        is_no_valid_host = _NO_VALID_HOST in (row.traceback or "")
        event = ActionEvent(row.event or "", row.host, row.result, is_no_valid_host)
        found.setdefault(actions[row.action_id], []).append(event)
    return found


def _faults(connection: Connection, wanted: Mapping[str, WantedRecord]) -> dict[str, str]:
    own = instance_faults.c
    query = sa.select(own.instance_uuid, own.message, own.created_at).order_by(own.id)
    return {
        uuid: message or ""
        for uuid, message, made in sql.rows_among(connection, query, own.instance_uuid, wanted)
        if made is None or made >= wanted[uuid].since - timedelta(seconds=1)
    }


class NovaRecords:
    """Reads nova's records of instances from the cells that these are mapped to; for one thread.

    A cell whose database does not answer is left out, and its instances with it. Raises
    :class:`NovaAway` where the API database does not answer.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._api = api_database(settings)
        self._cells: dict[tuple[int, str | None], NovaDatabase] = {}

    def __call__(self, wanted: Sequence[WantedRecord]) -> dict[str, NovaRecord]:
        """Return what nova has of these instances; those it has nothing of are not there."""
        with self._api.read() as connection:
            cells = {cell.id: cell for cell in mapped_cells(connection)}
            mapped = cells_of(connection, {one.instance for one in wanted})
        found: dict[str, NovaRecord] = {}
        for cell_id in sorted(set(mapped.values()) & cells.keys()):
            cell = cells[cell_id]
            own = [one for one in wanted if mapped.get(one.instance) == cell_id]
            try:
                with self._database(cell).read() as connection:
                    found |= records_of(connection, own, is_cell0=cell.is_cell0)
            except NovaAway as failure:
                LOG.debug("cell %s is away: %s", cell.name or cell.uuid, failure.detail)
        return found

    def close(self) -> None:
        """Close all connections."""
        for database in (self._api, *self._cells.values()):
            database.close()

    def _database(self, cell: MappedCell) -> NovaDatabase:
        key = (cell.id, cell.database_connection)
        if key not in self._cells:
            title = f"the database of cell {cell.name or cell.uuid}"
            self._cells[key] = cell_database(title, cell.database_connection, self._settings)
        return self._cells[key]
