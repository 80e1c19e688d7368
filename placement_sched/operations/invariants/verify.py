"""Verifies all invariants in one snapshot: what is found depends on no write that goes on.

The database finds what is wrong, with a number of statements that does not depend on the size of
the cloud, but for recorded decisions and the hosts of instances with pinned CPUs or devices.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain

from placement_sched.db.transaction import Connection, Database
from placement_sched.model.results.invariants import (
    EarlierKnown,
    GenerationsSeen,
    Invariant,
    Verified,
    Violation,
)
from placement_sched.operations.cloud_check import CloudFault, differing_aggregates
from placement_sched.operations.invariants import growth, hardware
from placement_sched.operations.invariants.sentences import amounts_of, violation_of
from placement_sched.settings import Settings
from placement_sched.store import census
from placement_sched.store.invariants import (
    QUESTIONS,
    answers,
    class_names,
    decided,
    hosts,
    recorded,
    references,
    times,
    trees,
)
from placement_sched.store.invariants.hardware import MALFORMED

#: So many violations of one invariant are named; that there are more is reported.
MOST = 1000
#: The allocations of so many of the latest decisions are compared amount by amount.
DECISIONS = 10_000

_Found = Iterator[tuple[Invariant, Mapping[str, object]]]
_OF_AGGREGATES = {
    CloudFault.AGGREGATE_LACKS_HOSTS: Invariant.NOT_IN_PLACEMENT,
    CloudFault.AGGREGATE_HAS_OTHER_HOSTS: Invariant.STALE_IN_PLACEMENT,
}
_OF_DECISIONS: Mapping[type[decided.Fault], Invariant] = {
    decided.Misplaced: Invariant.MISPLACED,
    decided.DecidedAgain: Invariant.DECIDED_AGAIN,
    decided.ClaimedBefore: Invariant.CLAIMED_BEFORE,
    decided.Unplaced: Invariant.UNPLACED,
    decided.RequestUnreadable: Invariant.RECORD_UNREADABLE,
    recorded.Unreadable: Invariant.DECISION_UNREADABLE,
}
#: What was looked at, of what a census counts.
_CHECKED = ("providers", "inventories", "allocations", "consumers", "aggregates")


def verify(
    database: Database,
    settings: Settings,
    earlier: EarlierKnown | None = None,
    *,
    keep_generations: bool = False,
) -> Verified:
    """Return what is violated in the database at one moment; nothing is written or locked.

    What is known from ``earlier`` is compared with it. With ``keep_generations`` the result has
    those of that moment. Raises :class:`Unavailable` where the database does not answer.
    """
    earlier = earlier or EarlierKnown()
    every, cut = list[Violation](), set[Invariant]()
    numbers: Counter[Invariant] = Counter()
    with database.snapshot() as connection:
        counted = census.take(connection)
        wanted = keep_generations or earlier.since is not None
        now = references.generations(connection) if wanted else None
        found = chain(_found(connection, settings), growth.faults(connection, earlier, now))
        for invariant, row in found:
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
        checked={
            **{name: getattr(counted, name) for name in _CHECKED},
            **dict(_compared(earlier, now)),
        },
        cut=frozenset(cut),
        generations=now,
    )


def _compared(earlier: EarlierKnown, now: GenerationsSeen | None) -> Iterator[tuple[str, int]]:
    """Yield how many things were compared with what is known from before."""
    if earlier.since is not None and now is not None:
        yield "generations", earlier.since.common(now)
    if earlier.acknowledged is not None:
        yield "acknowledged consumers", len(earlier.acknowledged.by_consumer)


def _found(connection: Connection, settings: Settings) -> _Found:
    """Yield what violates an invariant, with what its sentence names."""
    illegible = set[tuple[object, object]]()
    for bad in times.illegible(connection, MOST + 1):
        if (bad.what, bad.uuid) not in illegible:
            yield Invariant.RECORD_UNREADABLE, bad._asdict()
        illegible.add((bad.what, bad.uuid))
    asked = ((one, answers(connection, one, MOST + 1)) for one in QUESTIONS)
    yield from chain.from_iterable(((one, row) for row in rows) for one, rows in asked)
    yield from trees.faults(connection)
    for row in hosts.elsewhere(connection, MOST + 1):
        yield Invariant.ANOTHER_HOST, row
    yield from _of_claims(connection)
    for invariant, row in hardware.faults(connection, settings):
        # One whose time cannot be read is named already.
        if invariant is not Invariant.RECORD_UNREADABLE or (
            (row["what"], row["uuid"]) not in illegible
        ):
            yield invariant, row
    yield from _of_aggregates(connection, is_legible=not illegible)


def _of_aggregates(connection: Connection, *, is_legible: bool) -> _Found:
    """Yield where aggregates differ; where a time of one cannot be read, they are not compared."""
    try:
        found = list(differing_aggregates(connection))
    except MALFORMED:
        if is_legible:
            raise
        return
    for kind, aggregate, names in found:
        yield _OF_AGGREGATES[kind], {"aggregate": aggregate, "hosts": names}


def _of_claims(connection: Connection) -> _Found:
    unreadable = set[recorded.Unreadable]()
    for fault in decided.faults(connection, DECISIONS):
        if isinstance(fault, recorded.Unreadable):
            unreadable.add(fault)
        yield _OF_DECISIONS[type(fault)], fault._asdict()
    names = class_names.ClassNames(connection)
    for one in recorded.claimed(connection, DECISIONS):
        if isinstance(one, recorded.Unreadable):
            if one not in unreadable:
                yield Invariant.DECISION_UNREADABLE, one._asdict()
        elif not class_names.agree(one.asked, one.held, names.since(one.at)):
            yield (
                Invariant.CLAIM_DIFFERS,
                {
                    "instance": one.instance,
                    "decision": one.decision,
                    "asked": amounts_of(one.asked),
                    "held": amounts_of(one.held),
                },
            )
