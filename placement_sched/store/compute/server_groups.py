"""Server groups; their members are the instances whose records name them."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, case, delete, func, select, text, update

from placement_sched.db import sql
from placement_sched.db.tables import instances, server_groups
from placement_sched.errors import Invalid
from placement_sched.limits import MAX_GROUP_MEMBERS
from placement_sched.model.aggregates import MOST_PER_HOST, ServerGroup

_GROUPS = server_groups.c
_INSTANCES = instances.c
_UUIDS = select(_GROUPS.uuid)
# Two locks within a second leave different times, too: an UPDATE to the same value changes nothing.
_NOW = func.utc_timestamp()
_TOUCH = update(server_groups).values(
    updated_at=case((_GROUPS.updated_at == _NOW, _NOW - text("INTERVAL 1 SECOND")), else_=_NOW)
)
_AS_KEPT = ("name", "policy", "project_id", "user_id")


def by_uuid(connection: Connection, uuid: str) -> ServerGroup | None:
    """Return the group of this uuid, without members, or None."""
    row = connection.execute(select(server_groups).where(_GROUPS.uuid == uuid)).first()
    return None if row is None else _group(row)


def every(connection: Connection) -> tuple[ServerGroup, ...]:
    """Return all groups, without members, the oldest first."""
    return tuple(map(_group, connection.execute(select(server_groups).order_by(_GROUPS.id)).all()))


def called(connection: Connection, name: str, project_id: str | None) -> tuple[ServerGroup, ...]:
    """Return the groups of this name in a project, without members, the oldest first."""
    query = select(server_groups).where(_GROUPS.name == name, _GROUPS.project_id == project_id)
    return tuple(map(_group, connection.execute(query.order_by(_GROUPS.id))))


def of_instance(connection: Connection, uuid: str) -> str | None:
    """Return the uuid of the group that an instance is in, or None."""
    query = select(_GROUPS.uuid).join(instances, _INSTANCES.server_group == _GROUPS.uuid)
    return connection.scalar(query.where(_INSTANCES.uuid == uuid))


def search(
    connection: Connection,
    *,
    project_id: str | None = None,
    marker: str | None = None,
    offset: int = 0,
    limit: int | None = None,
) -> tuple[ServerGroup, ...]:
    """Return the groups of a project, or all, with members, the oldest first; in two statements.

    They begin after the group of uuid ``marker``, or with the first; ``offset`` of them are left
    out. After a marker that is not a group there is nothing.
    """
    query = select(server_groups).filter_by(**sql.given(project_id=project_id))
    at = select(_GROUPS.id).where(_GROUPS.uuid == marker).scalar_subquery()
    keys = None if marker is None else [at]
    query = sql.page_after(query, [(_GROUPS.id, False)], keys, limit=limit)
    rows = connection.execute(query.offset(offset)).all()
    theirs = select(_INSTANCES.server_group, _INSTANCES.uuid).order_by(_INSTANCES.id)
    uuids = [row.uuid for row in rows]
    members = sql.grouped(sql.rows_among(connection, theirs, _INSTANCES.server_group, uuids))
    return tuple(_group(row, members.get(row.uuid, ())) for row in rows)


def placed(
    connection: Connection, group: ServerGroup, *, without: Collection[str] = ()
) -> ServerGroup:
    """Return a stored group with its members, the oldest first, and the hosts that they are on.

    Members ``without`` these instances: a move of an instance ignores its own membership.
    """
    query = select(_INSTANCES.uuid, _INSTANCES.host).where(_INSTANCES.server_group == group.uuid)
    rows = connection.execute(query.order_by(_INSTANCES.id)).all()
    where = [row for row in rows if row.uuid not in without]
    hosts = dict.fromkeys(host for _, host in where if host is not None)
    return replace(group, members=tuple(uuid for uuid, _ in where), hosts=tuple(hosts))


def is_as_placed(connection: Connection, group: ServerGroup, own: Collection[str]) -> bool:
    """Return whether a group has these members and hosts, with or without the ``own`` instances."""
    every = (placed(connection, group, without=uuids) for uuids in ((), own))
    return any(
        set(now.members) == set(group.members) and set(now.hosts) == set(group.hosts)
        for now in every
    )


def lock(connection: Connection, uuid: str) -> bool:
    """Lock the row of a group until the transaction ends; return whether it is there.

    Who puts an instance into a group or takes the group away locks it first, so that no member
    is left in a group that is gone.
    """
    if sql.certifies(connection):
        return bool(connection.execute(_TOUCH.where(_GROUPS.uuid == uuid)).rowcount)
    query = select(_GROUPS.id).where(_GROUPS.uuid == uuid).with_for_update()
    return connection.scalar(query) is not None


def lock_many(connection: Connection, uuids: Collection[str]) -> None:
    """Lock the rows of groups, as :func:`lock` does one's, in the order in which they were made."""
    query = select(_GROUPS.id).order_by(_GROUPS.id).with_for_update()
    found = [number for (number,) in sql.rows_among(connection, query, _GROUPS.uuid, uuids)]
    if sql.certifies(connection):
        sql.change_among(connection, _TOUCH, _GROUPS.id, found)


