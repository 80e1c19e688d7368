"""Instances as recorded: where each is, whose it is, what it is made of, and which hold nothing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson
import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row, Select, and_, cast, false, func, or_, select
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
from placement_sched.model.aggregates import ZONE_KEY
from placement_sched.model.document import storable
from placement_sched.model.instance import POWER_STATES, STATUSES, UNKNOWN, Instance
from placement_sched.store.change_counters import certify
from placement_sched.store.compute import flavors as flavors_module

_COLUMNS = instances.c
_LONGEST_ID = 255
#: So many rows are sent in one statement.
_AT_ONCE = 2000
_DERIVED = ("flavor_digest", "flavorid", "image_id")
_RECORDED = tuple(
    one.name
    for one in fields(Instance)
    if one.name not in {"uuid", "decision_uuid", "created_at", "updated_at"}
)


class Named(NamedTuple):
    """Where an instance is, and how people and programs call it."""

    host: str
    node: str | None
    uuid: str
    display_name: str


def by_uuid(connection: Connection, uuid: str) -> Instance:
    """Return the instance of this uuid; raises :class:`NotFound`."""
    found = by_uuids(connection, [uuid])
    if not found:
        raise NotFound(f"No instance with uuid {uuid} found", code="scheduler.not_found")
    return found[0]


def by_uuids(
    connection: Connection, uuids: Iterable[str], *, lock: bool = False
) -> tuple[Instance, ...]:
    """Return those of the instances that are there, by uuid, their rows locked if asked."""
    query = select(instances).order_by(_COLUMNS.uuid)
    query = query.with_for_update() if lock else query
    found = list(sql.rows_among(connection, query, _COLUMNS.uuid, sorted(set(uuids))))
    if lock and found:
        known = sql.among(connection, _COLUMNS.id, [row.id for row in found])
        certify(connection, _COLUMNS.updated_at, known)
    return of_rows(connection, found)


def by_hosts(connection: Connection, hosts: Iterable[str]) -> tuple[Instance, ...]:
    """Return the instances on these hosts, by host, then uuid."""
    query = select(instances).order_by(_COLUMNS.host, _COLUMNS.uuid)
    return of_rows(connection, sql.rows_among(connection, query, _COLUMNS.host, set(hosts)))


def named_on_hosts(connection: Connection, hosts: Iterable[str]) -> tuple[Named, ...]:
    """Return where instances on these hosts are, and their names, in order of name, then uuid."""
    query = select(*(_COLUMNS[name] for name in Named._fields))
    found = map(Named._make, sql.rows_among(connection, query, _COLUMNS.host, set(hosts)))
    return tuple(sorted(found, key=lambda named: (named.display_name, named.uuid)))


def search(
    connection: Connection,
    *,
    host: str | None = None,
    node: str | None = None,
    project_id: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> tuple[Instance, ...]:
    """Return the instances of a host, a node, a project, or all, by uuid, those after ``after``."""
    wanted = sql.given(host=host, node=node, project_id=project_id)
    query = _after(select(instances).filter_by(**wanted), after, limit)
    return of_rows(connection, connection.execute(query))


def _after(query: Select[Any], after: str | None, limit: int | None) -> Select[Any]:
    at = None if after is None else [after]
    return sql.page_after(query, [(_COLUMNS.uuid, False)], at, limit=limit)


def is_any(connection: Connection) -> bool:
    """Return whether any instance is recorded."""
    return connection.execute(select(_COLUMNS.id).limit(1)).first() is not None


def counts_on_hosts(
    connection: Connection, hosts: Iterable[str] | None
) -> dict[tuple[str, str | None], int]:
    """Return how many instances are recorded on these hosts (None: on any), by host and node."""
    place = (_COLUMNS.host, _COLUMNS.node)
    query = select(*place, sa.func.count()).where(_COLUMNS.host.is_not(None)).group_by(*place)
    found: Iterable[Any]
    if hosts is None:
        found = connection.execute(query).all()
    else:
        found = sql.rows_among(connection, query, _COLUMNS.host, set(hosts))
    return {(host, node): number for host, node, number in found}


def record(connection: Connection, recorded: Sequence[Instance], now: datetime) -> None:
    """Keep instances as they are now, whatever was recorded of them before.

    The decision that placed an instance stays noted where the new record names none.
    """
    changing = [*_RECORDED, *_DERIVED, "updated_at"]
    texts = _texts_of(recorded)
    last = {one.uuid: one for one in recorded}.values()
    for decided, names in ((True, [*changing, "decision_uuid"]), (False, changing)):
        some = (one for one in last if (one.decision_uuid is not None) is decided)
        for batch in sql.batches(some, _AT_ONCE):
            rows = [_row_of(one, texts, now) for one in batch]
            sql.insert_many(connection, instances, rows, changing=names)


def _texts_of(recorded: Iterable[Instance]) -> dict[int, str]:
    """Return the JSON of flavors and images by their ids: instances of one request share them."""
    parts = (part for one in recorded for part in (one.flavor, one.image) if part is not None)
    shared = {id(part): part for part in parts}
    return {key: storable(part) for key, part in shared.items()}


def note_decision(
    connection: Connection, uuids: Iterable[str], decision_uuid: str, now: datetime
) -> None:
    """Note the decision that these instances were placed by; all else that is recorded stays."""
    change = sa.update(instances).values(decision_uuid=decision_uuid, updated_at=now)
    sql.change_among(connection, change, _COLUMNS.uuid, uuids)


class Kept(NamedTuple):
    """The record of one instance, as it is compared with thousands of others.

    ``flavor_digest`` is that of :mod:`placement_sched.store.compute.flavors`, ``image``
    its JSON, ``created_at`` a text of ISO 8601. ``has_own_flavor``: the flavor is kept with it.
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
    server_group: str | None
    image: str | None
    decision_uuid: str | None
    created_at: str | None
    has_own_flavor: bool = False

    @property
    def place_and_state(self) -> "PlaceAndState":
        """Return what any other writer changes."""
        return PlaceAndState._make(getattr(self, name) for name in PlaceAndState._fields)


