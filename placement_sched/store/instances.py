"""Instances as recorded: where each is, whose it is, and what it is made of."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, Row, delete, func, select

from placement_sched.db.among import among
from placement_sched.db.batches import batches
from placement_sched.db.insert import insert_or_update
from placement_sched.db.tables import instances
from placement_sched.errors import NotFound
from placement_sched.model.instance import Instance

_COLUMNS = instances.c
_LONGEST_ID = 255
_DERIVED = ("flavorid", "image_id")
_RECORDED = (
    "host",
    "node",
    "project_id",
    "user_id",
    "display_name",
    "vm_state",
    "task_state",
    "flavor",
    "image",
    "server_group",
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
    return tuple(
        of_row(row)
        for batch in batches(sorted(set(uuids)))
        for row in connection.execute(query.where(among(connection, _COLUMNS.uuid, batch)))
    )


def by_hosts(connection: Connection, hosts: Iterable[str]) -> tuple[Instance, ...]:
    """Return the instances on these hosts, by host, then uuid."""
    return tuple(
        of_row(row)
        for batch in batches(set(hosts))
        for row in connection.execute(
            select(instances)
            .where(among(connection, _COLUMNS.host, batch))
            .order_by(_COLUMNS.host, _COLUMNS.uuid)
        )
    )


def named_on_hosts(connection: Connection, hosts: Iterable[str]) -> tuple[Named, ...]:
    """Return where instances on these hosts are, and their names, in order of name, then uuid."""
    columns = (_COLUMNS.host, _COLUMNS.node, _COLUMNS.uuid, _COLUMNS.display_name)
    found = [
        Named(*row)
        for batch in batches(set(hosts))
        for row in connection.execute(select(*columns).where(_COLUMNS.host.in_(batch)))
    ]
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
    """Return the instances of a host, a node, a project, or all, by uuid, behind ``after``."""
    query = select(instances).order_by(_COLUMNS.uuid).limit(limit)
    if host is not None:
        query = query.where(_COLUMNS.host == host)
    if node is not None:
        query = query.where(_COLUMNS.node == node)
    if project_id is not None:
        query = query.where(_COLUMNS.project_id == project_id)
    if after is not None:
        query = query.where(_COLUMNS.uuid > after)
    return tuple(of_row(row) for row in connection.execute(query))


def is_any(connection: Connection) -> bool:
    """Return whether any instance is recorded."""
    return connection.execute(select(_COLUMNS.id).limit(1)).first() is not None


def counts_on_hosts(
    connection: Connection, hosts: Iterable[str]
) -> dict[tuple[str, str | None], int]:
    """Return how many instances are recorded on these hosts, by host and node."""
    query = select(_COLUMNS.host, _COLUMNS.node, func.count()).group_by(
        _COLUMNS.host, _COLUMNS.node
    )
    return {
        (host, node): number
        for batch in batches(set(hosts))
        for host, node, number in connection.execute(
            query.where(among(connection, _COLUMNS.host, batch))
        )
    }


def record(connection: Connection, recorded: Sequence[Instance], now: datetime) -> None:
    """Keep instances as they are now, whatever was recorded of them before.

    The decision that placed an instance stays noted where the new record names none.
    """
    changing = [*_RECORDED, *_DERIVED, "updated_at"]
    decided = [instance for instance in recorded if instance.decision_uuid is not None]
    others = [instance for instance in recorded if instance.decision_uuid is None]
    for some, names in ((decided, [*changing, "decision_uuid"]), (others, changing)):
        insert_or_update(
            connection,
            instances,
            [_row_of(instance, now) for instance in some],
            key=("uuid",),
            changing=names,
        )


def remove(connection: Connection, uuids: Iterable[str]) -> int:
    """Delete the records of these instances; return how many there were."""
    return sum(
        connection.execute(delete(instances).where(_COLUMNS.uuid.in_(batch))).rowcount
        for batch in batches(set(uuids))
    )


def _row_of(instance: Instance, now: datetime) -> dict[str, Any]:
    row = {name: getattr(instance, name) for name in ("uuid", *_RECORDED, "decision_uuid")}
    flavor, image = row["flavor"] or {}, row["image"] or {}
    row["flavorid"] = _id(flavor.get("flavorid"), flavor.get("id"))
    row["image_id"] = _id(image.get("id"))
    for name in ("flavor", "image"):
        row[name] = None if row[name] is None else orjson.dumps(row[name]).decode()
    return {**row, "created_at": now, "updated_at": now}


def _id(*candidates: str | int | None) -> str | None:
    """Return the first of the ids that is there; one too long to be any is none."""
    found = next((str(each) for each in candidates if each is not None), None)
    return found if found is not None and len(found) <= _LONGEST_ID else None


def of_row(row: Row[Any]) -> Instance:
    """Return the instance of a row of the table."""
    fields = row._asdict()
    for name in ("id", *_DERIVED):
        del fields[name]
    for name in ("flavor", "image"):
        fields[name] = None if fields[name] is None else orjson.loads(fields[name])
    return Instance(**fields)