def existing(connection: Connection, uuids: Collection[str]) -> frozenset[str]:
    """Return those of the uuids that are groups'."""
    return frozenset(row.uuid for row in sql.rows_among(connection, _UUIDS, _GROUPS.uuid, uuids))


def join(
    connection: Connection,
    uuid: str,
    joining: Collection[str],
    place: str,
    *,
    records_stay: bool = False,
) -> None:
    """Lock a group, so that the instances of these uuids can be recorded as its members.

    Where ``records_stay``, instances that are recorded already stay as they are, and do not join.
    Raises :class:`Invalid` with the JSON path ``place`` that names it, where it does not exist or
    would have too many.
    """
    if not lock(connection, uuid):
        raise Invalid(f"There is no server group {uuid}", at=place)
    members = _INSTANCES.server_group == uuid
    known = select(func.count()).where(_INSTANCES.uuid.in_(joining))
    if not records_stay:
        known = known.where(members)
    numbers = select(select(func.count()).where(members).scalar_subquery(), known.scalar_subquery())
    before, present = connection.execute(numbers).one()
    has = before + len(set(joining)) - present
    # A group from before there was a limit may have more, and keeps them.
    if has > max(MAX_GROUP_MEMBERS, before):
        raise Invalid(
            f"Server group {uuid} would have {has} members, at most {MAX_GROUP_MEMBERS} allowed",
            at=place,
        )


def put(connection: Connection, groups: Collection[ServerGroup], now: datetime) -> None:
    """Keep groups as they are here, each by its uuid, whatever was kept of it before."""
    rows = [
        {
            **{name: getattr(group, name) for name in ("uuid", *_AS_KEPT)},
            MOST_PER_HOST: group.rules.get(MOST_PER_HOST),
            "created_at": now,
            "updated_at": now,
        }
        for group in groups
    ]
    changing = (*_AS_KEPT, MOST_PER_HOST, "updated_at")
    sql.insert_or_update(connection, server_groups, rows, key=("uuid",), changing=changing)


def remove(connection: Connection, uuid: str) -> None:
    """Delete a group that is locked; its members are in none then."""
    leave = update(instances).where(_INSTANCES.server_group == uuid).values(server_group=None)
    connection.execute(leave)
    connection.execute(delete(server_groups).where(_GROUPS.uuid == uuid))


def _group(row: Row[Any], members: Collection[str] = ()) -> ServerGroup:
    most = row.max_server_per_host
    return ServerGroup(
        **{name: getattr(row, name) for name in ("uuid", *_AS_KEPT)},
        rules={} if most is None else {MOST_PER_HOST: most},
        members=tuple(members),
    )
