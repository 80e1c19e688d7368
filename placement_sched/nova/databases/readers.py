# SPDX-License-Identifier: Apache-2.0
"""Queries of nova's aggregates, server groups, hosts and instances."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, Row, Select, Table, and_, func, literal, or_, select, union_all

from placement_sched.db import sql
from placement_sched.model.aggregates import MAX_SERVER_PER_HOST, HostAggregate, ServerGroup
from placement_sched.model.compute_node import COMPUTE_BINARY, Service
from placement_sched.model.document import Json, to_storable
from placement_sched.model.grouping import group_rows, nest_rows, split_batches
from placement_sched.model.instance import CELL0, InstanceMetadata
from placement_sched.nova.databases.tables import (
    aggregate_hosts,
    aggregate_metadata,
    aggregates,
    cell_mappings,
    compute_nodes,
    instance_extra,
    instance_group_member,
    instance_group_policy,
    instance_groups,
    instance_mappings,
    instance_metadata,
    instance_system_metadata,
    instances,
    services,
)
from placement_sched.schemas.formats import DocumentError, prefix_errors
from placement_sched.store.compute.flavors import compute_digest
from placement_sched.store.compute.instances import serialize_metadata

_AGGREGATES = aggregates.c
#: The tables of host aggregates, and of server groups with their policies and rules.
AGGREGATE_TABLES = (aggregates, aggregate_hosts, aggregate_metadata)
GROUP_TABLES = (instance_groups, instance_group_policy)

#: For each of several tables: number of rows, highest id and latest ``updated_at``. It changes
#: whenever a row of the tables is added, deleted or updated.
TablesFingerprint = tuple[Any, ...]


def read_fingerprint(connection: Connection, tables: Collection[Table]) -> TablesFingerprint:
    """Return the fingerprint of tables."""
    queries = (
        select(literal(index), func.count(), func.max(table.c.id), func.max(table.c.updated_at))
        for index, table in enumerate(tables)
    )
    return tuple(sorted(map(tuple, connection.execute(union_all(*queries)).all())))


def list_host_aggregates(
    connection: Connection, ids: Collection[int] | None = None
) -> tuple[HostAggregate, ...]:
    """Return the existing aggregates among ``ids`` (None: all), sorted by id."""

    def select_rows(query: Select[Any], key: Any) -> list[Any]:
        query = query.order_by(key)
        if ids is None:
            return list(connection.execute(query).all())
        return list(sql.select_in_batches(connection, query, key, ids))

    names = ("id", "uuid", "name", "created_at", "updated_at")
    hosts, tags = aggregate_hosts.c, aggregate_metadata.c
    members = group_rows(select_rows(select(hosts.aggregate_id, hosts.host), hosts.aggregate_id))
    values = nest_rows(
        select_rows(select(tags.aggregate_id, tags.key, tags.value), tags.aggregate_id)
    )
    aggregate_rows = select_rows(select(*(_AGGREGATES[name] for name in names)), _AGGREGATES.id)
    return tuple(
        HostAggregate(
            id=row.id,
            uuid=row.uuid,
            name=row.name,
            hosts=frozenset(members.get(row.id, ())),
            metadata=dict(sorted(values.get(row.id, {}).items())),
            created_at=None if row.created_at is None else row.created_at.replace(microsecond=0),
            updated_at=None if row.updated_at is None else row.updated_at.replace(microsecond=0),
        )
        for row in aggregate_rows
    )


_GROUPS = instance_groups.c
_MEMBERS = instance_group_member.c
_POLICIES = instance_group_policy.c
_DIGITS = re.compile("[0-9]{1,9}")


def map_server_groups(connection: Connection) -> Mapping[str, ServerGroup | DocumentError]:
    """Map uuids to server groups, or to the errors of unreadable groups."""
    query = select(_POLICIES.group_id, _POLICIES.policy, _POLICIES.rules).order_by(_POLICIES.id)
    policies: dict[int, tuple[str, str | None]] = {}
    for group_id, policy, rules in connection.execute(query):
        # Nova uses the first of several policies.
        policies.setdefault(group_id, (policy, rules))
    columns = (_GROUPS.id, _GROUPS.uuid, _GROUPS.name, _GROUPS.project_id, _GROUPS.user_id)
    groups_by_uuid: dict[str, ServerGroup | DocumentError] = {}
    for row in connection.execute(select(*columns).order_by(_GROUPS.id)).all():
        try:
            groups_by_uuid[row.uuid] = _build_group(row, *policies.get(row.id, (None, None)))
        except DocumentError as error:
            groups_by_uuid[row.uuid] = error
    return groups_by_uuid


def count_api_rows(connection: Connection) -> tuple[int, int]:
    """Count the aggregates and the server groups of nova's API database."""
    tables = (aggregates, instance_groups)
    counts = (select(func.count()).select_from(table).scalar_subquery() for table in tables)
    aggregate_count, group_count = connection.execute(select(*counts)).one()
    return int(aggregate_count), int(group_count)


