"""Instances listed as servers: which are wanted, in what order, from where on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    collate,
    false,
    func,
    or_,
    select,
)
from sqlalchemy.exc import DBAPIError

from placement_sched.db.tables import host_aggregate_hosts, host_aggregate_metadata, instances
from placement_sched.errors import Invalid
from placement_sched.model.host_aggregate import ZONE_KEY
from placement_sched.model.instance import Instance
from placement_sched.model.server_status import POWER_STATES, STATUSES, UNKNOWN, states_of
from placement_sched.store.instances import of_row

_COLUMNS = instances.c
_TIMES = ("created_at", "updated_at")
#: What a database says of a regular expression that it does not understand.
_NO_EXPRESSION = {"2201B", 1139, 3692, 3685, 3688, 3690, 3691, 3693, 3694, 3695, 3696}

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
        "created_at": "created_at",
        "display_name": "display_name",
        "host": "host",
        "image_ref": "image_id",
        "instance_type_id": "flavorid",
        "node": "node",
        "project_id": "project_id",
        "task_state": "task_state",
        "updated_at": "updated_at",
        "user_id": "user_id",
        "uuid": "uuid",
        "vm_state": "vm_state",
    }
)
#: The order where none is asked for: the newest first, as in nova.
NEWEST_FIRST = (("created_at", True),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which servers are listed, and how; None narrows nothing.

    ``name`` is a regular expression that some part of the name meets. ``equal`` has values by
    column, ``power_state`` one of nova's numbers. ``statuses`` are any of which a server may have,
    ``zone`` and ``default_zone`` the zone asked for and the one of hosts in no zone. ``sort`` has
    columns, each descending or not; what they leave equal is ordered by age. ``marker`` is the
    uuid behind which the list begins, within what the project may see.
    """

    project_id: str | None = None
    name: str | None = None
    statuses: tuple[str, ...] | None = None
    power_state: int | None = None
    zone: str | None = None
    default_zone: str = ""
    equal: Mapping[str, str | datetime] = field(default_factory=dict)
    changed_since: datetime | None = None
    changed_before: datetime | None = None
    sort: tuple[tuple[str, bool], ...] = NEWEST_FIRST
    marker: str | None = None
    limit: int | None = None


def search(connection: Connection, wanted: Wanted) -> tuple[Instance, ...]:
    """Return the instances that are wanted, in their order; with a marker, in two statements.

    Raises :class:`Invalid` for a marker that is no server, and for a name that the database takes
    for no regular expression.
    """
    conditions = _conditions(connection, wanted)
    # What is asked for last settles what the rest leaves equal, in the direction of the last.
    order = [
        *((_sort_key(connection, column), down) for column, down in wanted.sort),
        (_COLUMNS.id, wanted.sort[-1][1] if wanted.sort else True),
    ]
    query = select(instances).where(*conditions).limit(wanted.limit)
    if wanted.marker is not None:
        query = _behind(connection, query, wanted, order)
    query = query.order_by(*(key.desc() if down else key.asc() for key, down in order))
    try:
        return tuple(of_row(row) for row in connection.execute(query))
    except DBAPIError as failure:
        if wanted.name is not None and _is_no_expression(failure):
            raise Invalid(f"{wanted.name!r} is no regular expression") from None
        raise


def _is_no_expression(failure: DBAPIError) -> bool:
    original = failure.orig
    codes = {getattr(original, "sqlstate", None), *getattr(original, "args", ())[:1]}
    return not codes.isdisjoint(_NO_EXPRESSION)


def _conditions(connection: Connection, wanted: Wanted) -> list[ColumnElement[bool]]:
    found = [_equals(column, value) for column, value in wanted.equal.items()]
    if wanted.project_id is not None:
        found.append(_COLUMNS.project_id == wanted.project_id)
    if wanted.name is not None:
        found.append(_matches(connection, wanted.name))
    if wanted.statuses is not None:
        found.append(or_(false(), *map(_has_status, wanted.statuses)))
    if wanted.power_state is not None:
        found.append(_has_power_state(wanted.power_state))
    if wanted.zone is not None:
        found.append(_is_in_zone(wanted.zone, wanted.default_zone))
    if wanted.changed_since is not None:
        found.append(_COLUMNS.updated_at >= wanted.changed_since)
    if wanted.changed_before is not None:
        found.append(_COLUMNS.updated_at <= wanted.changed_before)
    return found


def _equals(column: str, value: str | datetime) -> ColumnElement[bool]:
    """Return what equals a value; states are the same whatever their case."""
    if column in {"vm_state", "task_state"}:
        return func.lower(_COLUMNS[column]) == str(value).lower()
    return _COLUMNS[column] == value


def _matches(connection: Connection, pattern: str) -> ColumnElement[bool]:
    """Return what names meet in which the expression is found, case included on every database."""
    if connection.dialect.name in {"mysql", "mariadb"}:
        pattern = f"(?-i){pattern}"
    return _COLUMNS.display_name.regexp_match(pattern)


def _has_status(status: str) -> ColumnElement[bool]:
    """Return what servers of a status meet: :func:`server_status.status_of`, told in SQL."""
    vm, task = _state("vm_state"), _state("task_state")
    if status == UNKNOWN:
        return vm.not_in(STATUSES)
    pairs = (
        and_(vm == vm_state, task.in_(tasks) if inside else task.not_in(tasks))
        for vm_state, tasks, inside in states_of(status)
    )
    return or_(false(), *pairs)


def _has_power_state(number: int) -> ColumnElement[bool]:
    """Return what servers meet by :func:`server_status.power_state_of`, told in SQL."""
    if number == 0:
        return _state("vm_state").not_in(POWER_STATES)
    return _state("vm_state").in_([vm for vm, told in POWER_STATES.items() if told == number])


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


def _sort_key(connection: Connection, name: str) -> ColumnElement[Any]:
    """Return what orders by a column: texts by their bytes, and nothing before everything.

    So the order is the same on every database.
    """
    column = _COLUMNS[name]
    if name in _TIMES:
        return func.coalesce(column, datetime(1970, 1, 1))  # noqa: DTZ001 - as the tables keep it
    text = func.coalesce(column, "")
    if connection.dialect.name == "postgresql":
        return collate(text, "C")
    return text if connection.dialect.name == "sqlite" else func.hex(text)


def _behind(
    connection: Connection,
    query: Select[Any],
    wanted: Wanted,
    order: list[tuple[ColumnElement[Any], bool]],
) -> Select[Any]:
    """Return the query narrowed to what comes behind the marker."""
    marked = select(*(key.label(f"k{place}") for place, (key, _) in enumerate(order))).where(
        _COLUMNS.uuid == wanted.marker
    )
    if wanted.project_id is not None:
        marked = marked.where(_COLUMNS.project_id == wanted.project_id)
    at = connection.execute(marked).first()
    if at is None:
        raise Invalid(f"marker [{wanted.marker}] not found")
    steps: list[ColumnElement[bool]] = []
    equal: list[ColumnElement[bool]] = []
    for (key, down), value in zip(order, at, strict=True):
        steps.append(and_(*equal, key < value if down else key > value))
        equal.append(key == value)
    return query.where(or_(*steps))
