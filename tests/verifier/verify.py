# SPDX-License-Identifier: Apache-2.0
"""Verification of all invariants of a database, for tests of any writer."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any

from placement_sched.db.transaction import Connection, Database
from placement_sched.operations import checks
from placement_sched.operations.checks import CloudFault, compare_aggregates
from placement_sched.store.checks import VerificationResult, Violation
from tests.verifier import decisions, hardware, references
from tests.verifier.model import Fault, FaultsWithValues, describe_values

_FAULT_QUERIES = {**references.build_fault_queries(), **decisions.build_fault_queries()}
_AGGREGATE_FAULTS = {
    CloudFault.AGGREGATE_LACKS_HOSTS: Fault.NOT_IN_PLACEMENT,
    CloudFault.AGGREGATE_HAS_OTHER_HOSTS: Fault.STALE_IN_PLACEMENT,
}


def verify(database: Database) -> VerificationResult:
    audit = checks.verify_invariants(database)
    with database.open_snapshot() as connection:
        more = [_build_violation(*fault) for fault in _find_all_faults(connection)]
    return VerificationResult(
        violations=(*audit.violations, *(fault for fault in more if not fault.allowed)),
        allowed=(*audit.allowed, *(fault for fault in more if fault.allowed)),
        checked=audit.checked,
        truncated=audit.truncated,
    )


def assert_invariants(database: Database, but: Collection[StrEnum] = ()) -> None:
    """Fail with a sentence for each violation of an invariant that is not in ``but``."""
    violations = [row for row in verify(database).violations if row.invariant not in but]
    sentences = [f"{violation.invariant}: {violation.detail}" for violation in violations]
    assert sentences == [], "\n".join(sentences)


def _build_violation(fault: Fault, values: Mapping[str, Any]) -> Violation:
    # No inventory allows less than 1.
    may_be_allowed = fault is Fault.UNITS and values["used"] >= references.MIN_ALLOCATED_AMOUNT
    allowed = may_be_allowed and bool(values["reduced"])
    return Violation(fault, describe_values(values), allowed)


def _find_all_faults(connection: Connection) -> FaultsWithValues:
    for fault, query in _FAULT_QUERIES.items():
        for row in connection.execute(query).mappings().all():
            yield fault, dict(row)
    for kind, aggregate, names in compare_aggregates(connection):
        yield _AGGREGATE_FAULTS[kind], {"aggregate": aggregate, "hosts": names}
    yield from decisions.find_decision_faults(connection)
    unreadable_records = list(hardware.find_unreadable_records(connection))
    yield from unreadable_records
    if not unreadable_records:
        yield from hardware.find_hardware_faults(connection)
