"""Host aggregates: the rows, their hosts and metadata, and the hosts' zones and providers."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection, Select, delete, func, insert, literal, select, update

from placement_sched.db import sql
from placement_sched.db.collations import is_same_uuid
from placement_sched.db.tables import (
    compute_nodes,
    host_aggregate_hosts,
    host_aggregate_metadata,
    host_aggregates,
    instances,
    resource_providers,
    services,
)
from placement_sched.model.aggregates import POLICY_KEY, ZONE_KEY, HostAggregate, Tag, policy_name
from placement_sched.model.compute_node import COMPUTE_BINARY
from placement_sched.model.provider_sync import HostMap
from placement_sched.store import change_counters

#: The change counter that rises with every change of an aggregate, its hosts or its metadata.
SUBJECT = "host_aggregates"

_AGGREGATES = host_aggregates.c
_HOSTS = host_aggregate_hosts.c
_METADATA = host_aggregate_metadata.c

_ATTRIBUTES = ("uuid", "name", "created_at", "updated_at")

_TAGGED_HOSTS: Select[Any] = (
    select(_HOSTS.host, _AGGREGATES.id, _AGGREGATES.name, _METADATA.value)
    .join(host_aggregates, _AGGREGATES.id == _HOSTS.aggregate_id)
    .join(host_aggregate_metadata, _METADATA.aggregate_id == _AGGREGATES.id)
    .where(_METADATA.key == POLICY_KEY)
    .order_by(_AGGREGATES.id)
)


def all_aggregates(connection: Connection) -> tuple[HostAggregate, ...]:
    """Return every aggregate by id, with its times."""
    return _read(connection)


def by_id(connection: Connection, aggregate_id: int) -> HostAggregate | None:
    """Return the aggregate of this id, or None."""
    return next(iter(_read(connection, aggregate_id)), None)


def id_of_name(connection: Connection, name: str) -> int | None:
    """Return the id of the aggregate of this name, or None."""
    return connection.scalar(select(_AGGREGATES.id).where(_AGGREGATES.name == name))


def snapshot(connection: Connection) -> tuple[HostAggregate, ...]:
    """Return every aggregate by id, without its times, as they stood at one moment.

    One statement, because a reader that commits each statement would else see the aggregates of
    one moment with the hosts of another.
    """
    query = sa.union_all(
        select(_AGGREGATES.id, literal("name"), _AGGREGATES.uuid, _AGGREGATES.name),
        select(_HOSTS.aggregate_id, literal("host"), _HOSTS.host, literal("")),
        select(_METADATA.aggregate_id, literal("tag"), _METADATA.key, _METADATA.value),
    )
    found: dict[int, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for number, kind, key, value in connection.execute(query):
        found[number][kind][key] = value
    return tuple(
        HostAggregate(
            id=number,
            uuid=uuid,
            name=name,
            hosts=frozenset(found[number]["host"]),
            metadata=dict(sorted(found[number]["tag"].items())),
        )
        for number in sorted(found)
        for uuid, name in found[number]["name"].items()
    )


def add(connection: Connection, uuid: str, name: str, now: datetime) -> int:
    """Create an empty aggregate and return its id; the caller knows that the name is free."""
    row = {"uuid": uuid, "name": name, "created_at": now}
    connection.execute(insert(host_aggregates), row)
    return int(connection.scalars(select(_AGGREGATES.id).where(_AGGREGATES.uuid == uuid)).one())


def change(connection: Connection, aggregate_id: int, **values: str | datetime) -> None:
    """Set columns of an aggregate; the caller knows that a new name is free."""
    row = update(host_aggregates).where(_AGGREGATES.id == aggregate_id)
    connection.execute(row.values(values))


def change_metadata(
    connection: Connection, aggregate_id: int, changes: Mapping[str, str | None], now: datetime
) -> None:
    """Set metadata keys, and remove those whose value is None; other keys stay."""
    if not changes:
        return
    old = delete(host_aggregate_metadata).where(_METADATA.aggregate_id == aggregate_id)
    connection.execute(old.where(_METADATA.key.in_(changes)))
    rows = [
        {"aggregate_id": aggregate_id, "key": key, "value": value, "created_at": now}
        for key, value in changes.items()
        if value is not None
    ]
    sql.insert_rows(connection, host_aggregate_metadata, rows)


def add_hosts(
    connection: Connection, aggregate_id: int, hosts: Iterable[str], now: datetime
) -> None:
    """Put hosts into an aggregate; the caller knows that none of them is in it."""
    row = {"aggregate_id": aggregate_id, "created_at": now}
    rows = [{**row, "host": host} for host in sorted(hosts)]
    sql.insert_rows(connection, host_aggregate_hosts, rows)


def remove_host(connection: Connection, aggregate_id: int, host: str) -> None:
    """Take a host out of an aggregate."""
    gone = delete(host_aggregate_hosts).filter_by(aggregate_id=aggregate_id, host=host)
    connection.execute(gone)


def remove_host_everywhere(connection: Connection, host: str) -> int:
    """Take a host out of every aggregate; return of how many."""
    return connection.execute(delete(host_aggregate_hosts).where(_HOSTS.host == host)).rowcount


def remove(connection: Connection, aggregate_id: int) -> None:
    """Delete an aggregate that has no hosts, with its metadata."""
    tags = delete(host_aggregate_metadata).where(_METADATA.aggregate_id == aggregate_id)
    connection.execute(tags)
    connection.execute(delete(host_aggregates).where(_AGGREGATES.id == aggregate_id))


def note_change(connection: Connection) -> None:
    """Note that aggregates change in this transaction; no other changes any until it ends."""
    change_counters.bump(connection, SUBJECT)


def replace(
    connection: Connection,
    here: Mapping[int, HostAggregate],
    wanted: Collection[HostAggregate],
    gone: Collection[int],
    now: datetime,
) -> None:
    """Make aggregates what these are, number, uuid and name included, and delete others.

    ``here`` has all that are recorded. One that has the name or the uuid of a wanted one is deleted
    as well.
    """
    numbers = {one.id for one in wanted}
    names, uuids = {one.name for one in wanted}, {one.uuid for one in wanted}
    taken = {
        one.id
        for one in here.values()
        if one.id not in numbers and (one.name in names or one.uuid in uuids)
    }
    # What is named otherwise is made again: two may have swapped their names.
    again = {
        one.id
        for one in wanted
        if one.id in here and (one.name, one.uuid) != (here[one.id].name, here[one.id].uuid)
    }
    old = sorted({*gone, *taken, *again})
    for table, key in (
        (host_aggregate_hosts, _HOSTS.aggregate_id),
        (host_aggregate_metadata, _METADATA.aggregate_id),
        (host_aggregates, _AGGREGATES.id),
    ):
        sql.change_among(connection, delete(table), key, old)
    made = [one for one in wanted if one.id in again or one.id not in here]
    rows = [
        {
            "id": one.id,
            "uuid": one.uuid,
            "name": one.name,
            "created_at": one.created_at or now,
            "updated_at": one.updated_at,
        }
        for one in made
    ]
    sql.insert_rows(connection, host_aggregates, rows)
    if made and connection.dialect.name == "postgresql":
        # A number that is given does not move the sequence that gives numbers.
        connection.execute(_NEXT_NUMBER)
    for one in wanted:
        before = None if one.id in again else here.get(one.id)
        _change_members(connection, before, one, now)


_NEXT_NUMBER = select(
    func.setval(
        func.pg_get_serial_sequence(host_aggregates.name, "id"),
        select(func.max(_AGGREGATES.id)).scalar_subquery(),
    )
)


def _change_members(
    connection: Connection, before: HostAggregate | None, one: HostAggregate, now: datetime
) -> None:
    """Give an aggregate its hosts and metadata, where it had others."""
    hosts, tags = (before.hosts, before.metadata) if before else (frozenset(), {})
    if left := sorted(hosts - one.hosts):
        theirs = delete(host_aggregate_hosts).where(_HOSTS.aggregate_id == one.id)
        sql.change_among(connection, theirs, _HOSTS.host, left)
    add_hosts(connection, one.id, one.hosts - hosts, now)
    changes: dict[str, str | None] = dict.fromkeys(tags.keys() - one.metadata.keys())
    changes |= {key: value for key, value in one.metadata.items() if tags.get(key) != value}
    change_metadata(connection, one.id, changes, now)
    if before is not None and one.updated_at is not None:
        change(connection, one.id, updated_at=one.updated_at)


def known_hosts(connection: Connection, hosts: Iterable[str]) -> frozenset[str]:
    """Return those of the hosts that have a compute node or a nova-compute service."""
    serving = select(services.c.host).where(services.c.binary == COMPUTE_BINARY)
    return frozenset(
        host
        for batch in sql.batches(hosts, 10_000)
        for host in connection.scalars(
            sa.union(
                select(compute_nodes.c.host).where(compute_nodes.c.host.in_(batch)),
                serving.where(services.c.host.in_(batch)),
            )
        )
    )


def zones_of_hosts(connection: Connection, hosts: Iterable[str]) -> dict[str, dict[int, str]]:
    """Return the zones that aggregates give to hosts: by host, then by aggregate id."""
    query = (
        select(_HOSTS.host, _HOSTS.aggregate_id, _METADATA.value)
        .join(host_aggregate_metadata, _METADATA.aggregate_id == _HOSTS.aggregate_id)
        .where(_METADATA.key == ZONE_KEY)
    )
    return dict(sql.nested(sql.rows_among(connection, query, _HOSTS.host, hosts)))


def tags_of_hosts(connection: Connection, hosts: Iterable[str]) -> dict[str, tuple[Tag, ...]]:
    """Return by host, where it is in any, what names a policy of it, by aggregate id."""
    found = sql.grouped(
        (host, Tag(number, name, policy))
        for host, number, name, value in sql.rows_among(
            connection, _TAGGED_HOSTS, _HOSTS.host, hosts
        )
        if (policy := policy_name(value))
    )
    return {host: tuple(tags) for host, tags in found.items()}


def tagged_hosts(connection: Connection) -> tuple[str, ...]:
    """Return the hosts of all aggregates that name a policy, by name."""
    return tuple(sorted(set(connection.scalars(_TAGGED_HOSTS))))


def hosts_with_instances(connection: Connection, hosts: Iterable[str]) -> frozenset[str]:
    """Return those of the hosts that have instances."""
    query = select(instances.c.host).distinct()
    return frozenset(row.host for row in sql.rows_among(connection, query, instances.c.host, hosts))


def nodes_with_instances(connection: Connection, uuids: Iterable[str]) -> frozenset[str]:
    """Return the uuids of those of the compute nodes whose hosts have instances."""
    query = select(compute_nodes.c.uuid).distinct()
    query = query.join(instances, instances.c.host == compute_nodes.c.host)
    return frozenset(
        row.uuid for row in sql.rows_among(connection, query, compute_nodes.c.uuid, uuids)
    )


def provider_ids_of_hosts(connection: Connection, hosts: Iterable[str]) -> frozenset[int]:
    """Return the ids of the root providers of the hosts' compute nodes."""
    query = select(resource_providers.c.id).join(
        compute_nodes, is_same_uuid(resource_providers.c.uuid, compute_nodes.c.uuid)
    )
    return frozenset(
        row.id for row in sql.rows_among(connection, query, compute_nodes.c.host, hosts)
    )


