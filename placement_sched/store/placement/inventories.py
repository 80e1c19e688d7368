"""Inventories: what providers have of each resource class."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Select, bindparam, delete, func, select

from placement_sched.db import sql
from placement_sched.db.tables import allocations, inventories, resource_classes, resource_providers
from placement_sched.errors import InUse, Invalid
from placement_sched.model.provider import Inventory, Provider
from placement_sched.store.placement import resource_classes as classes
from placement_sched.store.placement.capacity import InventoryIds
from placement_sched.store.placement.resource_providers import BySpelling

_COLUMNS = inventories.c
_AMOUNTS = tuple(
    one.name
    for one in dataclasses.fields(Inventory)
    if one.name not in {"resource_class", "created_at", "updated_at"}
)
# To ask a row for each by its name takes three times as long.
_amounts_in = attrgetter(*_AMOUNTS)
_FIELDS = ("resource_class", *_AMOUNTS, "created_at", "updated_at")

_STOCK: Select[Any] = select(inventories, resource_classes.c.name).join(
    resource_classes, resource_classes.c.id == _COLUMNS.resource_class_id
)
_OF_PROVIDERS = _STOCK.where(
    _COLUMNS.resource_provider_id.in_(bindparam("providers", expanding=True))
).order_by(_COLUMNS.resource_provider_id, _COLUMNS.resource_class_id)
# One question for the provider and its inventories: asking twice takes nearly twice as long.
_BY_UUID = BySpelling.of(
    select(
        resource_providers.c.uuid,
        func.coalesce(resource_providers.c.generation, 0),
        resource_classes.c.name,
        *(_COLUMNS[name] for name in _FIELDS[1:]),
    )
    .select_from(resource_providers)
    .outerjoin(inventories, _COLUMNS.resource_provider_id == resource_providers.c.id)
    .outerjoin(resource_classes, resource_classes.c.id == _COLUMNS.resource_class_id)
    .order_by(_COLUMNS.resource_class_id)
)


class HeldInventory(NamedTuple):
    """An inventory that is there, to be compared: without its times."""

    class_id: int
    inventory: Inventory


#: So many classes are named in one statement, beside some ten thousand providers.
_CLASSES = 1000
#: Inventories that are there, by the provider's id and the name of the class.
HeldByPlace = Mapping[tuple[int, str], HeldInventory]


def of_provider(connection: Connection, provider_id: int) -> tuple[Inventory, ...]:
    """Return a provider's inventories."""
    found = connection.execute(_OF_PROVIDERS, {"providers": [provider_id]})
    return tuple(
        _inventory(row, created_at=row.created_at, updated_at=row.updated_at) for row in found
    )


def by_provider_uuid(connection: Connection, uuid: str) -> tuple[int, tuple[Inventory, ...]]:
    """Return a provider's generation, and its inventories; raises :class:`NotFound`."""
    rows = _BY_UUID.rows(connection, uuid)
    found = tuple(
        Inventory(**dict(zip(_FIELDS, held, strict=True)))
        for _, _, *held in rows
        if held[0] is not None
    )
    return rows[0][1], found


def by_provider_id(
    connection: Connection, ids: Iterable[int] | None = None
) -> dict[int, dict[str, Inventory]]:
    """Return every inventory, or those of some providers, by provider id and class; no times."""
    rows: Iterable[Any]
    if ids is None:
        rows = connection.execute(_STOCK)
    else:
        rows = sql.rows_among(connection, _STOCK, _COLUMNS.resource_provider_id, ids)
    return sql.nested((row.resource_provider_id, row.name, _inventory(row)) for row in rows)


def changed_at(connection: Connection, provider_ids: Iterable[int]) -> dict[InventoryIds, datetime]:
    """Return when each inventory of these providers was last written, where that is known."""
    place = (_COLUMNS.resource_provider_id, _COLUMNS.resource_class_id)
    query = select(*place, func.coalesce(_COLUMNS.updated_at, _COLUMNS.created_at))
    rows = sql.rows_among(connection, query, _COLUMNS.resource_provider_id, provider_ids)
    return {(number, class_id): at for number, class_id, at in rows if at is not None}


