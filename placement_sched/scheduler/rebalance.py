"""Advice on moves: make room for a flavor, empty hosts, or even out their load. It only advises.

Each move is one that the real run makes in a trial, and is valid in the order given. Methods and
bounds are described for operators in ``doc/source/rebalance.rst``.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice
from typing import Any

from placement_sched.db.scratch import Trial
from placement_sched.model.document import Json
from placement_sched.scheduler.capacity.report import refuse_unknown_hosts, refuse_unknown_zone
from placement_sched.scheduler.drain_plan import Mover, MovingInstance, PlannedMove, on_hosts
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.scheduler.simulation import AppliedChanges
from placement_sched.store import simulation
from placement_sched.store.placement import allocations
from placement_sched.store.simulation import HostLoad

#: So many hosts are looked at as places for a flavor, sets of instances of each, and runs in all.
MOST_TARGETS, MOST_SETS, MOST_RUNS = 200, 5_000, 2_000
#: What the load of a host is measured by.
LOAD = "MEMORY_MB"
FIT, PACK, SPREAD = "fit", "pack", "spread"
GOALS = (FIT, PACK, SPREAD)


@dataclass(frozen=True, slots=True)
class Advice:
    """Moves towards a goal, each with its reason; ``reached`` is whether it is reached by them.

    ``complete`` is false where the search ended at one of its bounds.
    """

    reached: bool
    outcome: str
    moves: tuple[tuple[PlannedMove, str], ...] = ()
    complete: bool = True

    def as_json(self) -> Json:
        """Return the advice as an answer shows it."""
        return {
            "reached": self.reached,
            "outcome": self.outcome,
            "complete": self.complete,
            "moves": [
                {**one.as_json(), "reason": why, "passed": list(one.passed), "weight": one.weight}
                for one, why in self.moves
            ],
        }


def advised(scheduler: Scheduler, goal: str, document: Json | None, most: int) -> Advice:
    """Return at most ``most`` moves towards a goal; ``document`` is what to ``fit``.

    Raises :class:`Invalid` and :class:`NotFound` for a request that cannot be, and
    :class:`Unavailable` where it takes longer than ``[scheduler] what_if_timeout``.
    """

    def answer(other: Scheduler, trial: Trial, _applied: AppliedChanges) -> Advice:
        seeking = _Seeking(other, trial, Mover(other, trial, other.clock()), most)
        ways: dict[str, Callable[[], Advice]] = {PACK: seeking.pack, SPREAD: seeking.spread}
        return seeking.fit(document or {}) if goal == FIT else ways[goal]()

    return scheduler.supposing([], answer)


@dataclass(frozen=True, slots=True)
class _Target:
    """A host that may be given to a flavor: what it lacks, and what its instances hold there."""

    host: str
    lacking: Mapping[str, int]
    held: Mapping[str, Mapping[str, int]]
    instances: tuple[MovingInstance, ...]

    def sets(self, number: int, check: Callable[[], None]) -> list[tuple[MovingInstance, ...]]:
        """Return the sets of so many instances that hold what is lacking, the smallest first.

        There may be very many: ``check`` is called for each, and raises where time is over.
        """

        def enough() -> Iterator[tuple[MovingInstance, ...]]:
            for some in combinations(self.instances, number):
                check()
                if self._frees(some):
                    yield some

        return sorted(islice(enough(), MOST_SETS), key=_total)

    def _frees(self, some: Sequence[MovingInstance]) -> bool:
        return all(
            sum(self.held.get(one.record.uuid, {}).get(name, 0) for one in some) >= amount
            for name, amount in self.lacking.items()
        )


@dataclass(slots=True)
class _Seeking:
    """One search for moves, in a trial."""

    scheduler: Scheduler
    trial: Trial
    mover: Mover
    most: int
    runs: int = 0
    #: Whether hosts or sets of instances were left out for being too many.
    cut: bool = False

    def fit(self, document: Json) -> Advice:
        """Return the fewest moves off one host by which a request finds a place there."""
        request = self.scheduler.reader.read({**document, "num_instances": 1})
        refuse_unknown_hosts(self.trial.connection, request)
        with self.scheduler.evaluated(self.scheduler.reader.checked(request)) as (_, run):
            refuse_unknown_zone(run.narrowed)
            asked = run.searches.query
            if run.selections:
                return Advice(True, f"it fits on {run.selections[0][0].service_host} as it is")
        amounts = {
            name: amount
            for group in (asked.groups if asked else ())
            if not group.suffix
            for name, amount in group.resources
        }
        targets = list(self._targets(document, amounts))
        for number in range(1, self.most + 1):
            for target in targets:
                sets = target.sets(number, self.trial.check)
                self.cut = self.cut or len(sets) == MOST_SETS
                for some in sets:
                    if self.runs >= MOST_RUNS:
                        return Advice(False, "no moves were found in time", complete=False)
                    if moves := self._making_room(document, target.host, some):
                        return Advice(True, f"it fits on {target.host} after the moves", moves)
        return self._none_found()

    def _none_found(self) -> Advice:
        """Return that no moves make room, or, where a bound left some out, that none are known."""
        most = (
            "1 move off one host makes"
            if self.most == 1
            else f"{self.most} moves off one host make"
        )
        tried = ", of those that were tried" if self.cut else ""
        return Advice(False, f"no {most} room for it{tried}", complete=not self.cut)

    def _targets(self, document: Json, amounts: Mapping[str, int]) -> Iterator[_Target]:
        """Yield the hosts on which the request would fit if they were empty, the nearest first."""
        by_host: dict[str, list[HostLoad]] = defaultdict(list)
        for load in simulation.loads(self.trial.connection, amounts):
            by_host[load.host].append(load)
        lacking = {
            host: {one.resource_class: amounts[one.resource_class] - one.free for one in some}
            for host, some in by_host.items()
        }
        share = {
            host: max(max(amount, 0) / amounts[name] for name, amount in some.items())
            for host, some in lacking.items()
        }
        self.cut = len(share) > MOST_TARGETS
        nearest = sorted(share, key=lambda host: (share[host], host))[:MOST_TARGETS]
        found: dict[str, list[MovingInstance]] = defaultdict(list)
        for one in on_hosts(self.trial.connection, nearest):
            found[one.record.host or ""].append(one)
        for host in nearest:
            with self.mover.attempt():
                self.mover.free(found[host])
                fits = bool(found[host]) and self._fits(document, host)
            if fits:
                roots = {one.node_uuid for one in by_host[host]}
                short = {name: amount for name, amount in lacking[host].items() if amount > 0}
                held = self._held(found[host], roots)
                yield _Target(host, short, held, tuple(found[host]))

    def _held(self, some: Sequence[MovingInstance], roots: set[str]) -> dict[str, dict[str, int]]:
        held: dict[str, dict[str, int]] = defaultdict(dict)
        uuids = [one.record.uuid for one in some]
        for one in allocations.of_consumers(self.trial.connection, uuids):
            if one.provider_uuid in roots:
                held[one.consumer.uuid][one.resource_class] = one.used
        return held

    def _fits(self, document: Json, host: str) -> bool:
        """Return whether the real run places a request on one host."""
        self.runs += 1
        place = {"requested_destination": {"host": host}, "num_instances": 1}
        reader = self.scheduler.reader
        request = reader.checked(reader.read({**document, **place}))
        with self.scheduler.evaluated(request) as (_, run):
            return bool(run.selections)

    def _making_room(
        self, document: Json, host: str, some: Sequence[MovingInstance]
    ) -> tuple[tuple[PlannedMove, str], ...]:
        """Return the moves of instances off a host, if it has room for the request then."""
        with self.mover.attempt():
            self.runs += 1
            done = self.mover.move(some, avoid=[host])
            if done.stuck or not self._fits(document, host):
                return ()
        return tuple((one, f"makes room on {host}") for one in done.moves)

    def pack(self) -> Advice:
        """Empty hosts, those with the fewest instances first, onto others that are in use."""
        loads = self._loads()
        everyone = on_hosts(self.trial.connection, loads)
        by_host: dict[str, list[MovingInstance]] = defaultdict(list)
        for one in everyone:
            by_host[one.record.host or ""].append(one)
        empty = sorted(set(loads) - by_host.keys())
        emptied: list[str] = []
        filled: set[str] = set()
        moves: list[tuple[PlannedMove, str]] = []
        for host in sorted(by_host, key=lambda host: (len(by_host[host]), host)):
            if len(moves) + len(by_host[host]) > self.most or host in filled:
                continue
            with self.mover.attempt() as attempt:
                done = self.mover.move(by_host[host], avoid=[host, *empty, *emptied])
                attempt.kept = not done.stuck
            if attempt.kept:
                emptied.append(host)
                filled.update(one.host for one in done.moves)
                moves += [(one, f"empties {host}") for one in done.moves]
        if not emptied:
            return Advice(False, "no host can be emptied")
        subject = "1 host becomes" if len(emptied) == 1 else f"{len(emptied)} hosts become"
        return Advice(True, f"{subject} empty: {', '.join(emptied)}", tuple(moves))

    def spread(self) -> Advice:
        """Move instances off the host with the highest load, each to one where it stays lower."""
        moves: list[tuple[PlannedMove, str]] = []
        gone: set[str] = set()
        before = self._highest()
        while len(moves) < self.most:
            step = self._lower_the_highest(gone)
            if step is None:
                break
            moves.append(step)
            gone.add(step[0].instance)
        if not moves:
            return Advice(False, f"no move lowers the highest load, which is {before:.0%}")
        after = self._highest()
        hosts = sorted(host for host, load in self._loads().items() if _share(load) == after)
        named = hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts, such as {hosts[0]}"
        verb = "is" if after < before else "is still"
        outcome = f"the highest load {verb} {after:.0%} then, on {named}"
        return Advice(after < before, outcome, tuple(moves))

    def _highest(self) -> float:
        return max(map(_share, self._loads().values()), default=0.0)

    def _lower_the_highest(self, gone: set[str]) -> tuple[PlannedMove, str] | None:
        loads = self._loads()
        host = max(sorted(loads), key=lambda one: _share(loads[one]), default="")
        before = _share(loads[host]) if host else 0.0
        for one in on_hosts(self.trial.connection, [host]):
            if one.record.uuid in gone:
                continue
            with self.mover.attempt() as attempt:
                done = self.mover.move([one], avoid=[host])
                if done.moves:
                    after = self._loads()
                    attempt.kept = _share(after[done.moves[0].host]) < before
            if attempt.kept:
                why = f"lowers the load of {host} from {before:.0%} to {_share(after[host]):.0%}"
                return replace(done.moves[0]), why
        return None

    def _loads(self) -> dict[str, HostLoad]:
        return {one.host: one for one in simulation.loads(self.trial.connection, [LOAD])}


def _share(load: HostLoad) -> float:
    return load.used / load.capacity if load.capacity else 1.0


def _total(some: Sequence[MovingInstance]) -> Any:
    return tuple(map(sum, zip(*(one.size for one in some), strict=True)))
