# SPDX-License-Identifier: Apache-2.0
"""Records of instances, with host, owner, flavor, image and metadata."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row, Select, and_, cast, func, or_, select
from sqlalchemy.dialects import mysql

from placement_sched.db import sql
from placement_sched.db.collations import is_same_uuid
from placement_sched.db.tables import (
    allocations,
    compute_nodes,
    consumers,
    host_aggregate_hosts,
    host_aggregate_metadata,
    instances,
    projects,
)
from placement_sched.errors import NotFound
from placement_sched.limits import MAX_ID_CHARACTERS
from placement_sched.model.aggregates import ZONE_KEY
from placement_sched.model.document import Json, to_storable
from placement_sched.model.grouping import group_rows, split_batches
from placement_sched.model.instance import (
    POWER_STATES,
    STATUSES,
    UNKNOWN,
    HostInstance,
    Instance,
    InstanceMetadata,
)
from placement_sched.store.change_counters import make_lock_visible
from placement_sched.store.compute.flavors import compute_digest, read_embedded

_COLUMNS = instances.c
#: Number of rows written by one statement.
_BATCH_SIZE = 2000
_KEY = ("uuid",)
_DERIVED = ("flavor_digest", "flavorid", "image_id")
#: Large columns, which are read separately.
_METADATA = InstanceMetadata._fields
_LARGE = {*_METADATA, "request"}
_INSTANCES = select(*(column for column in _COLUMNS if column.name not in _LARGE))
#: Columns that a new record changes only if it has a value.
_OPTIONAL = ("decision_uuid", "request")
_RECORDED = tuple(
    attribute.name
    for attribute in fields(Instance)
    if attribute.name not in {"uuid", *_OPTIONAL, *_METADATA} and not attribute.name.endswith("_at")
)
_CONSTANT = (
    "access_ip_v4",
    "access_ip_v6",
    "auto_disk_config",
    "availability_zone",
    "config_drive",
    "display_description",
    "hostname",
    "kernel_id",
    "key_name",
    "launch_index",
    "launched_at",
    "locked",
    "locked_by",
    "power_state",
    "progress",
    "ramdisk_id",
    "root_device_name",
    "terminated_at",
)
#: nova's sort keys of servers and their columns here. None: the value is equal for all servers, so
#: the key does not affect the order.
SORT_KEYS: Mapping[str, str | None] = MappingProxyType(
    {
        **dict.fromkeys(_CONSTANT),
        **{name: name for name in ("created_at", "display_name", "host", "node", "project_id")},
        **{name: name for name in ("task_state", "updated_at", "user_id", "uuid", "vm_state")},
        "image_ref": "image_id",
        "instance_type_id": "flavorid",
    }
)
#: The default order: newest first, as in nova.
NEWEST_FIRST = (("created_at", True),)


class InstanceNames(NamedTuple):
    """The location and names of an instance."""

    host: str
    node: str | None
    uuid: str
    display_name: str


def get_by_uuid(connection: Connection, uuid: str) -> Instance:
    """Return an instance, or raise :class:`NotFound` if it does not exist."""
    matches = list_by_uuids(connection, [uuid])
    if not matches:
        raise NotFound(f"No instance with uuid {uuid} found", code="scheduler.not_found")
    return matches[0]


def list_by_uuids(
    connection: Connection, uuids: Iterable[str], *, lock: bool = False
) -> tuple[Instance, ...]:
    """Return existing instances, sorted by uuid, and optionally lock them."""
    query = _INSTANCES.order_by(_COLUMNS.uuid)
    query = query.with_for_update() if lock else query
    rows = list(sql.select_in_batches(connection, query, _COLUMNS.uuid, sorted(set(uuids))))
    if lock and rows:
        is_found = sql.build_in_condition(connection, _COLUMNS.id, [row.id for row in rows])
        make_lock_visible(connection, _COLUMNS.updated_at, is_found)
    return build_instances(connection, rows)


def list_by_hosts(connection: Connection, hosts: Iterable[str]) -> tuple[Instance, ...]:
    """Return the instances on these hosts, sorted by host, then uuid."""
    query = _INSTANCES.order_by(_COLUMNS.host, _COLUMNS.uuid)
    return build_instances(
        connection, sql.select_in_batches(connection, query, _COLUMNS.host, set(hosts))
    )


def map_hosts(connection: Connection, uuids: Iterable[str]) -> dict[str, str]:
    """Map the uuids of recorded instances with a host to their hosts."""
    query = select(_COLUMNS.uuid, _COLUMNS.host).where(_COLUMNS.host.is_not(None))
    return dict(map(tuple, sql.select_in_batches(connection, query, _COLUMNS.uuid, uuids)))


def map_requests(connection: Connection, uuids: Iterable[str]) -> dict[str, Json]:
    """Map the uuids of instances with a recorded request to the request."""
    query = select(_COLUMNS.uuid, _COLUMNS.request).where(_COLUMNS.request.is_not(None))
    rows = sql.select_in_batches(connection, query, _COLUMNS.uuid, set(uuids))
    return {uuid: orjson.loads(text) for uuid, text in rows}


class MetadataReader:
    """Reader of instance metadata, which queries all uuids on first use."""

    def __init__(self, connection: Connection, uuids: Collection[str]) -> None:
        self._connection = connection
        self._uuids = uuids

    @cached_property
    def _texts(self) -> Mapping[str, Sequence[str | None]]:
        query = select(_COLUMNS.uuid, *(_COLUMNS[name] for name in _METADATA))
        rows = sql.select_in_batches(self._connection, query, _COLUMNS.uuid, self._uuids)
        return {uuid: texts for uuid, *texts in rows}

    def read(self, uuid: str) -> InstanceMetadata:
        """Return the metadata of an instance, empty if none are recorded."""
        texts = self._texts.get(uuid, (None, None))
        return InstanceMetadata(*(orjson.loads(text) if text else {} for text in texts))


def build_host_instances(connection: Connection, records: Sequence[Instance]) -> list[HostInstance]:
    """Convert records for plugins, with metadata read on first use."""
    metadata = MetadataReader(connection, [record.uuid for record in records])
    return [HostInstance.from_record(record, metadata.read) for record in records]


def list_names_on_hosts(connection: Connection, hosts: Iterable[str]) -> tuple[InstanceNames, ...]:
    """Return names and locations of instances, sorted by name, then uuid."""
    query = select(*(_COLUMNS[name] for name in InstanceNames._fields))
    names = map(
        InstanceNames._make, sql.select_in_batches(connection, query, _COLUMNS.host, set(hosts))
    )
    return tuple(sorted(names, key=lambda named: (named.display_name, named.uuid)))


def search(
    connection: Connection,
    *,
    host: str | None = None,
    node: str | None = None,
    project_id: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> tuple[Instance, ...]:
    """Return a page of instances, by uuid from ``after``, with these filters."""
    filters = sql.drop_none(host=host, node=node, project_id=project_id)
    matching = _INSTANCES.filter_by(**filters)
    query = sql.select_page_after(matching, _COLUMNS.uuid, after, limit=limit)
    return build_instances(connection, connection.execute(query))


def is_any(connection: Connection) -> bool:
    """Return whether any instance is recorded."""
    return connection.execute(select(_COLUMNS.id).limit(1)).first() is not None


def count_by_host(
    connection: Connection, hosts: Iterable[str] | None
) -> dict[tuple[str, str | None], int]:
    """Count instances by host and node, on these hosts (None: all)."""
    place = (_COLUMNS.host, _COLUMNS.node)
    query = select(*place, sa.func.count()).where(_COLUMNS.host.is_not(None)).group_by(*place)
    rows: Iterable[Any]
    if hosts is None:
        rows = connection.execute(query).all()
    else:
        rows = sql.select_in_batches(connection, query, _COLUMNS.host, set(hosts))
    return {(host, node): count for host, node, count in rows}


def map_display_names(connection: Connection, uuids: Iterable[str]) -> dict[str, str]:
    """Map the uuids of instances that have a display name to the name."""
    query = select(_COLUMNS.uuid, _COLUMNS.display_name)
    rows = sql.select_in_batches(connection, query, _COLUMNS.uuid, set(uuids))
    return {uuid: name for uuid, name in rows if name}


def record(
    connection: Connection,
    recorded: Sequence[Instance],
    now: datetime,
    *,
    with_metadata: bool = False,
) -> None:
    """Create or replace the records of instances.

    The recorded decision and request of an instance stay unless the new record has others. The
    metadata stay unless ``with_metadata`` is set.
    """
    metadata = _METADATA if with_metadata else ()
    changing = [*_RECORDED, *_DERIVED, *metadata, "updated_at"]
    # Instances share flavors and images, so each is serialized only once.
    parts = (part for each in recorded for part in (each.flavor, each.image, each.request))
    shared = {id(part): part for part in parts if part is not None}
    texts = {key: to_storable(part) for key, part in shared.items()}
    latest = {instance.uuid: instance for instance in recorded}.values()
    by_columns = group_rows(
        (tuple(name for name in _OPTIONAL if getattr(instance, name) is not None), instance)
        for instance in latest
    )
    for optional, records in by_columns.items():
        names = [*changing, *optional]
        for batch in split_batches(records, _BATCH_SIZE):
            rows = [
                _build_row(instance, texts, now)
                | {name: serialize_metadata(getattr(instance, name)) for name in metadata}
                for instance in batch
            ]
            sql.insert_or_update(connection, instances, rows, key=_KEY, changing=names)


def serialize_metadata(metadata: Mapping[str, str | None] | None) -> str | None:
    """Serialize metadata for the record, or return None if they are empty."""
    return to_storable(metadata, sort_keys=True) if metadata else None


def set_decision(
    connection: Connection, uuids: Iterable[str], decision_uuid: str, now: datetime
) -> None:
    """Set the decision that placed instances."""
    statement = sa.update(instances).values(decision_uuid=decision_uuid, updated_at=now)
    sql.change_in_batches(connection, statement, _COLUMNS.uuid, uuids)


class InstanceRecord(NamedTuple):
    """The record of an instance, in a form that is fast to compare.

    ``flavor_digest`` is the result of ``compute_digest`` in
    :mod:`placement_sched.store.compute.flavors`. Image, request and metadata are JSON, and times
    are ISO 8601 texts. ``has_own_flavor`` is true if the row contains the flavor, not only its
    digest.
    """

    uuid: str
    host: str | None
    node: str | None
    project_id: str | None
    user_id: str | None
    display_name: str
    vm_state: str | None
    task_state: str | None
    flavor_digest: str | None
    image_id: str | None
    created_at: str | None
    launched_at: str | None
    metadata: str | None
    system_metadata: str | None
    server_group: str | None
    image: str | None
    request: str | None
    decision_uuid: str | None
    has_own_flavor: bool = False

    @property
    def place_and_state(self) -> "PlaceAndState":
        """Return the values that writers other than the sync from nova change."""
        return PlaceAndState.from_row(self._asdict())


def list_records_between(
    connection: Connection, first: str, last: str | None
) -> list[InstanceRecord]:
    """Return records with ``first`` <= uuid < ``last`` (None: no upper limit)."""
    query = _select_records(connection).where(_COLUMNS.uuid >= first)
    query = query if last is None else query.where(_COLUMNS.uuid < last)
    return [_parse_record(row[0]) for row in connection.execute(query).all()]


def read_records(connection: Connection, uuids: Iterable[str]) -> list[InstanceRecord]:
    """Return the records of the existing instances with these uuids."""
    rows = sql.select_in_batches(
        connection, _select_records(connection), _COLUMNS.uuid, sorted(set(uuids))
    )
    return [_parse_record(row[0]) for row in rows]


class PlaceAndState(NamedTuple):
    """Values of a record that writers other than the sync from nova change."""

    host: str | None
    node: str | None
    vm_state: str | None
    task_state: str | None
    server_group: str | None
    decision_uuid: str | None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "PlaceAndState":
        """Select the values from a row by column."""
        return cls._make(row[name] for name in cls._fields)


_PLACES = select(_COLUMNS.uuid, *(_COLUMNS[name] for name in PlaceAndState._fields)).order_by(
    _COLUMNS.id
)


def lock_by_uuid(connection: Connection, uuids: Iterable[str]) -> dict[str, PlaceAndState]:
    """Lock existing instances, and map their uuids to place and state."""
    query = _PLACES.with_for_update()
    rows = sql.select_in_batches(connection, query, _COLUMNS.uuid, sorted(set(uuids)))
    return {uuid: PlaceAndState(*place) for uuid, *place in rows}


def _select_records(connection: Connection) -> Select[Any]:
    names = (*InstanceRecord._fields[:-1], "flavor")
    return select(sql.build_json_row(connection, [_COLUMNS[name] for name in names]))


def _parse_record(text: str) -> InstanceRecord:
    *values, flavor = orjson.loads(text)
    record = InstanceRecord(*values)
    if flavor is None:
        return record
    return record._replace(flavor_digest=compute_digest(flavor), has_own_flavor=True)


def add(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Create instances that are not recorded, from rows without ``id``."""
    sql.insert_missing(connection, instances, rows)


