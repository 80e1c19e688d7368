"""The sentence of each invariant that is violated, with the names and uuids that it is about."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from placement_sched.model.placement.provider import capacity_of
from placement_sched.model.results.invariants import HeldAmounts, Invariant, Violation
from placement_sched.store.invariants.amounts import LEAST

_PROVIDER = "provider {name} ({provider})"
_SENTENCES: Mapping[Invariant, str] = {
    Invariant.OVER_CAPACITY: "{used} {resource_class} of " + _PROVIDER + " are allocated, over its "
    "capacity of {capacity} ((total {total} - reserved {reserved}) * {allocation_ratio:g}){times}",
    Invariant.UNITS: "consumer {consumer} holds {used} {resource_class} of " + _PROVIDER + ", "
    "where one allocation is from {min_unit} to {max_unit} in steps of {step_size}{times}",
    Invariant.NO_INVENTORY: "consumer {consumer} holds {used} {resource_class} of "
    + _PROVIDER
    + ", which has no inventory of it",
    Invariant.NO_PROVIDER: "consumer {consumer} holds allocations of the provider number {number}, "
    "which does not exist",
    Invariant.NO_CLASS: "consumer {consumer} holds allocations of the resource class number "
    "{number}, which does not exist, of " + _PROVIDER,
    Invariant.NO_CONSUMER: "consumer {consumer} holds allocations and has no record",
    Invariant.ALLOCATED_TWICE: "consumer {consumer} has {times} allocations of {resource_class} of "
    "provider {provider}, where one is allowed",
    Invariant.NO_ALLOCATIONS: "consumer {consumer} has a record and holds no allocations",
    Invariant.NO_PROJECT: "consumer {consumer} is of the project number {number}, which does not "
    "exist",
    Invariant.NO_USER: "consumer {consumer} is of the user number {number}, which does not exist",
    Invariant.NO_TYPE: "consumer {consumer} is of the consumer type number {number}, which does "
    "not exist",
    Invariant.CONSUMER_TWICE: "consumer {consumer} has {times} records, in different spellings",
    Invariant.INVENTORY_NO_PROVIDER: "there is an inventory of the provider number {number}, which "
    "does not exist (resource class number {class_number})",
    Invariant.INVENTORY_NO_CLASS: _PROVIDER + " has an inventory of the resource class number "
    "{number}, which does not exist",
    Invariant.TRAIT_NO_PROVIDER: "the provider number {number}, which does not exist, has trait "
    "{trait}",
    Invariant.UNKNOWN_TRAIT: _PROVIDER + " has the trait number {number}, which does not exist",
    Invariant.MEMBER_NO_PROVIDER: "the provider number {number}, which does not exist, is in "
    "aggregate {aggregate}",
    Invariant.UNKNOWN_AGGREGATE: _PROVIDER + " is in the aggregate number {number}, which does not "
    "exist",
    Invariant.NO_PARENT: _PROVIDER + " has the provider number {number} as parent, which does not "
    "exist",
    Invariant.PARENT_LOOP: _PROVIDER + " has no root: its parents go in a circle",
    Invariant.WRONG_ROOT: _PROVIDER + " has the provider number {number} as root, and the root of "
    "its tree is number {real}",
    Invariant.PROVIDER_TWICE: "provider {provider} has {times} records, in different spellings",
    Invariant.PROVIDER_GENERATION: _PROVIDER + " has the generation {generation}",
    Invariant.CONSUMER_GENERATION: "consumer {consumer} has the generation {generation}",
    Invariant.GENERATION_FELL: "the generation of {what} {uuid} went from {before} to {after}",
    Invariant.UNKNOWN_GROUP: "instance {instance} is in the server group {group}, which does not "
    "exist",
    Invariant.ANOTHER_HOST: "instance {instance} is recorded on host {host} (node {node}), and "
    "what it holds is on host {there}",
    Invariant.AFFINITY: "members of the affinity group {name} ({group}) are on {hosts} hosts",
    Invariant.ANTI_AFFINITY: "{members} members of the anti-affinity group {name} ({group}) are on "
    "host {host}, where {most} may be",
    Invariant.PINNED_CPUS: "the recorded instances on host {host} pin {asked} CPUs, and it has "
    "{there} for pinning: two instances share one ({instances})",
    Invariant.PINNED_ON_NODES: "the recorded instances on host {host} have {asked} NUMA nodes that "
    "withhold {each} CPUs or more each, and its own have room for {there} ({instances})",
    Invariant.PCI_DEVICES: "instance {instance} was placed on host {host} after its last report, "
    "and earlier instances have the PCI devices that it requests ({reason})",
    Invariant.NO_DECISION: "a place of instance {instance} is recorded for the decision "
    "{decision}, which does not exist",
    Invariant.NOT_CLAIMED: "instance {instance} was placed on host {host} by decision {decision} "
    "and holds no allocations",
    Invariant.CLAIM_DIFFERS: "instance {instance} holds {held}, and decision {decision} claimed "
    "{asked} for it",
    Invariant.MISPLACED: "decision {decision} chose host {chosen} for instance {instance}, and its "
    "place is recorded on host {host}",
    Invariant.UNPLACED: "decision {decision} was about {asked} at position {position}, and "
    "{placed} has its place there",
    Invariant.DECIDED_AGAIN: "instance {instance} is recorded as placed by decision {decision}, "
    "and the later decision {later} selected for it as well: one of them has no claim",
    Invariant.CLAIMED_BEFORE: "instance {instance} is recorded as placed by decision {decision}, "
    "and holds what was claimed for it before",
    Invariant.REFUSED_DECISION: "instance {instance} is recorded as placed by decision {decision}, "
    "which did not place it (kind {kind}, outcome {outcome})",
    Invariant.CLAIM_UNRECORDED: "instance {instance} holds what decision {decision} claimed for it "
    "on host {host}, and is not recorded",
    Invariant.DECISION_UNREADABLE: "the selections of decision {decision} have no claim for "
    "instance {instance} at position {position}, where it was placed",
    Invariant.RECORD_UNREADABLE: "the record of {what} {uuid} cannot be read: {reason}",
    Invariant.ACKNOWLEDGED_LOST: "consumer {consumer} holds {held}, and by the answers to its "
    "writes {expected}",
    Invariant.NOT_IN_PLACEMENT: "{hosts} of host aggregate {aggregate} lack in its provider "
    "aggregate",
    Invariant.STALE_IN_PLACEMENT: "{hosts} are in the provider aggregate of {aggregate} and not in "
    "the host aggregate",
}
_AFTERWARDS = (
    "; the inventory was written at {changed}, after the last allocation ({written}): allowed, if "
    "that reduced it"
)
_AT_ONCE = (
    "; the inventory and the last allocation were both written at {changed}: allowed, if the "
    "inventory was reduced after it"
)
_NEVER = "; no inventory allows less than 1"
_BEFORE = "; allocated at {written}, the inventory was written at {changed}"


def violation_of(invariant: Invariant, found: Mapping[str, object]) -> Violation:
    """Return the violation that a row describes.

    One of amounts is allowed where the inventory was written in a later second than all that is
    allocated: OpenStack's placement lets inventories shrink below that. Of the same second the
    order is not known, and it is allowed as well, but for an inventory that was made in it. An
    amount below 1 is never allowed.
    """
    row = {name: int(one) if isinstance(one, Decimal) else one for name, one in found.items()}
    allowed = False
    if invariant is Invariant.UNITS and row["used"] < LEAST:  # type: ignore[operator]
        row["times"] = _NEVER
    elif "changed" in row:
        times = _times(row["made"], row["changed"], row["written"])
        allowed = times is not _BEFORE
        known = {name: row[name] or "an unknown time" for name in ("changed", "written")}
        row["times"] = times.format(**known)
    if invariant is Invariant.OVER_CAPACITY:
        total, reserved, ratio = (row[one] for one in ("total", "reserved", "allocation_ratio"))
        row["capacity"] = capacity_of(total, reserved, ratio)  # type: ignore[arg-type]
    return Violation(invariant, _SENTENCES[invariant].format(**row), allowed)


def _times(made: Any, changed: Any, written: Any) -> str:
    if not (changed and written):
        return _BEFORE
    if changed > written:
        return _AFTERWARDS
    return _AT_ONCE if changed == written and made and made < changed else _BEFORE


def amounts_of(held: HeldAmounts) -> str:
    """Return what a consumer holds, as sentences name it."""
    listed = (f"{used} {name} of {uuid}" for (uuid, name), used in sorted(held.items()))
    return ", ".join(listed) or "nothing"
