# SPDX-License-Identifier: Apache-2.0
"""Services of hosts, such as nova-compute, with states and heartbeats."""

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
from placement_sched.model.grouping import group_rows
from placement_sched.store import change_counters

#: A change counter: it rises when a node is created, deleted, moved or renamed, and when a service
#: is created, deleted, disabled or enabled.
ENABLED_NODES = "enabled_nodes"

_COLUMNS = services.c
#: Columns in the order of the fields of :class:`Service`.
_SERVICES = select(*(_COLUMNS[name] for name in Service._fields))
_CHANGING = tuple(
    name for name in Service._fields if name not in {"id", "host", "binary", "created_at"}
)


def map_by_host(
    connection: Connection,
    hosts: Collection[str],
    *,
    binary: str = COMPUTE_BINARY,
    lock: bool = False,
) -> dict[str, Service]:
    """Map hosts to services of a binary, optionally locked by id."""
    query = _SERVICES.where(_COLUMNS.binary == binary).order_by(_COLUMNS.id)
    query = query.with_for_update() if lock else query
    rows = map(_build_service, sql.select_in_batches(connection, query, _COLUMNS.host, hosts))
    return {service.host: service for service in rows}


def get(connection: Connection, key: int | str, *, lock: bool = False) -> Service:
    """Return the service of an id or uuid, or raise :class:`NotFound`."""
    column = _COLUMNS.id if isinstance(key, int) else _COLUMNS.uuid
    query = _SERVICES.where(column == key)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise NotFound(f"Service {key} could not be found.")
    return _build_service(row)


def search(
    connection: Connection, *, host: str | None = None, binary: str | None = None
) -> tuple[Service, ...]:
    """Return services, optionally of a host or a binary, sorted by id."""
    query = _SERVICES.order_by(_COLUMNS.id).filter_by(**sql.drop_none(host=host, binary=binary))
    return tuple(map(_build_service, connection.execute(query)))


def record_heartbeats(
    connection: Connection, heartbeats: Mapping[str, datetime], now: datetime
) -> dict[str, Service]:
    """Record heartbeats of hosts, and map the hosts to their services.

    Returns the services as they were before, and locks them. Missing compute services are created
    as enabled. The number of statements does not depend on the number of hosts.
    """
    previous = map_by_host(connection, heartbeats, lock=True)
    if missing := sorted(heartbeats.keys() - previous.keys()):
        same = {"binary": COMPUTE_BINARY, "disabled": 0, "forced_down": 0}
        times = {"created_at": now, "updated_at": now}
        rows = [
            {"uuid": str(uuid4()), "host": host, "last_seen_up": heartbeats[host], **same, **times}
            for host in missing
        ]
        sql.insert_missing(connection, services, rows)
        bump_enabled_nodes(connection)
        previous |= map_by_host(connection, missing, lock=True)
    moments = {
        service.id: heartbeats[host]
        for host, service in previous.items()
        if service.last_seen_up != heartbeats[host]
    }
    set_heartbeats(connection, _COLUMNS.id, moments, updated_at=now)
    change_counters.bump_hosts(
        connection,
        {*missing, *(service.host for service in previous.values() if service.id in moments)},
    )
    return previous


def set_last_seen(connection: Connection, moments: Mapping[int, datetime], now: datetime) -> None:
    """Set the times when services were last seen up, by service id."""
    set_heartbeats(connection, _COLUMNS.id, moments, updated_at=now)
    _bump_hosts(connection, moments)


def record_service_up(connection: Connection, host: str, binary: str, now: datetime) -> None:
    """Create a service (not nova-compute) that is up, or set its heartbeat."""
    row = {"uuid": str(uuid4()), "host": host, "binary": binary, "disabled": 0, "forced_down": 0}
    row |= {"last_seen_up": now, "created_at": now, "updated_at": now}
    changing = ("last_seen_up", "updated_at")
    sql.insert_or_update(connection, services, [row], key=("host", "binary"), changing=changing)


def set_heartbeats(
    connection: Connection,
    key: Column[Any],
    moments: Mapping[Any, datetime],
    **further_columns: Any,
) -> None:
    """Set ``last_seen_up`` of rows, and the columns in ``further_columns``.

    ``key`` is a unique column, such as the uuid. ``moments`` maps its values to times.
    """
    change: sa.Update = update(key.table)
    if len(set(moments.values())) == 1:
        # The usual case. Some drivers send each row of a list separately, which takes longer.
        (moment,) = set(moments.values())
        change = change.values(last_seen_up=moment, **further_columns)
        sql.change_in_batches(connection, change, key, sorted(moments))
    elif moments:
        change = change.where(key == bindparam("b_key"))
        change = change.values(last_seen_up=bindparam("moment"), **further_columns)
        rows = [{"b_key": value, "moment": moment} for value, moment in sorted(moments.items())]
        connection.execute(change, rows)


def list_closed_or_unseen(
    connection: Connection, since: datetime, now: datetime
) -> tuple[Service, ...]:
    """Return compute services that are disabled, forced down or unseen.

    A service is unseen if it has no heartbeat since ``since``. A heartbeat after ``now`` comes from
    a clock that was ahead, and does not count.
    """
    last_seen = _COLUMNS.last_seen_up
    is_unseen = or_(last_seen.is_(None), last_seen < since, last_seen > now)
    is_barred = or_(_COLUMNS.disabled != 0, _COLUMNS.forced_down != 0)
    query = _SERVICES.where(_COLUMNS.binary == COMPUTE_BINARY, or_(is_barred, is_unseen))
    return tuple(map(_build_service, connection.execute(query).all()))


