"""Verifies all invariants in one snapshot: what is found depends on no write that goes on.

The database finds what is wrong, with a number of statements that does not depend on the size of
the cloud, but for recorded decisions and the hosts of instances with pinned CPUs or devices.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain

from placement_sched.db.transaction import Connection, Database
from placement_sched.model.results.invariants import Invariant, Verified, Violation
from placement_sched.operations.cloud_check import CloudFault, differing_aggregates
from placement_sched.operations.invariants import hardware
from placement_sched.operations.invariants.sentences import violation_of
from placement_sched.settings import Settings
from placement_sched.store import census
from placement_sched.store.invariants import QUESTIONS, answers, recorded, trees

#: So many violations of one invariant are named; that there are more is reported.
MOST = 1000
#: The allocations of so many of the latest decisions are compared amount by amount.
DECISIONS = 10_000

_Found = Iterator[tuple[Invariant, Mapping[str, object]]]
_OF_AGGREGATES = {
    CloudFault.AGGREGATE_LACKS_HOSTS: Invariant.NOT_IN_PLACEMENT,
    CloudFault.AGGREGATE_HAS_OTHER_HOSTS: Invariant.STALE_IN_PLACEMENT,
}
#: What was looked at, of what a census counts.
_CHECKED = ("providers", "inventories", "allocations", "consumers", "aggregates")


def verify(database: Database, settings: Settings) -> Verified:
    """Return what is violated in the database at one moment; nothing is written or locked.

    Raises :class:`Unavailable` where the database does not answer.
    """
    with database.snapshot() as connection:
        counted = census.take(connection)
        every, cut = list[Violation](), set[Invariant]()
        numbers: Counter[Invariant] = Counter()
        for invariant, row in _found(connection, settings):
            numbers[invariant] += 1
            if numbers[invariant] > MOST:
                cut.add(invariant)
            else:
                every.append(violation_of(invariant, row))
    order = list(Invariant)
    every.sort(key=lambda one: (order.index(one.invariant), one.detail))
    return Verified(
        violations=tuple(one for one in every if not one.allowed),
        allowed=tuple(one for one in every if one.allowed),
        checked={name: getattr(counted, name) for name in _CHECKED},
        cut=frozenset(cut),
    )


def _found(connection: Connection, settings: Settings) -> _Found:
    """Yield what violates an invariant, with what its sentence names."""
    asked = ((one, answers(connection, one, MOST + 1)) for one in QUESTIONS)
    yield from chain.from_iterable(((one, row) for row in rows) for one, rows in asked)
    yield from trees.faults(connection)
    yield from _of_claims(connection)
    yield from hardware.faults(connection, settings)
    for kind, aggregate, hosts in differing_aggregates(connection):
        yield _OF_AGGREGATES[kind], {"aggregate": aggregate, "hosts": hosts}


def _of_claims(connection: Connection) -> _Found:
    for one in recorded.claimed(connection, DECISIONS):
        if one.asked != one.held:
            yield (
                Invariant.CLAIM_DIFFERS,
                {
                    "instance": one.instance,
                    "decision": one.decision,
                    "asked": _amounts(one.asked),
                    "held": _amounts(one.held),
                },
            )


def _amounts(amounts: Mapping[tuple[str, str], int]) -> str:
    listed = (f"{used} {name} of {uuid}" for (uuid, name), used in sorted(amounts.items()))
    return ", ".join(listed) or "nothing"
