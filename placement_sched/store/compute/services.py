"""Services of hosts: their heartbeats, and whether operators want instances on them."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy import Column, Connection, Row, Select, and_, bindparam, delete, or_, select, update

from placement_sched.db import sql
from placement_sched.db.tables import compute_nodes, services
from placement_sched.errors import Duplicate, NotFound
from placement_sched.model.compute_node import COMPUTE_BINARY, Service
from placement_sched.store import change_counters
from placement_sched.store.compute import host_changes

#: A change counter: it rises when a node comes, goes, moves or is renamed, and when a service
#: comes, goes, is disabled or is enabled.
ENABLED_NODES = "enabled_nodes"

_COLUMNS = services.c
#: What services are read by, with their columns in the order of :class:`Service`.
_SERVICES = select(*(_COLUMNS[name] for name in Service._fields))
_CHANGING = tuple(name for name in Service._fields if name not in {"id", "host", "binary"})


def by_hosts(
    connection: Connection,
    hosts: Collection[str],
    *,
    binary: str = COMPUTE_BINARY,
    lock: bool = False,
) -> dict[str, Service]:
    """Return the service of this binary of those of the hosts that have it, by host.

    With ``lock`` their rows are locked in order of id, so that no other request disables or enables
    one of them before the transaction ends.
    """
    query = _SERVICES.where(_COLUMNS.binary == binary).order_by(_COLUMNS.id)
    query = query.with_for_update() if lock else query
    found = map(_service, sql.rows_among(connection, query, _COLUMNS.host, hosts))
    return {service.host: service for service in found}


def get(connection: Connection, key: int | str, *, lock: bool = False) -> Service:
    """Return the service of this number (int) or uuid (str), its row locked if asked.

    Raises :class:`NotFound`.
    """
    column = _COLUMNS.id if isinstance(key, int) else _COLUMNS.uuid
    query = _SERVICES.where(column == key)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise NotFound(f"Service {key} could not be found.")
    return _service(row)


def search(
    connection: Connection, *, host: str | None = None, binary: str | None = None
) -> tuple[Service, ...]:
    """Return the services of a host, of a binary, or all, by id."""
    query = _SERVICES.order_by(_COLUMNS.id).filter_by(**sql.given(host=host, binary=binary))
    return tuple(map(_service, connection.execute(query)))


def beat(
    connection: Connection, heartbeats: Mapping[str, datetime], now: datetime
) -> dict[str, Service]:
    """Note when hosts were last seen up; return their compute services as they were before, locked.

    A host without a compute service gets one, enabled. The number of statements does not depend
    on how many hosts there are.
    """
    found = by_hosts(connection, heartbeats, lock=True)
    if missing := sorted(heartbeats.keys() - found.keys()):
        same = {"binary": COMPUTE_BINARY, "disabled": 0, "forced_down": 0}
        times = {"created_at": now, "updated_at": now}
        rows = [
            {"uuid": str(uuid4()), "host": host, "last_seen_up": heartbeats[host], **same, **times}
            for host in missing
        ]
        sql.insert_missing(connection, services, rows)
        note_enabled_change(connection)
        found |= by_hosts(connection, missing, lock=True)
    moments = {
        service.id: heartbeats[host]
        for host, service in found.items()
        if service.last_seen_up != heartbeats[host]
    }
    note_heartbeats(connection, _COLUMNS.id, moments, updated_at=now)
    host_changes.note(
        connection, {*missing, *(one.host for one in found.values() if one.id in moments)}
    )
    return found


def note_seen(connection: Connection, moments: Mapping[int, datetime], now: datetime) -> None:
    """Note when services were last seen up, by their numbers, whatever was known of it."""
    note_heartbeats(connection, _COLUMNS.id, moments, updated_at=now)
    _note_change(connection, moments)


def note_up(connection: Connection, host: str, binary: str, now: datetime) -> None:
    """Note that the service of this host and binary is up, made where it is missing.

    It is not a compute service: whether hosts are enabled does not depend on it.
    """
    row = {"uuid": str(uuid4()), "host": host, "binary": binary, "disabled": 0, "forced_down": 0}
    seen = {"last_seen_up": now, "updated_at": now}
    sql.insert_missing(connection, services, [{**row, **seen, "created_at": now}])
    theirs = and_(_COLUMNS.host == host, _COLUMNS.binary == binary)
    connection.execute(update(services).where(theirs).values(seen))


def note_heartbeats(
    connection: Connection, key: Column[Any], moments: Mapping[Any, datetime], **also: Any
) -> None:
    """Note when rows were last seen up, by their ``key``, and set ``also`` these columns."""
    change: sa.Update = update(key.table)
    if len(set(moments.values())) == 1:
        # The common case, and cheaper where a driver sends a list of rows one by one.
        change = change.values(last_seen_up=min(moments.values()), **also)
        sql.change_among(connection, change, key, sorted(moments))
    elif moments:
        rows = [{"b_key": one, "last_seen_up": at, **also} for one, at in sorted(moments.items())]
        connection.execute(change.where(key == bindparam("b_key")), rows)


def barred_or_unseen(connection: Connection, since: datetime, now: datetime) -> tuple[Service, ...]:
    """Return the compute services that are disabled, forced down, or not seen since then.

    A heartbeat after ``now`` is of a clock that was ahead, and counts as not seen.
    """
    seen = _COLUMNS.last_seen_up
    unseen = or_(seen.is_(None), seen < since, seen > now)
    barred = or_(_COLUMNS.disabled != 0, _COLUMNS.forced_down != 0)
    query = _SERVICES.where(_COLUMNS.binary == COMPUTE_BINARY, or_(barred, unseen))
    return tuple(map(_service, connection.execute(query).all()))


def see(connection: Connection, moments: Mapping[str, datetime], now: datetime) -> None:
    """Note when the compute services of hosts were last seen up.

    An earlier heartbeat than the recorded one is of a reading that began earlier, and left out,
    unless the recorded one is after ``now``: then a clock was ahead. One statement for each moment
    (and each 30 000 hosts), the earliest first.
    """
    seen = _COLUMNS.last_seen_up
    for moment, hosts in sorted(sql.grouped((at, host) for host, at in moments.items()).items()):
        is_wrong = or_(seen.is_(None), seen < moment, and_(seen > now, seen != moment))
        theirs = update(services).where(_COLUMNS.binary == COMPUTE_BINARY, is_wrong)
        change = theirs.values(last_seen_up=moment, updated_at=now)
        sql.change_among(connection, change, _COLUMNS.host, sorted(hosts))
    host_changes.note(connection, moments)


def set_disabled(
    connection: Connection, ids: Collection[int], *, disabled: bool, reason: str | None
) -> None:
    """Disable services with a reason, or enable them, which forgets it."""
    rows, key, wanted = update(services), _COLUMNS.id, sorted(ids)
    others = rows.where(_COLUMNS.disabled != int(disabled)).values(disabled=int(disabled))
    changed = sql.change_among(connection, others, key, wanted)
    reason = reason if disabled else None
    sql.change_among(connection, rows.values(disabled_reason=reason), key, wanted)
    _note_change(connection, wanted)
    if changed:
        note_enabled_change(connection)


def set_forced_down(connection: Connection, ids: Collection[int], *, forced_down: bool) -> None:
    """Make services count as down whatever their heartbeat says, or no longer."""
    change = update(services).values(forced_down=int(forced_down))
    sql.change_among(connection, change, _COLUMNS.id, sorted(ids))
    _note_change(connection, ids)


def put(connection: Connection, rows: Collection[Mapping[str, Any]], now: datetime) -> None:
    """Make services what these rows say, each by its host and binary, made where it is missing.

    A row has what :class:`Service` has, but for ``id`` and ``updated_at``. Raises
    :class:`Duplicate` where a uuid is another service's.
    """
    if not rows:
        return
    stamped = [{**row, "created_at": now, "updated_at": now} for row in rows]
    with sql.refused_as(Duplicate("the uuid belongs to another service")):
        sql.insert_or_update(
            connection, services, stamped, key=("host", "binary"), changing=_CHANGING
        )
    _check_owners(connection, rows)
    host_changes.note(connection, (row["host"] for row in rows))
    note_enabled_change(connection)


def _check_owners(connection: Connection, rows: Collection[Mapping[str, Any]]) -> None:
    """Raise :class:`Duplicate` where a row was written over another service, of the same uuid.

    MariaDB does that, as it updates by whichever unique key is taken.
    """
    query = select(_COLUMNS.uuid, _COLUMNS.host, _COLUMNS.binary)
    found = sql.rows_among(connection, query, _COLUMNS.uuid, [row["uuid"] for row in rows])
    owners = {uuid: (host, binary) for uuid, host, binary in found}
    for row in rows:
        host, binary = owner = owners.get(row["uuid"], (row["host"], row["binary"]))
        if owner != (row["host"], row["binary"]):
            raise Duplicate(
                f"{row['binary']} of {row['host']}: uuid {row['uuid']} already belongs to "
                f"{binary} of {host}"
            )


def remove(connection: Connection, ids: Collection[int]) -> None:
    """Delete services."""
    _note_change(connection, ids)
    if sql.change_among(connection, delete(services), _COLUMNS.id, sorted(ids)):
        note_enabled_change(connection)


def _service(row: Row[*tuple[Any, ...]]) -> Service:
    # Whatever comes after these seven is as the table has it.
    number, uuid, host, binary, disabled, reason, forced_down, *rest = row
    return Service(number, uuid, host, binary, bool(disabled), reason, bool(forced_down), *rest)


def _note_change(connection: Connection, ids: Collection[int]) -> None:
    """Note, while they are there, that services of these numbers are different."""
    hosts = sql.rows_among(connection, select(_COLUMNS.host), _COLUMNS.id, sorted(ids))
    host_changes.note(connection, (host for (host,) in hosts))


# The compute nodes whose service is enabled. Which they are follows from compute nodes and services
# alone, tables that only this service writes. Their stores note each change here, so that no writer
# can forget it. A heartbeat is not a change, nor a report of other figures: ten thousand hosts
# report each minute, and must not queue for one row.


def note_enabled_change(connection: Connection) -> None:
    """Note, in the transaction that makes it so, that other nodes may be enabled now."""
    change_counters.bump(connection, ENABLED_NODES)


def enabled_nodes() -> Select[int]:
    """Return a query that has a row for each compute node whose service is enabled."""
    is_theirs = and_(services.c.host == compute_nodes.c.host, services.c.binary == COMPUTE_BINARY)
    enabled = select(sa.literal(1)).select_from(compute_nodes).join(services, is_theirs)
    return enabled.where(services.c.disabled == 0)
