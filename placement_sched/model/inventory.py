"""Inventories and THE capacity rule: what fits into what."""

from dataclasses import dataclass
from datetime import datetime

#: The largest integer the tables keep, and so the largest amount anybody may ask for.
MAX_INT = 0x7FFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What a provider has of one resource class (Placement API reference, "Inventories")."""

    resource_class: str
    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = MAX_INT
    step_size: int = 1
    allocation_ratio: float = 1.0
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def capacity(self) -> int:
        """Return how much may be allocated in all: unreserved total times the ratio."""
        return int((self.total - self.reserved) * self.allocation_ratio)


def fits(inventory: Inventory, used: int, asked: int) -> bool:
    """Return whether ``asked`` more units fit beside ``used`` and obey the unit rules."""
    return obeys_units(inventory, asked) and used + asked <= inventory.capacity


def obeys_units(inventory: Inventory, asked: int) -> bool:
    """Return whether an amount lies within min_unit and max_unit and is whole steps."""
    return inventory.min_unit <= asked <= inventory.max_unit and asked % inventory.step_size == 0


def why_not(inventory: Inventory | None, used: int, asked: int) -> str:
    """Return, in numbers, why ``asked`` more units do not fit; the inventory None is absent."""
    if inventory is None:
        return f"none in inventory, {asked} asked"
    free = max(inventory.capacity - used, 0)
    if asked > free:
        return f"{free} free of {inventory.capacity}, {asked} asked"
    if asked > inventory.max_unit:
        return f"at most {inventory.max_unit} in one allocation (max_unit), {asked} asked"
    if asked < inventory.min_unit:
        return f"at least {inventory.min_unit} in one allocation (min_unit), {asked} asked"
    return f"only in steps of {inventory.step_size} (step_size), {asked} asked"
