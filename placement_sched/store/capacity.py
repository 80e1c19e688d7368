"""What is left on providers: inventories and usage read live, and the check of a claim."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, select

from placement_sched.db.batches import SIZE, batches
from placement_sched.db.tables import inventories, resource_classes
from placement_sched.errors import CapacityExceeded
from placement_sched.model.allocation import may_hold
from placement_sched.model.inventory import Inventory, obeys_units
from placement_sched.store.room import used_of

_COLUMNS = inventories.c
_USED = used_of(_COLUMNS.resource_provider_id, _COLUMNS.resource_class_id)
_ROOMS = (
    select(inventories, resource_classes.c.name, _USED.label("used"))
    .join(resource_classes, resource_classes.c.id == _COLUMNS.resource_class_id)
    .where(
        _COLUMNS.resource_provider_id.in_(bindparam("providers", expanding=True)),
        _COLUMNS.resource_class_id.in_(bindparam("classes", expanding=True)),
    )
)

#: A provider's and a class's id: together they name one inventory.
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Want:
    """An amount that one consumer asks of one class of one provider."""

    consumer: str
    place: Place
    provider_uuid: str
    resource_class: str
    amount: int


@dataclass(frozen=True, slots=True)
class Room:
    """An inventory and how much of it is used by everybody."""

    inventory: Inventory
    used: int


def check(connection: Connection, wants: Collection[Want], held: Mapping[Place, int]) -> None:
    """Raise :class:`CapacityExceeded` where the amounts do not fit.

    ``held`` is what the same consumers have now, which they give up. The caller has locked the
    providers' rows and the rows of what is held: what is read here is then what the last writer
    left, and no other writer can finish before this transaction does.
    """
    rooms = read(connection, {want.place for want in wants})
    asked: dict[Place, int] = defaultdict(int)
    for want in wants:
        _check_units(want, rooms.get(want.place))
        asked[want.place] += want.amount
    for want in wants:
        room, own = rooms[want.place], held.get(want.place, 0)
        if not may_hold(room.inventory, room.used - own, own, asked[want.place]):
            raise CapacityExceeded(
                f"{_unable(want)} The requested amount would exceed the capacity of "
                f"{room.inventory.capacity}, of which others use {room.used - own}: "
                f"{asked[want.place]} asked."
            )


def check_stocked(connection: Connection, wants: Collection[Want]) -> None:
    """Raise :class:`CapacityExceeded` where an amount is of a class that the provider has not."""
    rooms = read(connection, {want.place for want in wants})
    for want in wants:
        _stocked(want, rooms.get(want.place))


def read(connection: Connection, places: Iterable[Place]) -> dict[Place, Room]:
    """Return inventory and usage at these places, and perhaps at more of the same providers."""
    asked = set(places)
    class_ids = sorted({class_id for _, class_id in asked})
    provider_ids = sorted({provider_id for provider_id, _ in asked})
    return {
        (row.resource_provider_id, row.resource_class_id): Room(
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
        for batch in batches(provider_ids, SIZE - len(class_ids))
        for row in connection.execute(_ROOMS, {"providers": batch, "classes": class_ids})
    }


def _stocked(want: Want, room: Room | None) -> Room:
    if room is None:
        raise CapacityExceeded(
            f"Unable to allocate inventory: Inventory for '{want.resource_class}' on resource "
            f"provider '{want.provider_uuid}' invalid: it has none."
        )
    return room


def _unable(want: Want) -> str:
    return (
        f"Unable to allocate inventory: Unable to create allocation for '{want.resource_class}' on "
        f"resource provider '{want.provider_uuid}'."
    )


def _check_units(want: Want, room: Room | None) -> None:
    inventory = _stocked(want, room).inventory
    if not obeys_units(inventory, want.amount):
        raise CapacityExceeded(
            f"{_unable(want)} The requested amount would violate inventory constraints: "
            f"{want.amount} asked, min_unit {inventory.min_unit}, max_unit {inventory.max_unit}, "
            f"step_size {inventory.step_size}."
        )
