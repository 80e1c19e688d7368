# SPDX-License-Identifier: Apache-2.0
"""Nova's records of cells, host mappings, migrations and action events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from oslo_log import log
from sqlalchemy import ColumnElement, Connection, func, select

from placement_sched.config.settings import Settings
from placement_sched.db import sql
from placement_sched.model.instance import CELL0
from placement_sched.nova.databases import (
    NovaDatabase,
    NovaDatabaseUnavailable,
    get_api_database,
    get_cell_database,
)
from placement_sched.nova.databases.tables import (
    cell_mappings,
    host_mappings,
    instance_actions,
    instance_actions_events,
    instance_faults,
    instance_mappings,
    instances,
    migrations,
)

_CELLS = cell_mappings.c


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedCell:
    """A row of ``cell_mappings``, without the URL of the message bus.

    ``database_connection`` is a URL with a password, or a URL template.
    """

    id: int
    uuid: str
    name: str | None
    disabled: bool
    database_connection: str | None = field(repr=False)

    @property
    def is_cell0(self) -> bool:
        """Return whether this is cell0, whose instances were never scheduled."""
        return self.uuid == CELL0

    @property
    def title(self) -> str:
        """Return the name of the cell in messages."""
        return f"cell {self.name or self.uuid}"


def list_mapped_cells(connection: Connection) -> tuple[MappedCell, ...]:
    """Return all cells including cell0, oldest first."""
    columns = (_CELLS.id, _CELLS.uuid, _CELLS.name, _CELLS.disabled, _CELLS.database_connection)
    return tuple(
        MappedCell(**{**row._asdict(), "disabled": bool(row.disabled)})
        for row in connection.execute(select(*columns).order_by(_CELLS.id))
    )


def read_mappings_mark(connection: Connection, *, changing: bool) -> tuple[object, ...]:
    """Return a fingerprint of new host mappings, or of all (``changing``)."""
    columns = host_mappings.c
    marks: list[ColumnElement[Any]] = [func.max(columns.id)]
    if changing:
        marks += [func.count(), func.sum(columns.cell_id), func.max(columns.updated_at)]
    return tuple(connection.execute(select(*marks)).one())


def map_cells_by_host(connection: Connection) -> Mapping[str, str]:
    """Map host names to the uuid of the cell that nova maps them to."""
    query = select(host_mappings.c.host, _CELLS.uuid)
    query = query.join(cell_mappings, _CELLS.id == host_mappings.c.cell_id)
    return dict(map(tuple, connection.execute(query)))


LOG = log.getLogger(__name__)

#: The name of nova's exception in the traceback of an event.
_NO_VALID_HOST = "NoValidHost"
#: Maximum time from the creation of a migration record until nova calls the scheduler.
_MAX_LEAD = timedelta(seconds=60)
#: Final states of a move. A move that ended before the call does not belong to the request.
_FINAL_STATUSES = ("completed", "confirmed", "reverted", "done", "error", "failed", "cancelled")


@dataclass(frozen=True, slots=True)
class RecordKey:
    """An instance in a scheduler request, with the request's id and time."""

    instance: str
    request_id: str | None
    since: datetime


@dataclass(frozen=True, slots=True)
class ActionEvent:
    """An event of an instance action (``result`` is None while it runs)."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class NovaRecord:
    """Nova's records about an instance since a scheduler request.

    ``is_in_cell0`` is true if the instance is in cell0. ``events`` are the events of the instance
    action of the request, oldest first. ``migration`` is the newest migration that the request can
    have caused. ``fault`` is the message of the newest fault since the request.
    """

    host: str | None = None
    node: str | None = None
    is_in_cell0: bool = False
    migration: NovaMove | None = None
    events: tuple[ActionEvent, ...] = ()
    fault: str | None = None


def read_records(
    connection: Connection, requests: Sequence[RecordKey], *, is_cell0: bool
) -> dict[str, NovaRecord]:
    """Map instances to their records in a cell's database, in five statements."""
    by_uuid = {request.instance: request for request in requests}
    c = instances.c
    query = sa.select(c.uuid, c.host, c.node).order_by(c.deleted.desc(), c.id)
    # Living rows come last and overwrite deleted rows of the same instance.
    records = {
        uuid: NovaRecord(host=host, node=node, is_in_cell0=is_cell0)
        for uuid, host, node in sql.select_in_batches(connection, query, c.uuid, by_uuid)
    }
    moves = _read_moves(connection, by_uuid)
    events = _read_events(connection, by_uuid)
    faults = _read_faults(connection, by_uuid)
    return {
        uuid: replace(
            record,
            migration=moves.get(uuid),
            events=tuple(events.get(uuid, ())),
            fault=faults.get(uuid),
        )
        for uuid, record in records.items()
    }


