# SPDX-License-Identifier: Apache-2.0
"""Verifies all that must hold of a database, for tests of anything that writes there."""

from collections.abc import Iterator, Mapping
from itertools import chain

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Connection, Database
from placement_sched.model.checks import Verified
from placement_sched.operations import invariants
from placement_sched.operations.cloud_check import CloudFault, differing_aggregates
from tests.verifier import amounts, class_names, decided, hosts_hardware, recorded, references
from tests.verifier.model import Fault
from tests.verifier.sentences import amounts_of, violation_of

#: The allocations of so many of the latest decisions are compared amount by amount.
DECISIONS = 10_000

_Found = Iterator[tuple[Fault, Mapping[str, object]]]
_QUESTIONS = {
    Fault.UNITS: amounts.query_of_ignored_units(),
    **references.fault_queries(),
    **recorded.fault_queries(),
}
_OF_AGGREGATES = {
    CloudFault.AGGREGATE_LACKS_HOSTS: Fault.NOT_IN_PLACEMENT,
    CloudFault.AGGREGATE_HAS_OTHER_HOSTS: Fault.STALE_IN_PLACEMENT,
}
_OF_DECISIONS: Mapping[type[decided.DecisionFault], Fault] = {
    decided.MisplacedInstance: Fault.MISPLACED,
    decided.RepeatedDecision: Fault.DECIDED_AGAIN,
    decided.ClaimedBefore: Fault.CLAIMED_BEFORE,
    decided.UnplacedInstance: Fault.UNPLACED,
    decided.RequestUnreadable: Fault.RECORD_UNREADABLE,
    recorded.UnreadableAnswer: Fault.DECISION_UNREADABLE,
}


def verify(database: Database, settings: Settings) -> Verified:
    found = invariants.verify(database)
    with database.snapshot() as connection:
        more = [violation_of(*one) for one in _find_faults(connection, settings)]
    more.sort(key=lambda one: (list(Fault).index(Fault(one.invariant)), one.detail))
    return Verified(
        violations=(*found.violations, *(one for one in more if not one.allowed)),
        allowed=(*found.allowed, *(one for one in more if one.allowed)),
        checked=found.checked,
        cut=found.cut,
    )


def _find_faults(connection: Connection, settings: Settings) -> _Found:
    for fault, query in _QUESTIONS.items():
        for row in connection.execute(query).mappings().all():
            yield fault, dict(row)
    for kind, aggregate, names in differing_aggregates(connection):
        yield _OF_AGGREGATES[kind], {"aggregate": aggregate, "hosts": names}
    yield from chain(
        _faults_of_claims(connection), hosts_hardware.find_faults(connection, settings)
    )


def _faults_of_claims(connection: Connection) -> _Found:
    unreadable = set[recorded.UnreadableAnswer]()
    for fault in decided.find_faults(connection, DECISIONS):
        if isinstance(fault, recorded.UnreadableAnswer):
            unreadable.add(fault)
        yield _OF_DECISIONS[type(fault)], fault._asdict()
    names = class_names.ClassNames(connection)
    for one in recorded.unchanged_claims(connection, DECISIONS):
        if isinstance(one, recorded.UnreadableAnswer):
            if one not in unreadable:
                yield Fault.DECISION_UNREADABLE, one._asdict()
        elif not class_names.is_equal_amount(one.asked, one.held, names.since(one.at)):
            yield (
                Fault.CLAIM_DIFFERS,
                {
                    "instance": one.instance,
                    "decision": one.decision,
                    "asked": amounts_of(one.asked),
                    "held": amounts_of(one.held),
                },
            )
