# SPDX-License-Identifier: Apache-2.0
"""Consumers with allocations on hosts that are not instances there."""

from collections.abc import Collection
from typing import Any

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
)
from placement_sched.model.grouping import nest_rows
from placement_sched.model.provider import UNKNOWN_TYPE, OtherConsumer

_HOST, _CONSUMER = compute_nodes.c.host, allocations.c.consumer_id
#: The root providers, and the condition that a provider is in the tree of a root.
ROOTS = resource_providers.alias("roots")
_PROVIDERS = resource_providers.c
IS_IN_TREE = func.coalesce(_PROVIDERS.root_provider_id, _PROVIDERS.id) == ROOTS.c.id
_IS_INSTANCE = exists().where(
    is_same_uuid(instances.c.uuid, _CONSUMER), instances.c.host == compute_nodes.c.host
)
_FACTS = (_HOST, _CONSUMER, consumer_types.c.name.label("type"), projects.c.external_id)
_AMOUNTS: Select[Any] = (
    select(*_FACTS, resource_classes.c.name, func.sum(allocations.c.used))
    .select_from(compute_nodes)
    .join(ROOTS, is_same_uuid(ROOTS.c.uuid, compute_nodes.c.uuid))
    .join(resource_providers, IS_IN_TREE)
    .join(allocations, allocations.c.resource_provider_id == _PROVIDERS.id)
    .join(resource_classes, resource_classes.c.id == allocations.c.resource_class_id)
    .outerjoin(consumers, consumers.c.uuid == _CONSUMER)
    .outerjoin(consumer_types, consumer_types.c.id == consumers.c.consumer_type_id)
    .outerjoin(projects, projects.c.id == consumers.c.project_id)
    .where(~_IS_INSTANCE)
    .group_by(*_FACTS, resource_classes.c.name)
)


def list_other_consumers(
    connection: Connection, hosts: Collection[str] | None
) -> list[OtherConsumer]:
    """Return the other consumers on hosts (None: all), by host and uuid.

    These are containers, reservations and migrations, for example. An instance that is recorded on
    another host counts, too, since it does not leave with the instances of the host.
    """
    if hosts is None:
        rows = list(connection.execute(_AMOUNTS))
    else:
        rows = list(sql.select_in_batches(connection, _AMOUNTS, _HOST, sorted(hosts)))
    amounts = nest_rows((tuple(row[:4]), row[4], int(row[5])) for row in rows)
    return [
        OtherConsumer(host, uuid, kind or UNKNOWN_TYPE, project_id, dict(sorted(resources.items())))
        for (host, uuid, kind, project_id), resources in sorted(
            amounts.items(), key=lambda item: item[0][:2]
        )
    ]
