# SPDX-License-Identifier: Apache-2.0
"""Resource providers, and their inventories, traits and allocations."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Literal, NamedTuple

from placement_sched.model.document import Json
from placement_sched.model.names import shorten_names


class Provider(NamedTuple):
    """A resource provider, with the ``id`` of its row.

    A tuple, because lists have thousands of them, and tuples are created ten times as fast.
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


CUSTOM_PREFIX = "CUSTOM_"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClass:
    """A resource class, with the ``id`` of its row."""

    id: int
    name: str
    created_at: datetime | None = None
    updated_at: datetime | None = None


class Trait(NamedTuple):
    """A trait, with the ``id`` of its row.

    A tuple, as :class:`Provider`.
    """

    id: int
    name: str
    created_at: datetime | None = None
    updated_at: datetime | None = None


#: A provider with this trait serves all trees that have a provider in any of its aggregates.
SHARES = "MISC_SHARES_VIA_AGGREGATE"

#: A resource is nearly full, or full, if at least this percentage of its capacity is used.
NEARLY_FULL, FULL = 85, 95

#: The largest integer that the tables can store, and so the largest amount of a request.
MAX_INT = 0x7FFFFFFF
#: The largest ratio, because the tables store single-precision floats.
MAX_FLOAT = 3.40282e38


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Inventory of a resource class (Placement API reference, Inventories)."""

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
        """Return the amount that can be allocated, including overcommit."""
        return compute_capacity(self.total, self.reserved, self.allocation_ratio)


def compute_capacity(total: int, reserved: int, allocation_ratio: float) -> int:
    """Return the capacity of an inventory, including overcommit."""
    return int((total - reserved) * allocation_ratio)


def matches_units(inventory: Inventory, amount: int) -> bool:
    """Return whether min_unit, max_unit and step_size allow an amount."""
    return inventory.min_unit <= amount <= inventory.max_unit and amount % inventory.step_size == 0


#: The API's name for the missing type of a consumer (microversion 1.38).
UNKNOWN_TYPE = "unknown"
INSTANCE_TYPE = "INSTANCE"
MIGRATION_TYPE = "MIGRATION"


class Generation(Enum):
    """Value of a claim whose consumer may have any generation."""

    UNCHECKED = "unchecked"


UNCHECKED = Generation.UNCHECKED
Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """The owner of allocations.

    Without a consumer record in a very old database, all fields except ``uuid`` are None.
    """

    uuid: str
    generation: int | None
    project_id: str | None
    user_id: str | None
    consumer_type: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The amount ``used`` that a consumer has of a provider's resource class."""

    consumer: Consumer
    provider_uuid: str
    provider_generation: int
    resource_class: str
    used: int
    created_at: datetime | None = None
    updated_at: datetime | None = None


class ProviderAllocation(NamedTuple):
    """An allocation in the list of a provider's allocations.

    A tuple, because there may be thousands. ``generation`` is the consumer's. Without a change,
    ``updated_at`` is the time of creation.
    """

    consumer: str
    generation: int | None
    resource_class: str
    used: int
    updated_at: datetime | None

    @property
    def created_at(self) -> datetime | None:
        """Return ``updated_at``, because lists do not read the creation time."""
        return self.updated_at


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerClaim:
    """The new allocations of a consumer (empty: delete the consumer).

    ``allocations`` maps the uuid of each provider to its amounts by resource class. If
    ``consumer_type`` is None, the type of an existing consumer is not changed. ``generation`` is
    the consumer generation that the caller read, None for a new consumer, or :data:`UNCHECKED`.
    """

    consumer: str
    project_id: str
    user_id: str
    consumer_type: str | None = None
    allocations: Mapping[str, Amounts]
    generation: int | Literal[Generation.UNCHECKED] | None = UNCHECKED


def can_change_usage(inventory: Inventory, other_usage: int, current: int, amount: int) -> bool:
    """Return whether a usage may change from ``current`` to ``amount``.

    A usage above the capacity may only be reduced, so that an instance can leave a host with a
    reduced inventory, or shrink there, as in OpenStack placement since 14.0.0.
    """
    return amount <= current or other_usage + amount <= inventory.capacity


@dataclass(frozen=True, slots=True)
class OtherConsumer:
    """A consumer on a host that is not recorded as an instance there.

    ``resources`` maps classes to the amounts on all providers of the host.
    """

    host: str
    uuid: str
    type: str
    project_id: str | None
    resources: dict[str, int]


def describe_other_consumers(consumers: Sequence[Json]) -> str:
    """Describe other consumers, which no plan moves, in a sentence ('': none)."""
    if not consumers:
        return ""
    types = Counter(consumer["type"] for consumer in consumers)
    numbers = ", ".join(f"{number:,} {name}" for name, number in sorted(types.items()))
    hosts = shorten_names(sorted({consumer["host"] for consumer in consumers}))
    noun = "other consumer stays" if len(consumers) == 1 else "other consumers stay"
    return (
        f"{len(consumers):,} {noun} on {hosts}, by type {numbers}: end or move them with the "
        "service that placed them, such as Zun, Blazar, or nova for a migration"
    )
