# SPDX-License-Identifier: Apache-2.0
"""Migrations in progress, according to allocations and records.

When nova moves an instance, it hands the allocations on the source host to a consumer with the uuid
of the migration. The consumer has the project and user of the instance, but nothing names the
instance. A migration is therefore found only if a single instance can belong to it.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection, Select, exists, func, select

from placement_sched.db import sql
from placement_sched.db.collations import is_same_uuid
from placement_sched.db.tables import (
    allocations,
    compute_nodes,
    consumer_types,
    consumers,
    instances,
    projects,
    resource_classes,
    resource_providers,
    users,
)
from placement_sched.model.grouping import group_rows
from placement_sched.model.instance import MOVE_STATUSES, derive_status
from placement_sched.model.provider import MIGRATION_TYPE
from placement_sched.store.compute.instances import is_any
from placement_sched.store.compute.other_consumers import IS_IN_TREE, ROOTS

_INSTANCES, _CONSUMERS = instances.c, consumers.c
_NODE = tuple(compute_nodes.c[name] for name in ("uuid", "host", "hypervisor_hostname"))
#: The amounts of consumers, by compute node and resource class.
_AMOUNTS: Select[Any] = (
    select(allocations.c.consumer_id, *_NODE, resource_classes.c.name, func.sum(allocations.c.used))
    .select_from(allocations)
    .join(resource_providers, resource_providers.c.id == allocations.c.resource_provider_id)
    .join(ROOTS, IS_IN_TREE)
    .join(compute_nodes, is_same_uuid(compute_nodes.c.uuid, ROOTS.c.uuid))
    .join(resource_classes, resource_classes.c.id == allocations.c.resource_class_id)
    .group_by(allocations.c.consumer_id, *_NODE, resource_classes.c.name)
)
#: Consumers that may be migrations. nova sends no types of consumers.
_UNEXPLAINED: Select[Any] = (
    select(
        *(_CONSUMERS[name] for name in ("id", "uuid", "created_at", "updated_at")),
        projects.c.external_id.label("project_id"),
        users.c.external_id.label("user_id"),
    )
    .join(projects, projects.c.id == _CONSUMERS.project_id)
    .join(users, users.c.id == _CONSUMERS.user_id)
    .outerjoin(consumer_types, consumer_types.c.id == _CONSUMERS.consumer_type_id)
    .where(
        sa.or_(_CONSUMERS.consumer_type_id.is_(None), consumer_types.c.name == MIGRATION_TYPE),
        ~exists().where(is_same_uuid(_INSTANCES.uuid, _CONSUMERS.uuid)),
    )
)
_RECORDS = select(
    *(_INSTANCES[name] for name in ("uuid", "host", "node", "project_id", "user_id")),
    _INSTANCES.vm_state,
    _INSTANCES.task_state,
)


class Place(NamedTuple):
    """A compute node, by uuid, host and name."""

    uuid: str
    host: str
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """A migration in progress.

    ``target`` is None before the scheduler has selected a host. ``server_status`` is the status of
    the instance, and ``is_resize`` is true if its amounts differ from the amounts on the source
    host.
    """

    id: int
    uuid: str
    instance: str
    source: Place
    target: Place | None
    server_status: str
    is_resize: bool
    project_id: str
    user_id: str
    created_at: datetime | None
    updated_at: datetime | None


@dataclass(slots=True)
class _Amounts:
    """The amounts of a consumer on compute nodes."""

    by_class: Counter[str] = field(default_factory=Counter)
    places: set[Place] = field(default_factory=set)


def list_migrations(connection: Connection) -> list[Migration]:
    """Return the migrations in progress, the newest first."""
    if not is_any(connection):
        return []
    rows = connection.execute(_UNEXPLAINED).all()
    amounts_by_migration = _map_amounts(connection, [row.uuid for row in rows])
    sources = {
        uuid: next(iter(amounts.places))
        for uuid, amounts in amounts_by_migration.items()
        if len(amounts.places) == 1
    }
    if not sources:
        return []
    records = _list_movable(connection, {place.host for place in sources.values()})
    amounts_by_instance = _map_amounts(connection, [record.uuid for record in records])
    by_owner = group_rows(((record.project_id, record.user_id), record) for record in records)
    nothing = _Amounts()
    pairs = []
    for row in rows:
        if (source := sources.get(row.uuid)) is None:
            continue
        candidates = [
            record
            for record in by_owner.get((row.project_id, row.user_id), ())
            if _is_moving_from(source, record, amounts_by_instance.get(record.uuid, nothing))
        ]
        pairs += [(row, record, len(candidates)) for record in candidates]
    counts = Counter(record.uuid for _, record, _ in pairs)
    migrations = [
        _build(
            row,
            record,
            sources[row.uuid],
            amounts_by_migration[row.uuid],
            amounts_by_instance.get(record.uuid, nothing),
        )
        for row, record, number in pairs
        if number == counts[record.uuid] == 1
    ]
    return sorted(migrations, key=lambda item: item.id, reverse=True)


def _map_amounts(connection: Connection, uuids: Iterable[str]) -> dict[str, _Amounts]:
    amounts: dict[str, _Amounts] = {}
    rows = sql.select_in_batches(connection, _AMOUNTS, allocations.c.consumer_id, uuids)
    for consumer, *place, name, used in rows:
        of_consumer = amounts.setdefault(consumer, _Amounts())
        of_consumer.places.add(Place(*place))
        of_consumer.by_class[name] += int(used)
    return amounts


def _list_movable(connection: Connection, hosts: Iterable[str]) -> list[Any]:
    """Return instances on these hosts or in a state that may be a move."""
    in_motion = _RECORDS.where(
        sa.or_(_INSTANCES.task_state.is_not(None), func.lower(_INSTANCES.vm_state) == "resized")
    )
    on_hosts = sql.select_in_batches(connection, _RECORDS, _INSTANCES.host, sorted(hosts))
    records = (*on_hosts, *connection.execute(in_motion))
    return list({record.uuid: record for record in records}.values())


def _is_moving_from(source: Place, record: Any, amounts: _Amounts) -> bool:
    if source in amounts.places or len(amounts.places) > 1:
        return False
    status = derive_status(record.vm_state, record.task_state)
    is_in_motion = status in MOVE_STATUSES
    if (record.host, record.node) == (source.host, source.node):
        # A record without a task state is older than the allocations on the target host.
        return is_in_motion or bool(amounts.places)
    # A live migration has ended once the instance is recorded on the target host.
    is_cold = is_in_motion and status != "MIGRATING"
    return is_cold and any(place.host == record.host for place in amounts.places)


def _build(
    row: Any, record: Any, source: Place, source_amounts: _Amounts, amounts: _Amounts
) -> Migration:
    return Migration(
        **row._asdict(),
        instance=record.uuid,
        source=source,
        target=next(iter(amounts.places), None),
        server_status=derive_status(record.vm_state, record.task_state),
        is_resize=bool(amounts.places) and amounts.by_class != source_amounts.by_class,
    )