def aggregates_of_hosts(
    connection: Connection, hosts: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Return the uuids of the aggregates that each of these hosts is in, where it is in any."""
    query = select(_HOSTS.host, _AGGREGATES.uuid).order_by(_AGGREGATES.id)
    query = query.join(host_aggregates, _AGGREGATES.id == _HOSTS.aggregate_id)
    found = sql.grouped(sql.rows_among(connection, query, _HOSTS.host, hosts))
    return {host: tuple(uuids) for host, uuids in found.items()}


def _read(connection: Connection, aggregate_id: int | None = None) -> tuple[HostAggregate, ...]:
    def rows(number: Column[int], *columns: Column[Any]) -> sa.Result[Any]:
        query = select(number, *columns).order_by(number)
        return connection.execute(
            query if aggregate_id is None else query.where(number == aggregate_id)
        )

    found = rows(_AGGREGATES.id, *(_AGGREGATES[name] for name in _ATTRIBUTES)).all()
    hosts = sql.grouped(rows(_HOSTS.aggregate_id, _HOSTS.host))
    tags = sql.nested(rows(_METADATA.aggregate_id, _METADATA.key, _METADATA.value))
    return tuple(
        HostAggregate(
            **row._asdict(),
            hosts=frozenset(hosts.get(row.id, ())),
            metadata=dict(sorted(tags.get(row.id, {}).items())),
        )
        for row in found
    )


def host_map(connection: Connection) -> HostMap:
    """Return all host aggregates, hosts and compute nodes, in three statements."""
    aggregates = snapshot(connection)
    nodes = sql.grouped(connection.execute(select(compute_nodes.c.host, compute_nodes.c.uuid)))
    serving = connection.scalars(select(services.c.host).where(services.c.binary == COMPUTE_BINARY))
    return HostMap(
        aggregates=aggregates,
        known=frozenset(serving) | nodes.keys(),
        nodes={host: frozenset(uuids) for host, uuids in nodes.items()},
    )
