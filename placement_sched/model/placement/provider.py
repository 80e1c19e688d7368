"""Resource providers, and what each has: inventories, traits, and THE capacity rule."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple


class Provider(NamedTuple):
    """One resource provider; ``id`` is the table's, uuids are what the API shows.

    A tuple, since lists of providers have thousands, and tuples are made ten times as quickly.
    """

    id: int
    uuid: str
    name: str
    generation: int
    root_id: int
    root_uuid: str
    parent_uuid: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


#: What every class begins with that is not of os-resource-classes, and trait not of os-traits.
CUSTOM_PREFIX = "CUSTOM_"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClass:
    """One resource class; ``id`` is the table's."""

    id: int
    name: str
    created_at: datetime | None = None
    updated_at: datetime | None = None


class Trait(NamedTuple):
    """One trait; ``id`` is the table's.

    A tuple, since providers have dozens each, and tuples are made ten times as quickly.
    """

    id: int
    name: str
    created_at: datetime | None = None
    updated_at: datetime | None = None


#: A provider with this trait serves every tree of which a provider is in one of its aggregates.
SHARES = "MISC_SHARES_VIA_AGGREGATE"

#: The largest integer the tables keep, and so the largest amount anybody may ask for.
MAX_INT = 0x7FFFFFFF
#: The largest ratio, as the tables keep single-precision floats.
MAX_FLOAT = 3.40282e38


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
        return capacity_of(self.total, self.reserved, self.allocation_ratio)


def capacity_of(total: int, reserved: int, allocation_ratio: float) -> int:
    """Return how much may be allocated in all of an inventory."""
    return int((total - reserved) * allocation_ratio)


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