def find_newest_member(connection: Connection) -> int:
    """Return the highest id of a membership, or 0 if there are none."""
    newest = connection.scalar(select(_MEMBERS.id).order_by(_MEMBERS.id.desc()).limit(1))
    return int(newest or 0)


def list_members_since(connection: Connection, member_id: int) -> tuple[str, ...]:
    """Return the instances that joined a group after membership ``member_id``."""
    query = select(_MEMBERS.instance_uuid).where(_MEMBERS.id > member_id)
    return tuple(connection.scalars(query))


def map_groups_by_instance(connection: Connection, uuids: Collection[str]) -> dict[str, str]:
    """Map the uuids of instances in a group to the uuid of their group."""
    query = select(_MEMBERS.instance_uuid, _GROUPS.uuid).order_by(_MEMBERS.id)
    query = query.join(instance_groups, _GROUPS.id == _MEMBERS.group_id)
    return dict(map(tuple, sql.select_in_batches(connection, query, _MEMBERS.instance_uuid, uuids)))


def _build_group(row: Any, policy: str | None, rules: str | None) -> ServerGroup:
    if not policy:
        raise DocumentError("it has no policy")
    return ServerGroup(
        uuid=row.uuid,
        name=row.name or "",
        project_id=row.project_id,
        user_id=row.user_id,
        policy=policy,
        rules=_parse_rules(rules),
    )


def _parse_rules(text: str | None) -> dict[str, int]:
    """Parse ``max_server_per_host`` from the JSON rules of a server group."""
    if not text:
        return {}
    try:
        rules = orjson.loads(text)
    except ValueError:
        raise DocumentError("its rules are not JSON", "rules") from None
    max_per_host = rules.get(MAX_SERVER_PER_HOST) if isinstance(rules, dict) else None
    if max_per_host is None:
        return {}
    if not _DIGITS.fullmatch(str(max_per_host)):
        raise DocumentError(
            f"{max_per_host!r} is not a number of servers", "rules", MAX_SERVER_PER_HOST
        )
    return {MAX_SERVER_PER_HOST: int(max_per_host)}


