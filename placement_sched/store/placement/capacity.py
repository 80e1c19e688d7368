"""The capacity rule: as an SQL condition, and as the check of a claim against what is left.

The rule in Python is in ``model.placement``; a property test holds the SQL against it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, and_, bindparam, func, literal, or_, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from placement_sched.db.sql import SIZE, batches
from placement_sched.db.tables import allocations, inventories, resource_classes
from placement_sched.errors import CapacityExceeded
from placement_sched.model.provider import Inventory, capacity_of, may_hold, obeys_units


class _as_read(FunctionElement[float]):  # noqa: N801 - an SQL function is named so
    """A FLOAT column's value as a client reads it: what Python computes with, SQL must too.

    On MariaDB placement's column is single precision: 1.9 is read as 1.9, but counts as 1.89999998
    in an expression, and ten times that is not 19.
    """

    type = sa.Float()
    inherit_cache = True


@compiles(_as_read)
def _plain(element: _as_read, compiler: SQLCompiler, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


@compiles(_as_read, "mysql", "mariadb")
def _through_text(element: _as_read, compiler: SQLCompiler, **options: Any) -> str:
    return f"CAST(CAST({compiler.process(element.clauses, **options)} AS CHAR) AS DOUBLE)"


def used_of(provider_id: ColumnElement[int], class_id: ColumnElement[int]) -> ColumnElement[int]:
    """Return the sum of what is allocated of a class on a provider, read live from its index."""
    return (
        select(func.coalesce(func.sum(allocations.c.used), 0))
        .where(
            allocations.c.resource_provider_id == provider_id,
            allocations.c.resource_class_id == class_id,
        )
        .scalar_subquery()
    )


def have_room(owned: Sequence[tuple[sa.FromClause, int]]) -> ColumnElement[bool]:
    """Return whether each amount fits into its inventory (table or alias).

    Two detours say to PostgreSQL's planner what it cannot count, that most providers pass: it takes
    ``amount % step_size = 0`` to hold for one row in 200 and ``capacity >= ...`` for one in three,
    and then reads the whole cloud instead of stopping at the limit. If one capacity is too small
    nothing is summed.
    """
    units, small, fit = [], [], []
    for one, amount in owned:
        columns, asked, capacity = one.c, _asked(amount), _capacity(one)
        units += [columns.min_unit <= asked, columns.max_unit >= asked]
        units.append(or_(columns.step_size == 1, asked % columns.step_size == 0))
        small.append(capacity < asked)
        used = used_of(columns.resource_provider_id, columns.resource_class_id)
        fit.append(capacity >= used + asked)
    return and_(*units, sa.case((or_(*small), 0), (and_(*fit), 1), else_=0) != 0)


def _asked(amount: int) -> ColumnElement[int]:
    # An amount may be larger than the columns hold; it then has no room, but is not an error.
    return literal(amount, sa.BigInteger)


def overfull(owned: sa.FromClause, used: ColumnElement[int] | None = None) -> ColumnElement[bool]:
    """Return whether more is allocated of the inventories ``owned`` than they have.

    ``used`` is what is allocated of them; without, it is summed here.

    One may reserve more than its total (a reshape writes that): its capacity is below zero then,
    and it is not overfull while nothing of it is allocated.
    """
    if used is None:
        used = used_of(owned.c.resource_provider_id, owned.c.resource_class_id)
    capacity = _capacity(owned)
    return used > sa.case((capacity < 0, 0), else_=capacity)


def whole_capacity(connection: Connection, owned: sa.FromClause) -> ColumnElement[int]:
    """Return how much may be allocated in all of the inventories ``owned``, in whole units."""
    whole = _capacity(owned)
    if connection.dialect.name == "sqlite":  # whose CAST cuts off, and which may lack FLOOR
        return sa.cast(whole, sa.BigInteger)
    return sa.func.floor(whole)


def _capacity(owned: sa.FromClause) -> ColumnElement[float]:
    columns = owned.c
    return (columns.total - columns.reserved) * _as_read(columns.allocation_ratio)


_COLUMNS = inventories.c
_USED = used_of(_COLUMNS.resource_provider_id, _COLUMNS.resource_class_id)
_PLACES = (
    _COLUMNS.resource_provider_id.in_(bindparam("providers", expanding=True)),
    _COLUMNS.resource_class_id.in_(bindparam("classes", expanding=True)),
)
_ROOMS = (
    select(inventories, resource_classes.c.name, _USED.label("used"))
    .join(resource_classes, resource_classes.c.id == _COLUMNS.resource_class_id)
    .where(*_PLACES)
)
_FREE = select(
    _COLUMNS.resource_provider_id,
    _COLUMNS.resource_class_id,
    _COLUMNS.total,
    _COLUMNS.reserved,
    _COLUMNS.allocation_ratio,
    _USED.label("used"),
    _COLUMNS.max_unit,
).where(*_PLACES)

#: A provider's and a class's id: together they name one inventory.
InventoryIds = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Want:
    """An amount that one consumer asks of one class of one provider."""

    consumer: str
    place: InventoryIds
    provider_uuid: str
    resource_class: str
    amount: int


@dataclass(frozen=True, slots=True)
class UsedInventory:
    """An inventory and how much of it is used by everybody."""

    inventory: Inventory
    used: int


def check(
    connection: Connection, wants: Collection[Want], held: Mapping[InventoryIds, int]
) -> None:
    """Raise :class:`CapacityExceeded` where the amounts do not fit.

    ``held`` is what the same consumers have now, which they give up. The caller has locked the
    providers' rows and the rows of what is held: what is read here is then what the last writer
    left, and no other writer can finish before this transaction does.
    """
    _refuse(check_stocked(connection, wants), wants, held)


def fits(
    rooms: Mapping[InventoryIds, UsedInventory],
    wants: Collection[Want],
    held: Mapping[InventoryIds, int],
) -> bool:
    """Return whether :func:`check` would let the amounts pass if ``rooms`` is what there is."""
    if any(want.place not in rooms for want in wants):
        return False
    try:
        _refuse(rooms, wants, held)
    except CapacityExceeded:
        return False
    return True


def _refuse(
    rooms: Mapping[InventoryIds, UsedInventory],
    wants: Collection[Want],
    held: Mapping[InventoryIds, int],
) -> None:
    asked: dict[InventoryIds, int] = defaultdict(int)
    for want in wants:
        inventory = rooms[want.place].inventory
        if not obeys_units(inventory, want.amount):
            raise _exceeded(
                want,
                f"violate inventory constraints: {want.amount} requested, min_unit "
                f"{inventory.min_unit}, max_unit {inventory.max_unit}, "
                f"step_size {inventory.step_size}.",
            )
        asked[want.place] += want.amount
    for want in wants:
        room, own = rooms[want.place], held.get(want.place, 0)
        if not may_hold(room.inventory, room.used - own, own, asked[want.place]):
            raise _exceeded(
                want,
                f"exceed the capacity of {room.inventory.capacity}, of which others use "
                f"{room.used - own}: {asked[want.place]} requested.",
            )


def check_stocked(
    connection: Connection, wants: Collection[Want]
) -> dict[InventoryIds, UsedInventory]:
    """Return what there is at the places that are asked.

    Raises :class:`CapacityExceeded` where an amount is of a class that the provider has not.
    """
    rooms = read(connection, {want.place for want in wants})
    for want in wants:
        if want.place not in rooms:
            raise CapacityExceeded(
                f"Unable to allocate inventory: Inventory for '{want.resource_class}' on resource "
                f"provider '{want.provider_uuid}' invalid: it has none."
            )
    return rooms


def _exceeded(want: Want, how: str) -> CapacityExceeded:
    return CapacityExceeded(
        f"Unable to allocate inventory: Unable to create allocation for '{want.resource_class}' on "
        f"resource provider '{want.provider_uuid}'. The requested amount would {how}"
    )


def read(
    connection: Connection, places: Iterable[InventoryIds]
) -> dict[InventoryIds, UsedInventory]:
    """Return inventory and usage at these places, and perhaps at more of the same providers."""
    return {
        (row.resource_provider_id, row.resource_class_id): UsedInventory(
            Inventory(
                resource_class=row.name,
                total=row.total,
                reserved=row.reserved,
                min_unit=row.min_unit,
                max_unit=row.max_unit,
                step_size=row.step_size,
                allocation_ratio=row.allocation_ratio,
            ),
            int(row.used),
        )
        for row in _rows(connection, _ROOMS, places)
    }


def free(
    connection: Connection, places: Iterable[InventoryIds]
) -> dict[InventoryIds, tuple[int, int]]:
    """Return what is free at these places, and the most that one allocation may take there.

    What is free is less than 0 where more is used than there is. In less time than :func:`read`:
    no inventory is made. As there, there may be more of the same providers.
    """
    return {
        (provider_id, class_id): (capacity_of(total, reserved, ratio) - int(used), max_unit)
        for provider_id, class_id, total, reserved, ratio, used, max_unit in _rows(
            connection, _FREE, places
        )
    }


def _rows(
    connection: Connection, statement: sa.Select[Any], places: Iterable[InventoryIds]
) -> Iterator[Any]:
    """Yield the rows of a statement about providers and classes for these places."""
    asked = set(places)
    class_ids = sorted({class_id for _, class_id in asked})
    provider_ids = sorted({provider_id for provider_id, _ in asked})
    for batch in batches(provider_ids, SIZE - len(class_ids)):
        yield from connection.execute(statement, {"providers": batch, "classes": class_ids}).all()
