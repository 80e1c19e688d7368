"""Instances listed as servers: which are wanted, in what order, from where on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from sqlalchemy import ColumnElement, Connection, and_, cast, false, func, or_, select
from sqlalchemy.dialects import mysql

from placement_sched.db import sql
from placement_sched.db.tables import host_aggregate_hosts, host_aggregate_metadata, instances
from placement_sched.model.aggregates import ZONE_KEY
from placement_sched.model.instance import POWER_STATES, STATUSES, UNKNOWN, Instance
from placement_sched.store.compute.instances import of_rows

_COLUMNS = instances.c

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


def search(connection: Connection, wanted: ServersWanted) -> tuple[Instance, ...]:
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
