"""Compute nodes: the last report of each, and the heartbeat that came with it."""

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, Row, and_, bindparam, delete, or_, select, update

from placement_sched.db import sql
from placement_sched.db.tables import compute_nodes
from placement_sched.errors import ConcurrentUpdate, Duplicate, NotFound
from placement_sched.model.compute_node import ComputeNode, kept_part, node_of
from placement_sched.model.document import storable
from placement_sched.store import change_counters
from placement_sched.store.compute import host_changes, services

_COLUMNS = compute_nodes.c
_VERSIONS = select(_COLUMNS.uuid, _COLUMNS.version, _COLUMNS.last_seen_up)
_DESCRIBING = ("host", "hypervisor_hostname", "cell_uuid", "report")
_HOSTS = select(_COLUMNS.host)
_NODES = select(*(column for column in _COLUMNS if column.name != "id"))

#: The change counter of which nodes there are, and of their names; it rises for less as well.
NAMES = services.ENABLED_NODES


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What became of reports: the uuids of nodes that are new, and of those that changed.

    ``came_from`` has the host at which a node was before, for those that moved to another.
    """

    created: frozenset[str]
    changed: frozenset[str]
    came_from: Mapping[str, str]


def by_uuid(connection: Connection, uuid: str, *, lock: bool = False) -> ComputeNode:
    """Return the node of this uuid, its row locked if asked; raises :class:`NotFound`."""
    query = _NODES.where(_COLUMNS.uuid == uuid)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise NotFound(f"No compute node with uuid {uuid} found", code="scheduler.not_found")
    return _node(row)


def by_uuids(connection: Connection, uuids: Iterable[str]) -> tuple[ComputeNode, ...]:
    """Return those of the nodes that are there."""
    return tuple(map(_node, sql.rows_among(connection, _NODES, _COLUMNS.uuid, set(uuids))))


def versions(connection: Connection, uuids: Iterable[str]) -> Mapping[str, tuple[int, datetime]]:
    """Return version and last heartbeat of those of the nodes that are there, by uuid."""
    found = sql.rows_among(connection, _VERSIONS, _COLUMNS.uuid, set(uuids))
    return {uuid: (version, last_seen_up) for uuid, version, last_seen_up in found}


class RecordedNode(NamedTuple):
    """What of a node says whether it was changed, and where it is."""

    version: int
    cell_uuid: str | None
    host: str


def recorded(connection: Connection, uuids: Iterable[str]) -> Mapping[str, RecordedNode]:
    """Return version, cell and host of those of the nodes that are there, by uuid."""
    query = select(_COLUMNS.uuid, _COLUMNS.version, _COLUMNS.cell_uuid, _COLUMNS.host)
    found = sql.rows_among(connection, query, _COLUMNS.uuid, set(uuids))
    return {uuid: RecordedNode(*rest) for uuid, *rest in found}


def search(
    connection: Connection,
    *,
    host: str | None = None,
    hypervisor_hostname: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> tuple[ComputeNode, ...]:
    """Return the nodes of a host, of a name, or all, by uuid, from the one after ``after`` on."""
    wanted = sql.given(host=host, hypervisor_hostname=hypervisor_hostname)
    at = None if after is None else [after]
    query = sql.page_after(_NODES.filter_by(**wanted), [(_COLUMNS.uuid, False)], at, limit=limit)
    return tuple(map(_node, connection.execute(query)))


def named(
    connection: Connection, *, hosts: Collection[str], nodes: Collection[str]
) -> tuple[ComputeNode, ...]:
    """Return the nodes of any of these hosts, and those of any of these names, by uuid."""
    either = or_(_COLUMNS.host.in_(hosts), _COLUMNS.hypervisor_hostname.in_(nodes))
    return tuple(map(_node, connection.execute(_NODES.where(either).order_by(_COLUMNS.uuid))))


def all_names(connection: Connection) -> set[str]:
    """Return the names of all hosts, and the names of all nodes."""
    rows = connection.execute(select(_COLUMNS.host, _COLUMNS.hypervisor_hostname))
    return {name for row in rows for name in row}


def names_by_uuid(connection: Connection) -> dict[str, tuple[str, str]]:
    """Return host and hypervisor_hostname of all nodes, by uuid."""
    query = select(_COLUMNS.uuid, _COLUMNS.host, _COLUMNS.hypervisor_hostname)
    return {uuid: (host, node) for uuid, host, node in connection.execute(query).all()}


class NodeNames(change_counters.VersionedCache[Mapping[str, tuple[str, str]]]):
    """Host and hypervisor_hostname of all compute nodes by uuid, as one process keeps them."""

    def __init__(self) -> None:
        super().__init__(NAMES, lambda connection, _version: names_by_uuid(connection))


def uuids_by_name(
    connection: Connection, hosts: Collection[str], cell_uuid: str | None = None
) -> dict[tuple[str, str], str]:
    """Return the uuids of the nodes of these hosts (in a cell), by host and hypervisor_hostname."""
    query = select(_COLUMNS.host, _COLUMNS.hypervisor_hostname, _COLUMNS.uuid)
    query = query.filter_by(**sql.given(cell_uuid=cell_uuid))
    found = sql.rows_among(connection, query, _COLUMNS.host, hosts)
    return {(host, node): uuid for host, node, uuid in found}


def is_cell(connection: Connection, cell_uuid: str) -> bool:
    """Return whether a node has reported to be in this cell."""
    query = select(_COLUMNS.id).where(_COLUMNS.cell_uuid == cell_uuid).limit(1)
    return connection.execute(query).first() is not None


def is_last(connection: Connection, node: ComputeNode) -> bool:
    """Return whether the host has no node beside this one."""
    others = select(_COLUMNS.id).where(_COLUMNS.host == node.host, _COLUMNS.uuid != node.uuid)
    return connection.execute(others.limit(1)).first() is None


def cells_of_hosts(connection: Connection, hosts: Collection[str]) -> dict[str, set[str | None]]:
    """Return the uuids of the cells in which the nodes of these hosts are, by host."""
    query = select(_COLUMNS.host, _COLUMNS.cell_uuid)
    rows = sql.rows_among(connection, query, _COLUMNS.host, hosts)
    return {host: set(found) for host, found in sql.grouped(rows).items()}


def cells_of_all_hosts(connection: Connection) -> dict[str, str | None]:
    """Return the uuid of the cell of each host that has a node."""
    return dict(map(tuple, connection.execute(select(_COLUMNS.host, _COLUMNS.cell_uuid))))


def uuids_by_cell(connection: Connection) -> dict[str | None, list[str]]:
    """Return the uuids of all nodes, by the uuid of their cell."""
    return sql.grouped(connection.execute(select(_COLUMNS.cell_uuid, _COLUMNS.uuid)).all())


def see(connection: Connection, moments: Mapping[str, datetime], now: datetime) -> None:
    """Note when the nodes of hosts were last seen up, as ``services.see`` does.

    One statement for each moment (and each 30 000 hosts), the earliest first.
    """
    seen = _COLUMNS.last_seen_up
    for moment, hosts in sorted(sql.grouped((at, host) for host, at in moments.items()).items()):
        is_wrong = or_(seen < moment, and_(seen > now, seen != moment))
        change = update(compute_nodes).where(is_wrong)
        change = change.values(last_seen_up=moment)
        sql.change_among(connection, change, _COLUMNS.host, sorted(hosts))
    host_changes.note(connection, moments)


def remove_many(connection: Connection, uuids: Collection[str]) -> int:
    """Delete those of the nodes that are there; return how many there were."""
    wanted = sorted(uuids)
    hosts = {host for (host,) in sql.rows_among(connection, _HOSTS, _COLUMNS.uuid, wanted)}
    gone = sql.change_among(connection, delete(compute_nodes), _COLUMNS.uuid, wanted)
    if gone:
        host_changes.note(connection, hosts)
        services.note_enabled_change(connection)
    return gone


def unlike(connection: Connection, nodes: Sequence[ComputeNode]) -> dict[str, tuple[str, ...]]:
    """Return, by uuid, the columns in which nodes differ from what is kept; all, of new ones.

    Those that differ in nothing but their heartbeat are left out.
    """
    uuids = [node.uuid for node in nodes]
    found = {row.uuid: row for row in sql.rows_among(connection, _NODES, _COLUMNS.uuid, uuids)}
    differing = {}
    for row in map(row_of, nodes):
        kept = found.get(row["uuid"])
        names = tuple(key for key in _DESCRIBING if kept is None or row[key] != getattr(kept, key))
        if names:
            differing[row["uuid"]] = names
    return differing


def remove(connection: Connection, node: ComputeNode) -> None:
    """Delete a node that the caller has locked."""
    connection.execute(delete(compute_nodes).where(_COLUMNS.uuid == node.uuid))
    host_changes.note(connection, [node.host])
    services.note_enabled_change(connection)


def remove_of_host(connection: Connection, host: str) -> tuple[str, ...]:
    """Delete all nodes of a host; return their uuids."""
    query = select(_COLUMNS.uuid).where(_COLUMNS.host == host).order_by(_COLUMNS.id)
    uuids = tuple(connection.scalars(query.with_for_update()))
    if uuids:
        connection.execute(delete(compute_nodes).where(_COLUMNS.host == host))
        host_changes.note(connection, [host])
        services.note_enabled_change(connection)
    return uuids


def write(
    connection: Connection,
    nodes: Sequence[ComputeNode],
    now: datetime,
    *,
    after: Mapping[str, int] | None = None,
) -> Written:
    """Keep what reports say, each under the uuid of its node.

    A report that says what the last one said moves the heartbeat only: neither ``version`` nor
    ``updated_at`` change. The number of statements does not depend on how many nodes there are.
    ``after`` has the versions that the caller saw before it read the reports.

    Raises :class:`Duplicate` where host and hypervisor_hostname are another node's, and
    :class:`ConcurrentUpdate` where another request reported one of these nodes first.
    """
    rows = {node.uuid: row_of(node) for node in nodes}
    locked = _NODES.order_by(_COLUMNS.id).with_for_update()
    found = {row.uuid: row for row in sql.rows_among(connection, locked, _COLUMNS.uuid, rows)}
    if after is not None and after != {uuid: row.version for uuid, row in found.items()}:
        raise _overtaken("reported")
    new = [row for uuid, row in rows.items() if uuid not in found]
    changed = [
        row
        for uuid, row in rows.items()
        if uuid in found and any(row[key] != getattr(found[uuid], key) for key in _DESCRIBING)
    ]
    _refuse_taken(connection, [*new, *changed], found)
    _insert(connection, new, now)
    _change(connection, changed, found, now)
    came_from = {
        row["uuid"]: found[row["uuid"]].host
        for row in changed
        if row["host"] != found[row["uuid"]].host
    }
    renamed = any(
        row["hypervisor_hostname"] != found[row["uuid"]].hypervisor_hostname for row in changed
    )
    if new or came_from or renamed:
        services.note_enabled_change(connection)
    described = {row["uuid"] for row in (*new, *changed)}
    moments = {
        node.uuid: node.last_seen_up
        for node in nodes
        if node.uuid not in described and node.last_seen_up != found[node.uuid].last_seen_up
    }
    services.note_heartbeats(connection, _COLUMNS.uuid, moments)
    noted = {
        *came_from.values(),
        *(node.host for node in nodes if node.uuid in described | moments.keys()),
    }
    host_changes.note(connection, noted)
    return Written(
        created=frozenset(row["uuid"] for row in new),
        changed=frozenset(row["uuid"] for row in changed),
        came_from=came_from,
    )


def row_of(node: ComputeNode) -> dict[str, Any]:
    """Return what is kept of a report, by column."""
    return {
        "uuid": node.uuid,
        "host": node.host,
        "hypervisor_hostname": node.hypervisor_hostname,
        "cell_uuid": node.cell_uuid,
        "report": storable(kept_part(node)),
        "last_seen_up": node.last_seen_up,
    }


def _refuse_taken(
    connection: Connection, rows: Sequence[Mapping[str, Any]], found: Mapping[str, Row[Any]]
) -> None:
    """Raise :class:`Duplicate` where another node has the names that a row brings."""
    wanted = {}
    for row in rows:
        names, before = (row["host"], row["hypervisor_hostname"]), found.get(row["uuid"])
        if before is None or names != (before.host, before.hypervisor_hostname):
            wanted[names] = row["uuid"]
    query = select(_COLUMNS.host, _COLUMNS.hypervisor_hostname, _COLUMNS.uuid)
    hosts = {host for host, _ in wanted}
    for host, node, uuid in sql.rows_among(connection, query, _COLUMNS.host, hosts):
        if wanted.get((host, node), uuid) != uuid:
            raise Duplicate(
                f"Host {host} has a node {node} already: its uuid is {uuid}, "
                f"not {wanted[host, node]}. Delete that node first.",
                code="scheduler.duplicate",
            )


def _insert(connection: Connection, rows: Sequence[Mapping[str, Any]], now: datetime) -> None:
    stamps = {"created_at": now, "updated_at": now}
    values = [{**row, **stamps, "version": _first_version(row)} for row in rows]
    with sql.refused_as(_overtaken("reported")):
        sql.insert_rows(connection, compute_nodes, values)


def _overtaken(what: str) -> ConcurrentUpdate:
    return ConcurrentUpdate(
        f"Another request {what} one of these compute nodes at the same moment; try again.",
        code="scheduler.concurrent_update",
    )


def _first_version(row: Mapping[str, Any]) -> int:
    """Return the version that a node begins with.

    It follows from the report, so that a node that is deleted and comes back with another report
    does not meet a version under which a process still remembers the old one.
    """
    described = "\0".join(str(row[key]) for key in _DESCRIBING)
    return zlib.crc32(described.encode()) & 0x3FFFFFFF


def _change(
    connection: Connection,
    rows: Sequence[Mapping[str, Any]],
    found: Mapping[str, Row[Any]],
    now: datetime,
) -> None:
    if not rows:
        return
    differing = [
        key
        for key in _DESCRIBING
        if any(row[key] != getattr(found[row["uuid"]], key) for row in rows)
    ]
    values = [
        {
            "b_uuid": row["uuid"],
            **{key: row[key] for key in (*differing, "last_seen_up")},
            "version": found[row["uuid"]].version + 1,
            "updated_at": now,
        }
        for row in rows
    ]
    change = update(compute_nodes).where(_COLUMNS.uuid == bindparam("b_uuid"))
    with sql.refused_as(_overtaken("took the names of")):
        connection.execute(change, values)


def _node(row: Row[Any]) -> ComputeNode:
    columns = row._asdict()
    return node_of(orjson.loads(columns.pop("report")), **columns)
