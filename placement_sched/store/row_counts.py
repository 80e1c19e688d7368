# SPDX-License-Identifier: Apache-2.0
"""Row counts by kind, and counts of inconsistent rows."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, exists, func, not_, select

from placement_sched.db import tables
from placement_sched.db.collations import is_same_uuid
from placement_sched.store.placement.capacity import is_over_capacity
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
    inventories, custom = (
        select(tables.inventories.c.id),
        tables.resource_classes.c.id >= FIRST_CUSTOM_ID,
    )
    rows = {
        "providers": providers,
        "root_providers": roots,
        "roots_without_node": roots.where(not_(reported)),
        "without_root": _ROOTLESS,
        "inventories": inventories,
        "overfull_inventories": inventories.where(is_over_capacity(tables.inventories)),
        "allocations": select(tables.allocations.c.id),
        "consumers": select(tables.consumers.c.id),
        "incomplete_consumers": _INCOMPLETE,
        "aggregates": select(tables.placement_aggregates.c.id),
        "custom_traits": select(tables.traits.c.id).where(
            tables.traits.c.name.startswith("CUSTOM")
        ),
        "custom_resource_classes": select(tables.resource_classes.c.id).where(custom),
    }
    statement = select(*(_count(query).label(name) for name, query in rows.items()))
    counts = connection.execute(statement).mappings().one()
    return RowCounts(**{name: int(count) for name, count in counts.items()})


def without_root(connection: Connection) -> int:
    """Return the number of providers without a root."""
    return int(connection.scalars(select(_count(_ROOTLESS))).one())


def incomplete_consumers(connection: Connection) -> int:
    """Return the number of consumers with allocations but without a record."""
    return int(connection.scalars(select(_count(_INCOMPLETE))).one())


def _count(rows: Select[Any]) -> ColumnElement[int]:
    return select(func.count()).select_from(rows.subquery()).scalar_subquery()
