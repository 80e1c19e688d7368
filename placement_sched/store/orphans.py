"""Consumers that hold what compute nodes have, and of which no instance is recorded."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Select, exists, not_, or_, select

from placement_sched.db.batches import batches
from placement_sched.db.tables import (
    allocations,
    compute_nodes,
    consumer_types,
    consumers,
    instances,
    resource_providers,
)
from placement_sched.model.allocation import INSTANCE_TYPE

_CONSUMER = allocations.c.consumer_id
_ROOT = resource_providers.alias("root")


def find(connection: Connection, provider_id: int | None = None) -> tuple[str, ...]:
    """Return the orphans that hold something of a provider, or of any compute node's tree.

    A consumer of another type than instances are is none of compute's, and no orphan.
    """
    return tuple(connection.scalars(_orphans(provider_id).order_by(_CONSUMER)))


def still(
    connection: Connection, uuids: Collection[str], provider_id: int | None = None
) -> frozenset[str]:
    """Return those of these consumers that are orphans."""
    return frozenset(
        uuid
        for batch in batches(uuids)
        for uuid in connection.scalars(_orphans(provider_id).where(_CONSUMER.in_(batch)))
    )


def _orphans(provider_id: int | None) -> Select[Any]:
    query = (
        select(_CONSUMER)
        .distinct()
        .outerjoin(consumers, consumers.c.uuid == _CONSUMER)
        .outerjoin(consumer_types, consumer_types.c.id == consumers.c.consumer_type_id)
        .where(
            or_(consumer_types.c.id.is_(None), consumer_types.c.name == INSTANCE_TYPE),
            not_(exists().where(instances.c.uuid == _CONSUMER)),
        )
    )
    held = allocations.c.resource_provider_id
    if provider_id is not None:
        return query.where(held == provider_id)
    return (
        query.join(resource_providers, resource_providers.c.id == held)
        .join(_ROOT, _ROOT.c.id == resource_providers.c.root_provider_id)
        .join(compute_nodes, compute_nodes.c.uuid == _ROOT.c.uuid)
    )
