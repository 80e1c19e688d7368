# SPDX-License-Identifier: Apache-2.0
"""Invariants of the database, checked in one snapshot without locks."""

from collections import Counter
from collections.abc import Mapping
from itertools import groupby, islice
from operator import attrgetter
from typing import Any

from placement_sched.db.transaction import Database
from placement_sched.errors import Invalid
from placement_sched.model.provider import capacity_of
from placement_sched.store import checks, row_counts
from placement_sched.store.checks import Invariant, Verified, Violation

#: Maximum number of violations that are listed per invariant.
MAX_VIOLATIONS = 1000

_PROVIDER = "provider {name} ({provider})"
_MESSAGES: Mapping[Invariant, str] = {
    Invariant.OVER_CAPACITY: "{used} {resource_class} of " + _PROVIDER + " are allocated, over its "
    "capacity of {capacity} ((total {total} - reserved {reserved}) * {allocation_ratio:g}){times}",
    Invariant.NO_INVENTORY: "consumer {consumer} holds {used} {resource_class} of "
    + _PROVIDER
    + ", which has no inventory of it",
    Invariant.NO_PROVIDER: "consumer {consumer} holds allocations of the provider number {number}, "
    "which does not exist",
    Invariant.NO_CLASS: "consumer {consumer} holds allocations of the resource class number "
    "{number}, which does not exist, of " + _PROVIDER,
    Invariant.NO_CONSUMER: "consumer {consumer} holds allocations and has no record",
    Invariant.ALLOCATED_TWICE: "consumer {consumer} has {times} allocations of {resource_class} of "
    + _PROVIDER
    + ", only one is allowed",
    Invariant.NO_ALLOCATIONS: "consumer {consumer} has a record and holds no allocations",
    Invariant.NO_PROJECT: "consumer {consumer} is of the project number {number}, which does not "
    "exist",
    Invariant.CONSUMER_TWICE: "consumer {consumer} has {times} records, in different spellings",
    Invariant.NO_PARENT: _PROVIDER + " has the provider number {number} as parent, which does not "
    "exist",
    Invariant.PARENT_LOOP: _PROVIDER + " has no root: its parents form a cycle",
    Invariant.WRONG_ROOT: _PROVIDER + " has the provider number {number} as root, and the root of "
    "its tree is number {real}",
    Invariant.PROVIDER_TWICE: "provider {provider} has {times} records, in different spellings",
    Invariant.ANOTHER_HOST: "instance {instance} is recorded on host {host} (node {node}), but "
    "has allocations on host {there}",
    Invariant.UNKNOWN_GROUP: "instance {instance} is in the server group {group}, which does not "
    "exist",
    Invariant.AFFINITY: "members of the affinity group {name} ({group}) are on {hosts} hosts",
    Invariant.ANTI_AFFINITY: "{members} members of the anti-affinity group {name} ({group}) are on "
    "host {host}, at most {most} allowed",
    Invariant.NOT_CLAIMED: "instance {instance} was placed on host {host} by decision {decision} "
    "and holds no allocations",
    Invariant.NOT_RECORDED: "instance {instance} has the allocations of decision {decision} "
    "on host {host}, but is not recorded",
}
_TIMES = "; allocated at {written}, the inventory was written at {changed}"
_ALLOWED = ": allowed, if that reduced the inventory afterwards"
#: The row counts that the result includes.
_CHECKED = ("providers", "inventories", "allocations", "consumers", "aggregates")


def verify(database: Database) -> Verified:
    """Check all invariants in a snapshot and return the violations.

    Raises :class:`~placement_sched.errors.Unavailable` if the database is unavailable, and
    :class:`Invalid` for an invalid time in an SQLite database.
    """
    violations = list[Violation]()
    with database.snapshot() as connection:
        counted = row_counts.count_rows(connection)
        try:
            for invariant, row in checks.violations(connection, MAX_VIOLATIONS + 1):
                violations.append(_describe(invariant, row))
        except ValueError as wrong:
            raise Invalid(f"the database has a time that cannot be read: {wrong}") from None
    numbers = Counter(item.invariant for item in violations)
    order = list(Invariant)
    # Allowed violations come last, so that they do not displace the other violations.
    violations.sort(
        key=lambda item: (order.index(Invariant(item.invariant)), item.allowed, item.detail)
    )
    by_invariant = groupby(violations, key=attrgetter("invariant"))
    named = [violation for _, same in by_invariant for violation in islice(same, MAX_VIOLATIONS)]
    return Verified(
        violations=tuple(item for item in named if not item.allowed),
        allowed=tuple(item for item in named if item.allowed),
        checked={name: getattr(counted, name) for name in _CHECKED},
        cut=frozenset(invariant for invariant in order if numbers[invariant] > MAX_VIOLATIONS),
    )


def _describe(invariant: Invariant, row: Mapping[str, object]) -> Violation:
    if invariant is not Invariant.OVER_CAPACITY:
        return Violation(invariant, _MESSAGES[invariant].format(**row))
    times, allowed = describe_shrunk(row)
    total, reserved, ratio = (row[column] for column in ("total", "reserved", "allocation_ratio"))
    about = {
        **row,
        "used": int(row["used"]),  # type: ignore[call-overload]
        "capacity": capacity_of(total, reserved, ratio),  # type: ignore[arg-type]
        "times": times,
    }
    return Violation(invariant, _MESSAGES[invariant].format(**about), allowed)


def describe_shrunk(row: Mapping[str, Any]) -> tuple[str, bool]:
    """Describe an over-allocation, and return whether it is allowed.

    ``row`` has the times of :func:`placement_sched.store.checks.over_capacity`. An over-allocation
    is allowed if the inventory changed after its allocations, because the change may have reduced
    it below them. It is also allowed if both times are the same second and the inventory was
    created earlier.
    """
    changed, made, written = row["changed"], row["made"], row["written"]
    is_later = bool(changed and written and changed > written)
    is_at_once = bool(changed and changed == written and made and made < changed)
    texts = {"changed": changed or "an unknown time", "written": written or "an unknown time"}
    allowed = is_later or is_at_once
    return _TIMES.format(**texts) + (_ALLOWED if allowed else ""), allowed
