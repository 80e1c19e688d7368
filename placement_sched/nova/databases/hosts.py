# SPDX-License-Identifier: Apache-2.0
"""Compute nodes and compute services in the database of a cell."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import Connection, Row, Select, func, literal, or_, select, union_all

from placement_sched.db import sql
from placement_sched.model.compute_node import COMPUTE_BINARY, Service
from placement_sched.model.document import Json
from placement_sched.nova.databases.tables import compute_nodes, services
from placement_sched.schemas.formats import DocumentError, prefix_errors

_COLUMNS = compute_nodes.c
_LIVING = _COLUMNS.deleted == 0
#: Columns that change when nova-compute writes a node. ``updated_at`` alone does not suffice: it
#: has whole seconds on MariaDB, and two claims may fall into one second.
_CHANGING = (
    *(_COLUMNS.updated_at, _COLUMNS.vcpus_used, _COLUMNS.memory_mb_used, _COLUMNS.local_gb_used),
    *(_COLUMNS.free_ram_mb, _COLUMNS.free_disk_gb, _COLUMNS.disk_available_least),
)
#: The columns that have the same name in a report.
_SAME = (
    *("uuid", "host", "hypervisor_hostname", "hypervisor_type", "hypervisor_version"),
    *("vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "local_gb", "local_gb_used"),
    *("free_ram_mb", "free_disk_gb", "disk_available_least", "cpu_info", "numa_topology"),
    *("metrics", "cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"),
)
_OTHERS = ("host_ip", "stats", "supported_instances", "pci_stats")
_TIMES = ("updated_at", "created_at")
#: A row with all columns of a report.
NodeRow = Row[Any]
_WHOLE: Select[Any] = select(*(_COLUMNS[name] for name in (*_SAME, *_OTHERS, *_TIMES))).where(
    _LIVING
)
#: The keys of the data and of the list of objects in a serialised nova object.
_DATA, _OBJECTS = "nova_object.data", "objects"
_SERVICES_COLUMNS = services.c
_IS_COMPUTE = (_SERVICES_COLUMNS.deleted == 0, _SERVICES_COLUMNS.binary == COMPUTE_BINARY)
# For nova too, a service without a heartbeat was last seen when its record was created.
_SEEN = func.coalesce(_SERVICES_COLUMNS.last_seen_up, _SERVICES_COLUMNS.created_at).label("seen")
_SERVICE_FIELDS = ("id", "uuid", "host", "disabled", "disabled_reason", "forced_down")
_SERVICES: Select[Any] = select(
    *(_SERVICES_COLUMNS[name] for name in _SERVICE_FIELDS), _SEEN
).where(*_IS_COMPUTE)
#: Number and highest id of the services, then of the compute nodes, in a cell. It changes whenever
#: a row is added or deleted.
CellCensus = tuple[int, int, int, int]


def all_uuids(connection: Connection) -> frozenset[str]:
    """Return the uuids of all nodes."""
    query = select(_COLUMNS.uuid).where(_LIVING, _COLUMNS.uuid.is_not(None))
    return frozenset(connection.scalars(query))


def without_uuid(connection: Connection) -> list[tuple[str | None, str | None]]:
    """Return host and name of nodes that cannot be recorded, as they have no uuid."""
    query = select(_COLUMNS.host, _COLUMNS.hypervisor_hostname)
    return list(map(tuple, connection.execute(query.where(_LIVING, _COLUMNS.uuid.is_(None)))))


def changed_nodes(
    connection: Connection, *, since: datetime | None = None
) -> dict[str, tuple[Any, ...]]:
    """Map the uuids of nodes written since a time (None: all) to their changing columns."""
    query = select(sql.json_row(connection, (_COLUMNS.uuid, *_CHANGING)))
    query = query.where(_LIVING, _COLUMNS.uuid.is_not(None))
    if since is not None:
        query = query.where(_COLUMNS.updated_at >= since)
    rows = map(orjson.loads, connection.scalars(query))
    return {row[0]: tuple(row[1:]) for row in rows}


def read_nodes(connection: Connection, uuids: Collection[str]) -> Iterator[NodeRow]:
    """Yield the existing nodes among ``uuids`` with all columns of a report."""
    return sql.select_in_batches(connection, _WHOLE, _COLUMNS.uuid, uuids)


def without_times(row: NodeRow) -> tuple[Any, ...]:
    """Return the columns of a row without its times."""
    return tuple(row[: -len(_TIMES)])


def report_of(row: NodeRow, cell_uuid: str) -> Json:
    """Convert a row of nova to a report, as ``PUT /compute_nodes`` takes it.

    Raises :class:`DocumentError` if a column contains invalid JSON.
    """
    report = {name: getattr(row, name) for name in _SAME}
    specs = _json(row.supported_instances, "supported_hv_specs")
    stats = _json(row.stats, "stats")
    if isinstance(stats, dict):
        # In nova a null value means the same as an absent value.
        stats = {key: value for key, value in stats.items() if value is not None}
    return {
        **report,
        "cell_uuid": cell_uuid,
        "hypervisor_type": row.hypervisor_type or "",
        "host_ip": None if row.host_ip is None else str(row.host_ip),
        "supported_hv_specs": specs,
        "stats": stats,
        "pci_device_pools": _pools(row.pci_stats),
        "numa_topology": row.numa_topology or None,
        "inventories": False,
    }


def _json(text: str | None, key: str) -> Any:
    if not text:
        return None
    try:
        return orjson.loads(text)
    except ValueError:
        raise DocumentError("the string is not JSON", key) from None


def _pools(text: str | None) -> Any:
    """Read pools of PCI devices from nova's list object, or from the list of old releases."""
    pools = _json(text, "pci_device_pools")
    if not isinstance(pools, Mapping):
        return pools
    with prefix_errors("pci_device_pools"):
        inner = _data(pools).get(_OBJECTS)
        if not isinstance(inner, list):
            raise DocumentError("it has no list of objects", _DATA, _OBJECTS)
        return [_data(pool) for pool in inner]


