"""What must always hold in a database, and where it does not."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Invariant(StrEnum):
    """What can be violated; the values are what ``--format json`` has."""

    OVER_CAPACITY = "over_capacity"
    UNITS = "units"
    NO_INVENTORY = "allocation_without_inventory"
    NO_PROVIDER = "allocation_without_provider"
    NO_CLASS = "allocation_of_unknown_class"
    NO_CONSUMER = "allocation_without_consumer"
    ALLOCATED_TWICE = "allocated_twice"
    NO_ALLOCATIONS = "consumer_without_allocations"
    NO_PROJECT = "consumer_without_project"
    NO_USER = "consumer_without_user"
    NO_TYPE = "consumer_of_unknown_type"
    CONSUMER_TWICE = "consumer_twice"
    INVENTORY_NO_PROVIDER = "inventory_without_provider"
    INVENTORY_NO_CLASS = "inventory_of_unknown_class"
    TRAIT_NO_PROVIDER = "trait_without_provider"
    UNKNOWN_TRAIT = "provider_with_unknown_trait"
    MEMBER_NO_PROVIDER = "aggregate_member_without_provider"
    UNKNOWN_AGGREGATE = "provider_in_unknown_aggregate"
    NO_PARENT = "parent_unknown"
    PARENT_LOOP = "parent_loop"
    WRONG_ROOT = "wrong_root"
    PROVIDER_TWICE = "provider_twice"
    PROVIDER_GENERATION = "provider_generation"
    CONSUMER_GENERATION = "consumer_generation"
    GENERATION_FELL = "generation_fell"
    UNKNOWN_GROUP = "instance_in_unknown_group"
    ANOTHER_HOST = "instance_on_another_host"
    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti_affinity"
    PINNED_CPUS = "pinned_cpus"
    PINNED_ON_NODES = "pinned_cpus_of_numa_nodes"
    PCI_DEVICES = "pci_devices"
    NO_DECISION = "place_without_decision"
    NOT_CLAIMED = "decision_without_claim"
    CLAIM_DIFFERS = "claim_unlike_decision"
    MISPLACED = "place_unlike_decision"
    UNPLACED = "decision_without_place"
    DECIDED_AGAIN = "instance_of_earlier_decision"
    CLAIMED_BEFORE = "claim_before_decision"
    REFUSED_DECISION = "instance_of_refused_decision"
    CLAIM_UNRECORDED = "claim_without_instance"
    DECISION_UNREADABLE = "decision_unreadable"
    RECORD_UNREADABLE = "record_unreadable"
    ACKNOWLEDGED_LOST = "acknowledged_write_lost"
    NOT_IN_PLACEMENT = "host_not_in_provider_aggregate"
    STALE_IN_PLACEMENT = "host_only_in_provider_aggregate"


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is not as it must be, in a sentence with names and uuids.

    ``allowed``: a change of the inventory after the allocations explains it, which OpenStack's
    placement allows; then it is reported and violates nothing.
    """

    invariant: Invariant
    detail: str
    allowed: bool = False


#: A provider's or a consumer's generation by its number, its uuid, and when it was made.
Generations = dict[tuple[int, str, datetime | None], int]


@dataclass(frozen=True, slots=True)
class GenerationsSeen:
    """The generations of a moment, by number, uuid, and when it was made.

    What is made again has another number; but SQLite gives that of the last consumer again, which
    then differs only where it was made in another second.
    """

    providers: Generations
    consumers: Generations

    def common(self, later: "GenerationsSeen") -> int:
        """Return how many of these providers and consumers are there later."""
        pairs = ((self.providers, later.providers), (self.consumers, later.consumers))
        return sum(len(before.keys() & after.keys()) for before, after in pairs)


#: What a consumer holds: amounts by the uuid of a provider and the name of a resource class.
HeldAmounts = Mapping[tuple[str, str], int]


@dataclass(slots=True)
class AcknowledgedWrites:
    """What clients were answered: for each consumer, what it may hold by that.

    One that was never written of holds nothing. What a write left that had no answer is there
    whole, or what was there before, until another write of the consumer is acknowledged.
    """

    by_consumer: dict[str, tuple[HeldAmounts, ...]] = field(default_factory=dict)

    def note(self, consumer: str, amounts: HeldAmounts, *, answered: bool = True) -> None:
        """Note that a write left a consumer with these amounts, or may have."""
        before = () if answered else self.by_consumer.get(consumer, ({},))
        self.by_consumer[consumer] = (*before, amounts)


@dataclass(frozen=True, slots=True)
class EarlierKnown:
    """What is known of a database from before, to be compared with what is there now."""

    since: GenerationsSeen | None = None
    acknowledged: AcknowledgedWrites | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What was found in one snapshot of a database.

    ``checked`` is how many rows there were, by what they are in the plural. ``cut`` are the
    invariants with more violations than are named. ``generations`` are those of the snapshot,
    where they were read.
    """

    violations: tuple[Violation, ...]
    allowed: tuple[Violation, ...]
    checked: Mapping[str, int]
    cut: frozenset[Invariant] = frozenset()
    generations: GenerationsSeen | None = None
