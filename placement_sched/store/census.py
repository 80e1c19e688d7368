"""How much of everything a database holds, and what in it is not as it should be."""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Select, exists, func, not_, select

from placement_sched.db.tables import (
    allocations,
    compute_nodes,
    consumers,
    inventories,
    placement_aggregates,
    resource_classes,
    resource_providers,
    traits,
)
from placement_sched.store.resource_classes import FIRST_CUSTOM_ID
from placement_sched.store.room import overfull


@dataclass(frozen=True, slots=True)
class Census:
    """How many there are of each noun.

    ``roots_without_node``: root providers of which no compute node has reported.
    ``without_root``: providers whose root is not set, which no candidates search finds.
    ``incomplete_consumers``: consumers that hold allocations and have no record.
    ``overfull_inventories``: inventories of which more is allocated than they have.
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


def take(connection: Connection) -> Census:
    """Return the census, all counted by one statement."""
    providers = resource_providers.c
    is_root = providers.parent_provider_id.is_(None)
    reported = exists().where(compute_nodes.c.uuid == providers.uuid)
    found = connection.execute(
        select(
            _count(select(providers.id)).label("providers"),
            _count(select(providers.id).where(is_root)).label("root_providers"),
            _count(select(providers.id).where(is_root, not_(reported))).label("roots_without_node"),
            _rootless().label("without_root"),
            _count(select(inventories.c.id)).label("inventories"),
            _count(select(inventories.c.id).where(overfull(inventories))).label(
                "overfull_inventories"
            ),
            _count(select(allocations.c.id)).label("allocations"),
            _count(select(consumers.c.id)).label("consumers"),
            _incomplete().label("incomplete_consumers"),
            _count(select(placement_aggregates.c.id)).label("aggregates"),
            _count(select(traits.c.id).where(traits.c.name.startswith("CUSTOM"))).label(
                "custom_traits"
            ),
            _count(
                select(resource_classes.c.id).where(resource_classes.c.id >= FIRST_CUSTOM_ID)
            ).label("custom_resource_classes"),
        )
    )
    return Census(**{name: int(number) for name, number in found.mappings().one().items()})


def without_root(connection: Connection) -> int:
    """Return how many providers have no root set."""
    return int(connection.scalars(select(_rootless())).one())


def incomplete_consumers(connection: Connection) -> int:
    """Return how many consumers hold allocations and have no record."""
    return int(connection.scalars(select(_incomplete())).one())


def _count(rows: Select[int]) -> ColumnElement[int]:
    return select(func.count()).select_from(rows.subquery()).scalar_subquery()


def _rootless() -> ColumnElement[int]:
    providers = resource_providers.c
    return _count(select(providers.id).where(providers.root_provider_id.is_(None)))


def _incomplete() -> ColumnElement[int]:
    held = allocations.outerjoin(consumers, consumers.c.uuid == allocations.c.consumer_id)
    return (
        select(func.count(allocations.c.consumer_id.distinct()))
        .select_from(held)
        .where(consumers.c.id.is_(None))
        .scalar_subquery()
    )
