# SPDX-License-Identifier: Apache-2.0
"""Database invariants and their violations."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Invariant(StrEnum):
    """The invariants, with their names in ``--format json``."""

    OVER_CAPACITY = "over_capacity"
    NO_INVENTORY = "allocation_without_inventory"
    NO_PROVIDER = "allocation_without_provider"
    NO_CLASS = "allocation_of_unknown_class"
    NO_CONSUMER = "allocation_without_consumer"
    ALLOCATED_TWICE = "allocated_twice"
    NO_ALLOCATIONS = "consumer_without_allocations"
    NO_PROJECT = "consumer_without_project"
    CONSUMER_TWICE = "consumer_twice"
    NO_PARENT = "parent_unknown"
    PARENT_LOOP = "parent_loop"
    WRONG_ROOT = "wrong_root"
    PROVIDER_TWICE = "provider_twice"
    ANOTHER_HOST = "instance_on_another_host"
    UNKNOWN_GROUP = "instance_in_unknown_group"
    AFFINITY = "affinity"
    ANTI_AFFINITY = "anti_affinity"
    NOT_CLAIMED = "decision_without_claim"
    NOT_RECORDED = "claim_without_instance"


@dataclass(frozen=True, slots=True)
class Violation:
    """A violated invariant: a sentence with names and uuids.

    A violation is ``allowed`` if the inventory may have been reduced after the allocations were
    made. OpenStack placement permits such a reduction.
    """

    invariant: StrEnum
    detail: str
    allowed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """The violations that a check of the whole database found.

    ``checked`` counts rows by kind. ``cut`` has the invariants with more violations than are
    listed.
    """

    violations: tuple[Violation, ...]
    allowed: tuple[Violation, ...]
    checked: Mapping[str, int]
    cut: frozenset[Invariant] = frozenset()