def replace(
    connection: Connection, provider: Provider, wanted: Sequence[Inventory], now: datetime
) -> None:
    """Make these the only inventories of a provider that the caller has locked.

    Those that are there as they are wanted stay, and keep the time of their last change: by that
    ``placement audit --invariants`` judges what is allocated of them. Raises :class:`InUse` where
    one that would go has allocations.
    """
    found = find(connection, [provider.id])
    kept = {(provider.id, one.resource_class) for one in wanted}
    _remove(connection, found, [place for place in found if place not in kept])
    _change(connection, found, {provider.id: wanted}, now)


def put(
    connection: Connection,
    by_provider_id: Mapping[int, Sequence[Inventory]],
    now: datetime,
    found: HeldByPlace | None = None,
) -> None:
    """Insert or update inventories of providers that the caller has locked.

    One that is there as it is wanted stays, and keeps the time of its last change. The number of
    statements does not depend on how many there are. ``found`` is what :func:`find` has found of
    these providers.
    """
    if found is None:
        found = find(connection, by_provider_id)
    _change(connection, found, by_provider_id, now)


def remove(
    connection: Connection,
    names_by_provider_id: Mapping[int, Collection[str]],
    found: HeldByPlace | None = None,
) -> frozenset[int]:
    """Delete inventories of these classes where they are; return the providers that had one.

    The caller has locked the providers and bumps the generations of those that had one. Raises
    :class:`InUse` where one is allocated. ``found`` is what :func:`find` has found of these
    providers.
    """
    if found is None:
        found = find(connection, names_by_provider_id)
    wanted = [
        (number, name) for number, names in names_by_provider_id.items() for name in sorted(names)
    ]
    return _remove(connection, found, [place for place in wanted if place in found])


def replace_many(
    connection: Connection, by_provider_id: Mapping[int, Sequence[Inventory]], now: datetime
) -> frozenset[int]:
    """Make the inventories of exactly these classes match; return the providers that changed.

    Inventories of other classes stay. The caller has locked the providers and bumps the
    generations of those that changed. The number of statements does not depend on how many
    providers there are.
    """
    return _change(connection, find(connection, by_provider_id), by_provider_id, now)


def set_ratios(
    connection: Connection, by_provider_id: Mapping[int, Mapping[str, float]], now: datetime
) -> frozenset[int]:
    """Give inventories that are there these ratios, by class; return the providers that changed.

    The caller has locked the providers and bumps the generations of those that changed. A ratio
    may leave less than is allocated. The number of statements does not depend on how many
    providers there are.
    """
    found = find(connection, by_provider_id)
    wanted = {
        number: [
            dataclasses.replace(held.inventory, allocation_ratio=ratio)
            for name, ratio in ratios.items()
            if (held := found.get((number, name))) is not None
        ]
        for number, ratios in by_provider_id.items()
    }
    return _change(connection, found, wanted, now)


def _change(
    connection: Connection,
    found: HeldByPlace,
    wanted: Mapping[int, Sequence[Inventory]],
    now: datetime,
) -> frozenset[int]:
    different = _different(connection, found, wanted)
    _put(connection, different, now)
    return frozenset(number for number, _ in different)


def _placed(wanted: Mapping[int, Sequence[Inventory]]) -> list[tuple[int, Inventory]]:
    return [(number, one) for number, some in wanted.items() for one in some]


def _different(
    connection: Connection, found: HeldByPlace, wanted: Mapping[int, Sequence[Inventory]]
) -> list[tuple[int, Inventory]]:
    """Return the inventories that are not among those found, each with its provider's id."""
    return [
        (number, inventory)
        for number, inventory in _placed(wanted)
        if (held := found.get((number, inventory.resource_class))) is None
        or held.inventory != _comparable(connection, inventory)
    ]