def _data(wrapped: Any) -> Json:
    data = wrapped.get(_DATA) if isinstance(wrapped, Mapping) else None
    if not isinstance(data, dict):
        raise DocumentError("it is not an object of nova", _DATA)
    return data


def all_services(connection: Connection) -> tuple[Service, ...]:
    """Return all compute services, sorted by nova's id."""
    return _services_from(connection.execute(_SERVICES.order_by(_SERVICES_COLUMNS.id)).all())


def by_hosts(connection: Connection, hosts: Collection[str]) -> tuple[Service, ...]:
    """Return the existing compute services of hosts."""
    return _services_from(
        sql.select_in_batches(connection, _SERVICES, _SERVICES_COLUMNS.host, hosts)
    )


def disabled_services(connection: Connection) -> tuple[Service, ...]:
    """Return the compute services that are disabled or forced down."""
    is_barred = or_(_SERVICES_COLUMNS.disabled.is_(True), _SERVICES_COLUMNS.forced_down.is_(True))
    return _services_from(connection.execute(_SERVICES.where(is_barred)).all())


def heartbeats(connection: Connection, since: datetime) -> dict[str, datetime]:
    """Map hosts to their last heartbeats, without heartbeats before a time."""
    sent_at = _SERVICES_COLUMNS.last_seen_up
    rows = connection.execute(
        select(_SERVICES_COLUMNS.host, sent_at).where(*_IS_COMPUTE, sent_at >= since)
    )
    return {host: at.replace(microsecond=0) for host, at in rows}


def heartbeats_of(connection: Connection, hosts: Collection[str]) -> dict[str, datetime]:
    """Map hosts that have a service to their last heartbeats."""
    query = select(_SERVICES_COLUMNS.host, _SEEN).where(*_IS_COMPUTE)
    rows = sql.select_in_batches(connection, query, _SERVICES_COLUMNS.host, hosts)
    return {host: at.replace(microsecond=0) for host, at in rows if at is not None}


def count_rows(connection: Connection) -> CellCensus:
    """Count the services and nodes of a cell, in a single statement."""
    nodes = compute_nodes.c
    compute = select(literal(0), func.count(), func.coalesce(func.max(_SERVICES_COLUMNS.id), 0))
    living = select(literal(1), func.count(), func.coalesce(func.max(nodes.id), 0))
    query = union_all(compute.where(*_IS_COMPUTE), living.where(nodes.deleted == 0))
    (_, service_count, newest_service), (_, node_count, newest_node) = sorted(
        map(tuple, connection.execute(query).all())
    )
    return service_count, newest_service, node_count, newest_node


def _services_from(rows: Iterable[Any]) -> tuple[Service, ...]:
    return tuple(
        Service(
            id=service_id,
            uuid=uuid,
            host=host,
            binary=COMPUTE_BINARY,
            disabled=bool(disabled),
            disabled_reason=reason if disabled else None,
            forced_down=bool(forced_down),
            last_seen_up=None if at is None else at.replace(microsecond=0),
        )
        for service_id, uuid, host, disabled, reason, forced_down, at in rows
    )