def record_seen(connection: Connection, moments: Mapping[str, datetime], now: datetime) -> None:
    """Record when the compute services of hosts were last seen up.

    ``moments`` maps hosts to times. A time before the recorded time is ignored, unless the recorded
    time is after ``now`` (a clock was ahead). Executes a statement for each distinct time, and each
    30 000 hosts, the earliest time first.
    """
    statement = update(services).where(_COLUMNS.binary == COMPUTE_BINARY)
    raise_last_seen(connection, statement.values(updated_at=now), moments, now)


def raise_last_seen(
    connection: Connection, change: sa.Update, moments: Mapping[str, datetime], now: datetime
) -> None:
    """Update ``last_seen_up`` of hosts with the rules of :func:`record_seen`.

    ``change`` is an UPDATE of a table with the columns ``host`` and ``last_seen_up``.
    """
    columns = change.table.c
    last_seen = columns.last_seen_up
    for moment, hosts in sorted(group_rows((at, host) for host, at in moments.items()).items()):
        is_wrong = or_(
            last_seen.is_(None), last_seen < moment, and_(last_seen > now, last_seen != moment)
        )
        statement = change.where(is_wrong).values(last_seen_up=moment)
        sql.change_in_batches(connection, statement, columns.host, sorted(hosts))
    change_counters.bump_hosts(connection, moments)


def set_disabled(
    connection: Connection, ids: Collection[int], *, disabled: bool, reason: str | None
) -> None:
    """Disable services with a reason, or enable them and delete the reason."""
    statement, key, sorted_ids = update(services), _COLUMNS.id, sorted(ids)
    flag_change = statement.where(_COLUMNS.disabled != int(disabled)).values(disabled=int(disabled))
    changed = sql.change_in_batches(connection, flag_change, key, sorted_ids)
    reason = reason if disabled else None
    sql.change_in_batches(connection, statement.values(disabled_reason=reason), key, sorted_ids)
    _bump_hosts(connection, sorted_ids)
    if changed:
        bump_enabled_nodes(connection)


def set_forced_down(connection: Connection, ids: Collection[int], *, forced_down: bool) -> None:
    """Set whether services are forced down, regardless of their heartbeats."""
    statement = update(services).values(forced_down=int(forced_down))
    sql.change_in_batches(connection, statement, _COLUMNS.id, sorted(ids))
    _bump_hosts(connection, ids)


def put(connection: Connection, new: Collection[Service], now: datetime) -> None:
    """Create or replace services, by host and binary, whatever their ``id``.

    A service without ``created_at`` is created now. Raises :class:`Duplicate` if a uuid belongs to
    another service.
    """
    if not new:
        return
    rows = [
        {
            **{name: getattr(service, name) for name in ("host", "binary", *_CHANGING)},
            **{name: int(getattr(service, name)) for name in ("disabled", "forced_down")},
            "created_at": service.created_at or now,
            "updated_at": now,
        }
        for service in new
    ]
    with sql.translate_rejection(Duplicate("the uuid belongs to another service")):
        sql.insert_or_update(connection, services, rows, key=("host", "binary"), changing=_CHANGING)
    # MariaDB overwrites the row of any unique key that conflicts, also of another service's uuid.
    query = select(_COLUMNS.uuid, _COLUMNS.host, _COLUMNS.binary)
    stored = sql.select_in_batches(connection, query, _COLUMNS.uuid, [each.uuid for each in new])
    owners = {uuid: (host, binary) for uuid, host, binary in stored}
    for service in new:
        host, binary = owners.get(service.uuid, (service.host, service.binary))
        if (host, binary) != (service.host, service.binary):
            raise Duplicate(
                f"{service.binary} of {service.host}: uuid {service.uuid} already belongs to "
                f"{binary} of {host}"
            )
    change_counters.bump_hosts(connection, (service.host for service in new))
    bump_enabled_nodes(connection)


def remove(connection: Connection, ids: Collection[int]) -> None:
    """Delete services."""
    _bump_hosts(connection, ids)
    if sql.change_in_batches(connection, delete(services), _COLUMNS.id, sorted(ids)):
        bump_enabled_nodes(connection)


def _build_service(row: Row[*tuple[Any, ...]]) -> Service:
    number, uuid, host, binary, disabled, reason, forced_down, *columns = row
    return Service(number, uuid, host, binary, bool(disabled), reason, bool(forced_down), *columns)


def _bump_hosts(connection: Connection, ids: Collection[int]) -> None:
    query = select(_COLUMNS.host)
    change_counters.bump_hosts(
        connection, sql.select_scalars_in_batches(connection, query, _COLUMNS.id, sorted(ids))
    )


# The tables of nodes and services determine the compute nodes with an enabled service. Only
# placement_sched writes these tables, and their store modules record each such change with
# bump_enabled_nodes. Heartbeats, and reports without a change of the set, are not recorded: the
# reports of 10 000 hosts per minute must not wait for the row of a single change counter.


def bump_enabled_nodes(connection: Connection) -> None:
    """Record a change of the set of enabled nodes in its transaction."""
    change_counters.bump(connection, ENABLED_NODES)


def select_enabled_nodes() -> Select[int]:
    """Build the query of a row per compute node with an enabled service."""
    is_compute = and_(services.c.host == compute_nodes.c.host, services.c.binary == COMPUTE_BINARY)
    query = select(sa.literal(1)).select_from(compute_nodes).join(services, is_compute)
    return query.where(services.c.disabled == 0)
