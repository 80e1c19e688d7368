"""Usages: sums of allocations, by provider, or by project, user and consumer type."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import CTE, Connection, func, null, select, union_all

from placement_sched.db.tables import (
    allocations,
    consumer_types,
    consumers,
    inventories,
    projects,
    resource_classes,
    users,
)
from placement_sched.model.allocation import UNKNOWN_TYPE
from placement_sched.store.room import used_of


@dataclass(frozen=True, slots=True)
class TypeUsage:
    """What the consumers of one type use: how many they are, and the amounts by class."""

    consumer_type: str
    consumers: int
    amounts: Mapping[str, int]


def of_provider(connection: Connection, provider_id: int) -> dict[str, int]:
    """Return how much is used of each class of which the provider has inventory, 0 included."""
    used = used_of(inventories.c.resource_provider_id, inventories.c.resource_class_id)
    query = (
        select(resource_classes.c.name, used)
        .join(inventories, inventories.c.resource_class_id == resource_classes.c.id)
        .where(inventories.c.resource_provider_id == provider_id)
        .order_by(resource_classes.c.id)
    )
    return {name: int(amount) for name, amount in connection.execute(query)}


def of_project(
    connection: Connection,
    project_id: str,
    *,
    user_id: str | None = None,
    consumer_type: str | None = None,
) -> tuple[TypeUsage, ...]:
    """Return the usage of a project, or of one of its users, by consumer type.

    ``consumer_type`` narrows to one type, ``unknown`` to consumers without one. Counts and sums
    come from one statement, so that they belong together.
    """
    held = (
        select(
            consumers.c.uuid.label("consumer"),
            consumer_types.c.name.label("consumer_type"),
            resource_classes.c.name.label("resource_class"),
            allocations.c.used,
        )
        .join(consumers, consumers.c.uuid == allocations.c.consumer_id)
        .join(projects, projects.c.id == consumers.c.project_id)
        .join(resource_classes, resource_classes.c.id == allocations.c.resource_class_id)
        .outerjoin(consumer_types, consumer_types.c.id == consumers.c.consumer_type_id)
        .where(projects.c.external_id == project_id)
    )
    if user_id is not None:
        held = held.join(users, users.c.id == consumers.c.user_id).where(
            users.c.external_id == user_id
        )
    if consumer_type == UNKNOWN_TYPE:
        held = held.where(consumers.c.consumer_type_id.is_(None))
    elif consumer_type is not None:
        held = held.where(consumer_types.c.name == consumer_type)
    return _by_type(connection, held.cte("held"))


def _by_type(connection: Connection, held: CTE) -> tuple[TypeUsage, ...]:
    """Return sums by type and class, and, in rows without a class, consumers by type."""
    sums = select(
        held.c.consumer_type, held.c.resource_class, func.sum(held.c.used).label("amount")
    ).group_by(held.c.consumer_type, held.c.resource_class)
    counts = select(
        held.c.consumer_type, null().label("resource_class"), func.count(held.c.consumer.distinct())
    ).group_by(held.c.consumer_type)
    amounts: dict[str, dict[str, int]] = defaultdict(dict)
    numbers: dict[str, int] = {}
    for row in connection.execute(union_all(sums, counts)):
        kind = row.consumer_type or UNKNOWN_TYPE
        if row.resource_class is None:
            numbers[kind] = int(row.amount)
        else:
            amounts[kind][row.resource_class] = int(row.amount)
    return tuple(TypeUsage(kind, numbers[kind], amounts[kind]) for kind in sorted(numbers))
