"""Host aggregates: the rows, their hosts and metadata, and the hosts' zones and providers."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Connection,
    Row,
    Select,
    delete,
    insert,
    literal,
    select,
    union,
    union_all,
    update,
)

from placement_sched.db.batches import batches
from placement_sched.db.tables import (
    compute_nodes,
    host_aggregate_hosts,
    host_aggregate_metadata,
    host_aggregates,
    instances,
    resource_providers,
    services,
)
from placement_sched.model.host_aggregate import (
    POLICY_KEY,
    ZONE_KEY,
    HostAggregate,
    Tag,
    policy_name,
)
from placement_sched.model.service import COMPUTE_BINARY

#: The change counter that rises with every change of an aggregate, its hosts or its metadata.
SUBJECT = "host_aggregates"

_AGGREGATES = host_aggregates.c
_HOSTS = host_aggregate_hosts.c
_METADATA = host_aggregate_metadata.c

_NAMED, _HOSTED, _TAGGED = range(3)

_TAGGED_HOSTS: Select[Any] = (
    select(_HOSTS.host, _AGGREGATES.id, _AGGREGATES.name, _METADATA.value)
    .join(host_aggregates, _AGGREGATES.id == _HOSTS.aggregate_id)
    .join(host_aggregate_metadata, _METADATA.aggregate_id == _AGGREGATES.id)
    .where(_METADATA.key == POLICY_KEY)
)


def all_aggregates(connection: Connection) -> tuple[HostAggregate, ...]:
    """Return every aggregate by id, with its times."""
    return _read(connection, None)


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
    query = union_all(
        select(
            _AGGREGATES.id,
            literal(_NAMED).label("kind"),
            _AGGREGATES.uuid.label("key"),
            _AGGREGATES.name.label("value"),
        ),
        select(_HOSTS.aggregate_id, literal(_HOSTED), _HOSTS.host, literal("")),
        select(_METADATA.aggregate_id, literal(_TAGGED), _METADATA.key, _METADATA.value),
    )
    found: dict[int, dict[int, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for number, kind, key, value in connection.execute(query):
        found[number][kind][key] = value
    return tuple(_of_parts(number, found[number]) for number in sorted(found))


def add(connection: Connection, uuid: str, name: str, now: datetime) -> int:
    """Create an empty aggregate and return its id; the caller knows that the name is free."""
    row = {"uuid": uuid, "name": name, "created_at": now}
    connection.execute(insert(host_aggregates), row)
    return int(connection.scalars(select(_AGGREGATES.id).where(_AGGREGATES.uuid == uuid)).one())


def rename(connection: Connection, aggregate_id: int, name: str) -> None:
    """Give an aggregate another name; the caller knows that it is free."""
    connection.execute(
        update(host_aggregates).where(_AGGREGATES.id == aggregate_id).values(name=name)
    )


def touch(connection: Connection, aggregate_id: int, now: datetime) -> None:
    """Note that an aggregate's name or metadata changed now."""
    connection.execute(
        update(host_aggregates).where(_AGGREGATES.id == aggregate_id).values(updated_at=now)
    )


def change_metadata(
    connection: Connection,
    aggregate_id: int,
    changes: Mapping[str, str | None],
    now: datetime,
) -> None:
    """Set metadata keys, and remove those whose value is None; other keys stay."""
    if not changes:
        return
    connection.execute(
        delete(host_aggregate_metadata).where(
            _METADATA.aggregate_id == aggregate_id, _METADATA.key.in_(changes)
        )
    )
    rows = [
        {"aggregate_id": aggregate_id, "key": key, "value": value, "created_at": now}
        for key, value in changes.items()
        if value is not None
    ]
    if rows:
        connection.execute(insert(host_aggregate_metadata), rows)


def add_hosts(
    connection: Connection, aggregate_id: int, hosts: Iterable[str], now: datetime
) -> None:
    """Put hosts into an aggregate; the caller knows that none of them is in it."""
    rows = [
        {"aggregate_id": aggregate_id, "host": host, "created_at": now} for host in sorted(hosts)
    ]
    if rows:
        connection.execute(insert(host_aggregate_hosts), rows)


def remove_host(connection: Connection, aggregate_id: int, host: str) -> None:
    """Take a host out of an aggregate."""
    connection.execute(
        delete(host_aggregate_hosts).where(_HOSTS.aggregate_id == aggregate_id, _HOSTS.host == host)
    )


def remove_host_everywhere(connection: Connection, host: str) -> int:
    """Take a host out of every aggregate; return of how many."""
    return connection.execute(delete(host_aggregate_hosts).where(_HOSTS.host == host)).rowcount


def remove(connection: Connection, aggregate_id: int) -> None:
    """Delete an aggregate that has no hosts, with its metadata."""
    connection.execute(
        delete(host_aggregate_metadata).where(_METADATA.aggregate_id == aggregate_id)
    )
    connection.execute(delete(host_aggregates).where(_AGGREGATES.id == aggregate_id))


def known_hosts(connection: Connection, hosts: Iterable[str]) -> frozenset[str]:
    """Return those of the hosts that have a compute node or a nova-compute service."""
    return frozenset(
        host
        for batch in batches(hosts, 10_000)
        for host in connection.scalars(
            union(
                select(compute_nodes.c.host).where(compute_nodes.c.host.in_(batch)),
                select(services.c.host).where(
                    services.c.host.in_(batch), services.c.binary == COMPUTE_BINARY
                ),
            )
        )
    )


