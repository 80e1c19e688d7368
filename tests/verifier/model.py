# SPDX-License-Identifier: Apache-2.0
"""Invariants of a database that ``placement audit --invariants`` does not verify."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Fault(StrEnum):
    """A violated invariant."""

    UNITS = "units"
    NO_CLASS = "allocation_of_unknown_class"
    NO_PROJECT = "consumer_without_project"
    NO_USER = "consumer_without_user"
    NO_TYPE = "consumer_of_unknown_type"
    INVENTORY_NO_PROVIDER = "inventory_without_provider"
    INVENTORY_NO_CLASS = "inventory_of_unknown_class"
    TRAIT_NO_PROVIDER = "trait_without_provider"
    UNKNOWN_TRAIT = "provider_with_unknown_trait"
    MEMBER_NO_PROVIDER = "aggregate_member_without_provider"
    UNKNOWN_AGGREGATE = "provider_in_unknown_aggregate"
    PROVIDER_GENERATION = "provider_generation"
    CONSUMER_GENERATION = "consumer_generation"
    CONSUMER_TWICE = "consumer_twice"
    DECREASED_GENERATION = "generation_fell"
    NO_DECISION = "place_without_decision"
    CLAIM_DIFFERS = "claim_unlike_decision"
    PLACE_UNLIKE_DECISION = "place_unlike_decision"
    DECISION_WITHOUT_PLACE = "decision_without_place"
    INSTANCE_OF_EARLIER_DECISION = "instance_of_earlier_decision"
    CLAIM_BEFORE_DECISION = "claim_before_decision"
    REJECTED_DECISION = "instance_of_rejected_decision"
    DECISION_UNREADABLE = "decision_unreadable"
    LOST_ACKNOWLEDGED_WRITE = "acknowledged_write_lost"
    NOT_IN_PLACEMENT = "host_not_in_provider_aggregate"
    STALE_IN_PLACEMENT = "host_only_in_provider_aggregate"
    RECORD_UNREADABLE = "record_unreadable"
    TOO_MANY_PINNED_CPUS = "more_pinned_cpus_than_pinnable_cpus"
    TOO_FEW_FREE_CPUS = "decision_without_free_cpus"
    TOO_FEW_FREE_DEVICES = "decision_without_free_pci_devices"


#: Faults with the values that describe them.
FaultsWithValues = Iterator[tuple[Fault, Mapping[str, Any]]]
#: A provider's or a consumer's generation by its number, its uuid, and when it was made.
GenerationsByObject = dict[tuple[int, str, datetime | None], int]


@dataclass(frozen=True, slots=True)
class GenerationSnapshot:
    """The generations of all providers and consumers at a moment.

    A consumer that is deleted and created again has another number. SQLite reuses the number of the
    last consumer. Then only the time of creation can differ.
    """

    providers: GenerationsByObject
    consumers: GenerationsByObject


#: The amounts that a consumer holds, by the uuid of a provider and the name of a resource class.
AllocatedAmounts = Mapping[tuple[str, str], int]


@dataclass(slots=True)
class AcknowledgedWrites:
    """The amounts that each consumer may hold, according to the responses to its writes.

    A consumer without writes holds nothing. After a write without a response, the consumer holds
    either the old or the new amounts, until another write is acknowledged.
    """

    by_consumer: dict[str, tuple[AllocatedAmounts, ...]] = field(default_factory=dict)

    def record_write(
        self, consumer: str, amounts: AllocatedAmounts, *, answered: bool = True
    ) -> None:
        before = () if answered else self.by_consumer.get(consumer, ({},))
        self.by_consumer[consumer] = (*before, amounts)


def describe_values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
