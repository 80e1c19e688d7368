"""Row counts by kind, and counts of inconsistent rows."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, exists, func, not_, select

from placement_sched.db import tables
from placement_sched.db.collations import is_same_uuid
from placement_sched.store.placement.capacity import overfull
from placement_sched.store.placement.resource_classes import FIRST_CUSTOM_ID

_PROVIDERS = tables.resource_providers.c
_ROOTLESS = select(_PROVIDERS.id).where(_PROVIDERS.root_provider_id.is_(None))
_INCOMPLETE = (
    select(tables.allocations.c.consumer_id)
    .distinct()
    .outerjoin(tables.consumers, tables.consumers.c.uuid == tables.allocations.c.consumer_id)
    .where(tables.consumers.c.id.is_(None))
)


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
    providers = select(_PROVIDERS.id)
    roots = providers.where(_PROVIDERS.parent_provider_id.is_(None))
    reported = exists().where(is_same_uuid(tables.compute_nodes.c.uuid, _PROVIDERS.uuid))
    stocks, custom = (
        select(tables.inventories.c.id),
        tables.resource_classes.c.id >= FIRST_CUSTOM_ID,
    )
    rows = {
        "providers": providers,
        "root_providers": roots,
        "roots_without_node": roots.where(not_(reported)),
        "without_root": _ROOTLESS,
        "inventories": stocks,
        "overfull_inventories": stocks.where(overfull(tables.inventories)),
        "allocations": select(tables.allocations.c.id),
        "consumers": select(tables.consumers.c.id),
        "incomplete_consumers": _INCOMPLETE,
        "aggregates": select(tables.placement_aggregates.c.id),
        "custom_traits": select(tables.traits.c.id).where(
            tables.traits.c.name.startswith("CUSTOM")
        ),
        "custom_resource_classes": select(tables.resource_classes.c.id).where(custom),
    }
    question = select(*(_count(some).label(name) for name, some in rows.items()))
    found = connection.execute(question).mappings().one()
    return Census(**{name: int(number) for name, number in found.items()})


def without_root(connection: Connection) -> int:
    """Return how many providers have no root set."""
    return int(connection.scalars(select(_count(_ROOTLESS))).one())


def incomplete_consumers(connection: Connection) -> int:
    """Return how many consumers hold allocations and have no record."""
    return int(connection.scalars(select(_count(_INCOMPLETE))).one())


def _count(rows: Select[Any]) -> ColumnElement[int]:
    return select(func.count()).select_from(rows.subquery()).scalar_subquery()
