"""Instances as recorded that hold nothing, or whose allocations do not tell whose they are."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, not_, select

from placement_sched.db.tables import (
    allocations,
    compute_nodes,
    consumers,
    instances,
    projects,
)

_COLUMNS = instances.c


def search(
    connection: Connection,
    *,
    nobody: str,
    cell_uuid: str | None = None,
    after: str | None = None,
    limit: int,
) -> tuple[str, ...]:
    """Return the uuids of such instances behind ``after``, in order, ``limit`` at most.

    ``nobody`` is the project of consumers of which none is known. With ``cell_uuid``, those on
    nodes of this cell.
    """
    query = _unallocated(nobody, cell_uuid).order_by(_COLUMNS.uuid).limit(limit)
    if after is not None:
        query = query.where(_COLUMNS.uuid > after)
    return tuple(connection.scalars(query))


def count(connection: Connection, *, nobody: str, cell_uuid: str | None = None) -> int:
    """Return how many such instances there are."""
    query = select(func.count()).select_from(_unallocated(nobody, cell_uuid).subquery())
    return int(connection.scalars(query).one())


def _unallocated(nobody: str, cell_uuid: str | None) -> Select[Any]:
    query = select(_COLUMNS.uuid).where(not_(_allocated(nobody)))
    if cell_uuid is None:
        return query
    return query.join(
        compute_nodes,
        and_(
            compute_nodes.c.host == _COLUMNS.host,
            compute_nodes.c.hypervisor_hostname == _COLUMNS.node,
        ),
    ).where(compute_nodes.c.cell_uuid == cell_uuid)


def _allocated(nobody: str) -> ColumnElement[bool]:
    """Return whether an instance holds allocations of a project."""
    return exists().where(
        allocations.c.consumer_id == _COLUMNS.uuid,
        consumers.c.uuid == allocations.c.consumer_id,
        projects.c.id == consumers.c.project_id,
        projects.c.external_id != nobody,
    )
