# SPDX-License-Identifier: Apache-2.0
"""Server groups, and their members according to the instance records."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, case, delete, func, select, text, update

from placement_sched.db import sql
from placement_sched.db.tables import instances, server_groups
from placement_sched.errors import Invalid
from placement_sched.model.aggregates import MAX_SERVER_PER_HOST, ServerGroup
from placement_sched.model.grouping import nest_rows

_GROUPS = server_groups.c
_INSTANCES = instances.c
_UUIDS = select(_GROUPS.uuid)
# Two locks within a second set different times, as an UPDATE to the same value changes nothing.
_NOW = func.utc_timestamp()
_TOUCH = update(server_groups).values(
    updated_at=case((_GROUPS.updated_at == _NOW, _NOW - text("INTERVAL 1 SECOND")), else_=_NOW)
)
_ATTRIBUTES = ("name", "policy", "project_id", "user_id")


def find_by_uuid(connection: Connection, uuid: str) -> ServerGroup | None:
    """Return the group with this uuid, without members, or None."""
    row = connection.execute(select(server_groups).where(_GROUPS.uuid == uuid)).first()
    return None if row is None else _build_group(row)


def list_groups(connection: Connection) -> tuple[ServerGroup, ...]:
    """Return all groups without members, oldest first."""
    return tuple(
        map(_build_group, connection.execute(select(server_groups).order_by(_GROUPS.id)).all())
    )


def list_by_name(
    connection: Connection, name: str, project_id: str | None
) -> tuple[ServerGroup, ...]:
    """Return a project's groups with a name, without members, oldest first."""
    query = select(server_groups).where(_GROUPS.name == name, _GROUPS.project_id == project_id)
    return tuple(map(_build_group, connection.execute(query.order_by(_GROUPS.id))))


def map_by_instance(connection: Connection, uuids: Collection[str]) -> dict[str, str]:
    """Map the uuids of instances in a group to the uuid of the group."""
    query = select(_INSTANCES.uuid, _GROUPS.uuid).join(
        server_groups, _INSTANCES.server_group == _GROUPS.uuid
    )
    return dict(map(tuple, sql.select_in_batches(connection, query, _INSTANCES.uuid, uuids)))


def map_by_uuid(connection: Connection, uuids: Collection[str]) -> dict[str, ServerGroup]:
    """Map uuids to existing groups with members, oldest first, and hosts."""
    members = _map_members(connection, uuids)
    rows = sql.select_in_batches(connection, select(server_groups), _GROUPS.uuid, uuids)
    groups = {}
    for row in rows:
        own = members.get(row.uuid, {})
        groups[row.uuid] = replace(_build_group(row, own), hosts=_list_hosts(own))
    return groups


