"""Allocations, their consumers, and claims."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Literal, NamedTuple

from placement_sched.model.placement.provider import Inventory

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
