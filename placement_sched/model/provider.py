"""Resource providers, and what each has: inventories, traits, and THE capacity rule."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Literal, NamedTuple


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


#: How the API names the type of a consumer that has none (microversion 1.38).
UNKNOWN_TYPE = "unknown"
#: The type of consumers that instances are, as nova names it.
INSTANCE_TYPE = "INSTANCE"


class Generation(Enum):
    """The generation of a claim that does not check the consumer's."""

    UNCHECKED = "unchecked"


UNCHECKED = Generation.UNCHECKED
Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """Who holds allocations; ``consumer_type`` None is the API's ``unknown``.

    The other fields are None where a very old database has allocations without a consumer record.
    """

    uuid: str
    generation: int | None
    project_id: str | None
    user_id: str | None
    consumer_type: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """``used`` units of one resource class of one provider, held by one consumer."""

    consumer: Consumer
    provider_uuid: str
    provider_generation: int
    resource_class: str
    used: int
    created_at: datetime | None = None
    updated_at: datetime | None = None


class Taken(NamedTuple):
    """``used`` units of one resource class of the provider that was asked about, and by whom.

    A tuple, since a provider may have thousands. ``generation`` is the consumer's;
    ``updated_at`` is when it was made where it was never changed.
    """

    consumer: str
    generation: int | None
    resource_class: str
    used: int
    updated_at: datetime | None

    @property
    def created_at(self) -> datetime | None:
        """The same, as the latest change is all that is known."""
        return self.updated_at


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerClaim:
    """All that a consumer shall hold from now on; nothing at all removes the consumer.

    ``allocations`` is amounts by class, by provider uuid. ``consumer_type`` None leaves the type
    of a known consumer as it is. ``generation`` is the one the caller has seen, None for a consumer
    that must be new, or :data:`UNCHECKED`.
    """

    consumer: str
    project_id: str
    user_id: str
    consumer_type: str | None = None
    allocations: Mapping[str, Amounts]
    generation: int | Literal[Generation.UNCHECKED] | None = UNCHECKED


def may_hold(inventory: Inventory, others: int, held: int, asked: int) -> bool:
    """Return whether consumers that held ``held`` units may hold ``asked`` next to ``others``.

    Beyond the capacity only what makes a provider no fuller than it was is allowed, so that an
    instance can leave or shrink on a host whose inventory was reduced under it (as OpenStack
    placement does since 14.0.0).
    """
    return asked <= held or others + asked <= inventory.capacity
