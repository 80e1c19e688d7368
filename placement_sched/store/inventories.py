"""Inventories: what providers have of each resource class."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, delete, select

from placement_sched.db.batches import batches
from placement_sched.db.insert import insert_or_update
from placement_sched.db.tables import allocations, inventories, resource_classes, resource_providers
from placement_sched.errors import InUse, Invalid
from placement_sched.model.inventory import Inventory
from placement_sched.model.provider import Provider
from placement_sched.store import resource_classes as classes

_COLUMNS = inventories.c
_AMOUNTS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")

_OF_PROVIDERS: Select[Any] = (
    select(
        _COLUMNS.resource_provider_id,
        resource_classes.c.name,
        *(_COLUMNS[name] for name in _AMOUNTS),
        _COLUMNS.created_at,
        _COLUMNS.updated_at,
    )
    .join(resource_classes, resource_classes.c.id == _COLUMNS.resource_class_id)
    .where(_COLUMNS.resource_provider_id.in_(bindparam("providers", expanding=True)))
    .order_by(_COLUMNS.resource_provider_id, _COLUMNS.resource_class_id)
)


def of_provider(connection: Connection, provider_id: int) -> tuple[Inventory, ...]:
    """Return a provider's inventories."""
    return tuple(
        _inventory(row) for row in connection.execute(_OF_PROVIDERS, {"providers": [provider_id]})
    )


def replace(
    connection: Connection, provider: Provider, wanted: Sequence[Inventory], now: datetime
) -> None:
    """Make these the only inventories of a provider that the caller has locked.

    Raises :class:`InUse` where one that would go has allocations.
    """
    found = _found(connection, [provider.id])
    kept = {(provider.id, one.resource_class) for one in wanted}
    _remove(connection, [place for place in found if place not in kept])
    _put(connection, found, {provider.id: wanted}, now)


def put(
    connection: Connection, provider: Provider, wanted: Sequence[Inventory], now: datetime
) -> None:
    """Insert or update inventories of a provider that the caller has locked."""
    replace_many(connection, {provider.id: wanted}, now)


def remove(connection: Connection, provider: Provider, names: Collection[str]) -> None:
    """Delete inventories of these classes of a provider that the caller has locked.

    Raises :class:`InUse` where one of them has allocations.
    """
    remove_many(connection, {provider.id: names})


def replace_many(
    connection: Connection, by_provider_id: Mapping[int, Sequence[Inventory]], now: datetime
) -> frozenset[int]:
    """Make the inventories of exactly these classes match; return the providers that changed.

    Inventories of other classes stay. The caller has locked the providers and bumps the
    generations of those that changed. The number of statements does not depend on how many
    providers there are.
    """
    return _put(connection, _found(connection, by_provider_id), by_provider_id, now)


def _put(
    connection: Connection,
    found: Mapping[tuple[int, str], Inventory],
    by_provider_id: Mapping[int, Sequence[Inventory]],
    now: datetime,
) -> frozenset[int]:
    """Write the inventories that differ from those found; return the providers that changed.

    Raises :class:`Invalid` where a class is not there, or not any more.
    """
    different = [
        (number, inventory)
        for number, wanted in by_provider_id.items()
        for inventory in wanted
        if found.get((number, inventory.resource_class)) != _comparable(connection, inventory)
    ]
    if not different:
        return frozenset()
    names = {one.resource_class for _, one in different}
    class_ids = classes.held_ids_by_name(connection, names)
    if missing := sorted(names - class_ids.keys()):
        raise Invalid(f"No such resource class {', '.join(missing)}.")
    insert_or_update(
        connection,
        inventories,
        [_values(number, class_ids, inventory, now) for number, inventory in different],
        key=("resource_provider_id", "resource_class_id"),
        changing=(*_AMOUNTS, "updated_at"),
    )
    return frozenset(number for number, _ in different)


def remove_many(
    connection: Connection, names_by_provider_id: Mapping[int, Collection[str]]
) -> frozenset[int]:
    """Delete inventories of these classes where they are; return the providers that had one.

    The caller has locked the providers and bumps the generations of those that had one. Raises
    :class:`InUse` where one is allocated.
    """
    found = _found(connection, names_by_provider_id)
    wanted = [
        (number, name) for number, names in names_by_provider_id.items() for name in sorted(names)
    ]
    return _remove(connection, [place for place in wanted if place in found])


def _remove(connection: Connection, present: Collection[tuple[int, str]]) -> frozenset[int]:
    """Delete these inventories, by provider id and class; return their providers."""
    if not present:
        return frozenset()
    class_ids = classes.ids_by_name(connection, {name for _, name in present})
    _refuse_used(connection, present, class_ids)
    for name, class_id in class_ids.items():
        for batch in batches(number for number, held in present if held == name):
            connection.execute(
                delete(inventories).where(
                    _COLUMNS.resource_class_id == class_id,
                    _COLUMNS.resource_provider_id.in_(batch),
                )
            )
    return frozenset(number for number, _ in present)


def _refuse_used(
    connection: Connection, places: Collection[tuple[int, str]], class_ids: Mapping[str, int]
) -> None:
    """Raise :class:`InUse` for the first provider that has allocations of a class beside it.

    All these classes are named.
    """
    names = {(number, class_ids[name]): name for number, name in places}
    used = select(
        allocations.c.resource_provider_id,
        allocations.c.resource_class_id,
        resource_providers.c.uuid,
    ).join(resource_providers, resource_providers.c.id == allocations.c.resource_provider_id)
    uuids: dict[int, str] = {}
    held: set[tuple[int, int]] = set()
    for batch in batches(sorted({number for number, _ in places})):
        query = used.where(
            allocations.c.resource_provider_id.in_(batch),
            allocations.c.resource_class_id.in_(class_ids.values()),
        ).distinct()
        for number, class_id, uuid in connection.execute(query):
            if (number, class_id) in names:
                uuids[number] = uuid
                held.add((number, class_id))
    first = next((number for number, _ in places if number in uuids), None)
    if first is not None:
        classes_used = sorted(class_id for number, class_id in held if number == first)
        named = ", ".join(names[first, class_id] for class_id in classes_used)
        raise InUse(
            f"Inventory for '{named}' on resource provider '{uuids[first]}' in use.",
            code="placement.inventory.inuse",
        )


def _found(connection: Connection, provider_ids: Iterable[int]) -> dict[tuple[int, str], Inventory]:
    """Return the providers' inventories without their times, to be compared."""
    return {
        (row.resource_provider_id, row.name): _comparable(connection, _inventory(row))
        for batch in batches(sorted(provider_ids))
        for row in connection.execute(_OF_PROVIDERS, {"providers": batch})
    }


def _comparable(connection: Connection, inventory: Inventory) -> Inventory:
    """Return the inventory without its times, and with the ratio as the database gives it back."""
    ratio = inventory.allocation_ratio
    if connection.dialect.name in {"mysql", "mariadb"}:
        # Placement's column is a FLOAT there, which is read back with six digits.
        ratio = float(f"{ratio:.6g}")
    return dataclasses.replace(inventory, allocation_ratio=ratio, created_at=None, updated_at=None)


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


def _inventory(row: Row[Any]) -> Inventory:
    return Inventory(
        resource_class=row.name,
        created_at=row.created_at,
        updated_at=row.updated_at,
        **{name: getattr(row, name) for name in _AMOUNTS},
    )
