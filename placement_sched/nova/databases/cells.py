# SPDX-License-Identifier: Apache-2.0
"""Cell and host mappings in nova's API database."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from placement_sched.model.instance import CELL0
from placement_sched.nova.databases.tables import cell_mappings, host_mappings

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
        """Return whether this is cell0, the cell of instances that were never scheduled."""
        return self.uuid == CELL0

    @property
    def title(self) -> str:
        """Return the name of the cell in messages."""
        return f"cell {self.name or self.uuid}"


def mapped_cells(connection: Connection) -> tuple[MappedCell, ...]:
    """Return all cells, oldest first."""
    columns = (_CELLS.id, _CELLS.uuid, _CELLS.name, _CELLS.disabled, _CELLS.database_connection)
    return tuple(
        MappedCell(**{**row._asdict(), "disabled": bool(row.disabled)})
        for row in connection.execute(select(*columns).order_by(_CELLS.id))
    )


def mark_of_mappings(connection: Connection, *, changing: bool) -> tuple[object, ...]:
    """Return a fingerprint of new host mappings, with ``changing`` also of changed mappings."""
    columns = host_mappings.c
    marks: list[ColumnElement[Any]] = [func.max(columns.id)]
    if changing:
        marks += [func.count(), func.sum(columns.cell_id), func.max(columns.updated_at)]
    return tuple(connection.execute(select(*marks)).one())


def cells_of_hosts(connection: Connection) -> Mapping[str, str]:
    """Return the uuid of the cell that each host is mapped to, by host name."""
    query = select(host_mappings.c.host, _CELLS.uuid)
    query = query.join(cell_mappings, _CELLS.id == host_mappings.c.cell_id)
    return dict(map(tuple, connection.execute(query)))
