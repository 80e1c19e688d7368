"""Services of hosts: their heartbeats, and whether operators want instances on them."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, Row, bindparam, delete, select, update
from sqlalchemy.exc import IntegrityError

from placement_sched.db.among import among
from placement_sched.db.batches import batches
from placement_sched.db.insert import insert_missing, insert_or_update
from placement_sched.db.tables import services
from placement_sched.errors import Duplicate, NotFound
from placement_sched.model.service import COMPUTE_BINARY, Service
from placement_sched.store import enabled_nodes

_COLUMNS = services.c
#: What services are read by, with their columns in the order of :class:`Service`.
_SERVICES = select(*(_COLUMNS[name] for name in Service._fields))


def by_hosts(
    connection: Connection,
    hosts: Collection[str],
    *,
    binary: str = COMPUTE_BINARY,
    lock: bool = False,
) -> dict[str, Service]:
    """Return the service of this binary of those of the hosts that have it, by host.

    With ``lock`` their rows are locked in order of id, so that nobody disables or enables one of
    them before the transaction ends.
    """
    query = _SERVICES.where(_COLUMNS.binary == binary).order_by(_COLUMNS.id)
    if lock:
        query = query.with_for_update()
    found = [
        _service(row)
        for batch in batches(hosts)
        for row in connection.execute(query.where(among(connection, _COLUMNS.host, batch))).all()
    ]
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
    query = _SERVICES.order_by(_COLUMNS.id)
    if host is not None:
        query = query.where(_COLUMNS.host == host)
    if binary is not None:
        query = query.where(_COLUMNS.binary == binary)
    return tuple(_service(row) for row in connection.execute(query))


def beat(
    connection: Connection, heartbeats: Mapping[str, datetime], now: datetime
) -> dict[str, Service]:
    """Note when hosts were last seen up; return their compute services as they were before, locked.

    A host without a compute service gets one, enabled. The number of statements does not depend
    on how many hosts there are.
    """
    found = by_hosts(connection, heartbeats, lock=True)
    if missing := sorted(heartbeats.keys() - found.keys()):
        rows = [_new(host, heartbeats[host], now) for host in missing]
        insert_missing(connection, services, rows)
        enabled_nodes.note_change(connection)
        found |= by_hosts(connection, missing, lock=True)
    _move(
        connection,
        {
            service.id: heartbeats[host]
            for host, service in found.items()
            if service.last_seen_up != heartbeats[host]
        },
        now,
    )
    return found


def _new(host: str, last_seen_up: datetime, now: datetime) -> dict[str, Any]:
    return {
        "uuid": str(uuid4()),
        "host": host,
        "binary": COMPUTE_BINARY,
        "disabled": 0,
        "forced_down": 0,
        "last_seen_up": last_seen_up,
        "created_at": now,
        "updated_at": now,
    }


def _move(connection: Connection, heartbeats: Mapping[int, datetime], now: datetime) -> None:
    if not heartbeats:
        return
    moments = set(heartbeats.values())
    if len(moments) == 1:
        # The common case, and cheaper where a driver sends a list of rows one by one.
        for batch in batches(sorted(heartbeats)):
            connection.execute(
                update(services)
                .where(_COLUMNS.id.in_(batch))
                .values(last_seen_up=min(moments), updated_at=now)
            )
        return
    connection.execute(
        update(services).where(_COLUMNS.id == bindparam("b_id")),
        [
            {"b_id": number, "last_seen_up": moment, "updated_at": now}
            for number, moment in sorted(heartbeats.items())
        ],
    )


def set_disabled(
    connection: Connection, ids: Collection[int], *, disabled: bool, reason: str | None
) -> None:
    """Disable services with a reason, or enable them, which forgets it."""
    changed = 0
    for batch in batches(sorted(ids)):
        rows = update(services).where(_COLUMNS.id.in_(batch))
        others = rows.where(_COLUMNS.disabled != int(disabled))
        changed += connection.execute(others.values(disabled=int(disabled))).rowcount
        connection.execute(rows.values(disabled_reason=reason if disabled else None))
    if changed:
        enabled_nodes.note_change(connection)


def set_forced_down(connection: Connection, ids: Collection[int], *, forced_down: bool) -> None:
    """Make services count as down whatever their heartbeat says, or no longer."""
    for batch in batches(sorted(ids)):
        connection.execute(
            update(services).where(_COLUMNS.id.in_(batch)).values(forced_down=int(forced_down))
        )


def put(connection: Connection, rows: Collection[Mapping[str, Any]], now: datetime) -> None:
    """Make services what these rows say, each by its host and binary, made where it is missing.

    A row has ``uuid``, ``disabled``, ``disabled_reason``, ``forced_down`` and ``last_seen_up``
    beside these two. Raises :class:`Duplicate` where a uuid is another service's.
    """
    if not rows:
        return
    changing = ("uuid", "disabled", "disabled_reason", "forced_down", "last_seen_up", "updated_at")
    try:
        insert_or_update(
            connection,
            services,
            [{**row, "created_at": now, "updated_at": now} for row in rows],
            key=("host", "binary"),
            changing=changing,
        )
    except IntegrityError:
        raise Duplicate("a service's uuid is another's already") from None
    _refuse_strangers(connection, rows)
    enabled_nodes.note_change(connection)


def _refuse_strangers(connection: Connection, rows: Collection[Mapping[str, Any]]) -> None:
    """Raise :class:`Duplicate` where a row was written over another service, of the same uuid.

    MariaDB does that, as it updates by whichever unique key is taken.
    """
    columns = (_COLUMNS.uuid, _COLUMNS.host, _COLUMNS.binary)
    owners = {
        uuid: (host, binary)
        for batch in batches([row["uuid"] for row in rows])
        for uuid, host, binary in connection.execute(
            select(*columns).where(_COLUMNS.uuid.in_(batch))
        )
    }
    for row in rows:
        host, binary = owner = owners.get(row["uuid"], (row["host"], row["binary"]))
        if owner != (row["host"], row["binary"]):
            raise Duplicate(
                f"{row['uuid']}, given for {row['binary']} of {row['host']}, is the uuid of "
                f"{binary} of {host} already"
            )


def remove(connection: Connection, ids: Collection[int]) -> None:
    """Delete services."""
    for batch in batches(sorted(ids)):
        connection.execute(delete(services).where(_COLUMNS.id.in_(batch)))
    if ids:
        enabled_nodes.note_change(connection)


def _service(row: Row[*tuple[Any, ...]]) -> Service:
    number, uuid, host, binary, disabled, reason, forced_down, seen, updated = row
    return Service(
        number, uuid, host, binary, bool(disabled), reason, bool(forced_down), seen, updated
    )
