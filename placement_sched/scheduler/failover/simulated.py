# SPDX-License-Identifier: Apache-2.0
"""Simulations of failures: the instances of failed hosts move, largest first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from placement_sched.db.transaction import Connection, ScratchTransaction
from placement_sched.errors import Invalid, Unavailable
from placement_sched.limits import MAX_REPORTED_FAILURES
from placement_sched.model.document import Json
from placement_sched.scheduler.capacity.count import Deadline
from placement_sched.scheduler.capacity.report import free_amounts
from placement_sched.scheduler.drain_plan import (
    MovePlan,
    Mover,
    MovingInstance,
    find_instances,
    in_order,
)
from placement_sched.scheduler.failover.screen import FailedLoad, Screen, Verdict, read_requests
from placement_sched.scheduler.request import SchedulingRequest
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.scheduler.simulation import DISABLED, DRAINED
from placement_sched.store import simulation
from placement_sched.store.compute import compute_nodes

#: States of failures in the answer.
COVERED, UNCOVERED, UNDETERMINED = "covered", "uncovered", "undetermined"


@dataclass(frozen=True, slots=True)
class Failure:
    """Hosts that fail together, with the name of the failing host or domain."""

    name: str
    hosts: frozenset[str]


@dataclass(slots=True)
class Outcome:
    """The result for a failure. ``nowhere`` are its instances without a place, in JSON.

    ``stuck`` is their least number, if the simulation that lists them took too long.
    ``is_proved`` is false if it is uncovered only because no placement was found. Placing the
    instances in another order may place all.
    """

    failure: Failure
    load: FailedLoad
    state: str = UNDETERMINED
    is_proved: bool = True
    stuck: int = 0
    nowhere: Sequence[Json] = ()

    def as_json(self) -> Json:
        """Return the outcome as a JSON object."""
        return {
            "name": self.failure.name,
            "hosts": sorted(self.failure.hosts),
            "state": self.state,
            "instances": self.load.total,
            "stuck": self.stuck,
            "nowhere": list(self.nowhere),
        }


@dataclass(slots=True)
class Analysis:
    """The failures of a cloud with their results so far, and the screened requests by key."""

    scheduler: Scheduler
    deadline: Deadline
    screen: Screen
    outcomes: Sequence[Outcome]
    requests: Mapping[bytes, SchedulingRequest]


def judge(analysis: Analysis) -> None:
    """Determine the state of each failure: by the screen, then by simulations.

    A simulation that places some instances, but not all, does not prove that no placement exists.
    The simulations of uncovered failures only find the instances without a place.
    """
    uncovered, unclear = [], []
    for outcome in analysis.outcomes:
        verdict = analysis.screen.judge(outcome.load)
        if verdict is Verdict.COVERED:
            outcome.state = COVERED
        elif verdict is Verdict.UNCOVERED:
            outcome.state, outcome.stuck = UNCOVERED, analysis.screen.count_stuck(outcome.load)
            uncovered.append(outcome)
        else:
            unclear.append(outcome)
    _simulate_all(analysis, unclear)
    for outcome in unclear:
        outcome.is_proved = outcome.state != UNCOVERED or outcome.stuck == outcome.load.total
    _simulate_all(analysis, uncovered[:MAX_REPORTED_FAILURES])


def _simulate_all(analysis: Analysis, outcomes: Sequence[Outcome]) -> None:
    """Simulate failures, several in each simulation, until the deadline."""
    waiting = list(outcomes)
    while waiting and not analysis.deadline.reached():
        done: list[tuple[Outcome, Sequence[Json]]] = []
        try:
            _simulate_some(analysis, waiting, done)
        except Unavailable:
            # The failure after the last is too large for a simulation, or no slot is free.
            waiting = waiting[len(done) + 1 :]
        else:
            waiting = waiting[len(done) :]
        for outcome, nowhere in done:
            outcome.nowhere, outcome.stuck = nowhere, len(nowhere)
            outcome.state = UNCOVERED if nowhere else COVERED


def _simulate_some(
    analysis: Analysis, waiting: Sequence[Outcome], done: list[tuple[Outcome, Sequence[Json]]]
) -> None:
    """Simulate failures for half of a simulation's time, and add results to ``done``."""
    seconds = analysis.scheduler.live.settings().scheduler.what_if_timeout / 2

    def run(scheduler: Scheduler, scratch: ScratchTransaction) -> None:
        until = monotonic() + seconds
        mover = Mover(scheduler, scratch, scheduler.clock())
        done.clear()  # the transaction may run again
        for outcome in waiting:
            hosts = outcome.failure.hosts
            done.append((outcome, simulate_failure(mover, scheduler, scratch, hosts)))
            if monotonic() > until or analysis.deadline.reached():
                return

    analysis.scheduler.simulate([], run)


def simulate_failure(
    mover: Mover,
    scheduler: Scheduler,
    scratch: ScratchTransaction,
    hosts: frozenset[str],
    added: Sequence[MovingInstance] = (),
    *,
    with_reasons: bool = True,
) -> list[Json]:
    """Return the instances without a place if hosts fail, and the lacking amounts.

    ``added`` are further instances, which exist in this simulation only. Everything is rolled back
    to the state before.
    """
    connection = scratch.connection
    with mover.attempt():
        simulation.disable(connection, hosts, DISABLED, DRAINED, scheduler.clock())
        own = [each for each in added if each.record.host in hosts]
        moving = in_order([*find_instances(connection, hosts), *own])
        plan = mover.move(moving, avoid=hosts)
        if not with_reasons:
            return [{} for _ in plan.stuck]
        return _describe_stuck(scheduler, connection, moving, plan, hosts)


def _describe_stuck(
    scheduler: Scheduler,
    connection: Connection,
    moving: Sequence[MovingInstance],
    plan: MovePlan,
    hosts: frozenset[str],
) -> list[Json]:
    reasons = {each.instance: each.reason for each in plan.stuck}
    stuck = [each for each in moving if each.record.uuid in reasons]
    by_key = {each.request_key: each for each in stuck}
    lacking = {
        key: _find_lacking(scheduler, connection, each, hosts) for key, each in by_key.items()
    }
    return [
        {
            "uuid": each.record.uuid,
            "name": each.record.display_name,
            "flavor": (each.record.flavor or {}).get("name"),
            "host": each.record.host,
            "reason": reasons[each.record.uuid],
            "lacking": lacking[each.request_key],
        }
        for each in stuck
    ]


def _find_lacking(
    scheduler: Scheduler, connection: Connection, instance: MovingInstance, hosts: frozenset[str]
) -> Json:
    """Return the amounts that the closest host lacks, by class, empty if they suffice.

    The free amounts are counted after all other instances have moved.
    """
    request = read_requests(scheduler, {b"": instance.document}).get(b"")
    if request is None:
        return {}
    names = compute_nodes.names_by_uuid(connection)
    roots = [uuid for uuid, (host, _) in names.items() if host not in hosts]
    try:
        requested, free_by_root = free_amounts(scheduler, connection, request, roots)
    except Invalid:  # e.g. a flavor without resources, which is the reason itself
        return {}
    shortfalls = [
        {name: amount - free[name] for name, amount in requested.items() if free[name] < amount}
        for free in free_by_root.values()
    ]
    return min(
        shortfalls,
        key=lambda short: sum(short[name] / requested[name] for name in short),
        default=dict(requested),
    )