_NODES = compute_nodes.c
_NODE_EXISTS = _NODES.deleted == 0
#: Columns that change when nova-compute writes a node. ``updated_at`` alone does not suffice: it
#: has whole seconds on MariaDB, and two claims may have the same second.
_NODE_CHANGING = (
    *(_NODES.updated_at, _NODES.vcpus_used, _NODES.memory_mb_used, _NODES.local_gb_used),
    *(_NODES.free_ram_mb, _NODES.free_disk_gb, _NODES.disk_available_least),
)
#: The columns that have the same name in a report.
_SAME_IN_REPORT = (
    *("uuid", "host", "hypervisor_hostname", "hypervisor_type", "hypervisor_version"),
    *("vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "local_gb", "local_gb_used"),
    *("free_ram_mb", "free_disk_gb", "disk_available_least", "cpu_info", "numa_topology"),
    *("metrics", "cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"),
)
_OTHER_IN_REPORT = ("host_ip", "stats", "supported_instances", "pci_stats")
_TIMES = ("updated_at", "created_at")
#: A row with all columns of a report.
NodeRow = Row[Any]
_WHOLE_NODES: Select[Any] = select(
    *(_NODES[name] for name in (*_SAME_IN_REPORT, *_OTHER_IN_REPORT, *_TIMES))
).where(_NODE_EXISTS)
#: The keys of the data and of the list of objects in a serialised nova object.
_DATA, _OBJECTS = "nova_object.data", "objects"
_SERVICES_COLUMNS = services.c
_IS_COMPUTE = (_SERVICES_COLUMNS.deleted == 0, _SERVICES_COLUMNS.binary == COMPUTE_BINARY)
# For nova too, a service without a heartbeat was last seen when its record was created.
_LAST_HEARTBEAT = func.coalesce(_SERVICES_COLUMNS.last_seen_up, _SERVICES_COLUMNS.created_at).label(
    "seen"
)
_SERVICE_FIELDS = (
    *("id", "uuid", "host", "disabled", "disabled_reason", "forced_down"),
    *("version", "created_at"),
)
_SERVICES: Select[Any] = (
    select(*(_SERVICES_COLUMNS[name] for name in _SERVICE_FIELDS), _LAST_HEARTBEAT)
    .where(*_IS_COMPUTE)
    .order_by(_SERVICES_COLUMNS.id)
)
#: Number and highest id of the services, then of the compute nodes, in a cell. It changes whenever
#: a row is added or deleted.
CellRowCounts = tuple[int, int, int, int]


def list_node_uuids(connection: Connection) -> frozenset[str]:
    """Return the uuids of all nodes."""
    query = select(_NODES.uuid).where(_NODE_EXISTS, _NODES.uuid.is_not(None))
    return frozenset(connection.scalars(query))


def list_nodes_without_uuid(connection: Connection) -> list[tuple[str | None, str | None]]:
    """Return host and name of the nodes that nova stored without a uuid."""
    query = select(_NODES.host, _NODES.hypervisor_hostname)
    return list(map(tuple, connection.execute(query.where(_NODE_EXISTS, _NODES.uuid.is_(None)))))


def map_changed_nodes(
    connection: Connection, *, since: datetime | None = None
) -> dict[str, tuple[Any, ...]]:
    """Map nodes written since a time (None: all) to their changing columns."""
    query = select(sql.build_json_row(connection, (_NODES.uuid, *_NODE_CHANGING)))
    query = query.where(_NODE_EXISTS, _NODES.uuid.is_not(None))
    if since is not None:
        query = query.where(_NODES.updated_at >= since)
    rows = map(orjson.loads, connection.scalars(query))
    return {row[0]: tuple(row[1:]) for row in rows}


def read_nodes(connection: Connection, uuids: Collection[str]) -> Iterator[NodeRow]:
    """Yield the existing nodes among ``uuids`` with all columns of a report."""
    return sql.select_in_batches(connection, _WHOLE_NODES, _NODES.uuid, uuids)


def drop_times(row: NodeRow) -> tuple[Any, ...]:
    """Return the columns of a row without its times."""
    return tuple(row[: -len(_TIMES)])


def build_report(row: NodeRow, cell_uuid: str) -> Json:
    """Convert a row to a report, or raise :class:`DocumentError`."""
    specs = _parse_json(row.supported_instances, "supported_hv_specs")
    stats = _parse_json(row.stats, "stats")
    if isinstance(stats, dict):
        # In nova a null value means the same as an absent value.
        stats = {key: value for key, value in stats.items() if value is not None}
    return {
        **{name: getattr(row, name) for name in _SAME_IN_REPORT},
        "cell_uuid": cell_uuid,
        "hypervisor_type": row.hypervisor_type or "",
        "host_ip": None if row.host_ip is None else str(row.host_ip),
        "supported_hv_specs": specs,
        "stats": stats,
        "pci_device_pools": _parse_pools(row.pci_stats),
        "numa_topology": row.numa_topology or None,
        "inventories": False,
    }


def _parse_json(text: str | None, key: str) -> Any:
    if not text:
        return None
    try:
        return orjson.loads(text)
    except ValueError:
        raise DocumentError("the string is not JSON", key) from None


def _parse_pools(text: str | None) -> Any:
    """Read PCI device pools from nova's list object, or from an older list."""
    pools = _parse_json(text, "pci_device_pools")
    if not isinstance(pools, Mapping):
        return pools
    with prefix_errors("pci_device_pools"):
        inner = _get_data(pools).get(_OBJECTS)
        if not isinstance(inner, list):
            raise DocumentError("it has no list of objects", _DATA, _OBJECTS)
        return [_get_data(pool) for pool in inner]


def _get_data(wrapped: Any) -> Json:
    data = wrapped.get(_DATA) if isinstance(wrapped, Mapping) else None
    if not isinstance(data, dict):
        raise DocumentError("it is not an object of nova", _DATA)
    return data


def list_services(
    connection: Connection, hosts: Collection[str] | None = None
) -> tuple[Service, ...]:
    """Return the compute services of hosts (None: of all hosts)."""
    if hosts is None:
        return _build_services(connection.execute(_SERVICES).all())
    return _build_services(
        sql.select_in_batches(connection, _SERVICES, _SERVICES_COLUMNS.host, hosts)
    )


def list_disabled_services(connection: Connection) -> tuple[Service, ...]:
    """Return the compute services that are disabled or forced down."""
    is_barred = or_(_SERVICES_COLUMNS.disabled.is_(True), _SERVICES_COLUMNS.forced_down.is_(True))
    return _build_services(connection.execute(_SERVICES.where(is_barred)).all())


def map_recent_heartbeats(
    connection: Connection, since: datetime
) -> dict[str, tuple[datetime, int | None]]:
    """Map hosts to heartbeat and service version, if seen since a time."""
    columns, sent_at = _SERVICES_COLUMNS, _SERVICES_COLUMNS.last_seen_up
    rows = connection.execute(
        select(columns.host, sent_at, columns.version).where(*_IS_COMPUTE, sent_at >= since)
    )
    return {host: (at.replace(microsecond=0), version) for host, at, version in rows}


def map_heartbeats(connection: Connection, hosts: Collection[str]) -> dict[str, datetime]:
    """Map hosts with a compute service to their last heartbeats."""
    query = select(_SERVICES_COLUMNS.host, _LAST_HEARTBEAT).where(*_IS_COMPUTE)
    rows = sql.select_in_batches(connection, query, _SERVICES_COLUMNS.host, hosts)
    return {host: at.replace(microsecond=0) for host, at in rows if at is not None}


def count_rows(connection: Connection) -> CellRowCounts:
    """Count the services and nodes of a cell, in a single statement."""
    compute = select(literal(0), func.count(), func.coalesce(func.max(_SERVICES_COLUMNS.id), 0))
    living = select(literal(1), func.count(), func.coalesce(func.max(_NODES.id), 0))
    query = union_all(compute.where(*_IS_COMPUTE), living.where(_NODE_EXISTS))
    (_, service_count, newest_service), (_, node_count, newest_node) = sorted(
        map(tuple, connection.execute(query).all())
    )
    return service_count, newest_service, node_count, newest_node


def _build_services(rows: Iterable[Any]) -> tuple[Service, ...]:
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
            version=version,
            created_at=created_at,
        )
        for service_id, uuid, host, disabled, reason, forced_down, version, created_at, at in rows
    )


