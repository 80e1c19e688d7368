"""How much of a class providers have left, in the words of a refusal."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, func, select

from placement_sched.candidates.constraints import Constraint
from placement_sched.db.batches import batches
from placement_sched.db.tables import allocations, inventories
from placement_sched.model.inventory import Inventory, why_not

#: An inventory and how much of it is used.
Stock = tuple[Inventory, int]


def stocks_of(
    connection: Connection, constraint: Constraint, ids: Iterable[int]
) -> dict[int, Stock]:
    """Return what those of the providers that have any have of a constraint's class."""
    return {
        row.resource_provider_id: (_inventory(constraint, row), int(row.used))
        for batch in batches(ids)
        for row in connection.execute(_stock(constraint.resource_class_id, batch))
    }


def shortage(constraint: Constraint, stocks: Mapping[int, Stock], provider: int) -> str:
    """Return why the amount asked does not fit into what a provider has."""
    inventory, used = stocks.get(provider, (None, 0))
    return f"{constraint.resource_class}: {why_not(inventory, used, constraint.amount)}"


def _stock(class_id: int, ids: Iterable[int]) -> Select[Any]:
    return (
        select(inventories, func.coalesce(func.sum(allocations.c.used), 0).label("used"))
        .outerjoin(
            allocations,
            and_(
                allocations.c.resource_provider_id == inventories.c.resource_provider_id,
                allocations.c.resource_class_id == class_id,
            ),
        )
        .where(
            inventories.c.resource_class_id == class_id,
            inventories.c.resource_provider_id.in_(ids),
        )
        .group_by(*inventories.c)
    )


def _inventory(constraint: Constraint, row: Row[Any]) -> Inventory:
    return Inventory(
        resource_class=constraint.resource_class,
        total=row.total,
        reserved=row.reserved,
        min_unit=row.min_unit,
        max_unit=row.max_unit,
        step_size=row.step_size,
        allocation_ratio=row.allocation_ratio,
    )
