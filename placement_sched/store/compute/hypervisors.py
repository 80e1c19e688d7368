"""Hypervisors: the compute nodes of hosts that have a compute service, by number."""

from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, select

from placement_sched.db import sql, tables
from placement_sched.db.tables import longest
from placement_sched.errors import NotFound
from placement_sched.model.compute_node import COMPUTE_BINARY, Hypervisor, WholeHypervisor
from placement_sched.store.compute import compute_nodes as nodes
from placement_sched.store.compute import services

_NODES, _SERVICES = tables.compute_nodes.c, tables.services.c
#: What names the nodes of hosts that have a compute service.
_NAMED = select(_NODES.id, _NODES.uuid, _NODES.hypervisor_hostname, _NODES.host).join(
    tables.services, and_(_SERVICES.host == _NODES.host, _SERVICES.binary == COMPUTE_BINARY)
)


def get(connection: Connection, key: int | str) -> Hypervisor:
    """Return the hypervisor of this number (int) or uuid (str); raises :class:`NotFound`."""
    found = _read(connection, _NAMED.where(_is(key)))
    if not found:
        raise NotFound(f"Hypervisor with ID '{key}' could not be found.")
    return found[0]


def page(
    connection: Connection, *, after: int | str | None = None, limit: int | None = None
) -> tuple[Hypervisor, ...]:
    """Return hypervisors by number, those after the one of a number (int) or uuid (str).

    Raises :class:`Invalid` where there is none such.
    """
    query = sql.page(
        connection,
        _NAMED,
        [(_NODES.id, False)],
        limit=limit,
        marked=None if after is None else _is(after),
        missing=f"marker [{after}] not found",
    )
    return _read(connection, query)


def matching(connection: Connection, part: str) -> tuple[Hypervisor, ...]:
    """Return the hypervisors whose name has this part, in whichever case, by number."""
    if len(part) > longest(_NODES.hypervisor_hostname):
        return ()
    named = _NODES.hypervisor_hostname.icontains(part, autoescape=True)
    return _read(connection, _NAMED.where(named).order_by(_NODES.id))


def whole(connection: Connection, hypervisors: Collection[Hypervisor]) -> Iterator[WholeHypervisor]:
    """Yield hypervisors with what their hosts reported, but for nodes that have just gone."""
    for some in sql.batches(hypervisors, sql.AT_ONCE):
        found = nodes.by_uuids(connection, [one.uuid for one in some])
        reported = {node.uuid: node for node in found}
        for one in some:
            if node := reported.get(one.uuid):
                yield WholeHypervisor(
                    id=one.id, uuid=one.uuid, name=one.name, service=one.service, node=node
                )


def _is(key: int | str) -> ColumnElement[bool]:
    return (_NODES.id if isinstance(key, int) else _NODES.uuid) == key


def _read(connection: Connection, query: Select[Any]) -> tuple[Hypervisor, ...]:
    rows = connection.execute(query).all()
    found = services.by_hosts(connection, {row.host for row in rows})
    return tuple(
        Hypervisor(id=row.id, uuid=row.uuid, name=row.hypervisor_hostname, service=found[row.host])
        for row in rows
        if row.host in found
    )
