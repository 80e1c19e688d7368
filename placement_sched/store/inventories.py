"""Inventories: what providers have of each resource class."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, delete, func, select

from placement_sched.db.batches import batches
from placement_sched.db.insert import insert_or_update
from placement_sched.db.tables import allocations, inventories, resource_classes
from placement_sched.model.inventory import Inventory
from placement_sched.store import resource_classes as classes

_COLUMNS = inventories.c
_AMOUNTS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")


def of_provider(connection: Connection, provider_id: int) -> tuple[Inventory, ...]:
    """Return a provider's inventories."""
    query = _select().where(_COLUMNS.resource_provider_id == provider_id)
    return tuple(_inventory(row) for row in connection.execute(query))


def used_by_class(connection: Connection, provider_id: int) -> dict[str, int]:
    """Return how much of a provider's resources is allocated, by class, where anything is."""
    query = (
        select(resource_classes.c.name, func.sum(allocations.c.used))
        .join(resource_classes, resource_classes.c.id == allocations.c.resource_class_id)
        .where(allocations.c.resource_provider_id == provider_id)
        .group_by(resource_classes.c.name)
    )
    return {name: int(used) for name, used in connection.execute(query).tuples()}


def put(
    connection: Connection, provider_id: int, wanted: Iterable[Inventory], now: datetime
) -> None:
    """Insert or update inventories of a provider that the caller has locked."""
    replace_many(connection, {provider_id: tuple(wanted)}, now)


def remove(connection: Connection, provider_id: int, names: Collection[str]) -> None:
    """Delete a provider's inventories of these classes; the caller has locked the provider."""
    ids = classes.ids_by_name(connection, names).values()
    connection.execute(
        delete(inventories).where(
            _COLUMNS.resource_provider_id == provider_id, _COLUMNS.resource_class_id.in_(ids)
        )
    )


def replace_many(
    connection: Connection, by_provider_id: Mapping[int, Sequence[Inventory]], now: datetime
) -> frozenset[int]:
    """Make the inventories of exactly these classes match; return the providers that changed.

    Inventories of other classes stay. The caller has locked the providers and bumps the
    generations of those that changed. The number of statements does not depend on how many
    providers there are.
    """
    found = _found(connection, by_provider_id)
    different = [
        (number, inventory)
        for number, wanted in by_provider_id.items()
        for inventory in wanted
        if found.get((number, inventory.resource_class)) != _comparable(connection, inventory)
    ]
    if not different:
        return frozenset()
    class_ids = classes.ids_by_name(connection, {one.resource_class for _, one in different})
    insert_or_update(
        connection,
        inventories,
        [_values(number, class_ids, inventory, now) for number, inventory in different],
        key=("resource_provider_id", "resource_class_id"),
        changing=(*_AMOUNTS, "updated_at"),
    )
    return frozenset(number for number, _ in different)


def _found(connection: Connection, provider_ids: Iterable[int]) -> dict[tuple[int, str], Inventory]:
    """Return the providers' inventories without their times, to be compared."""
    return {
        (row.resource_provider_id, row.name): _comparable(connection, _inventory(row))
        for batch in batches(sorted(provider_ids))
        for row in connection.execute(_select().where(_COLUMNS.resource_provider_id.in_(batch)))
    }


def _comparable(connection: Connection, inventory: Inventory) -> Inventory:
    """Return the inventory without its time, and with the ratio as the database gives it back."""
    ratio = inventory.allocation_ratio
    if connection.dialect.name in {"mysql", "mariadb"}:
        # Placement's column is a FLOAT there, which is read back with six digits.
        ratio = float(f"{ratio:.6g}")
    return replace(inventory, allocation_ratio=ratio, updated_at=None)


def _values(
    provider_id: int, class_ids: Mapping[str, int], inventory: Inventory, now: datetime
) -> dict[str, Any]:
    amounts = {name: getattr(inventory, name) for name in _AMOUNTS}
    return {
        "resource_provider_id": provider_id,
        "resource_class_id": class_ids[inventory.resource_class],
        "created_at": now,
        "updated_at": now,
        **amounts,
    }


def _select() -> Select[Any]:
    return (
        select(
            _COLUMNS.resource_provider_id,
            resource_classes.c.name,
            *(_COLUMNS[name] for name in _AMOUNTS),
            _COLUMNS.created_at,
            _COLUMNS.updated_at,
        )
        .join(resource_classes, resource_classes.c.id == _COLUMNS.resource_class_id)
        .order_by(_COLUMNS.resource_provider_id, _COLUMNS.resource_class_id)
    )


def _inventory(row: Row[Any]) -> Inventory:
    return Inventory(
        resource_class=row.name,
        updated_at=row.updated_at or row.created_at,
        **{name: getattr(row, name) for name in _AMOUNTS},
    )