def _read_moves(connection: Connection, requests: Mapping[str, RecordKey]) -> dict[str, NovaMove]:
    c = migrations.c
    query = sa.select(migrations).order_by(c.id)
    moves = {}
    for row in sql.select_in_batches(connection, query, c.instance_uuid, requests):
        since = requests[row.instance_uuid].since
        created, updated = row.created_at, row.updated_at
        if created is None or created < since - _MAX_LEAD:
            continue
        if row.status in _FINAL_STATUSES and (updated or created) < since - timedelta(seconds=1):
            continue
        moves[row.instance_uuid] = NovaMove(row.dest_compute, row.dest_node, row.status)
    return moves


def _read_events(
    connection: Connection, requests: Mapping[str, RecordKey]
) -> dict[str, list[ActionEvent]]:
    c = instance_actions.c
    query = sa.select(c.id, c.instance_uuid, c.request_id)
    actions = {
        action_id: uuid
        for action_id, uuid, request_id in sql.select_in_batches(
            connection, query, c.instance_uuid, requests
        )
        if request_id == requests[uuid].request_id
    }
    step = instance_actions_events.c
    of_actions = sa.select(
        step.action_id, step.event, step.host, step.result, step.traceback
    ).order_by(step.id)
    events: dict[str, list[ActionEvent]] = {}
    for row in sql.select_in_batches(connection, of_actions, step.action_id, actions):
        is_no_valid_host = _NO_VALID_HOST in (row.traceback or "")
        event = ActionEvent(row.event or "", row.host, row.result, is_no_valid_host)
        events.setdefault(actions[row.action_id], []).append(event)
    return events


def _read_faults(connection: Connection, requests: Mapping[str, RecordKey]) -> dict[str, str]:
    c = instance_faults.c
    query = sa.select(c.instance_uuid, c.message, c.created_at).order_by(c.id)
    return {
        uuid: message or ""
        for uuid, message, created in sql.select_in_batches(
            connection, query, c.instance_uuid, requests
        )
        if created is None or created >= requests[uuid].since - timedelta(seconds=1)
    }


class NovaRecords:
    """Reader of nova's records of instances, for use by a single thread.

    Cells whose database does not answer are skipped with their instances. Raises
    :class:`NovaDatabaseUnavailable` if the API database does not answer.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._api = get_api_database(settings)
        self._cells: dict[tuple[int, str | None], NovaDatabase] = {}

    def __call__(self, requests: Sequence[RecordKey]) -> dict[str, NovaRecord]:
        """Map the uuids of requested instances to their existing records."""
        c = instance_mappings.c
        query = sa.select(c.instance_uuid, c.cell_id).where(c.cell_id.is_not(None))
        uuids = {request.instance for request in requests}
        with self._api.read() as connection:
            cells = {cell.id: cell for cell in list_mapped_cells(connection)}
            mapped = dict(sql.select_in_batches(connection, query, c.instance_uuid, uuids))
        records: dict[str, NovaRecord] = {}
        for cell_id in sorted(set(mapped.values()) & cells.keys()):
            cell = cells[cell_id]
            in_cell = [each for each in requests if mapped.get(each.instance) == cell_id]
            key = (cell.id, cell.database_connection)
            if key not in self._cells:
                title = f"the database of cell {cell.name or cell.uuid}"
                self._cells[key] = get_cell_database(
                    title, cell.database_connection, self._settings
                )
            try:
                with self._cells[key].read() as connection:
                    records |= read_records(connection, in_cell, is_cell0=cell.is_cell0)
            except NovaDatabaseUnavailable as failure:
                LOG.debug("cell %s cannot be read: %s", cell.name or cell.uuid, failure.detail)
        return records

    def close(self) -> None:
        """Close all connections."""
        for database in (self._api, *self._cells.values()):
            database.close()
