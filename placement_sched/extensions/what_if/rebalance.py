# SPDX-License-Identifier: Apache-2.0
"""Suggested moves that free capacity, empty hosts or balance load.

The moves are scheduled in turn in a simulation, and are valid only in this order. Methods and
limits are described for operators in ``doc/source/plan.rst``. Nothing is moved.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations, islice
from typing import Any

from placement_sched.extensions.what_if.capacity.report import check_hosts, check_zone
from placement_sched.extensions.what_if.drain_plan import (
    Mover,
    MovingInstance,
    PlannedMove,
    find_instances,
)
from placement_sched.limits import MAX_REBALANCE_RUNS, MAX_REBALANCE_SETS, MAX_REBALANCE_TARGETS
from placement_sched.model.document import Json
from placement_sched.model.grouping import group_rows, nest_rows
from placement_sched.model.provider import describe_other_consumers
from placement_sched.scheduler.instance_requests import map_unknown_facts
from placement_sched.scheduler.scheduler import Scheduler, Simulation
from placement_sched.store import simulated_changes
from placement_sched.store.compute.other_consumers import list_other_consumers
from placement_sched.store.placement import allocations
from placement_sched.store.simulated_changes import HostLoad

#: The resource class that measures the load of a host.
LOAD = "MEMORY_MB"
FIT, PACK, SPREAD = "fit", "pack", "spread"
GOALS = (FIT, PACK, SPREAD)


@dataclass(frozen=True, slots=True)
class Advice:
    """Moves towards a goal, each with its reason.

    ``reached`` is true if the moves reach the goal. ``complete`` is false if the search ended at a
    limit. ``unknown`` maps unknown facts of requests to moved instances.
    """

    reached: bool
    outcome: str
    moves: tuple[tuple[PlannedMove, str], ...] = ()
    complete: bool = True
    unknown: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def as_json(self) -> Json:
        """Return the advice as a JSON object."""
        return {
            "reached": self.reached,
            "outcome": self.outcome,
            "complete": self.complete,
            "unknown": dict(self.unknown),
            "moves": [
                {
                    **move.as_json(),
                    "reason": reason,
                    "passed": list(move.passed),
                    "weight": move.weight,
                }
                for move, reason in self.moves
            ],
        }


def advise(scheduler: Scheduler, goal: str, document: Json | None, max_moves: int) -> Advice:
    """Suggest at most ``max_moves`` moves towards a goal of :data:`GOALS`.

    ``document`` is the request that the goal ``fit`` makes room for, None for other goals. Raises
    :class:`Invalid` and :class:`NotFound` for an invalid request, and :class:`Unavailable` after
    ``[scheduler] what_if_timeout``.
    """

    def run(simulation: Simulation) -> Advice:
        mover = Mover(simulation)
        search = _MoveSearch(simulation, mover, max_moves)
        methods: dict[str, Callable[[], Advice]] = {PACK: search.pack, SPREAD: search.spread}
        advice = search.fit(document or {}) if goal == FIT else methods[goal]()
        return replace(advice, unknown=mover.unexamined)

    advice = scheduler.simulate([], run)
    moved = [move.instance for move, _ in advice.moves]
    with scheduler.source.read() as connection:
        unknown = map_unknown_facts(connection, moved)
        return replace(advice, unknown={**unknown, **advice.unknown})


@dataclass(frozen=True, slots=True)
class _Target:
    """A host that may fit a request after moves off the host.

    ``missing`` maps resource classes to the amounts that the request lacks. ``allocated`` maps
    instance uuids and classes to the amounts on the root providers of the host.
    """

    host: str
    missing: Mapping[str, int]
    allocated: Mapping[str, Mapping[str, int]]
    instances: tuple[MovingInstance, ...]

    def list_sets(self, number: int, check: Callable[[], None]) -> list[tuple[MovingInstance, ...]]:
        """List sets of ``number`` instances that free the missing amounts.

        Sets of the smallest total size come first. ``check`` raises an error after the deadline.
        """

        def frees_enough(instances: Sequence[MovingInstance]) -> bool:
            check()
            allocated = [self.allocated.get(vm.record.uuid, {}) for vm in instances]
            return all(
                sum(amounts.get(name, 0) for amounts in allocated) >= amount
                for name, amount in self.missing.items()
            )

        sets = filter(frees_enough, combinations(self.instances, number))
        return sorted(islice(sets, MAX_REBALANCE_SETS), key=_sum_sizes)


@dataclass(slots=True)
class _MoveSearch:
    simulation: Simulation
    mover: Mover
    max_moves: int
    runs: int = 0
    #: Whether hosts or sets of instances were skipped because of a limit.
    is_limited: bool = False

    def fit(self, document: Json) -> Advice:
        """Find the fewest moves that make the request fit on a host."""
        reader, connection = self.simulation.reader, self.simulation.connection
        request = reader.read({**document, "num_instances": 1})
        check_hosts(connection, request)
        run = self.simulation.evaluate(connection, reader.validate(request))
        check_zone(run.filtered_request)
        query = run.searches.query
        if run.selections:
            return Advice(True, f"it fits on {run.selections[0][0].service_host} as it is")
        amounts = {
            name: amount
            for group in (query.groups if query else ())
            if not group.suffix
            for name, amount in group.resources
        }
        targets = list(self._iterate_targets(document, amounts))
        for number in range(1, self.max_moves + 1):
            for target in targets:
                sets = target.list_sets(number, self.simulation.source.check)
                self.is_limited = self.is_limited or len(sets) == MAX_REBALANCE_SETS
                for instances in sets:
                    if self.runs >= MAX_REBALANCE_RUNS:
                        return Advice(False, "no moves were found in time", complete=False)
                    if moves := self._free_capacity(document, target.host, instances):
                        return Advice(True, f"it fits on {target.host} after the moves", moves)
        subject = "no move" if self.max_moves == 1 else f"no set of up to {self.max_moves} moves"
        limit_note = " (not all were tried)" if self.is_limited else ""
        words = f"{subject} off one host frees enough capacity{limit_note}"
        return Advice(False, words, complete=not self.is_limited)

    def _iterate_targets(self, document: Json, amounts: Mapping[str, int]) -> Iterator[_Target]:
        """Yield the hosts that would fit the request without their instances.

        Hosts with the smallest share of missing amounts come first.
        """
        loads = simulated_changes.list_loads(self.simulation.connection, amounts)
        by_host: dict[str, list[HostLoad]] = group_rows((load.host, load) for load in loads)
        missing = {
            host: {load.resource_class: amounts[load.resource_class] - load.free for load in loads}
            for host, loads in by_host.items()
        }
        missing_share = {
            host: max(max(amount, 0) / amounts[name] for name, amount in classes.items())
            for host, classes in missing.items()
        }
        self.is_limited = len(missing_share) > MAX_REBALANCE_TARGETS
        nearest = sorted(missing_share, key=lambda host: (missing_share[host], host))
        nearest = nearest[:MAX_REBALANCE_TARGETS]
        instances_on = {
            host: [vm for vm in moving if self.mover.find_obstacle_to_move(vm) is None]
            for host, moving in self._group_instances(nearest).items()
        }
        for host in nearest:
            if not instances_on.get(host):
                continue
            with self.mover.attempt():
                self.mover.remove_allocations(instances_on[host])
                fits = self._fits(document, host)
            if fits:
                roots = {load.node_uuid for load in by_host[host]}
                positive = {name: amount for name, amount in missing[host].items() if amount > 0}
                allocated = self._read_root_allocations(instances_on[host], roots)
                yield _Target(host, positive, allocated, tuple(instances_on[host]))

    def _group_instances(self, hosts: Iterable[str]) -> dict[str, list[MovingInstance]]:
        moving = find_instances(self.simulation.connection, hosts)
        return group_rows((each.record.host or "", each) for each in moving)

    def _read_root_allocations(
        self, instances: Sequence[MovingInstance], roots: set[str]
    ) -> dict[str, dict[str, int]]:
        uuids = [instance.record.uuid for instance in instances]
        return nest_rows(
            (allocation.consumer.uuid, allocation.resource_class, allocation.used)
            for allocation in allocations.list_by_consumers(self.simulation.connection, uuids)
            if allocation.provider_uuid in roots
        )

    def _fits(self, document: Json, host: str) -> bool:
        self.runs += 1
        destination = {"requested_destination": {"host": host}, "num_instances": 1}
        reader = self.simulation.reader
        request = reader.validate(reader.read({**document, **destination}))
        return bool(self.simulation.evaluate(self.simulation.connection, request).selections)

    def _free_capacity(
        self, document: Json, host: str, instances: Sequence[MovingInstance]
    ) -> tuple[tuple[PlannedMove, str], ...]:
        with self.mover.attempt():
            self.runs += 1
            result = self.mover.migrate(instances, avoid=[host])
            if result.stuck or not self._fits(document, host):
                return ()
        return tuple((move, f"frees capacity on {host}") for move in result.moves)

    def pack(self) -> Advice:
        """Empty hosts by moves to other hosts in use.

        Hosts with the fewest instances are emptied first. Hosts with other consumers, which are not
        moved, are in use and do not become empty.
        """
        loads = self._map_loads()
        by_host = self._group_instances(loads)
        consumers = list_other_consumers(self.simulation.connection, None)
        occupied = {consumer.host for consumer in consumers}
        empty = sorted(set(loads) - by_host.keys() - occupied)
        emptied: list[str] = []
        filled: set[str] = set()
        moves: list[tuple[PlannedMove, str]] = []
        for host in sorted(by_host, key=lambda host: (len(by_host[host]), host)):
            has_too_many = len(moves) + len(by_host[host]) > self.max_moves
            if has_too_many or host in filled or host in occupied:
                continue
            with self.mover.attempt() as attempt:
                result = self.mover.migrate(by_host[host], avoid=[host, *empty, *emptied])
                attempt.is_successful = not result.stuck
            if attempt.is_successful:
                emptied.append(host)
                filled.update(move.host for move in result.moves)
                moves += [(move, f"empties {host}") for move in result.moves]
        note = describe_other_consumers([asdict(consumer) for consumer in consumers])
        note = note and f". {note}"
        if not emptied:
            return Advice(False, f"no host can be emptied{note}")
        subject = "1 host becomes" if len(emptied) == 1 else f"{len(emptied)} hosts become"
        return Advice(True, f"{subject} empty: {', '.join(emptied)}{note}", tuple(moves))

    def spread(self) -> Advice:
        """Move instances off the most loaded host, each to a less loaded host."""
        moves: list[tuple[PlannedMove, str]] = []
        moved: set[str] = set()
        load_before = self._find_highest_share()
        while len(moves) < self.max_moves:
            step = self._lower_highest_load(moved)
            if step is None:
                break
            moves.append(step)
            moved.add(step[0].instance)
        if not moves:
            return Advice(False, f"no move lowers the highest load, which is {load_before:.0%}")
        load_after = self._find_highest_share()
        hosts = sorted(
            host for host, load in self._map_loads().items() if _compute_share(load) == load_after
        )
        names = hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts, such as {hosts[0]}"
        verb = "is" if load_after < load_before else "is still"
        outcome = f"after these moves, the highest load {verb} {load_after:.0%}, on {names}"
        return Advice(load_after < load_before, outcome, tuple(moves))

    def _find_highest_share(self) -> float:
        return max(map(_compute_share, self._map_loads().values()), default=0.0)

    def _lower_highest_load(self, moved: set[str]) -> tuple[PlannedMove, str] | None:
        loads = self._map_loads()
        host = max(sorted(loads), key=lambda name: _compute_share(loads[name]), default="")
        old = _compute_share(loads[host]) if host else 0.0
        for instance in find_instances(self.simulation.connection, [host]):
            if instance.record.uuid in moved:
                continue
            with self.mover.attempt() as attempt:
                result = self.mover.migrate([instance], avoid=[host])
                if result.moves:
                    new = self._map_loads()
                    attempt.is_successful = _compute_share(new[result.moves[0].host]) < old
            if attempt.is_successful:
                reason = (
                    f"lowers the load of {host} from {old:.0%} to {_compute_share(new[host]):.0%}"
                )
                return result.moves[0], reason
        return None

    def _map_loads(self) -> dict[str, HostLoad]:
        return {
            load.host: load
            for load in simulated_changes.list_loads(self.simulation.connection, [LOAD])
        }


def _compute_share(load: HostLoad) -> float:
    return load.used / load.capacity if load.capacity else 1.0


def _sum_sizes(instances: Sequence[MovingInstance]) -> Any:
    return tuple(map(sum, zip(*(instance.size for instance in instances), strict=True)))
