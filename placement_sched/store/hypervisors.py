"""Hypervisors: the compute nodes of hosts that have a compute service, by number."""

from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, select

from placement_sched.db.batches import batches
from placement_sched.db.tables import compute_nodes, services
from placement_sched.errors import Invalid, NotFound
from placement_sched.model.hypervisor import Hypervisor, WholeHypervisor
from placement_sched.model.service import COMPUTE_BINARY
from placement_sched.store import compute_nodes as nodes
from placement_sched.store import services as service_store

_NODES = compute_nodes.c
#: So many reports are read at once: they may be long.
_CHUNK = 1000


def get(connection: Connection, key: int | str) -> Hypervisor:
    """Return the hypervisor of this number (int) or uuid (str); raises :class:`NotFound`."""
    found = _read(connection, _named().where(_is(key)))
    if not found:
        raise NotFound(f"Hypervisor with ID '{key}' could not be found.")
    return found[0]


def page(
    connection: Connection, *, after: int | str | None = None, limit: int | None = None
) -> tuple[Hypervisor, ...]:
    """Return hypervisors by number, those behind the one of a number (int) or uuid (str).

    Raises :class:`Invalid` where there is none such.
    """
    query = _named().order_by(_NODES.id).limit(limit)
    if after is None:
        return _read(connection, query)
    marked = select(_NODES.id).where(
        (_NODES.id if isinstance(after, int) else _NODES.uuid) == after
    )
    number = connection.scalar(marked)
    if number is None:
        raise Invalid(f"marker [{after}] not found")
    return _read(connection, query.where(_NODES.id > number))


def matching(connection: Connection, part: str) -> tuple[Hypervisor, ...]:
    """Return the hypervisors whose name has this part, in whichever case, by number."""
    named = _NODES.hypervisor_hostname.icontains(part, autoescape=True)
    return _read(connection, _named().where(named).order_by(_NODES.id))


def whole(connection: Connection, hypervisors: Collection[Hypervisor]) -> Iterator[WholeHypervisor]:
    """Yield hypervisors with what their hosts reported, but for nodes that have just gone."""
    for some in batches(hypervisors, _CHUNK):
        reported = {
            node.uuid: node for node in nodes.by_uuids(connection, [one.uuid for one in some])
        }
        for one in some:
            if one.uuid in reported:
                yield WholeHypervisor(
                    id=one.id,
                    uuid=one.uuid,
                    name=one.name,
                    service=one.service,
                    node=reported[one.uuid],
                )


def _is(key: int | str) -> ColumnElement[bool]:
    return (_NODES.id if isinstance(key, int) else _NODES.uuid) == key


def _named() -> Select[Any]:
    """Return a query of what names the nodes of hosts that have a compute service."""
    has_service = and_(services.c.host == _NODES.host, services.c.binary == COMPUTE_BINARY)
    columns = (_NODES.id, _NODES.uuid, _NODES.hypervisor_hostname, _NODES.host)
    return select(*columns).join(services, has_service)


def _read(connection: Connection, query: Select[Any]) -> tuple[Hypervisor, ...]:
    rows = connection.execute(query).all()
    found = service_store.by_hosts(connection, {row.host for row in rows})
    return tuple(
        Hypervisor(id=row.id, uuid=row.uuid, name=row.hypervisor_hostname, service=found[row.host])
        for row in rows
        if row.host in found
    )