_INSTANCES = instances.c


class NovaInstance(NamedTuple):
    """An instance in the database of a cell.

    ``flavor`` is the digest of the embedded flavor
    (:func:`placement_sched.db.sql.compute_digest`), or None if it was not read. The metadata are
    JSON, or None if there are none or they were not read. ``boots_from_volume`` is None if it was
    not read. Times are ISO 8601 strings.
    """

    uuid: str
    host: str | None
    node: str | None
    project_id: str | None
    user_id: str | None
    display_name: str | None
    vm_state: str | None
    task_state: str | None
    image_ref: str | None
    instance_type_id: int | None
    deleted: int
    hidden: bool | int | None
    created_at: str | None
    updated_at: str | None
    launched_at: str | None
    vcpus: int | None
    memory_mb: int | None
    root_gb: int | None
    ephemeral_gb: int | None
    flavor: str | None = None
    metadata: str | None = None
    system_metadata: str | None = None
    boots_from_volume: bool | None = None

    @property
    def lives(self) -> bool:
        """Return whether the instance is neither deleted nor hidden in its cell."""
        return not self.deleted and not self.hidden


_OTHER_TABLES = {"flavor", "boots_from_volume", *InstanceMetadata._fields}
_INSTANCE_COLUMNS = tuple(
    _INSTANCES[name] for name in NovaInstance._fields if name not in _OTHER_TABLES
)
_SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")
#: All columns that can change, without the flavor: nova changes it together with
#: ``instance_type_id``, and writes it first.
_INSTANCE_CHANGING = tuple(
    _INSTANCES[name]
    for name in (
        *("updated_at", "deleted", "hidden", "host", "node", "vm_state", "task_state"),
        *("display_name", "image_ref", "instance_type_id", "launched_at", *_SIZES),
    )
)
# During a move between cells there are two copies, and the hidden copy does not count.
_INSTANCE_EXISTS = and_(
    _INSTANCES.deleted == 0, or_(_INSTANCES.hidden.is_(None), _INSTANCES.hidden.is_(False))
)
#: The fields of a serialised flavor that are recorded.
_FLAVOR_FIELDS = (
    *("id", "name", "flavorid", "vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap"),
    *("rxtx_factor", "vcpu_weight", "disabled", "is_public", "description", "extra_specs"),
)
#: Maximum number of rows in a JSON text.
_ROWS_PER_TEXT = 1000
_TEXT_GROUP = _INSTANCES.id // _ROWS_PER_TEXT
#: Maximum number of cache entries. A flavor has two: by the digests of nova's and our JSON.
_MAX_CACHED_FLAVORS = 20_000


