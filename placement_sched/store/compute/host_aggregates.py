# SPDX-License-Identifier: Apache-2.0
"""Host aggregates with hosts and metadata, and zones and tags of hosts."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Select,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)

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
from placement_sched.model.aggregates import (
    POLICY_KEY,
    ZONE_KEY,
    HostAggregate,
    HostMap,
    PolicyTag,
    parse_policy_name,
)
from placement_sched.model.compute_node import COMPUTE_BINARY
from placement_sched.model.grouping import group_rows, nest_rows, split_batches

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
_ADVANCE_SEQUENCE = select(
    func.setval(
        func.pg_get_serial_sequence(host_aggregates.name, "id"),
        select(func.max(_AGGREGATES.id)).scalar_subquery(),
    )
)


def find_by_id(connection: Connection, aggregate_id: int) -> HostAggregate | None:
    """Return an aggregate, or None."""
    return next(iter(read_snapshot(connection, aggregate_id)), None)


def find_id(connection: Connection, name: str) -> int | None:
    """Return the id of the aggregate with this name, or None."""
    return connection.scalar(select(_AGGREGATES.id).where(_AGGREGATES.name == name))


def read_snapshot(
    connection: Connection, aggregate_id: int | None = None
) -> tuple[HostAggregate, ...]:
    """Return all aggregates, or the aggregate with this id, sorted by id.

    A single statement reads aggregates, hosts and metadata. With several statements, a reader that
    commits each statement could combine their states of different moments.
    """

    def select_rows(aggregate: Column[int], kind: str, *columns: ColumnElement[Any]) -> Select[Any]:
        query = select(aggregate, literal(kind), *columns)
        return query if aggregate_id is None else query.where(aggregate == aggregate_id)

    no_times = (sa.null(), sa.null())
    query = sa.union_all(
        select_rows(_AGGREGATES.id, "name", *(_AGGREGATES[name] for name in _ATTRIBUTES)),
        select_rows(_HOSTS.aggregate_id, "host", _HOSTS.host, literal(""), *no_times),
        select_rows(_METADATA.aggregate_id, "tag", _METADATA.key, _METADATA.value, *no_times),
    )
    columns: dict[int, dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
    for key, kind, text, *values in connection.execute(query):
        columns[key][kind][text] = values
    return tuple(
        HostAggregate(
            **dict(zip(_ATTRIBUTES, (uuid, *values), strict=True)),
            id=key,
            hosts=frozenset(columns[key]["host"]),
            metadata={name: value for name, (value, *_) in sorted(columns[key]["tag"].items())},
        )
        for key in sorted(columns)
        for uuid, values in columns[key]["name"].items()
    )


def add(connection: Connection, uuid: str, name: str, now: datetime) -> int:
    """Create an empty aggregate with an unused name and return its id."""
    row = {"uuid": uuid, "name": name, "created_at": now}
    connection.execute(insert(host_aggregates), row)
    return int(connection.scalars(select(_AGGREGATES.id).where(_AGGREGATES.uuid == uuid)).one())


def change(connection: Connection, aggregate_id: int, **values: str | datetime) -> None:
    """Set columns of an aggregate, whose new name must be unused."""
    row = update(host_aggregates).where(_AGGREGATES.id == aggregate_id)
    connection.execute(row.values(values))


def change_metadata(
    connection: Connection, aggregate_id: int, changes: Mapping[str, str | None], now: datetime
) -> None:
    """Set metadata keys, remove keys whose value is None, and keep other keys."""
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
    """Add hosts to an aggregate that has none of them."""
    row = {"aggregate_id": aggregate_id, "created_at": now}
    rows = [{**row, "host": host} for host in sorted(hosts)]
    sql.insert_rows(connection, host_aggregate_hosts, rows)


def remove_host(connection: Connection, aggregate_id: int, host: str) -> None:
    """Remove a host from an aggregate."""
    statement = delete(host_aggregate_hosts).filter_by(aggregate_id=aggregate_id, host=host)
    connection.execute(statement)


def remove_host_everywhere(connection: Connection, host: str) -> int:
    """Remove a host from all aggregates and return the number of aggregates."""
    return connection.execute(delete(host_aggregate_hosts).where(_HOSTS.host == host)).rowcount


def remove(connection: Connection, aggregate_id: int) -> None:
    """Delete an aggregate without hosts, with its metadata."""
    metadata_rows = delete(host_aggregate_metadata).where(_METADATA.aggregate_id == aggregate_id)
    connection.execute(metadata_rows)
    connection.execute(delete(host_aggregates).where(_AGGREGATES.id == aggregate_id))


def replace(
    connection: Connection,
    recorded: Mapping[int, HostAggregate],
    aggregates: Collection[HostAggregate],
    removed_ids: Collection[int],
    now: datetime,
) -> None:
    """Create or replace the given aggregates, and delete ``removed_ids``.

    The aggregates get the ids, uuids and names in ``aggregates``. ``recorded`` contains all
    recorded aggregates by id. A recorded aggregate whose name or uuid is used by a new aggregate is
    deleted too.
    """
    ids = {entry.id for entry in aggregates}
    names, uuids = {entry.name for entry in aggregates}, {entry.uuid for entry in aggregates}
    conflicting = {
        entry.id
        for entry in recorded.values()
        if entry.id not in ids and (entry.name in names or entry.uuid in uuids)
    }
    # Renamed aggregates are deleted and created again, as two may have swapped their names.
    recreated = {
        entry.id
        for entry in aggregates
        if entry.id in recorded
        and (entry.name, entry.uuid) != (recorded[entry.id].name, recorded[entry.id].uuid)
    }
    deleted = sorted({*removed_ids, *conflicting, *recreated})
    for table, key in (
        (host_aggregate_hosts, _HOSTS.aggregate_id),
        (host_aggregate_metadata, _METADATA.aggregate_id),
        (host_aggregates, _AGGREGATES.id),
    ):
        sql.change_in_batches(connection, delete(table), key, deleted)
    created = [entry for entry in aggregates if entry.id in recreated or entry.id not in recorded]
    rows = [
        {
            "id": entry.id,
            "uuid": entry.uuid,
            "name": entry.name,
            "created_at": entry.created_at or now,
            "updated_at": entry.updated_at,
        }
        for entry in created
    ]
    sql.insert_rows(connection, host_aggregates, rows)
    if created and connection.dialect.name == "postgresql":
        # Inserting explicit ids does not advance the sequence.
        connection.execute(_ADVANCE_SEQUENCE)
    for entry in aggregates:
        old_aggregate = None if entry.id in recreated else recorded.get(entry.id)
        _change_members(connection, old_aggregate, entry, now)


def _change_members(
    connection: Connection, old: HostAggregate | None, new: HostAggregate, now: datetime
) -> None:
    hosts, metadata = (old.hosts, old.metadata) if old else (frozenset(), {})
    if removed := sorted(hosts - new.hosts):
        statement = delete(host_aggregate_hosts).where(_HOSTS.aggregate_id == new.id)
        sql.change_in_batches(connection, statement, _HOSTS.host, removed)
    add_hosts(connection, new.id, new.hosts - hosts, now)
    changes: dict[str, str | None] = dict.fromkeys(metadata.keys() - new.metadata.keys())
    changes |= {key: value for key, value in new.metadata.items() if metadata.get(key) != value}
    change_metadata(connection, new.id, changes, now)
    if old is not None and new.updated_at is not None:
        change(connection, new.id, updated_at=new.updated_at)


def find_compute_hosts(connection: Connection, hosts: Iterable[str]) -> frozenset[str]:
    """Return the hosts that have a compute node or a nova-compute service."""
    serving = select(services.c.host).where(services.c.binary == COMPUTE_BINARY)
    return frozenset(
        host
        for batch in split_batches(hosts, 10_000)
        for host in connection.scalars(
            sa.union(
                select(compute_nodes.c.host).where(compute_nodes.c.host.in_(batch)),
                serving.where(services.c.host.in_(batch)),
            )
        )
    )


def map_zones(connection: Connection, hosts: Iterable[str]) -> dict[str, dict[int, str]]:
    """Map each host to the zones of its aggregates, by aggregate id."""
    query = (
        select(_HOSTS.host, _HOSTS.aggregate_id, _METADATA.value)
        .join(host_aggregate_metadata, _METADATA.aggregate_id == _HOSTS.aggregate_id)
        .where(_METADATA.key == ZONE_KEY)
    )
    return dict(nest_rows(sql.select_in_batches(connection, query, _HOSTS.host, hosts)))


def map_tags(connection: Connection, hosts: Iterable[str]) -> dict[str, tuple[PolicyTag, ...]]:
    """Map hosts to policy tags of their aggregates, sorted by aggregate id."""
    tags_by_host = group_rows(
        (host, PolicyTag(aggregate_id, name, policy))
        for host, aggregate_id, name, value in sql.select_in_batches(
            connection, _TAGGED_HOSTS, _HOSTS.host, hosts
        )
        if (policy := parse_policy_name(value))
    )
    return {host: tuple(tags) for host, tags in tags_by_host.items()}


def list_tagged_hosts(connection: Connection) -> tuple[str, ...]:
    """Return the sorted hosts in aggregates that name a scheduling policy."""
    return tuple(sorted(set(connection.scalars(_TAGGED_HOSTS))))


def find_hosts_with_instances(connection: Connection, hosts: Iterable[str]) -> frozenset[str]:
    """Return the hosts that have instances."""
    query = select(instances.c.host).distinct()
    return frozenset(sql.select_scalars_in_batches(connection, query, instances.c.host, hosts))


def find_nodes_with_instances(connection: Connection, uuids: Iterable[str]) -> frozenset[str]:
    """Return the uuids of compute nodes whose hosts have instances."""
    query = select(compute_nodes.c.uuid).distinct()
    query = query.join(instances, instances.c.host == compute_nodes.c.host)
    return frozenset(sql.select_scalars_in_batches(connection, query, compute_nodes.c.uuid, uuids))


def find_provider_ids(connection: Connection, hosts: Iterable[str]) -> frozenset[int]:
    """Return the ids of the root providers of the hosts' compute nodes."""
    query = select(resource_providers.c.id).join(
        compute_nodes, is_same_uuid(resource_providers.c.uuid, compute_nodes.c.uuid)
    )
    return frozenset(sql.select_scalars_in_batches(connection, query, compute_nodes.c.host, hosts))


def map_aggregates(connection: Connection, hosts: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Map the hosts in aggregates to the uuids of their aggregates."""
    query = select(_HOSTS.host, _AGGREGATES.uuid).order_by(_AGGREGATES.id)
    query = query.join(host_aggregates, _AGGREGATES.id == _HOSTS.aggregate_id)
    uuids_by_host = group_rows(sql.select_in_batches(connection, query, _HOSTS.host, hosts))
    return {host: tuple(uuids) for host, uuids in uuids_by_host.items()}


def read_host_map(connection: Connection) -> HostMap:
    """Read all host aggregates, hosts and compute nodes, in three statements."""
    aggregates = read_snapshot(connection)
    nodes = group_rows(connection.execute(select(compute_nodes.c.host, compute_nodes.c.uuid)))
    serving = connection.scalars(select(services.c.host).where(services.c.binary == COMPUTE_BINARY))
    return HostMap(
        aggregates=aggregates,
        service_hosts=frozenset(serving) | nodes.keys(),
        nodes={host: frozenset(uuids) for host, uuids in nodes.items()},
    )
