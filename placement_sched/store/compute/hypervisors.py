# SPDX-License-Identifier: Apache-2.0
"""Hypervisors: compute nodes of hosts with a compute service, sorted by id."""

from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, select

from placement_sched.db import sql, tables
from placement_sched.db.tables import longest
from placement_sched.errors import NotFound
from placement_sched.model.compute_node import COMPUTE_BINARY, Hypervisor, HypervisorDetails
from placement_sched.store.compute import compute_nodes as nodes
from placement_sched.store.compute import services

_NODES, _SERVICES = tables.compute_nodes.c, tables.services.c
#: The ids and names of the nodes of hosts that have a compute service.
_HYPERVISORS = select(_NODES.id, _NODES.uuid, _NODES.hypervisor_hostname, _NODES.host).join(
    tables.services, and_(_SERVICES.host == _NODES.host, _SERVICES.binary == COMPUTE_BINARY)
)


def get(connection: Connection, key: int | str) -> Hypervisor:
    """Return the hypervisor with this id (int) or uuid (str).

    Raises :class:`NotFound` if it does not exist.
    """
    hypervisors = _read(connection, _HYPERVISORS.where(_has_key(key)))
    if not hypervisors:
        raise NotFound(f"Hypervisor with ID '{key}' could not be found.")
    return hypervisors[0]


def page(
    connection: Connection, *, after: int | str | None = None, limit: int | None = None
) -> tuple[Hypervisor, ...]:
    """Return a page of hypervisors, sorted by id, that begins after ``after``.

    ``after`` is an id (int) or a uuid (str). Raises :class:`Invalid` if ``after`` is not a
    hypervisor.
    """
    query = sql.page(
        connection,
        _HYPERVISORS,
        [(_NODES.id, False)],
        limit=limit,
        marked=None if after is None else _has_key(after),
        missing=f"marker [{after}] not found",
    )
    return _read(connection, query)


def search_by_name(connection: Connection, part: str) -> tuple[Hypervisor, ...]:
    """Return hypervisors with a text in their names, in any case, sorted by id."""
    if len(part) > longest(_NODES.hypervisor_hostname):
        return ()
    contains_part = _NODES.hypervisor_hostname.icontains(part, autoescape=True)
    return _read(connection, _HYPERVISORS.where(contains_part).order_by(_NODES.id))


def with_reports(
    connection: Connection, hypervisors: Collection[Hypervisor]
) -> Iterator[HypervisorDetails]:
    """Yield hypervisors with their hosts' reports, except nodes deleted since."""
    for batch in sql.batches(hypervisors, sql.AT_ONCE):
        reports = nodes.by_uuids(connection, [entry.uuid for entry in batch])
        node_by_uuid = {node.uuid: node for node in reports}
        for entry in batch:
            if node := node_by_uuid.get(entry.uuid):
                yield HypervisorDetails(
                    id=entry.id, uuid=entry.uuid, name=entry.name, service=entry.service, node=node
                )


def _has_key(key: int | str) -> ColumnElement[bool]:
    return (_NODES.id if isinstance(key, int) else _NODES.uuid) == key


def _read(connection: Connection, query: Select[Any]) -> tuple[Hypervisor, ...]:
    rows = connection.execute(query).all()
    by_host = services.by_hosts(connection, {row.host for row in rows})
    return tuple(
        Hypervisor(
            id=row.id, uuid=row.uuid, name=row.hypervisor_hostname, service=by_host[row.host]
        )
        for row in rows
        if row.host in by_host
    )
