# SPDX-License-Identifier: Apache-2.0
"""Rule for capacity, as an SQL condition and as the check of a claim.

:mod:`placement_sched.model.provider` has the same rule in Python. A property test compares the two.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, and_, bindparam, func, literal, or_, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from placement_sched.db.tables import allocations, inventories, resource_classes
from placement_sched.errors import CapacityExceeded
from placement_sched.model.grouping import BATCH_SIZE, split_batches
from placement_sched.model.provider import Inventory, can_change_usage, matches_units


class _round_float(FunctionElement[float]):  # noqa: N801 - an SQL function is named so
    """The value of a FLOAT column as clients read it.

    On MariaDB placement's column has single precision: a client reads 1.9, but in an SQL expression
    the value is 1.89999998, so that ten times the value is not 19. With this function, SQL and
    Python compute the same results.
    """

    type = sa.Float()
    inherit_cache = True


@compiles(_round_float)
def _compile_unchanged(element: _round_float, compiler: SQLCompiler, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


@compiles(_round_float, "mysql", "mariadb")
def _compile_through_text(element: _round_float, compiler: SQLCompiler, **options: Any) -> str:
    return f"CAST(CAST({compiler.process(element.clauses, **options)} AS CHAR) AS DOUBLE)"


def build_used_sum(
    provider_id: ColumnElement[int], class_id: ColumnElement[int]
) -> ColumnElement[int]:
    """Build the sum of the allocations of a class from a provider."""
    return (
        select(func.coalesce(func.sum(allocations.c.used), 0))
        .where(
            allocations.c.resource_provider_id == provider_id,
            allocations.c.resource_class_id == class_id,
        )
        .scalar_subquery()
    )


def build_capacity_condition(owned: Sequence[tuple[sa.FromClause, int]]) -> ColumnElement[bool]:
    """Build the condition that each amount fits into its inventory.

    ``owned`` has pairs of the inventories table, or an alias of it, and an amount. Allocations are
    summed only if the capacity is large enough. Most providers pass, but PostgreSQL
    expects that ``amount % step_size = 0`` is true for 1 row in 200, and ``capacity >= ...`` for 1
    row in 3. It would then read the whole cloud instead of stopping at the limit. The test
    ``step_size = 1`` and the CASE correct these estimates.
    """
    units, too_small, fitting = [], [], []
    for inventory, amount in owned:
        columns, capacity = inventory.c, _build_capacity(inventory)
        # An amount larger than the column type does not fit anywhere, but is not an error.
        requested = literal(amount, sa.BigInteger)
        units += [columns.min_unit <= requested, columns.max_unit >= requested]
        units.append(or_(columns.step_size == 1, requested % columns.step_size == 0))
        too_small.append(capacity < requested)
        used = build_used_sum(columns.resource_provider_id, columns.resource_class_id)
        fitting.append(capacity >= used + requested)
    return and_(*units, sa.case((or_(*too_small), 0), (and_(*fitting), 1), else_=0) != 0)


def is_over_capacity(
    owned: sa.FromClause, used: ColumnElement[int] | None = None
) -> ColumnElement[bool]:
    """Build the condition that allocations exceed the capacity of ``owned``.

    ``used`` is the allocated amount of the inventories (None: summed in the condition). A reshape
    may reserve more than the total. Such an inventory has a negative capacity, and exceeds it only
    if it has allocations. nova reserves the total of a device with ``one_time_use`` while an
    instance has it, so that the total may be allocated.
    """
    if used is None:
        used = build_used_sum(owned.c.resource_provider_id, owned.c.resource_class_id)
    capacity = _build_capacity(owned)
    total = owned.c.total
    return used > sa.case((owned.c.reserved == total, total), (capacity < 0, 0), else_=capacity)


def build_whole_capacity(connection: Connection, owned: sa.FromClause) -> ColumnElement[int]:
    """Build the allocatable amount of inventories ``owned``, in whole units."""
    capacity = _build_capacity(owned)
    if connection.dialect.name == "sqlite":  # CAST truncates, and FLOOR may be missing
        return sa.cast(capacity, sa.BigInteger)
    return sa.func.floor(capacity)


def _build_capacity(owned: sa.FromClause) -> ColumnElement[float]:
    columns = owned.c
    return (columns.total - columns.reserved) * _round_float(columns.allocation_ratio)


#: The fields of an inventory that are columns of its table, except times.
AMOUNTS = tuple(
    field.name
    for field in fields(Inventory)
    if field.name not in {"resource_class", "created_at", "updated_at"}
)
_COLUMNS = inventories.c
_USED = build_used_sum(_COLUMNS.resource_provider_id, _COLUMNS.resource_class_id)
_PLACES = (
    _COLUMNS.resource_provider_id.in_(bindparam("providers", expanding=True)),
    _COLUMNS.resource_class_id.in_(bindparam("classes", expanding=True)),
)
_USED_INVENTORIES = (
    select(
        _COLUMNS.resource_provider_id,
        _COLUMNS.resource_class_id,
        _USED,
        resource_classes.c.name,
        *(_COLUMNS[name] for name in AMOUNTS),
    )
    .select_from(inventories)
    .join(resource_classes, resource_classes.c.id == _COLUMNS.resource_class_id)
    .where(*_PLACES)
)
#: The ids of a provider and a class, which identify an inventory.
InventoryIds = tuple[int, int]


@dataclass(frozen=True, slots=True)
class RequestedAmount:
    """An amount of a resource class that a consumer requests from a provider."""

    consumer: str
    inventory_ids: InventoryIds
    provider_uuid: str
    resource_class: str
    amount: int


@dataclass(frozen=True, slots=True)
class UsedInventory:
    """An inventory, and the sum of all allocations from it."""

    inventory: Inventory
    used: int


def check(
    connection: Connection,
    amounts: Collection[RequestedAmount],
    current_amounts: Mapping[InventoryIds, int],
) -> None:
    """Raise :class:`CapacityExceeded` if any amount does not fit.

    ``current_amounts`` are the current allocations of the same consumers, which they give up. The
    caller has locked the rows of the providers and of the current allocations, so that the state
    read here cannot change before the transaction ends.
    """
    _check_amounts(check_inventories(connection, amounts), amounts, current_amounts)


def fits(
    used_inventories: Mapping[InventoryIds, UsedInventory],
    amounts: Collection[RequestedAmount],
    current_amounts: Mapping[InventoryIds, int],
) -> bool:
    """Return whether :func:`check` would pass, with inventories already read."""
    if any(entry.inventory_ids not in used_inventories for entry in amounts):
        return False
    try:
        _check_amounts(used_inventories, amounts, current_amounts)
    except CapacityExceeded:
        return False
    return True


def _check_amounts(
    used_inventories: Mapping[InventoryIds, UsedInventory],
    amounts: Collection[RequestedAmount],
    current_amounts: Mapping[InventoryIds, int],
) -> None:
    requested: dict[InventoryIds, int] = defaultdict(int)
    for entry in amounts:
        inventory = used_inventories[entry.inventory_ids].inventory
        if not matches_units(inventory, entry.amount):
            raise _build_exceeded_error(
                entry,
                f"violate inventory constraints: {entry.amount} requested, min_unit "
                f"{inventory.min_unit}, max_unit {inventory.max_unit}, "
                f"step_size {inventory.step_size}.",
            )
        requested[entry.inventory_ids] += entry.amount
    for entry in amounts:
        current = used_inventories[entry.inventory_ids]
        inventory, used = current.inventory, current.used
        own, amount = current_amounts.get(entry.inventory_ids, 0), requested[entry.inventory_ids]
        if not can_change_usage(inventory, used - own, own, amount):
            raise _build_exceeded_error(
                entry,
                f"exceed the capacity of {inventory.capacity}, of which others use {used - own}: "
                f"{amount} requested.",
            )


def check_inventories(
    connection: Connection, amounts: Collection[RequestedAmount]
) -> dict[InventoryIds, UsedInventory]:
    """Return the requested inventories, or raise :class:`CapacityExceeded`."""
    used_inventories = read(connection, {entry.inventory_ids for entry in amounts})
    for entry in amounts:
        if entry.inventory_ids not in used_inventories:
            raise CapacityExceeded(
                f"Unable to allocate inventory: Inventory for '{entry.resource_class}' on resource "
                f"provider '{entry.provider_uuid}' invalid: the provider has no inventory of this "
                "class."
            )
    return used_inventories


def _build_exceeded_error(entry: RequestedAmount, violation: str) -> CapacityExceeded:
    return CapacityExceeded(
        f"Unable to allocate inventory: Unable to create allocation for '{entry.resource_class}' "
        f"on resource provider '{entry.provider_uuid}'. The requested amount would {violation}"
    )


def read(
    connection: Connection, places: Iterable[InventoryIds]
) -> dict[InventoryIds, UsedInventory]:
    """Read inventories with usage, and others of the same providers."""
    inventory_ids = set(places)
    class_ids = sorted({class_id for _, class_id in inventory_ids})
    provider_ids = sorted({provider_id for provider_id, _ in inventory_ids})
    return {
        (provider_id, class_id): UsedInventory(
            Inventory(resource_class=name, **dict(zip(AMOUNTS, amounts, strict=True))), int(used)
        )
        for batch in split_batches(provider_ids, BATCH_SIZE - len(class_ids))
        for provider_id, class_id, used, name, *amounts in connection.execute(
            _USED_INVENTORIES, {"providers": batch, "classes": class_ids}
        ).all()
    }
