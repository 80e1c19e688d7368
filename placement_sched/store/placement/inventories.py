# SPDX-License-Identifier: Apache-2.0
"""Inventories: the amounts of each resource class that providers offer."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Select, bindparam, delete, func, select

from placement_sched.db import sql
from placement_sched.db.tables import allocations, inventories, resource_classes, resource_providers
from placement_sched.errors import InUse, Invalid
from placement_sched.model.grouping import group_rows, nest_rows, split_batches
from placement_sched.model.provider import Inventory, Provider
from placement_sched.store.placement import resource_classes as classes
from placement_sched.store.placement.capacity import AMOUNTS, InventoryIds
from placement_sched.store.placement.resource_providers import DetailsQuery

_COLUMNS = inventories.c
# Reading each attribute by name takes three times as long.
_amounts_in = attrgetter(*AMOUNTS)
_FIELDS = ("resource_class", *AMOUNTS, "created_at", "updated_at")

_INVENTORIES: Select[Any] = select(inventories, resource_classes.c.name).join(
    resource_classes, resource_classes.c.id == _COLUMNS.resource_class_id
)
_OF_PROVIDERS = _INVENTORIES.where(
    _COLUMNS.resource_provider_id.in_(bindparam("providers", expanding=True))
).order_by(_COLUMNS.resource_provider_id, _COLUMNS.resource_class_id)
_DETAILS = DetailsQuery(
    [resource_classes.c.name, *(_COLUMNS[name] for name in _FIELDS[1:])],
    (inventories, _COLUMNS.resource_provider_id == resource_providers.c.id),
    (resource_classes, resource_classes.c.id == _COLUMNS.resource_class_id),
    order=_COLUMNS.resource_class_id,
)
#: Number of classes per statement, in addition to some 10 000 providers.
_CLASSES_PER_STATEMENT = 1000


class ExistingInventory(NamedTuple):
    """An existing inventory without timestamps, for comparison."""

    class_id: int
    inventory: Inventory


#: Existing inventories by provider id and class name.
ExistingInventories = Mapping[tuple[int, str], ExistingInventory]


def get_by_provider_uuid(connection: Connection, uuid: str) -> tuple[int, tuple[Inventory, ...]]:
    """Return a provider's generation and inventories, or raise NotFound."""
    _, generation, rows = _DETAILS.read(connection, uuid)
    return generation, tuple(Inventory(**dict(zip(_FIELDS, row, strict=True))) for row in rows)


def map_by_provider_id(
    connection: Connection, ids: Iterable[int] | None = None
) -> dict[int, dict[str, Inventory]]:
    """Map provider ids (None: all) to inventories by class, without times."""
    rows: Iterable[Any]
    if ids is None:
        rows = connection.execute(_INVENTORIES)
    else:
        rows = sql.select_in_batches(connection, _INVENTORIES, _COLUMNS.resource_provider_id, ids)
    return nest_rows((row.resource_provider_id, row.name, _build_inventory(row)) for row in rows)


def map_change_times(
    connection: Connection, provider_ids: Iterable[int]
) -> dict[InventoryIds, datetime]:
    """Map inventories of providers to the times of their last changes."""
    key = (_COLUMNS.resource_provider_id, _COLUMNS.resource_class_id)
    query = select(*key, func.coalesce(_COLUMNS.updated_at, _COLUMNS.created_at))
    rows = sql.select_in_batches(connection, query, _COLUMNS.resource_provider_id, provider_ids)
    return {
        (provider_id, class_id): time for provider_id, class_id, time in rows if time is not None
    }


def replace(
    connection: Connection, provider: Provider, new_inventories: Sequence[Inventory], now: datetime
) -> None:
    """Replace the inventories of a provider that the caller has locked.

    Unchanged inventories keep the time of their last change, which ``placement audit --invariants``
    compares with their allocations. Raises :class:`InUse` if a removed inventory has allocations.
    """
    existing = find(connection, [provider.id])
    remaining = {(provider.id, inventory.resource_class) for inventory in new_inventories}
    _remove(connection, existing, [key for key in existing if key not in remaining])
    put(connection, {provider.id: new_inventories}, now, existing)


def remove(
    connection: Connection,
    names_by_provider_id: Mapping[int, Collection[str]],
    existing: ExistingInventories | None = None,
) -> frozenset[int]:
    """Delete inventories, and return the ids of the changed providers.

    The caller has locked the providers and increments the generations of the changed providers.
    Raises :class:`InUse` if an inventory has allocations. ``existing`` is the result of
    :func:`find` for these providers.
    """
    if existing is None:
        existing = find(connection, names_by_provider_id)
    keys = [
        (number, name) for number, names in names_by_provider_id.items() for name in sorted(names)
    ]
    return _remove(connection, existing, [key for key in keys if key in existing])