def change(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Update instances to these rows, and create missing instances.

    All rows have the same columns. If the instances are locked, unchanged columns may be missing.
    """
    if rows:
        changing = [name for name in rows[0] if name != "uuid"]
        sql.insert_or_update(connection, instances, rows, key=_KEY, changing=changing)


def remove(connection: Connection, uuids: Iterable[str]) -> int:
    """Delete the records of instances and return their number."""
    return sql.change_in_batches(connection, sa.delete(instances), _COLUMNS.uuid, set(uuids))


def _build_row(instance: Instance, texts: Mapping[int, str], now: datetime) -> dict[str, Any]:
    row = {name: getattr(instance, name) for name in ("uuid", *_RECORDED, *_OPTIONAL)}
    flavor, image = row["flavor"] or {}, row["image"] or {}
    row["flavorid"] = find_storable_id(flavor.get("flavorid"), flavor.get("id"))
    row["image_id"] = find_storable_id(image.get("id"))
    for name in ("flavor", "image", "request"):
        row[name] = None if row[name] is None else texts[id(row[name])]
    return {**row, "flavor_digest": None, "created_at": now, "updated_at": now}


def find_storable_id(*candidates: str | int | None) -> str | None:
    """Return the first id that is not None, or None if it is too long."""
    first_id = next((str(candidate) for candidate in candidates if candidate is not None), None)
    return first_id if first_id is not None and len(first_id) <= MAX_ID_CHARACTERS else None


def build_instances(connection: Connection, rows: Iterable[Row[Any]]) -> tuple[Instance, ...]:
    """Build the instances of table rows, parsing each shared flavor once."""
    rows = list(rows)
    names = rows[0]._fields if rows else ()  # Row._asdict would build them for each row
    records = [dict(zip(names, row, strict=True)) for row in rows]
    digests = {row["flavor_digest"] for row in records} - {None}
    flavors = read_embedded(connection, digests) if digests else {}
    for row in records:
        for name in ("flavor", "image"):
            row[name] = None if row[name] is None else orjson.loads(row[name])
        if row["flavor"] is None:
            row["flavor"] = flavors.get(row["flavor_digest"])
        for name in ("id", *_DERIVED):
            del row[name]
    return tuple(Instance(**row) for row in records)


def list_unallocated(
    connection: Connection,
    *,
    incomplete_project_id: str,
    cell_uuid: str | None = None,
    after: str | None = None,
    limit: int,
) -> tuple[str, ...]:
    """Return sorted uuids of instances without allocations.

    Returns at most ``limit`` uuids, which follow ``after``. Allocations of incomplete consumers,
    whose project is ``incomplete_project_id``, are ignored. With ``cell_uuid``, only instances on
    nodes of this cell are listed.
    """
    unallocated = _select_unallocated(incomplete_project_id, cell_uuid)
    query = sql.select_page_after(unallocated, _COLUMNS.uuid, after, limit=limit)
    return tuple(connection.scalars(query))


def count_unallocated(
    connection: Connection, *, incomplete_project_id: str, cell_uuid: str | None = None
) -> int:
    """Count all instances that :func:`list_unallocated` finds."""
    unallocated = _select_unallocated(incomplete_project_id, cell_uuid).subquery()
    query = select(sa.func.count()).select_from(unallocated)
    return int(connection.scalars(query).one())


def _select_unallocated(incomplete_project_id: str, cell_uuid: str | None) -> Select[Any]:
    is_allocated = sa.exists().where(
        is_same_uuid(allocations.c.consumer_id, _COLUMNS.uuid),
        consumers.c.uuid == allocations.c.consumer_id,
        projects.c.id == consumers.c.project_id,
        projects.c.external_id != incomplete_project_id,
    )
    query = select(_COLUMNS.uuid).where(~is_allocated)
    if cell_uuid is None:
        return query
    nodes = compute_nodes.c
    is_on_node = sa.and_(nodes.host == _COLUMNS.host, nodes.hypervisor_hostname == _COLUMNS.node)
    return query.join(compute_nodes, is_on_node).where(nodes.cell_uuid == cell_uuid)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerQuery:
    """The filters (None: no filter) and the order of a server list.

    ``name`` is a case-sensitive part of the name. ``equal`` maps columns to values.
    ``power_state`` is nova's number. ``statuses`` are alternatives. ``default_zone`` is the zone of
    hosts without a zone. ``sort`` has pairs of column and descending flag. Ties are sorted by age.
    The list begins after the server with the uuid ``marker``, which must belong to the project.
    """

    project_id: str | None = None
    name: str | None = None
    statuses: frozenset[str] | None = None
    power_state: int | None = None
    zone: str | None = None
    default_zone: str = ""
    equal: Mapping[str, str] = field(default_factory=dict)
    changed_since: datetime | None = None
    changed_before: datetime | None = None
    sort: tuple[tuple[str, bool], ...] = NEWEST_FIRST
    marker: str | None = None
    limit: int | None = None


def search_servers(connection: Connection, query: ServerQuery) -> tuple[Instance, ...]:
    """Return matching instances, or raise Invalid for an unknown marker."""
    order = [
        (sql.build_portable_order(connection, _COLUMNS[column]), descending)
        for column, descending in query.sort
    ]
    # Ties are ordered by age, in the direction of the last key.
    order.append((_COLUMNS.id, query.sort[-1][1] if query.sort else True))
    project_filter = sql.drop_none(project_id=query.project_id)
    statement = _INSTANCES.filter_by(**project_filter).where(*_build_conditions(connection, query))
    is_marker = and_(
        _COLUMNS.uuid == query.marker,
        *(_COLUMNS[name] == value for name, value in project_filter.items()),
    )
    statement = sql.select_page(
        connection,
        statement,
        order,
        limit=query.limit,
        marked=None if query.marker is None else is_marker,
        missing=f"marker [{query.marker}] not found",
    )
    return build_instances(connection, connection.execute(statement))


def _build_conditions(connection: Connection, query: ServerQuery) -> list[ColumnElement[bool]]:
    conditions = [
        func.lower(_COLUMNS[name]) == value.lower()
        if name in {"vm_state", "task_state"}
        else _COLUMNS[name] == value
        for name, value in query.equal.items()
    ]
    if query.name is not None:
        conditions.append(_has_in_name(connection, query.name))
    vm = func.lower(func.coalesce(_COLUMNS.vm_state, ""))
    if query.statuses is not None:
        # The same rule as derive_status in model/instance.py.
        task = func.lower(func.coalesce(_COLUMNS.task_state, ""))
        statuses = {
            state: sa.case(by_task, value=task, else_=status) if by_task else sa.literal(status)
            for state, (status, by_task) in STATUSES.items()
        }
        status = sa.case(statuses, value=vm, else_=UNKNOWN)
        all_statuses = {
            s for plain, by_task in STATUSES.values() for s in (plain, *by_task.values())
        }
        conditions.append(status.in_(sorted(query.statuses & {UNKNOWN, *all_statuses})))
    if query.power_state is not None:
        # The same rule as derive_power_state in api/compute/servers.py.
        state = sa.case(POWER_STATES, value=vm, else_=0)
        conditions.append(state == query.power_state)
    if query.zone is not None:
        conditions.append(_is_in_zone(query.zone, query.default_zone))
    if query.changed_since is not None:
        conditions.append(_COLUMNS.updated_at >= query.changed_since)
    if query.changed_before is not None:
        conditions.append(_COLUMNS.updated_at <= query.changed_before)
    return conditions


def _has_in_name(connection: Connection, part: str) -> ColumnElement[bool]:
    if connection.dialect.name == "postgresql":
        return func.strpos(_COLUMNS.display_name, part) > 0
    if connection.dialect.name == "sqlite":
        return func.instr(_COLUMNS.display_name, part) > 0
    # MariaDB distinguishes upper and lower case only in binary texts.
    return func.instr(cast(_COLUMNS.display_name, mysql.BINARY), part) > 0


def _is_in_zone(zone: str, default_zone: str) -> ColumnElement[bool]:
    hosts, metadata = host_aggregate_hosts.c, host_aggregate_metadata.c
    zoned_hosts = (
        select(hosts.host)
        .join(host_aggregate_metadata, metadata.aggregate_id == hosts.aggregate_id)
        .where(metadata.key == ZONE_KEY)
    )
    is_in_aggregate = _COLUMNS.host.in_(zoned_hosts.where(metadata.value == zone))
    if zone != default_zone:
        return is_in_aggregate
    return or_(is_in_aggregate, and_(_COLUMNS.host.is_not(None), _COLUMNS.host.not_in(zoned_hosts)))