def between(connection: Connection, first: str, last: str | None) -> list[Kept]:
    """Return the instances whose uuid is from ``first`` up to, but not, ``last``."""
    query = _kept(connection).where(_COLUMNS.uuid >= first)
    query = query if last is None else query.where(_COLUMNS.uuid < last)
    return [_kept_of(row[0]) for row in connection.execute(query).all()]


def kept(connection: Connection, uuids: Iterable[str]) -> list[Kept]:
    """Return those of the instances that are there."""
    rows = sql.rows_among(connection, _kept(connection), _COLUMNS.uuid, sorted(set(uuids)))
    return [_kept_of(row[0]) for row in rows]


class PlaceAndState(NamedTuple):
    """Of the record of an instance, what any other writer of it changes."""

    host: str | None
    node: str | None
    vm_state: str | None
    task_state: str | None
    server_group: str | None
    decision_uuid: str | None


_PLACES = select(_COLUMNS.uuid, *(_COLUMNS[name] for name in PlaceAndState._fields)).order_by(
    _COLUMNS.id
)


def locked(connection: Connection, uuids: Iterable[str]) -> dict[str, PlaceAndState]:
    """Return where those of the instances are that are there, by uuid, their rows locked."""
    query = _PLACES.with_for_update()
    rows = sql.rows_among(connection, query, _COLUMNS.uuid, sorted(set(uuids)))
    return {uuid: PlaceAndState(*place) for uuid, *place in rows}


def _kept(connection: Connection) -> Select[Any]:
    names = (*Kept._fields[:-1], "flavor")
    return select(sql.json_row(connection, [_COLUMNS[name] for name in names]))


def _kept_of(text: str) -> Kept:
    *values, flavor = orjson.loads(text)
    found = Kept(*values)
    if flavor is None:
        return found
    return found._replace(
        flavor_digest=flavors_module.digest_of_flavor(flavor), has_own_flavor=True
    )


def uuids_on_host(connection: Connection, host: str) -> frozenset[str]:
    """Return the uuids of the instances that are recorded on a host."""
    return frozenset(connection.scalars(select(_COLUMNS.uuid).where(_COLUMNS.host == host)))


