# SPDX-License-Identifier: Apache-2.0
"""The sentence of each fault, with the names and uuids that it is about."""

from collections.abc import Mapping

from placement_sched.model.checks import Violation
from placement_sched.operations.invariants import describe_shrunk
from tests.verifier.amounts import MIN_USED
from tests.verifier.model import Fault, HeldAmounts

_PROVIDER = "provider {name} ({provider})"
_SENTENCES: Mapping[Fault, str] = {
    Fault.UNITS: "consumer {consumer} holds {used} {resource_class} of " + _PROVIDER + ", "
    "where one allocation is from {min_unit} to {max_unit} in steps of {step_size}{times}",
    Fault.NO_USER: "consumer {consumer} is of the user number {number}, which does not exist",
    Fault.NO_TYPE: "consumer {consumer} is of the consumer type number {number}, which does "
    "not exist",
    Fault.INVENTORY_NO_PROVIDER: "there is an inventory of the provider number {number}, which "
    "does not exist (resource class number {class_number})",
    Fault.INVENTORY_NO_CLASS: _PROVIDER + " has an inventory of the resource class number "
    "{number}, which does not exist",
    Fault.TRAIT_NO_PROVIDER: "the provider number {number}, which does not exist, has trait "
    "{trait}",
    Fault.UNKNOWN_TRAIT: _PROVIDER + " has the trait number {number}, which does not exist",
    Fault.MEMBER_NO_PROVIDER: "the provider number {number}, which does not exist, is in "
    "aggregate {aggregate}",
    Fault.UNKNOWN_AGGREGATE: _PROVIDER + " is in the aggregate number {number}, which does not "
    "exist",
    Fault.PROVIDER_GENERATION: _PROVIDER + " has the generation {generation}",
    Fault.CONSUMER_GENERATION: "consumer {consumer} has the generation {generation}",
    Fault.GENERATION_FELL: "the generation of {what} {uuid} went from {before} to {after}",
    Fault.PINNED_CPUS: "the recorded instances on host {host} pin {asked} CPUs, and it has "
    "{there} for pinning: two instances share one ({instances})",
    Fault.PINNED_ON_NODES: "the recorded instances on host {host} have {asked} NUMA nodes that "
    "withhold {each} CPUs or more each, and its own have room for {there} ({instances})",
    Fault.PCI_DEVICES: "instance {instance} was placed on host {host} after its last report, "
    "and earlier instances have the PCI devices that it requests ({reason})",
    Fault.NO_DECISION: "a place of instance {instance} is recorded for the decision "
    "{decision}, which does not exist",
    Fault.CLAIM_DIFFERS: "instance {instance} holds {held}, and decision {decision} claimed "
    "{asked} for it",
    Fault.MISPLACED: "decision {decision} chose host {chosen} for instance {instance}, and its "
    "place is recorded on host {host}",
    Fault.UNPLACED: "decision {decision} was about {requested} at position {position}, and "
    "{placed} has its place there",
    Fault.DECIDED_AGAIN: "instance {instance} is recorded as placed by decision {decision}, "
    "and the later decision {later} selected for it as well: one of them has no claim",
    Fault.CLAIMED_BEFORE: "instance {instance} is recorded as placed by decision {decision}, "
    "and holds what was claimed for it before",
    Fault.REFUSED_DECISION: "instance {instance} is recorded as placed by decision {decision}, "
    "which did not place it (kind {kind}, outcome {outcome})",
    Fault.DECISION_UNREADABLE: "the selections of decision {decision} have no claim for "
    "instance {instance} at position {position}, where it was placed",
    Fault.RECORD_UNREADABLE: "the record of {what} {uuid} cannot be read: {reason}",
    Fault.ACKNOWLEDGED_LOST: "consumer {consumer} holds {held}, and by the answers to its "
    "writes {expected}",
    Fault.NOT_IN_PLACEMENT: "{hosts} of host aggregate {aggregate} lack in its provider aggregate",
    Fault.STALE_IN_PLACEMENT: "{hosts} are in the provider aggregate of {aggregate} and not in "
    "the host aggregate",
}


def violation_of(fault: Fault, found: Mapping[str, object]) -> Violation:
    row, allowed = dict(found), False
    if fault is Fault.UNITS and row["used"] < MIN_USED:  # type: ignore[operator]
        row["times"] = "; no inventory allows less than 1"
    elif "changed" in row:
        row["times"], allowed = describe_shrunk(row)
    return Violation(fault, _SENTENCES[fault].format(**row), allowed)


def amounts_of(held: HeldAmounts) -> str:
    listed = (f"{used} {name} of {uuid}" for (uuid, name), used in sorted(held.items()))
    return ", ".join(listed) or "nothing"
