# SPDX-License-Identifier: Apache-2.0
"""Verification of all invariants of a database, for tests of any writer."""

from collections.abc import Iterator, Mapping
from itertools import chain

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Connection, Database
from placement_sched.model.checks import Verified
from placement_sched.operations import invariants
from placement_sched.operations.cloud_check import CloudFault, differing_aggregates
from tests.verifier import (
    amounts,
    class_names,
    decisions,
    hosts_hardware,
    recorded_claims,
    references,
)
from tests.verifier.model import Fault
from tests.verifier.sentences import amounts_of, violation_of

#: Maximum number of decisions that are compared, the latest first.
MAX_DECISIONS = 10_000

_Found = Iterator[tuple[Fault, Mapping[str, object]]]
_QUERIES = {
    Fault.UNITS: amounts.ignored_units_query(),
    **references.fault_queries(),
    **recorded_claims.fault_queries(),
}
_OF_AGGREGATES = {
    CloudFault.AGGREGATE_LACKS_HOSTS: Fault.NOT_IN_PLACEMENT,
    CloudFault.AGGREGATE_HAS_OTHER_HOSTS: Fault.STALE_IN_PLACEMENT,
}
_OF_DECISIONS: Mapping[type[decisions.DecisionFault], Fault] = {
    decisions.MisplacedInstance: Fault.MISPLACED,
    decisions.RepeatedDecision: Fault.DECIDED_AGAIN,
    decisions.ClaimedBefore: Fault.CLAIMED_BEFORE,
    decisions.UnplacedInstance: Fault.UNPLACED,
    decisions.RequestUnreadable: Fault.RECORD_UNREADABLE,
    recorded_claims.UnreadableAnswer: Fault.DECISION_UNREADABLE,
}


def verify(database: Database, settings: Settings) -> Verified:
    audit = invariants.verify(database)
    with database.snapshot() as connection:
        more = [violation_of(*fault) for fault in _find_faults(connection, settings)]
    more.sort(key=lambda fault: (list(Fault).index(Fault(fault.invariant)), fault.detail))
    return Verified(
        violations=(*audit.violations, *(fault for fault in more if not fault.allowed)),
        allowed=(*audit.allowed, *(fault for fault in more if fault.allowed)),
        checked=audit.checked,
        cut=audit.cut,
    )


def _find_faults(connection: Connection, settings: Settings) -> _Found:
    for fault, query in _QUERIES.items():
        for row in connection.execute(query).mappings().all():
            yield fault, dict(row)
    for kind, aggregate, names in differing_aggregates(connection):
        yield _OF_AGGREGATES[kind], {"aggregate": aggregate, "hosts": names}
    yield from chain(
        _faults_of_claims(connection), hosts_hardware.find_faults(connection, settings)
    )


def _faults_of_claims(connection: Connection) -> _Found:
    unreadable = set[recorded_claims.UnreadableAnswer]()
    for fault in decisions.find_faults(connection, MAX_DECISIONS):
        if isinstance(fault, recorded_claims.UnreadableAnswer):
            unreadable.add(fault)
        yield _OF_DECISIONS[type(fault)], fault._asdict()
    names = class_names.ClassNames(connection)
    for claim in recorded_claims.unchanged_claims(connection, MAX_DECISIONS):
        if isinstance(claim, recorded_claims.UnreadableAnswer):
            if claim not in unreadable:
                yield Fault.DECISION_UNREADABLE, claim._asdict()
        elif not class_names.is_equal_amount(claim.claimed, claim.held, names.since(claim.at)):
            yield (
                Fault.CLAIM_DIFFERS,
                {
                    "instance": claim.instance,
                    "decision": claim.decision,
                    "asked": amounts_of(claim.claimed),
                    "held": amounts_of(claim.held),
                },
            )
