# SPDX-License-Identifier: Apache-2.0
"""Compute nodes with their last reports and heartbeats, and hypervisors.

A hypervisor is a compute node whose host has a compute service.
"""

import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    or_,
    select,
    update,
)

from placement_sched.db import sql, tables
from placement_sched.db.tables import compute_nodes, get_max_length
from placement_sched.errors import ConcurrentUpdate, Duplicate, NotFound
from placement_sched.model.compute_node import (
    COMPUTE_BINARY,
    ComputeNode,
    Hypervisor,
    HypervisorDetails,
    build_node,
    select_stored_fields,
)
from placement_sched.model.document import to_storable
from placement_sched.model.grouping import AT_ONCE, group_rows, split_batches
from placement_sched.store import change_counters
from placement_sched.store.compute import services

_COLUMNS = compute_nodes.c
_VERSIONS = select(_COLUMNS.uuid, _COLUMNS.version, _COLUMNS.last_seen_up)
#: The columns of a report whose change increments the version.
_REPORTED = ("host", "hypervisor_hostname", "cell_uuid", "report")
_LOCKED_HOSTS = select(_COLUMNS.host).order_by(_COLUMNS.id).with_for_update()
_NODES = select(*(column for column in _COLUMNS if column.name != "id"))

#: The change counter that rises when nodes or their names change, and at changes of services.
NAMES = services.ENABLED_NODES
_SERVICE_COLUMNS = tables.services.c
#: The ids and names of the nodes of hosts that have a compute service.
_HYPERVISORS = select(_COLUMNS.id, _COLUMNS.uuid, _COLUMNS.hypervisor_hostname, _COLUMNS.host).join(
    tables.services,
    and_(_SERVICE_COLUMNS.host == _COLUMNS.host, _SERVICE_COLUMNS.binary == COMPUTE_BINARY),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenReports:
    """Uuids of the nodes that :func:`write` has created or changed.

    ``previous_hosts`` maps the uuid of each node that moved to another host to its previous host.
    """

    created: frozenset[str]
    changed: frozenset[str]
    previous_hosts: Mapping[str, str]


def get_by_uuid(connection: Connection, uuid: str, *, lock: bool = False) -> ComputeNode:
    """Return a node, optionally locked, or raise :class:`NotFound`."""
    query = _NODES.where(_COLUMNS.uuid == uuid)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise NotFound(f"No compute node with uuid {uuid} found", code="scheduler.not_found")
    return _build_node(row)


def list_by_uuids(connection: Connection, uuids: Iterable[str]) -> tuple[ComputeNode, ...]:
    """Return the existing nodes with these uuids."""
    return tuple(
        map(_build_node, sql.select_in_batches(connection, _NODES, _COLUMNS.uuid, set(uuids)))
    )


def map_versions(
    connection: Connection, uuids: Iterable[str]
) -> Mapping[str, tuple[int, datetime]]:
    """Map the uuids of existing nodes to version and last heartbeat."""
    rows = sql.select_in_batches(connection, _VERSIONS, _COLUMNS.uuid, set(uuids))
    return {uuid: (version, last_seen_up) for uuid, version, last_seen_up in rows}


class RecordedNode(NamedTuple):
    """Version and location of a recorded node."""

    version: int
    cell_uuid: str | None
    host: str


def read_records(connection: Connection, uuids: Iterable[str]) -> Mapping[str, RecordedNode]:
    """Map the uuids of existing nodes to version, cell and host."""
    query = select(_COLUMNS.uuid, _COLUMNS.version, _COLUMNS.cell_uuid, _COLUMNS.host)
    rows = sql.select_in_batches(connection, query, _COLUMNS.uuid, set(uuids))
    return {uuid: RecordedNode(*columns) for uuid, *columns in rows}


def search(
    connection: Connection,
    *,
    host: str | None = None,
    hypervisor_hostname: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> tuple[ComputeNode, ...]:
    """Return a page of nodes, by uuid from ``after``, with these filters."""
    filters = sql.drop_none(host=host, hypervisor_hostname=hypervisor_hostname)
    nodes = _NODES.filter_by(**filters)
    query = sql.select_page_after(nodes, _COLUMNS.uuid, after, limit=limit)
    return tuple(map(_build_node, connection.execute(query)))


def list_by_names(
    connection: Connection, *, hosts: Collection[str], nodes: Collection[str]
) -> tuple[ComputeNode, ...]:
    """Return the nodes on these hosts or with these names, sorted by uuid."""
    either = or_(_COLUMNS.host.in_(hosts), _COLUMNS.hypervisor_hostname.in_(nodes))
    return tuple(map(_build_node, connection.execute(_NODES.where(either).order_by(_COLUMNS.uuid))))


def list_names(connection: Connection) -> set[str]:
    """Return the names of all hosts and of all nodes."""
    rows = connection.execute(select(_COLUMNS.host, _COLUMNS.hypervisor_hostname))
    return {name for row in rows for name in row}


def map_names_by_uuid(connection: Connection) -> dict[str, tuple[str, str]]:
    """Map the uuids of all nodes to host and hypervisor_hostname."""
    query = select(_COLUMNS.uuid, _COLUMNS.host, _COLUMNS.hypervisor_hostname)
    return {uuid: (host, node) for uuid, host, node in connection.execute(query).all()}


class NodeNames(change_counters.VersionedCache[Mapping[str, tuple[str, str]]]):
    """Cache that maps the uuids of all nodes to host and hypervisor_hostname."""

    def __init__(self) -> None:
        super().__init__(NAMES, lambda connection, _version: map_names_by_uuid(connection))


def map_uuids_by_name(
    connection: Connection, hosts: Collection[str], cell_uuid: str | None = None
) -> dict[tuple[str, str], str]:
    """Map (host, hypervisor_hostname) to node uuids, for hosts (in a cell)."""
    query = select(_COLUMNS.host, _COLUMNS.hypervisor_hostname, _COLUMNS.uuid)
    query = query.filter_by(**sql.drop_none(cell_uuid=cell_uuid))
    rows = sql.select_in_batches(connection, query, _COLUMNS.host, hosts)
    return {(host, node): uuid for host, node, uuid in rows}


def map_cells_of_hosts(
    connection: Connection, hosts: Collection[str]
) -> dict[str, set[str | None]]:
    """Map hosts to the cell uuids of their nodes."""
    query = select(_COLUMNS.host, _COLUMNS.cell_uuid)
    rows = sql.select_in_batches(connection, query, _COLUMNS.host, hosts)
    return {host: set(cells) for host, cells in group_rows(rows).items()}


def map_uuids_by_cell(connection: Connection) -> dict[str | None, list[str]]:
    """Map cell uuids to the uuids of all nodes in the cell."""
    return group_rows(connection.execute(select(_COLUMNS.cell_uuid, _COLUMNS.uuid)).all())


def record_seen(connection: Connection, moments: Mapping[str, datetime], now: datetime) -> None:
    """Record heartbeats of nodes, by host, like ``services.record_seen``."""
    services.raise_last_seen(connection, update(compute_nodes), moments, now)


def remove_many(connection: Connection, uuids: Collection[str]) -> int:
    """Delete nodes and return their number."""
    sorted_uuids = sorted(uuids)
    # Without a lock, a node could move after this read, and caches would keep it on its new host.
    hosts = set(
        sql.select_scalars_in_batches(connection, _LOCKED_HOSTS, _COLUMNS.uuid, sorted_uuids)
    )
    deleted = sql.change_in_batches(connection, delete(compute_nodes), _COLUMNS.uuid, sorted_uuids)
    if deleted:
        change_counters.bump_hosts(connection, hosts)
        services.bump_enabled_nodes(connection)
    return deleted


def map_changed_columns(
    connection: Connection, nodes: Sequence[ComputeNode]
) -> dict[str, tuple[str, ...]]:
    """Map uuids of new or changed nodes to columns, without heartbeats."""
    uuids = [node.uuid for node in nodes]
    stored = {
        row.uuid: row for row in sql.select_in_batches(connection, _NODES, _COLUMNS.uuid, uuids)
    }
    differing = {}
    for row in map(build_row, nodes):
        if names := _list_changed(row, stored.get(row["uuid"])):
            differing[row["uuid"]] = names
    return differing


def _list_changed(row: Mapping[str, Any], old: Row[Any] | None) -> tuple[str, ...]:
    return tuple(c for c in _REPORTED if old is None or row[c] != getattr(old, c))


def remove_of_host(connection: Connection, host: str) -> tuple[str, ...]:
    """Delete all nodes of a host and return their uuids."""
    query = select(_COLUMNS.uuid).where(_COLUMNS.host == host).order_by(_COLUMNS.id)
    uuids = tuple(connection.scalars(query.with_for_update()))
    remove_many(connection, uuids)
    return uuids


def write(
    connection: Connection,
    nodes: Sequence[ComputeNode],
    now: datetime,
    *,
    after: Mapping[str, int] | None = None,
) -> WrittenReports:
    """Write reports of nodes, with a constant number of statements.

    A report equal to the node's last report changes only the heartbeat, not ``version`` or
    ``updated_at``. ``after`` maps uuids to the versions before the caller collected the reports.

    Raises :class:`Duplicate` if another node has the same host and hypervisor_hostname, and
    :class:`ConcurrentUpdate` if another request has written any of the nodes since then.
    """
    rows = {node.uuid: build_row(node) for node in nodes}
    query = _NODES.order_by(_COLUMNS.id).with_for_update()
    stored = {
        row.uuid: row for row in sql.select_in_batches(connection, query, _COLUMNS.uuid, rows)
    }
    if after is not None and after != {uuid: row.version for uuid, row in stored.items()}:
        raise _build_concurrent_update("reported")
    new = [row for uuid, row in rows.items() if uuid not in stored]
    columns = {
        uuid: names
        for uuid, row in rows.items()
        if uuid in stored and (names := _list_changed(row, stored[uuid]))
    }
    changed = [row for uuid, row in rows.items() if uuid in columns]
    differing = {name for names in columns.values() for name in names}
    all_columns = [name for name in _REPORTED if name in differing]  # in a fixed order
    _check_names(connection, [*new, *changed], stored)
    stamps = {"created_at": now, "updated_at": now}
    created = [{**row, **stamps, "version": _compute_first_version(row)} for row in new]
    with sql.translate_rejection(_build_concurrent_update("reported")):
        sql.insert_rows(connection, compute_nodes, created)
    _change(connection, changed, stored, all_columns, now)
    previous_hosts = {uuid: stored[uuid].host for uuid, names in columns.items() if "host" in names}
    if new or not differing.isdisjoint({"host", "hypervisor_hostname"}):
        services.bump_enabled_nodes(connection)
    reported_uuids = {row["uuid"] for row in new} | columns.keys()
    moments = {
        node.uuid: node.last_seen_up
        for node in nodes
        if node.uuid not in reported_uuids and node.last_seen_up != stored[node.uuid].last_seen_up
    }
    services.set_heartbeats(connection, _COLUMNS.uuid, moments)
    changed_hosts = {
        *previous_hosts.values(),
        *(node.host for node in nodes if node.uuid in reported_uuids | moments.keys()),
    }
    change_counters.bump_hosts(connection, changed_hosts)
    return WrittenReports(
        created=frozenset(row["uuid"] for row in new),
        changed=frozenset(columns),
        previous_hosts=previous_hosts,
    )


def build_row(node: ComputeNode) -> dict[str, Any]:
    """Convert a node to the columns that its report sets."""
    return {
        "uuid": node.uuid,
        "host": node.host,
        "hypervisor_hostname": node.hypervisor_hostname,
        "cell_uuid": node.cell_uuid,
        "report": to_storable(select_stored_fields(node)),
        "last_seen_up": node.last_seen_up,
    }


def _check_names(
    connection: Connection, rows: Sequence[Mapping[str, Any]], old_rows: Mapping[str, Row[Any]]
) -> None:
    uuid_by_names = {}
    for row in rows:
        names, old = (row["host"], row["hypervisor_hostname"]), old_rows.get(row["uuid"])
        if old is None or names != (old.host, old.hypervisor_hostname):
            uuid_by_names[names] = row["uuid"]
    query = select(_COLUMNS.host, _COLUMNS.hypervisor_hostname, _COLUMNS.uuid)
    hosts = {host for host, _ in uuid_by_names}
    for host, node, uuid in sql.select_in_batches(connection, query, _COLUMNS.host, hosts):
        if uuid_by_names.get((host, node), uuid) != uuid:
            raise Duplicate(
                f"Host {host} already has a node {node} with uuid {uuid}, "
                f"not {uuid_by_names[host, node]}. Delete that node first.",
                code="scheduler.duplicate",
            )


def _build_concurrent_update(action: str) -> ConcurrentUpdate:
    return ConcurrentUpdate(
        f"Another request {action} one of these compute nodes at the same time. Try again.",
        code="scheduler.concurrent_update",
    )


def _compute_first_version(row: Mapping[str, Any]) -> int:
    # Caches identify a report by uuid and version: a node that is created again gets another.
    text = "\0".join(str(row[key]) for key in _REPORTED)
    return zlib.crc32(text.encode()) & 0x3FFFFFFF


def _change(
    connection: Connection,
    rows: Sequence[Mapping[str, Any]],
    old_rows: Mapping[str, Row[Any]],
    differing: Collection[str],
    now: datetime,
) -> None:
    if not rows:
        return
    values = [
        {
            "b_uuid": row["uuid"],
            **{key: row[key] for key in (*differing, "last_seen_up")},
            "version": old_rows[row["uuid"]].version + 1,
            "updated_at": now,
        }
        for row in rows
    ]
    statement = update(compute_nodes).where(_COLUMNS.uuid == bindparam("b_uuid"))
    with sql.translate_rejection(_build_concurrent_update("took the names of")):
        connection.execute(statement, values)


def _build_node(row: Row[Any]) -> ComputeNode:
    columns = row._asdict()
    return build_node(orjson.loads(columns.pop("report")), **columns)


def get_hypervisor(connection: Connection, key: int | str) -> Hypervisor:
    """Return the hypervisor of an id or uuid, or raise :class:`NotFound`."""
    hypervisors = _read_hypervisors(connection, _HYPERVISORS.where(_has_key(key)))
    if not hypervisors:
        raise NotFound(f"Hypervisor with ID '{key}' could not be found.")
    return hypervisors[0]


def list_hypervisors(
    connection: Connection, *, after: int | str | None = None, limit: int | None = None
) -> tuple[Hypervisor, ...]:
    """Return a page of hypervisors by id, or raise Invalid for ``after``."""
    query = sql.select_page(
        connection,
        _HYPERVISORS,
        [(_COLUMNS.id, False)],
        limit=limit,
        marked=None if after is None else _has_key(after),
        missing=f"marker [{after}] not found",
    )
    return _read_hypervisors(connection, query)


def search_hypervisors(connection: Connection, part: str) -> tuple[Hypervisor, ...]:
    """Return hypervisors with ``part`` in the name (any case), sorted by id."""
    if len(part) > get_max_length(_COLUMNS.hypervisor_hostname):
        return ()
    contains_part = _COLUMNS.hypervisor_hostname.icontains(part, autoescape=True)
    return _read_hypervisors(connection, _HYPERVISORS.where(contains_part).order_by(_COLUMNS.id))


def iterate_hypervisor_details(
    connection: Connection, hypervisors: Collection[Hypervisor]
) -> Iterator[HypervisorDetails]:
    """Yield hypervisors with their last reports, except deleted nodes."""
    for batch in split_batches(hypervisors, AT_ONCE):
        reports = list_by_uuids(connection, [entry.uuid for entry in batch])
        node_by_uuid = {node.uuid: node for node in reports}
        for entry in batch:
            if node := node_by_uuid.get(entry.uuid):
                yield HypervisorDetails(
                    id=entry.id, uuid=entry.uuid, name=entry.name, service=entry.service, node=node
                )


def _has_key(key: int | str) -> ColumnElement[bool]:
    return (_COLUMNS.id if isinstance(key, int) else _COLUMNS.uuid) == key


def _read_hypervisors(connection: Connection, query: Select[Any]) -> tuple[Hypervisor, ...]:
    rows = connection.execute(query).all()
    by_host = services.map_by_host(connection, {row.host for row in rows})
    return tuple(
        Hypervisor(
            id=row.id, uuid=row.uuid, name=row.hypervisor_hostname, service=by_host[row.host]
        )
        for row in rows
        if row.host in by_host
    )