def _put(connection: Connection, placed: Sequence[tuple[int, Inventory]], now: datetime) -> None:
    """Insert or update inventories, each beside its provider's id.

    Raises :class:`Invalid` where a class is not there, or not any more.
    """
    if not placed:
        return
    names = {one.resource_class for _, one in placed}
    class_ids = classes.held_ids_by_name(connection, names)
    if missing := sorted(names - class_ids.keys()):
        raise Invalid(f"No such resource class {', '.join(missing)}.")
    rows = [
        {
            "resource_provider_id": number,
            "resource_class_id": class_ids[one.resource_class],
            "created_at": now,
            "updated_at": now,
            **{name: getattr(one, name) for name in _AMOUNTS},
        }
        for number, one in placed
    ]
    key = ("resource_provider_id", "resource_class_id")
    changing = (*_AMOUNTS, "updated_at")
    sql.insert_or_update(connection, inventories, rows, key=key, changing=changing)


def _remove(
    connection: Connection, found: HeldByPlace, places: Collection[tuple[int, str]]
) -> frozenset[int]:
    """Delete inventories that were found at these places; return the providers that had one."""
    if not places:
        return frozenset()
    # Not looked up by name: before microversion 1.7 a class could be renamed meanwhile.
    names = {(number, found[number, name].class_id): name for number, name in places}
    _refuse_used(connection, names)
    # One statement for all classes that go from the same providers.
    numbers = sql.grouped((class_id, number) for number, class_id in sorted(names))
    class_ids = sql.grouped((tuple(some), class_id) for class_id, some in numbers.items())
    for some, ids in class_ids.items():
        for batch in sql.batches(ids, _CLASSES):
            gone = delete(inventories).where(_COLUMNS.resource_class_id.in_(batch))
            sql.change_among(connection, gone, _COLUMNS.resource_provider_id, some)
    return frozenset(number for number, _ in places)


def _refuse_used(connection: Connection, names: Mapping[tuple[int, int], str]) -> None:
    """Raise :class:`InUse` for the first provider that has allocations of a class beside it.

    ``names`` are those of the classes, by the ids of provider and class. All these classes are
    named.
    """
    provider, resource_class = allocations.c.resource_provider_id, allocations.c.resource_class_id
    used = (
        select(provider, resource_class, resource_providers.c.uuid)
        .join(resource_providers, resource_providers.c.id == provider)
        .where(resource_class.in_(sorted({class_id for _, class_id in names})))
        .distinct()
    )
    numbers = sorted({number for number, _ in names})
    held = sql.grouped(
        (number, (class_id, uuid))
        for number, class_id, uuid in sql.rows_among(connection, used, provider, numbers)
        if (number, class_id) in names
    )
    for first, _ in names:
        if first in held:
            named = ", ".join(names[first, class_id] for class_id, _ in sorted(held[first]))
            raise InUse(
                f"Inventory for '{named}' on resource provider '{held[first][0][1]}' in use.",
                code="placement.inventory.inuse",
            )


def find(connection: Connection, provider_ids: Iterable[int]) -> HeldByPlace:
    """Return the inventories of providers, as the database gives them back, without their times."""
    return {
        (row.resource_provider_id, row.name): HeldInventory(
            row.resource_class_id, _comparable(connection, _inventory(row))
        )
        for batch in sql.batches(sorted(provider_ids))
        for row in connection.execute(_OF_PROVIDERS, {"providers": batch})
    }


def _comparable(connection: Connection, inventory: Inventory) -> Inventory:
    """Return the inventory without its times, and with the ratio as the database gives it back."""
    ratio = inventory.allocation_ratio
    if connection.dialect.name in {"mysql", "mariadb"}:
        # Placement's column is a FLOAT there, which is read back with six digits.
        ratio = float(f"{ratio:.6g}")
    if ratio == inventory.allocation_ratio and not (inventory.created_at or inventory.updated_at):
        return inventory  # as most are: to make a copy takes longer than to compare one
    return dataclasses.replace(inventory, allocation_ratio=ratio, created_at=None, updated_at=None)


def _inventory(row: Row[Any], **times: Any) -> Inventory:
    amounts = dict(zip(_AMOUNTS, _amounts_in(row), strict=True))
    return Inventory(resource_class=row.name, **amounts, **times)