def zones_of_hosts(connection: Connection, hosts: Iterable[str]) -> dict[str, dict[int, str]]:
    """Return the zones that aggregates give to hosts: by host, then by aggregate id."""
    zones: dict[str, dict[int, str]] = defaultdict(dict)
    for batch in batches(hosts):
        query = (
            select(_HOSTS.host, _HOSTS.aggregate_id, _METADATA.value)
            .join(host_aggregate_metadata, _METADATA.aggregate_id == _HOSTS.aggregate_id)
            .where(_METADATA.key == ZONE_KEY, _HOSTS.host.in_(batch))
        )
        for host, aggregate_id, zone in connection.execute(query):
            zones[host][aggregate_id] = zone
    return dict(zones)


def tags_of_hosts(connection: Connection, hosts: Iterable[str]) -> dict[str, tuple[Tag, ...]]:
    """Return by host, where it is in any, what names a policy of it, by aggregate id."""
    found: dict[str, list[Tag]] = defaultdict(list)
    for batch in batches(hosts):
        query = _TAGGED_HOSTS.where(_HOSTS.host.in_(batch)).order_by(_AGGREGATES.id)
        for host, number, name, value in connection.execute(query):
            if policy := policy_name(value):
                found[host].append(Tag(number, name, policy))
    return {host: tuple(tags) for host, tags in found.items()}


def tagged_hosts(connection: Connection) -> tuple[str, ...]:
    """Return the hosts of all aggregates that name a policy, by name."""
    query = (
        select(_HOSTS.host)
        .join(host_aggregate_metadata, _METADATA.aggregate_id == _HOSTS.aggregate_id)
        .where(_METADATA.key == POLICY_KEY)
        .distinct()
    )
    return tuple(sorted(connection.scalars(query)))


def hosts_with_instances(connection: Connection, hosts: Iterable[str]) -> frozenset[str]:
    """Return those of the hosts that have instances."""
    return frozenset(
        host
        for batch in batches(hosts)
        for host in connection.scalars(
            select(instances.c.host).where(instances.c.host.in_(batch)).distinct()
        )
        if host is not None
    )


def provider_ids_of_hosts(connection: Connection, hosts: Iterable[str]) -> frozenset[int]:
    """Return the ids of the root providers of the hosts' compute nodes."""
    return frozenset(
        number
        for batch in batches(hosts)
        for number in connection.scalars(
            select(resource_providers.c.id)
            .join(compute_nodes, compute_nodes.c.uuid == resource_providers.c.uuid)
            .where(compute_nodes.c.host.in_(batch))
        )
    )


def aggregates_of_hosts(
    connection: Connection, hosts: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Return the uuids of the aggregates that each of these hosts is in, where it is in any."""
    found: dict[str, list[str]] = defaultdict(list)
    for batch in batches(hosts):
        query = (
            select(_HOSTS.host, _AGGREGATES.uuid)
            .join(host_aggregates, _AGGREGATES.id == _HOSTS.aggregate_id)
            .where(_HOSTS.host.in_(batch))
            .order_by(_AGGREGATES.id)
        )
        for host, uuid in connection.execute(query):
            found[host].append(uuid)
    return {host: tuple(uuids) for host, uuids in found.items()}


def _read(connection: Connection, aggregate_id: int | None) -> tuple[HostAggregate, ...]:
    """Return one aggregate, or all of them, by id."""

    def narrowed(query: Select[Any], column: Any) -> Select[Any]:
        return query if aggregate_id is None else query.where(column == aggregate_id)

    rows = connection.execute(
        narrowed(select(host_aggregates), _AGGREGATES.id).order_by(_AGGREGATES.id)
    ).all()
    hosts: dict[int, set[str]] = defaultdict(set)
    pairs = select(_HOSTS.aggregate_id, _HOSTS.host)
    for number, host in connection.execute(narrowed(pairs, _HOSTS.aggregate_id)):
        hosts[number].add(host)
    tags: dict[int, dict[str, str]] = defaultdict(dict)
    triples = select(_METADATA.aggregate_id, _METADATA.key, _METADATA.value)
    for number, key, value in connection.execute(
        narrowed(triples, _METADATA.aggregate_id).order_by(_METADATA.key)
    ):
        tags[number][key] = value
    return tuple(_of_row(row, hosts[row.id], tags[row.id]) for row in rows)


def _of_row(row: Row[Any], hosts: Iterable[str], metadata: Mapping[str, str]) -> HostAggregate:
    return HostAggregate(
        id=row.id,
        uuid=row.uuid,
        name=row.name,
        hosts=frozenset(hosts),
        metadata=metadata,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _of_parts(number: int, parts: Mapping[int, Mapping[str, str]]) -> HostAggregate:
    ((uuid, name),) = parts[_NAMED].items()
    return HostAggregate(
        id=number,
        uuid=uuid,
        name=name,
        hosts=frozenset(parts.get(_HOSTED, ())),
        metadata=dict(sorted(parts.get(_TAGGED, {}).items())),
    )
