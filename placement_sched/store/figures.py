# SPDX-License-Identifier: Apache-2.0
"""Figures of the whole cloud, and the last result for failover capacity.

Figures are the capacity and usage by zone, and counts of rows, also of inconsistent rows such as
providers without a root.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy import Connection, delete, exists, func, insert, not_, select

from placement_sched.db import sql, tables
from placement_sched.db.collations import is_same_uuid
from placement_sched.db.tables import (
    allocations,
    compute_nodes,
    failover_results,
    host_aggregate_hosts,
    host_aggregate_metadata,
    inventories,
    resource_providers,
    services,
)
from placement_sched.model.aggregates import ZONE_KEY
from placement_sched.model.compute_node import COMPUTE_BINARY
from placement_sched.model.document import Json
from placement_sched.model.figures import CloudFigures, FailoverResult, ZonedAmounts
from placement_sched.store import change_counters
from placement_sched.store.placement import resource_classes
from placement_sched.store.placement.capacity import build_whole_capacity, is_over_capacity
from placement_sched.store.placement.resource_classes import FIRST_CUSTOM_ID

_PROVIDERS = tables.resource_providers.c
#: The change counter that rises with each new result of a failover computation.
FAILOVER_SUBJECT = "failover_result"


@dataclass(frozen=True, slots=True)
class RowCounts:
    """The number of rows of each kind.

    ``roots_without_node``: root providers without a compute node report.
    ``without_root``: providers without a root, which the candidate search never returns.
    ``incomplete_consumers``: consumers with allocations but without a record.
    ``overfull_inventories``: inventories whose allocations exceed their capacity.
    """

    providers: int
    root_providers: int
    roots_without_node: int
    without_root: int
    inventories: int
    overfull_inventories: int
    allocations: int
    consumers: int
    incomplete_consumers: int
    aggregates: int
    custom_traits: int
    custom_resource_classes: int


def count_rows(connection: Connection) -> RowCounts:
    """Return all counts, in a single statement."""
    providers = select(_PROVIDERS.id)
    roots = providers.where(_PROVIDERS.parent_provider_id.is_(None))
    reported = exists().where(is_same_uuid(tables.compute_nodes.c.uuid, _PROVIDERS.uuid))
    inventories, classes = select(tables.inventories.c.id), tables.resource_classes.c
    consumers, consumer_id = tables.consumers, tables.allocations.c.consumer_id
    rows = {
        "providers": providers,
        "root_providers": roots,
        "roots_without_node": roots.where(not_(reported)),
        "without_root": providers.where(_PROVIDERS.root_provider_id.is_(None)),
        "inventories": inventories,
        "overfull_inventories": inventories.where(is_over_capacity(tables.inventories)),
        "allocations": select(tables.allocations.c.id),
        "consumers": select(consumers.c.id),
        "incomplete_consumers": select(consumer_id)
        .distinct()
        .outerjoin(consumers, consumers.c.uuid == consumer_id)
        .where(consumers.c.id.is_(None)),
        "aggregates": select(tables.placement_aggregates.c.id),
        "custom_traits": select(tables.traits.c.id).where(
            tables.traits.c.name.startswith("CUSTOM")
        ),
        "custom_resource_classes": select(classes.id).where(classes.id >= FIRST_CUSTOM_ID),
    }
    statement = select(*(sql.build_count(query).label(name) for name, query in rows.items()))
    counts = connection.execute(statement).mappings().one()
    return RowCounts(**{name: int(count) for name, count in counts.items()})


def count_nova_records(connection: Connection, created_before: datetime) -> dict[str, int]:
    """Count records by noun, with instances ``created_before`` a time."""
    instance = tables.instances.c
    rows = {
        "services": select(services.c.id).where(services.c.binary == COMPUTE_BINARY),
        "compute nodes": select(compute_nodes.c.id),
        "host aggregates": select(tables.host_aggregates.c.id),
        "server groups": select(tables.server_groups.c.id),
        "instances": select(instance.id).where(instance.created_at < created_before),
    }
    counts = connection.execute(select(*map(sql.build_count, rows.values()))).one()
    return {noun: int(count) for noun, count in zip(rows, counts, strict=True)}


def read_cloud_figures(
    connection: Connection,
    now: datetime,
    down_time: int,
    default_zone: str,
    reading_age: timedelta = timedelta(),
) -> CloudFigures:
    """Return the number of hosts by state, and capacity and usage by zone.

    A service is up if its last heartbeat is at most ``down_time`` seconds old, for hosts in nova's
    cells at the last reading, ``reading_age`` ago. Hosts without a zone, and providers that belong
    to no compute node, are counted in ``default_zone``.
    """
    used_columns, columns = allocations.c, inventories.c
    total_capacity = func.sum(build_whole_capacity(connection, inventories))
    capacity = _sum_by_zone(connection, columns, total_capacity, default_zone)
    used = _sum_by_zone(connection, used_columns, func.sum(used_columns.used), default_zone)
    hosts = _count_hosts(connection, now - timedelta(seconds=down_time), reading_age)
    return CloudFigures(hosts, capacity, {**dict.fromkeys(capacity, 0), **used})


def _count_hosts(connection: Connection, since: datetime, reading_age: timedelta) -> dict[str, int]:
    service, node = services.c, compute_nodes.c
    is_in_cell = exists().where(node.host == service.host, node.cell_uuid.is_not(None))
    is_recent = service.last_seen_up >= since
    if reading_age:
        is_recent |= is_in_cell & (service.last_seen_up >= since - reading_age)
    is_up = sa.and_(service.forced_down == 0, is_recent)
    state = sa.case((service.disabled != 0, "disabled"), (is_up, "up"), else_="down")
    query = select(state, func.count()).where(service.binary == COMPUTE_BINARY).group_by(state)
    counts = {row[0]: row[1] for row in connection.execute(query)}
    return {name: counts.get(name, 0) for name in ("up", "down", "disabled")}


def _sum_by_zone(
    connection: Connection,
    columns: sa.ColumnCollection[str, sa.ColumnElement[int]],
    amount: sa.ColumnElement[int],
    default_zone: str,
) -> ZonedAmounts:
    names = resource_classes.map_names_by_id(connection)
    node, member, metadata = compute_nodes.c, host_aggregate_hosts.c, host_aggregate_metadata.c
    zones = (
        select(node.uuid, func.min(metadata.value).label("zone"))
        .join(host_aggregate_hosts, member.host == node.host)
        .join(host_aggregate_metadata, metadata.aggregate_id == member.aggregate_id)
        .where(metadata.key == ZONE_KEY)
        .group_by(node.uuid)
        .subquery()
    )
    provider, root = resource_providers.c, resource_providers.alias("roots")
    query = (
        select(columns.resource_class_id, zones.c.zone, amount)
        .join(resource_providers, provider.id == columns.resource_provider_id)
        .join(root, root.c.id == provider.root_provider_id)
        .outerjoin(zones, is_same_uuid(zones.c.uuid, root.c.uuid))
        .group_by(columns.resource_class_id, zones.c.zone)
    )
    return {
        (names[class_id], default_zone if zone is None else zone): int(total)
        for class_id, zone, total in connection.execute(query)
        if class_id in names
    }


def replace_failover_result(connection: Connection, report: Json) -> None:
    """Replace the result of the last failover computation."""
    change_counters.bump(connection, FAILOVER_SUBJECT)
    moment = FailoverResult.from_report(report).computed_at
    text = orjson.dumps(report).decode()
    connection.execute(delete(failover_results).where(failover_results.c.id == 1))
    connection.execute(insert(failover_results).values(id=1, result=text, computed_at=moment))


def read_failover_result(connection: Connection) -> FailoverResult | None:
    """Return the last failover result, or None before the first."""
    query = select(failover_results.c.result).where(failover_results.c.id == 1)
    text: Any = connection.scalar(query)
    return None if text is None else FailoverResult.from_report(orjson.loads(text))