def count_instances(connection: Connection, created_before: datetime | None = None) -> int:
    """Count the living instances of the cell, optionally only old instances."""
    query = select(func.count()).select_from(instances).where(_INSTANCE_EXISTS)
    if created_before is not None:
        query = query.where(_INSTANCES.created_at < created_before)
    return int(connection.scalars(query).one())


def list_instances_between(
    connection: Connection, first: str, last: str | None
) -> list[NovaInstance]:
    """Return the living instances with ``first`` <= uuid < ``last``."""
    flavor = sql.compute_digest(connection, instance_extra.c.flavor)
    whole = instances.outerjoin(instance_extra, instance_extra.c.instance_uuid == _INSTANCES.uuid)
    query = select(sql.build_json_rows(connection, (*_INSTANCE_COLUMNS, flavor))).select_from(whole)
    query = query.where(_INSTANCE_EXISTS, _INSTANCES.uuid >= first)
    query = query if last is None else query.where(_INSTANCES.uuid < last)
    texts = connection.scalars(query.group_by(_TEXT_GROUP))
    return [NovaInstance(*row) for row in sql.parse_json_rows(texts)]


def list_instances_by_uuids(connection: Connection, uuids: Collection[str]) -> list[NovaInstance]:
    """Return the instances among ``uuids``, even deleted, without flavors."""
    query = select(sql.build_json_rows(connection, _INSTANCE_COLUMNS)).having(func.count() > 0)
    rows: list[NovaInstance] = []
    for batch in split_batches(uuids, _ROWS_PER_TEXT):
        texts = connection.scalars(
            query.where(sql.build_in_condition(connection, _INSTANCES.uuid, batch))
        )
        rows += [NovaInstance(*row) for row in sql.parse_json_rows(texts)]
    return rows


def add_flavors(connection: Connection, rows: Sequence[NovaInstance]) -> list[NovaInstance]:
    """Add the digests of flavors, which are read separately for their size."""
    extra = instance_extra.c
    query = select(extra.instance_uuid, sql.compute_digest(connection, extra.flavor))
    uuids = [instance.uuid for instance in rows]
    flavors = dict(map(tuple, sql.select_in_batches(connection, query, extra.instance_uuid, uuids)))
    return [instance._replace(flavor=flavors.get(instance.uuid)) for instance in rows]


def add_metadata(connection: Connection, rows: Sequence[NovaInstance]) -> list[NovaInstance]:
    """Add the metadata and system metadata of living instances."""
    uuids = [instance.uuid for instance in rows if instance.lives]
    by_user = _read_metadata(connection, instance_metadata, uuids)
    by_nova = _read_metadata(connection, instance_system_metadata, uuids)
    return [
        instance._replace(
            metadata=by_user.get(instance.uuid), system_metadata=by_nova.get(instance.uuid)
        )
        for instance in rows
    ]


def _read_metadata(
    connection: Connection, table: Table, uuids: Collection[str]
) -> dict[str, str | None]:
    columns = table.c
    pairs = sql.build_json_rows(connection, (columns.key, columns.value))
    query = select(columns.instance_uuid, pairs).where(columns.deleted == 0)
    query = query.group_by(columns.instance_uuid)
    rows = sql.select_in_batches(connection, query, columns.instance_uuid, uuids)
    result = {}
    for uuid, text in rows:
        # Sorted, because a race in nova may write a key twice: always use the same value.
        items = sorted(sql.parse_json_rows([text]), key=lambda item: (item[0], item[1] or ""))
        result[uuid] = serialize_metadata(dict(items))
    return result


def map_changed_instances(connection: Connection, since: datetime) -> dict[str, tuple[Any, ...]]:
    """Map instances written since a time, even deleted, to changing columns."""
    changed = select(
        sql.build_json_rows(connection, (_INSTANCES.uuid, *_INSTANCE_CHANGING))
    ).group_by(_TEXT_GROUP)
    changed_texts = connection.scalars(changed.where(_INSTANCES.updated_at >= since)).all()
    new = changed.where(_INSTANCES.deleted == 0, _INSTANCES.created_at >= since)
    rows = sql.parse_json_rows((*changed_texts, *connection.scalars(new)))
    return {row[0]: tuple(row[1:]) for row in rows}