def put(
    connection: Connection,
    by_provider_id: Mapping[int, Sequence[Inventory]],
    now: datetime,
    existing: ExistingInventories | None = None,
) -> frozenset[int]:
    """Create or update inventories, and return the ids of changed providers.

    Inventories of other classes stay, and unchanged inventories keep the time of their last change.
    The caller has locked the providers and increments the generations of the changed providers. The
    number of statements does not depend on the number of inventories. ``existing`` is the result of
    :func:`find` for these providers.
    """
    if existing is None:
        existing = find(connection, by_provider_id)
    different = [
        (provider_id, inventory)
        for provider_id, new in by_provider_id.items()
        for inventory in new
        if (old := existing.get((provider_id, inventory.resource_class))) is None
        or old.inventory != _make_comparable(connection, inventory)
    ]
    if not different:
        return frozenset()
    names = {inventory.resource_class for _, inventory in different}
    class_ids = classes.lock_ids(connection, names)
    if missing := sorted(names - class_ids.keys()):
        raise Invalid(f"No such resource class {', '.join(missing)}.")
    rows = [
        {
            "resource_provider_id": provider_id,
            "resource_class_id": class_ids[inventory.resource_class],
            "created_at": now,
            "updated_at": now,
            **{name: getattr(inventory, name) for name in AMOUNTS},
        }
        for provider_id, inventory in different
    ]
    key = ("resource_provider_id", "resource_class_id")
    changing = (*AMOUNTS, "updated_at")
    sql.insert_or_update(connection, inventories, rows, key=key, changing=changing)
    return frozenset(number for number, _ in different)


def set_ratios(
    connection: Connection, by_provider_id: Mapping[int, Mapping[str, float]], now: datetime
) -> frozenset[int]:
    """Set allocation ratios, and return the ids of the changed providers.

    ``by_provider_id`` maps provider ids to ratios by class. A class without an inventory is
    ignored. The caller has locked the providers and increments the generations of the changed
    providers. A ratio may reduce the capacity below the allocations. The number of statements does
    not depend on the number of providers.
    """
    existing = find(connection, by_provider_id)
    changed = {
        provider_id: [
            dataclasses.replace(old.inventory, allocation_ratio=ratio)
            for name, ratio in ratios.items()
            if (old := existing.get((provider_id, name))) is not None
        ]
        for provider_id, ratios in by_provider_id.items()
    }
    return put(connection, changed, now, existing)


def _remove(
    connection: Connection, existing: ExistingInventories, keys: Collection[tuple[int, str]]
) -> frozenset[int]:
    if not keys:
        return frozenset()
    # The class ids were read before: until microversion 1.7 classes can be renamed concurrently.
    names = {(provider, existing[provider, name].class_id): name for provider, name in keys}
    _check_unused(connection, names)
    # One statement for all classes that are removed from the same providers.
    providers = group_rows((class_id, provider) for provider, class_id in sorted(names))
    class_ids = group_rows(
        (tuple(provider_ids), class_id) for class_id, provider_ids in providers.items()
    )
    for provider_ids, ids in class_ids.items():
        for batch in split_batches(ids, _CLASSES_PER_STATEMENT):
            statement = delete(inventories).where(_COLUMNS.resource_class_id.in_(batch))
            sql.change_in_batches(
                connection, statement, _COLUMNS.resource_provider_id, provider_ids
            )
    return frozenset(provider for provider, _ in keys)


def _check_unused(connection: Connection, names: Mapping[tuple[int, int], str]) -> None:
    """Raise :class:`InUse` if an inventory to remove has allocations.

    ``names`` maps pairs of provider id and class id to class names. The error names the first
    provider with allocations, and all of its classes in use.
    """
    provider, resource_class = allocations.c.resource_provider_id, allocations.c.resource_class_id
    query = (
        select(provider, resource_class, resource_providers.c.uuid)
        .join(resource_providers, resource_providers.c.id == provider)
        .where(resource_class.in_(sorted({class_id for _, class_id in names})))
        .distinct()
    )
    provider_ids = sorted({provider_id for provider_id, _ in names})
    used = group_rows(
        (provider_id, (class_id, uuid))
        for provider_id, class_id, uuid in sql.select_in_batches(
            connection, query, provider, provider_ids
        )
        if (provider_id, class_id) in names
    )
    for first, _ in names:
        if first in used:
            in_use = ", ".join(names[first, class_id] for class_id, _ in sorted(used[first]))
            raise InUse(
                f"Inventory for '{in_use}' on resource provider '{used[first][0][1]}' in use.",
                code="placement.inventory.inuse",
            )


def find(connection: Connection, provider_ids: Iterable[int]) -> ExistingInventories:
    """Map inventories without times, and with stored precision of ratios."""
    return {
        (row.resource_provider_id, row.name): ExistingInventory(
            row.resource_class_id, _make_comparable(connection, _build_inventory(row))
        )
        for batch in split_batches(sorted(provider_ids))
        for row in connection.execute(_OF_PROVIDERS, {"providers": batch})
    }


def _make_comparable(connection: Connection, inventory: Inventory) -> Inventory:
    """Return an inventory without times, with stored precision of the ratio."""
    ratio = inventory.allocation_ratio
    if connection.dialect.name in {"mysql", "mariadb"}:
        # Placement's column is a FLOAT, which is read back with six digits.
        ratio = float(f"{ratio:.6g}")
    if ratio == inventory.allocation_ratio and not (inventory.created_at or inventory.updated_at):
        return inventory  # the common case: copying takes longer than comparing
    return dataclasses.replace(inventory, allocation_ratio=ratio, created_at=None, updated_at=None)


def _build_inventory(row: Row[Any]) -> Inventory:
    amounts = dict(zip(AMOUNTS, _amounts_in(row), strict=True))
    return Inventory(resource_class=row.name, **amounts)