def add(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Keep instances that are new; what another request recorded meanwhile stays.

    A row has all columns but ``id``.
    """
    for batch in sql.batches(rows, _AT_ONCE):
        sql.insert_many(connection, instances, batch)


def change(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Change instances to what these rows say, and add those that are new.

    All rows have the same columns. Those of instances that are locked may lack what stays as it is.
    """
    if not rows:
        return
    changing = [name for name in rows[0] if name != "uuid"]
    for batch in sql.batches(rows, _AT_ONCE):
        sql.insert_many(connection, instances, batch, changing=changing)


def remove(connection: Connection, uuids: Iterable[str]) -> int:
    """Delete the records of these instances; return how many there were."""
    return sql.change_among(connection, sa.delete(instances), _COLUMNS.uuid, set(uuids))


def _row_of(instance: Instance, texts: Mapping[int, str], now: datetime) -> dict[str, Any]:
    row = {name: getattr(instance, name) for name in ("uuid", *_RECORDED, "decision_uuid")}
    flavor, image = row["flavor"] or {}, row["image"] or {}
    row["flavorid"] = short_id(flavor.get("flavorid"), flavor.get("id"))
    row["image_id"] = short_id(image.get("id"))
    for name in ("flavor", "image"):
        row[name] = None if row[name] is None else texts[id(row[name])]
    return {**row, "flavor_digest": None, "created_at": now, "updated_at": now}


def short_id(*candidates: str | int | None) -> str | None:
    """Return the first of the ids that is there; one that is too long counts as None."""
    found = next((str(each) for each in candidates if each is not None), None)
    return found if found is not None and len(found) <= _LONGEST_ID else None


def of_rows(connection: Connection, rows: Iterable[Row[Any]]) -> tuple[Instance, ...]:
    """Return the instances of rows of the table; flavors that they share are read once each."""
    found = [row._asdict() for row in rows]
    digests = {row["flavor_digest"] for row in found} - {None}
    flavors = flavors_module.read_embedded(connection, digests) if digests else {}
    for row in found:
        for name in ("flavor", "image"):
            row[name] = None if row[name] is None else orjson.loads(row[name])
        if row["flavor"] is None:
            row["flavor"] = flavors.get(row["flavor_digest"])
        for name in ("id", *_DERIVED):
            del row[name]
    return tuple(Instance(**row) for row in found)


def unallocated(
    connection: Connection,
    *,
    no_owner: str,
    cell_uuid: str | None = None,
    after: str | None = None,
    limit: int,
) -> tuple[str, ...]:
    """Return the uuids of such instances after ``after``, in order, ``limit`` at most.

    ``no_owner`` is the project of consumers without a known one. With ``cell_uuid``, those on
    nodes of this cell.
    """
    query = _after(_unallocated(no_owner, cell_uuid), after, limit)
    return tuple(connection.scalars(query))


def count_unallocated(
    connection: Connection, *, no_owner: str, cell_uuid: str | None = None
) -> int:
    """Return how many such instances there are."""
    query = select(sa.func.count()).select_from(_unallocated(no_owner, cell_uuid).subquery())
    return int(connection.scalars(query).one())


def _unallocated(no_owner: str, cell_uuid: str | None) -> Select[Any]:
    allocated = sa.exists().where(
        is_same_uuid(allocations.c.consumer_id, _COLUMNS.uuid),
        consumers.c.uuid == allocations.c.consumer_id,
        projects.c.id == consumers.c.project_id,
        projects.c.external_id != no_owner,
    )
    query = select(_COLUMNS.uuid).where(~allocated)
    if cell_uuid is None:
        return query
    nodes = compute_nodes.c
    there = sa.and_(nodes.host == _COLUMNS.host, nodes.hypervisor_hostname == _COLUMNS.node)
    return query.join(compute_nodes, there).where(nodes.cell_uuid == cell_uuid)


#: The statuses that a server may have; no server has another.
_SHOWN = frozenset(
    (UNKNOWN, *(s for plain, by_task in STATUSES.values() for s in (plain, *by_task.values())))
)
_ALIKE = (
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
#: The names by which servers can be sorted, as nova has them, and what they mean here; of None all
#: servers have the same, so that it orders nothing.
SORT_KEYS: Mapping[str, str | None] = MappingProxyType(
    {
        **dict.fromkeys(_ALIKE),
        **{name: name for name in ("created_at", "display_name", "host", "node", "project_id")},
        **{name: name for name in ("task_state", "updated_at", "user_id", "uuid", "vm_state")},
        "image_ref": "image_id",
        "instance_type_id": "flavorid",
    }
)
#: The order where none is asked for: the newest first, as in nova.
NEWEST_FIRST = (("created_at", True),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServersWanted:
    """Which servers are listed, and how; None narrows nothing.

    ``name`` is a part of the name, in the same case. ``equal`` has values by
    column, ``power_state`` one of nova's numbers. ``statuses`` are any of which a server may have,
    ``zone`` and ``default_zone`` the zone asked for and the one of hosts in no zone. ``sort`` has
    columns, each descending or not; what they leave equal is ordered by age. ``marker`` is the
    uuid after which the list begins, within what the project may see.
    """

    project_id: str | None = None
    name: str | None = None
    statuses: frozenset[str] | None = None
    power_state: int | None = None
    zone: str | None = None
    default_zone: str = ""
    equal: Mapping[str, str | datetime] = field(default_factory=dict)
    changed_since: datetime | None = None
    changed_before: datetime | None = None
    sort: tuple[tuple[str, bool], ...] = NEWEST_FIRST
    marker: str | None = None
    limit: int | None = None


def search_servers(connection: Connection, wanted: ServersWanted) -> tuple[Instance, ...]:
    """Return the instances that are wanted, in their order; with a marker, in two statements.

    Raises :class:`Invalid` for a marker that is not a server.
    """
    order = [
        (sql.same_order_everywhere(connection, _COLUMNS[column]), down)
        for column, down in wanted.sort
    ]
    # What the rest leaves equal is ordered by age, in the direction of the last.
    order.append((_COLUMNS.id, wanted.sort[-1][1] if wanted.sort else True))
    theirs = sql.given(project_id=wanted.project_id)
    query = select(instances).filter_by(**theirs).where(*_conditions(connection, wanted))
    marked = and_(
        _COLUMNS.uuid == wanted.marker, *(_COLUMNS[name] == one for name, one in theirs.items())
    )
    query = sql.page(
        connection,
        query,
        order,
        limit=wanted.limit,
        marked=None if wanted.marker is None else marked,
        missing=f"marker [{wanted.marker}] not found",
    )
    return of_rows(connection, connection.execute(query))


def _conditions(connection: Connection, wanted: ServersWanted) -> list[ColumnElement[bool]]:
    found = [_equals(column, value) for column, value in wanted.equal.items()]
    if wanted.name is not None:
        found.append(_has_in_name(connection, wanted.name))
    if wanted.statuses is not None:
        found.append(or_(false(), *map(_has_status, sorted(_SHOWN.intersection(wanted.statuses)))))
    if wanted.power_state is not None:
        found.append(_has_power_state(wanted.power_state))
    if wanted.zone is not None:
        found.append(_is_in_zone(wanted.zone, wanted.default_zone))
    if wanted.changed_since is not None:
        found.append(_COLUMNS.updated_at >= wanted.changed_since)
    if wanted.changed_before is not None:
        found.append(_COLUMNS.updated_at <= wanted.changed_before)
    return found


def _has_in_name(connection: Connection, part: str) -> ColumnElement[bool]:
    """Return whether the name contains ``part``, in the same case on every database."""
    if connection.dialect.name == "postgresql":
        return func.strpos(_COLUMNS.display_name, part) > 0
    if connection.dialect.name == "sqlite":
        return func.instr(_COLUMNS.display_name, part) > 0
    # MariaDB compares the bytes.
    return func.instr(cast(_COLUMNS.display_name, mysql.BINARY), part) > 0


def _equals(column: str, value: str | datetime) -> ColumnElement[bool]:
    """Return what equals a value; states are the same whatever their case."""
    if column in {"vm_state", "task_state"}:
        return func.lower(_COLUMNS[column]) == str(value).lower()
    return _COLUMNS[column] == value


def _has_status(status: str) -> ColumnElement[bool]:
    """Return what servers of a status meet: ``status_of`` of the API, in SQL."""
    vm, task = _state("vm_state"), _state("task_state")
    if status == UNKNOWN:
        return vm.not_in(STATUSES)
    pairs = (
        and_(vm == vm_state, task.in_(tasks) if inside else task.not_in(tasks))
        for vm_state, tasks, inside in _states_of(status)
    )
    return or_(false(), *pairs)


def _states_of(status: str) -> Iterator[tuple[str, frozenset[str], bool]]:
    """Yield the vm states in which a server may have this status, each with tasks.

    The servers are those in one of the tasks if the last is true, else those in any other.
    """
    for vm_state, (plain, by_task) in STATUSES.items():
        if plain == status:
            yield vm_state, frozenset(by_task), False
        tasks = frozenset(task for task, shown in by_task.items() if shown == status)
        if tasks:
            yield vm_state, tasks, True


def _has_power_state(number: int) -> ColumnElement[bool]:
    """Return what servers meet by ``power_state_of`` of the API, in SQL."""
    if number == 0:
        return _state("vm_state").not_in(POWER_STATES)
    return _state("vm_state").in_([vm for vm, state in POWER_STATES.items() if state == number])


def _state(column: str) -> ColumnElement[str]:
    return func.lower(func.coalesce(_COLUMNS[column], ""))


def _is_in_zone(zone: str, default_zone: str) -> ColumnElement[bool]:
    hosts, metadata = host_aggregate_hosts.c, host_aggregate_metadata.c
    zoned = (
        select(hosts.host)
        .join(host_aggregate_metadata, metadata.aggregate_id == hosts.aggregate_id)
        .where(metadata.key == ZONE_KEY)
    )
    there = _COLUMNS.host.in_(zoned.where(metadata.value == zone))
    if zone != default_zone:
        return there
    return or_(there, and_(_COLUMNS.host.is_not(None), _COLUMNS.host.not_in(zoned)))
