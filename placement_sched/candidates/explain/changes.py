"""What would have to change so that a constraint of a search does not reject a provider any more.

Each change is the smallest of its kind, by the very rules of the search: an amount that is named is
the nearest that fits, and what is to be freed is exactly what is missing.
"""

from collections.abc import Collection, Iterator
from typing import Any

from placement_sched.candidates.constraints import Constraint
from placement_sched.model.provider import Inventory, obeys_units
from placement_sched.model.verdict import Remedy
from placement_sched.store.placement.capacity import UsedInventory

#: In what amounts of a class are counted.
_UNITS = {"MEMORY_MB": " MB", "DISK_GB": " GB"}


def changes_of(
    constraint: Constraint,
    room: UsedInventory | None,
    rooms: Collection[UsedInventory],
    *,
    provider: str | None = None,
    alone: bool = True,
    memberships: Collection[str] = (),
) -> tuple[Remedy, ...]:
    """Return the changes of which each is enough.

    They are about the host, or about the ``provider`` of this name, which has ``room`` of a
    resource class. ``rooms`` are what all providers have that may serve. Unless ``alone`` it is not
    enough to change one provider: only changes of the request are returned. ``memberships`` are the
    aggregates that the provider is in.
    """
    if constraint.resource_class:
        name, amount = constraint.resource_class, constraint.amount
        every = _of_amount(name, amount, room, rooms, provider)
    elif constraint.kind == "member_of":
        every = _of_membership(constraint.detail, provider, memberships)
    else:
        every = _OF_KIND[constraint.kind](constraint.detail, provider)
    return tuple(one for one in every if alone or one.action in OF_REQUEST)


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


def _of_amount(
    name: str,
    asked: int,
    room: UsedInventory | None,
    rooms: Collection[UsedInventory],
    provider: str | None,
) -> Iterator[Remedy]:
    values = _values(provider, resource_class=name)
    if room is None:
        words = f"give {provider or 'it'} an inventory of at least {_amount(name, asked)}"
        yield Remedy("add_inventory", words, {**values, "total": asked})
    else:
        yield _of_inventory(name, asked, room, provider)
    values = {"resource_class": name}
    if most := max((largest_below(one, asked) for one in rooms), default=0):
        words = f"ask for at most {_amount(name, most)}"
        yield Remedy("ask", words, {**values, "amount": most, "instead_of": asked})
    above = [found for one in rooms if (found := smallest_above(one, asked))]
    if above:
        words = f"ask for at least {_amount(name, min(above))}"
        yield Remedy("ask", words, {**values, "amount": min(above), "instead_of": asked})


def _values(provider: str | None, **values: Any) -> dict[str, Any]:
    return values if provider is None else {**values, "provider": provider}


def _of_inventory(name: str, asked: int, room: UsedInventory, provider: str | None) -> Remedy:
    """Return what would have to change about an inventory so that the amount fits."""
    inventory, values, parts = room.inventory, _values(provider, resource_class=name), []
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
    where = f" on {provider}" if provider else ""
    return Remedy(action, " and ".join(parts) + where, {**changed, **units})


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


def _of_trait(detail: str, provider: str | None) -> Iterator[Remedy]:
    if detail.startswith("!"):
        name = detail.removeprefix("!")
        words = f"remove trait {name} from {provider or 'its provider'}"
        yield Remedy("remove_trait", words, _values(provider, traits=[name]))
        words = f"ask without forbidding trait {name}"
    else:
        traits = detail.removeprefix("in:").split(",")
        named = " or ".join(traits)
        words = f"give {provider or 'its provider'} trait {named}"
        yield Remedy("add_trait", words, _values(provider, traits=traits))
        words = f"ask without trait {named}"
    yield Remedy("drop_constraint", words, {"constraint": "required", "detail": detail})


def _of_membership(
    detail: str, provider: str | None, memberships: Collection[str]
) -> Iterator[Remedy]:
    outside = detail.startswith("!")
    uuids = detail.removeprefix("!").removeprefix("in:").split(",")
    named, what = " or ".join(uuids), provider or "it"
    if outside:
        uuids = [uuid for uuid in uuids if uuid in memberships] or uuids
        named = " or ".join(uuids)
        words = f"remove {what} from aggregate {named}"
        yield Remedy("leave_aggregate", words, _values(provider, aggregates=uuids))
        yield Remedy("ask_traits", "ask for the traits that it needs", {"aggregates": uuids})
    else:
        words = f"add {what} to aggregate {named}"
        yield Remedy("join_aggregate", words, _values(provider, aggregates=uuids))
        words = f"ask without being confined to aggregate {named}"
        yield Remedy("drop_constraint", words, {"constraint": "member_of", "detail": detail})


def _of_tree(detail: str, _provider: str | None) -> Iterator[Remedy]:
    words = "name this host in the request, or none"
    yield Remedy("drop_constraint", words, {"constraint": "in_tree", "detail": detail})


#: The actions that change the request, not the cloud.
OF_REQUEST = frozenset({"ask", "ask_traits", "drop_constraint"})
_OF_KIND = {"required": _of_trait, "root_required": _of_trait, "in_tree": _of_tree}