def _list_hosts(members: Mapping[str, str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(host for host in members.values() if host is not None))


def search(
    connection: Connection,
    *,
    project_id: str | None = None,
    marker: str | None = None,
    offset: int = 0,
    limit: int | None = None,
) -> tuple[ServerGroup, ...]:
    """Return the groups of a project, or all, with members, oldest first.

    The list begins after the group ``marker`` and skips ``offset`` groups. After an unknown marker
    the list is empty.
    """
    query = select(server_groups).filter_by(**sql.drop_none(project_id=project_id))
    marker_id = select(_GROUPS.id).where(_GROUPS.uuid == marker).scalar_subquery()
    after = None if marker is None else marker_id
    query = sql.select_page_after(query, _GROUPS.id, after, limit=limit)
    rows = connection.execute(query.offset(offset)).all()
    members = _map_members(connection, [row.uuid for row in rows])
    return tuple(_build_group(row, members.get(row.uuid, ())) for row in rows)


def _map_members(
    connection: Connection, uuids: Collection[str]
) -> dict[str, dict[str, str | None]]:
    query = select(_INSTANCES.server_group, _INSTANCES.uuid, _INSTANCES.host)
    query = query.order_by(_INSTANCES.id)
    return nest_rows(sql.select_in_batches(connection, query, _INSTANCES.server_group, uuids))


def with_members(
    connection: Connection, group: ServerGroup, *, without: Collection[str] = ()
) -> ServerGroup:
    """Return a group with its stored members, oldest first, and their hosts.

    Instances ``without`` are omitted: an instance that is moved does not restrict its own move.
    """
    query = select(_INSTANCES.uuid, _INSTANCES.host).where(_INSTANCES.server_group == group.uuid)
    rows = connection.execute(query.order_by(_INSTANCES.id)).all()
    members = {uuid: host for uuid, host in rows if uuid not in without}
    return replace(group, members=tuple(members), hosts=_list_hosts(members))


def is_current(connection: Connection, group: ServerGroup, own: Collection[str]) -> bool:
    """Return whether the members and hosts of a group are still as stored.

    The group may have all stored members, or all except the instances in ``own``.
    """
    stored_groups = (with_members(connection, group, without=uuids) for uuids in ((), own))
    return any(
        set(stored.members) == set(group.members) and set(stored.hosts) == set(group.hosts)
        for stored in stored_groups
    )


def lock(connection: Connection, uuid: str) -> bool:
    """Lock a group until the transaction ends, and return whether it exists.

    Requests that add a member or delete the group lock it first, so that no member refers to a
    deleted group.
    """
    if sql.is_certification_based(connection):
        return bool(connection.execute(_TOUCH.where(_GROUPS.uuid == uuid)).rowcount)
    query = select(_GROUPS.id).where(_GROUPS.uuid == uuid).with_for_update()
    return connection.scalar(query) is not None


def lock_many(connection: Connection, uuids: Collection[str]) -> frozenset[str]:
    """Lock groups like :func:`lock`, oldest first, and return their uuids."""
    query = _UUIDS.order_by(_GROUPS.id).with_for_update()
    existing = list(sql.select_scalars_in_batches(connection, query, _GROUPS.uuid, uuids))
    if sql.is_certification_based(connection):
        sql.change_in_batches(connection, _TOUCH, _GROUPS.uuid, existing)
    return frozenset(existing)


def find_existing_uuids(connection: Connection, uuids: Collection[str]) -> frozenset[str]:
    """Return the uuids that belong to groups."""
    return frozenset(sql.select_scalars_in_batches(connection, _UUIDS, _GROUPS.uuid, uuids))


def lock_existing(connection: Connection, uuid: str, json_path: str) -> None:
    """Lock a group, or raise Invalid with ``json_path`` if there is none."""
    if not lock(connection, uuid):
        raise Invalid(f"There is no server group {uuid}", json_path=json_path)


def put(connection: Connection, groups: Collection[ServerGroup], now: datetime) -> None:
    """Create or replace groups, which are identified by their uuids."""
    rows = [
        {
            **{name: getattr(group, name) for name in ("uuid", *_ATTRIBUTES)},
            MAX_SERVER_PER_HOST: group.rules.get(MAX_SERVER_PER_HOST),
            "created_at": now,
            "updated_at": now,
        }
        for group in groups
    ]
    changing = (*_ATTRIBUTES, MAX_SERVER_PER_HOST, "updated_at")
    sql.insert_or_update(connection, server_groups, rows, key=("uuid",), changing=changing)


def remove(connection: Connection, uuid: str) -> None:
    """Delete a locked group and remove its members from it."""
    statement = update(instances).where(_INSTANCES.server_group == uuid).values(server_group=None)
    connection.execute(statement)
    connection.execute(delete(server_groups).where(_GROUPS.uuid == uuid))


def _build_group(row: Row[Any], members: Collection[str] = ()) -> ServerGroup:
    max_per_host = row.max_server_per_host
    return ServerGroup(
        **{name: getattr(row, name) for name in ("uuid", *_ATTRIBUTES)},
        rules={} if max_per_host is None else {MAX_SERVER_PER_HOST: max_per_host},
        members=tuple(members),
    )
