"""The nova-compute services of a cell: which there are, which are barred, and their heartbeats."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, String, cast, func, literal, or_, select, union_all

from placement_sched.db import sql
from placement_sched.model.compute_node import COMPUTE_BINARY, Service
from placement_sched.nova.databases.tables import compute_nodes, services

_COLUMNS = services.c
_IS_COMPUTE = (_COLUMNS.deleted == 0, _COLUMNS.binary == COMPUTE_BINARY)
# A service that has not sent a heartbeat yet is as old as its record, for nova too.
_SEEN = func.coalesce(_COLUMNS.last_seen_up, _COLUMNS.created_at).label("seen")
#: What no name of a host has.
_BETWEEN_HOSTS = "\n"
_SERVICES: Select[Any] = select(
    *(_COLUMNS.id, _COLUMNS.uuid, _COLUMNS.host, _COLUMNS.disabled, _COLUMNS.disabled_reason),
    *(_COLUMNS.forced_down, _SEEN),
).where(*_IS_COMPUTE)


def all_services(connection: Connection) -> tuple[Service, ...]:
    """Return every service, by nova's number of it."""
    return _made(connection.execute(_SERVICES.order_by(_COLUMNS.id)).all())


def by_hosts(connection: Connection, hosts: Collection[str]) -> tuple[Service, ...]:
    """Return the services of those of the hosts that have one."""
    return _made(sql.rows_among(connection, _SERVICES, _COLUMNS.host, hosts))


def barred(connection: Connection) -> tuple[Service, ...]:
    """Return the services that are disabled or forced down."""
    out = or_(_COLUMNS.disabled.is_(True), _COLUMNS.forced_down.is_(True))
    return _made(connection.execute(_SERVICES.where(out)).all())


def heartbeats(connection: Connection, since: datetime) -> dict[str, datetime]:
    """Return when hosts were last seen up, of those that were seen since then.

    A row is a second with all hosts that were seen in it: of ten thousand hosts that send a
    heartbeat every ten seconds, ten rows rather than ten thousand.
    """
    second = func.substr(cast(_COLUMNS.last_seen_up, String), 1, 19)
    query = select(second, func.aggregate_strings(_COLUMNS.host, _BETWEEN_HOSTS))
    query = query.where(*_IS_COMPUTE, _COLUMNS.last_seen_up >= since).group_by(second)
    rows = connection.execute(query.order_by(second)).all()
    found = [(datetime.fromisoformat(seen), hosts) for seen, hosts in rows]
    return {host: seen for seen, hosts in found for host in hosts.split(_BETWEEN_HOSTS)}


def heartbeats_of(connection: Connection, hosts: Collection[str]) -> dict[str, datetime]:
    """Return when these hosts were last seen up, of those that have a service."""
    query = select(_COLUMNS.host, _SEEN).where(*_IS_COMPUTE)
    found = sql.rows_among(connection, query, _COLUMNS.host, hosts)
    return {host: seen.replace(microsecond=0) for host, seen in found if seen is not None}


#: How many services and compute nodes live in a cell, and the newest number of each: it moves
#: whenever one comes or goes.
CellCensus = tuple[int, int, int, int]


def census(connection: Connection) -> CellCensus:
    """Return how many services and nodes there are, in one statement."""
    nodes = compute_nodes.c
    theirs = select(literal(0), func.count(), func.coalesce(func.max(_COLUMNS.id), 0))
    living = select(literal(1), func.count(), func.coalesce(func.max(nodes.id), 0))
    query = union_all(theirs.where(*_IS_COMPUTE), living.where(nodes.deleted == 0))
    (_, services_here, service), (_, nodes_here, node) = sorted(
        map(tuple, connection.execute(query).all())
    )
    return services_here, service, nodes_here, node


def _made(rows: Iterable[Any]) -> tuple[Service, ...]:
    return tuple(
        Service(
            id=number,
            uuid=uuid,
            host=host,
            binary=COMPUTE_BINARY,
            disabled=bool(disabled),
            disabled_reason=reason if disabled else None,
            forced_down=bool(forced_down),
            last_seen_up=None if seen is None else seen.replace(microsecond=0),
        )
        for number, uuid, host, disabled, reason, forced_down, seen in rows
    )
