"""What would have to change so that a constraint of a search does not reject a provider any more.

Each change is the smallest of its kind, by the very rules of the search: an amount that is named is
the nearest that fits, and what is to be freed is exactly what is missing.
"""

from collections.abc import Collection, Iterator
from typing import Any

from placement_sched.candidates.constraints import Constraint
from placement_sched.model.placement.provider import Inventory, obeys_units
from placement_sched.model.verdict import Remedy
from placement_sched.store.placement.capacity import UsedInventory

#: In what amounts of a class are counted.
_UNITS = {"MEMORY_MB": " MB", "DISK_GB": " GB"}


def changes_of(constraint: Constraint, rooms: Collection[UsedInventory] = ()) -> tuple[Remedy, ...]:
    """Return the changes of which each is enough; ``rooms`` are what providers have of it."""
    if constraint.resource_class:
        return tuple(_of_amount(constraint.resource_class, constraint.amount, rooms))
    return tuple(_OF_KIND[constraint.kind](constraint.detail))


def largest_below(room: UsedInventory, asked: int) -> int:
    """Return the largest amount below ``asked`` that fits into what is free, 0 for none."""
    inventory = room.inventory
    most = min(inventory.capacity - room.used, inventory.max_unit, asked - 1)
    most -= most % inventory.step_size
    return most if most >= max(inventory.min_unit, 1) else 0


def smallest_above(room: UsedInventory, asked: int) -> int:
    """Return the smallest amount above ``asked`` that fits into what is free, 0 for none."""
    inventory = room.inventory
    least = max(inventory.min_unit, asked + 1)
    least += -least % inventory.step_size
    return least if least <= min(inventory.capacity - room.used, inventory.max_unit) else 0


def _of_amount(name: str, asked: int, rooms: Collection[UsedInventory]) -> Iterator[Remedy]:
    values: dict[str, Any] = {"resource_class": name}
    if not rooms:
        words = f"give it an inventory of at least {_amount(name, asked)}"
        yield Remedy("add_inventory", words, {**values, "total": asked})
        return
    nearest = min(rooms, key=lambda room: max(asked - room.inventory.capacity + room.used, 0))
    yield _of_inventory(name, asked, nearest)
    if most := max(largest_below(room, asked) for room in rooms):
        words = f"ask for at most {_amount(name, most)}"
        yield Remedy("ask", words, {**values, "amount": most, "instead_of": asked})
    above = [found for room in rooms if (found := smallest_above(room, asked))]
    if above:
        words = f"ask for at least {_amount(name, min(above))}"
        yield Remedy("ask", words, {**values, "amount": min(above), "instead_of": asked})


def _of_inventory(name: str, asked: int, room: UsedInventory) -> Remedy:
    """Return what would have to change about an inventory so that the amount fits."""
    inventory, values, parts = room.inventory, {"resource_class": name}, []
    changed: dict[str, Any] = dict(values)
    action = "set_inventory"
    lacking = asked - (inventory.capacity - room.used)
    if lacking > 0:
        if asked <= inventory.capacity:
            action, changed["amount"] = "free", lacking
            parts.append(f"free {_amount(name, lacking)}")
        else:
            action, changed["amount"] = "add_capacity", lacking
            parts.append(f"add capacity for {_amount(name, lacking)}")
    units = _units(inventory, asked)
    if units:
        parts.append("set " + " and ".join(f"{key} of {name} to {n}" for key, n in units.items()))
    return Remedy(action, " and ".join(parts), {**changed, **units})


def _units(inventory: Inventory, asked: int) -> dict[str, int]:
    """Return the fields that have to have another value, so that the amount obeys them."""
    if obeys_units(inventory, asked):
        return {}
    wanted = {
        "min_unit": min(inventory.min_unit, asked),
        "max_unit": max(inventory.max_unit, asked),
        "step_size": inventory.step_size if asked % inventory.step_size == 0 else 1,
    }
    return {key: value for key, value in wanted.items() if value != getattr(inventory, key)}


def _amount(name: str, amount: int) -> str:
    return f"{amount}{_UNITS.get(name, '')} of {name}"


def _of_trait(detail: str) -> Iterator[Remedy]:
    if detail.startswith("!"):
        name = detail.removeprefix("!")
        yield Remedy("remove_trait", f"remove trait {name} from its provider", {"traits": [name]})
        words = f"ask without forbidding trait {name}"
    else:
        traits = detail.removeprefix("in:").split(",")
        named = " or ".join(traits)
        yield Remedy("add_trait", f"give its provider trait {named}", {"traits": traits})
        words = f"ask without trait {named}"
    yield Remedy("drop_constraint", words, {"constraint": "required", "detail": detail})


def _of_membership(detail: str) -> Iterator[Remedy]:
    outside = detail.startswith("!")
    uuids = detail.removeprefix("!").removeprefix("in:").split(",")
    named = " or ".join(uuids)
    if outside:
        words = f"remove it from aggregate {named}"
        yield Remedy("leave_aggregate", words, {"aggregates": uuids})
    else:
        yield Remedy("join_aggregate", f"add it to aggregate {named}", {"aggregates": uuids})
        words = f"ask without being confined to aggregate {named}"
        yield Remedy("drop_constraint", words, {"constraint": "member_of", "detail": detail})


def _of_tree(detail: str) -> Iterator[Remedy]:
    words = "name this host in the request, or none"
    yield Remedy("drop_constraint", words, {"constraint": "in_tree", "detail": detail})


_OF_KIND = {
    "required": _of_trait,
    "root_required": _of_trait,
    "member_of": _of_membership,
    "in_tree": _of_tree,
}