def find_unplaceable_instances(connection: Connection, uuids: Collection[str]) -> frozenset[str]:
    """Return the instances that never get a host: deleted, or mapped to cell0."""
    columns = instance_mappings.c
    query = select(columns.instance_uuid).outerjoin(
        cell_mappings, cell_mappings.c.id == columns.cell_id
    )
    query = query.where(or_(cell_mappings.c.uuid == CELL0, columns.queued_for_delete.is_(True)))
    return frozenset(sql.select_scalars_in_batches(connection, query, columns.instance_uuid, uuids))


def map_cells_by_instance(connection: Connection, uuids: Collection[str]) -> dict[str, str]:
    """Map the uuids of instances to the uuids of their cells in nova."""
    columns = instance_mappings.c
    query = select(columns.instance_uuid, cell_mappings.c.uuid)
    query = query.join(cell_mappings, cell_mappings.c.id == columns.cell_id)
    return dict(map(tuple, sql.select_in_batches(connection, query, columns.instance_uuid, uuids)))


class RecordedFlavor(NamedTuple):
    """A recorded flavor: its JSON, digest, flavor id and instance_type_id."""

    text: str
    digest: str
    flavorid: str | None
    number: int | None


class Flavors:
    """Cache of the flavors that are embedded in instances.

    Most instances share their flavor with others. A flavor is cached by the digest of nova's JSON,
    and by the digest of the recorded JSON.
    """

    def __init__(self) -> None:
        self._cached: dict[str, RecordedFlavor | None] = {}

    def read(self, connection: Connection, rows: Iterable[NovaInstance]) -> None:
        """Read and cache the flavors of instances that are not cached yet."""
        new = {
            instance.uuid: instance.flavor
            for instance in {row.flavor: row for row in rows if row.flavor}.values()
            if instance.flavor not in self._cached
        }
        query = select(instance_extra.c.instance_uuid, instance_extra.c.flavor)
        for uuid, text in sql.select_in_batches(
            connection, query, instance_extra.c.instance_uuid, new
        ):
            recorded = None
            with suppress(ValueError, KeyError, TypeError):  # malformed JSON
                data = orjson.loads(text or "")["cur"]["nova_object.data"]
                flavor = {name: data[name] for name in _FLAVOR_FIELDS if name in data}
                flavor["extra_specs"] = dict(flavor.get("extra_specs") or {})
                recorded = _build_embedded_flavor(flavor)
            self._cached[new[uuid] or ""] = recorded

    def get_flavor(self, instance: NovaInstance) -> RecordedFlavor:
        """Return an instance's embedded flavor, or else a flavor of its sizes."""
        flavor = self._cached.get(instance.flavor) if instance.flavor else None
        if flavor is None:
            sizes = {name: getattr(instance, name) or 0 for name in _SIZES}
            flavor = _build_embedded_flavor({**sizes, "swap": 0, "extra_specs": {}})
        self._cached[flavor.digest] = flavor
        return flavor

    def find_recorded(self, instance: NovaInstance, digest: str | None) -> RecordedFlavor | None:
        """Return the cached flavor of a digest if the instance still has it."""
        flavor, number = self._cached.get(digest or ""), instance.instance_type_id
        return flavor if flavor and number is not None and flavor.number == number else None

    def clear_if_full(self) -> None:
        """Clear the cache if it is full."""
        if len(self._cached) >= _MAX_CACHED_FLAVORS:
            self._cached.clear()


def _build_embedded_flavor(flavor: Json) -> RecordedFlavor:
    text = to_storable(flavor)
    return RecordedFlavor(text, compute_digest(text), flavor.get("flavorid"), flavor.get("id"))


def split_uuid_range(count: int) -> Iterable[tuple[str, str | None]]:
    """Divide all uuids evenly into ranges of start and end (None at last)."""
    count = min(max(count, 1), 4096)
    # The first eight digits contain no hyphen, which collations sort differently.
    bounds = [f"{16**8 * index // count:08x}" for index in range(count)]
    return [(start, end) for start, end in zip(bounds, [*bounds[1:], None], strict=True)]
