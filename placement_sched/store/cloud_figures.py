# SPDX-License-Identifier: Apache-2.0
"""Figures of the whole cloud, each summed by the database."""

from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy import Connection, func, select

from placement_sched.db.collations import is_same_uuid
from placement_sched.db.tables import (
    allocations,
    compute_nodes,
    host_aggregate_hosts,
    host_aggregate_metadata,
    inventories,
    resource_providers,
    services,
)
from placement_sched.model.aggregates import ZONE_KEY
from placement_sched.model.compute_node import COMPUTE_BINARY
from placement_sched.model.figures import CloudFigures, ZonedAmounts
from placement_sched.store.placement import resource_classes
from placement_sched.store.placement.capacity import whole_capacity


def read(connection: Connection, now: datetime, down_time: int, default_zone: str) -> CloudFigures:
    """Return the current figures, in five statements.

    A service is up if its last heartbeat is at most ``down_time`` seconds old. Hosts without a
    zone, and providers that belong to no compute node, are counted in ``default_zone``.
    """
    used_columns, columns = allocations.c, inventories.c
    total_capacity = func.sum(whole_capacity(connection, inventories))
    capacity = _by_zone(connection, columns, total_capacity, default_zone)
    used = _by_zone(connection, used_columns, func.sum(used_columns.used), default_zone)
    hosts = _hosts(connection, now - timedelta(seconds=down_time))
    return CloudFigures(hosts, capacity, {**dict.fromkeys(capacity, 0), **used})


def _hosts(connection: Connection, since: datetime) -> dict[str, int]:
    service = services.c
    is_up = sa.and_(service.forced_down == 0, service.last_seen_up >= since)
    state = sa.case((service.disabled != 0, "disabled"), (is_up, "up"), else_="down")
    query = select(state, func.count()).where(service.binary == COMPUTE_BINARY).group_by(state)
    counts = {row[0]: row[1] for row in connection.execute(query)}
    return {name: counts.get(name, 0) for name in ("up", "down", "disabled")}


def _zones() -> sa.Subquery:
    """Return a subquery of the zones of compute nodes, by node uuid."""
    node, member, metadata = compute_nodes.c, host_aggregate_hosts.c, host_aggregate_metadata.c
    return (
        select(node.uuid, func.min(metadata.value).label("zone"))
        .join(host_aggregate_hosts, member.host == node.host)
        .join(host_aggregate_metadata, metadata.aggregate_id == member.aggregate_id)
        .where(metadata.key == ZONE_KEY)
        .group_by(node.uuid)
        .subquery()
    )


def _by_zone(
    connection: Connection,
    columns: sa.ColumnCollection[str, sa.ColumnElement[int]],
    amount: sa.ColumnElement[int],
    default_zone: str,
) -> ZonedAmounts:
    """Return an amount summed by resource class and by the zone of the provider's tree."""
    names = resource_classes.all_by_id(connection)
    provider, root, zones = resource_providers.c, resource_providers.alias("roots"), _zones()
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
