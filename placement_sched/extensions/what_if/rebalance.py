# SPDX-License-Identifier: Apache-2.0
"""Suggested moves towards a goal, such as the end of violations.

The moves are scheduled in turn in a simulation, and are valid only in this order. Methods and
limits are described for operators in ``doc/source/plan.rst``. Nothing is moved.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, combinations, islice
from time import monotonic
from typing import Any

from placement_sched.errors import Invalid, NotFound
from placement_sched.extensions.what_if.capacity.report import check_hosts, check_zone
from placement_sched.extensions.what_if.drain_plan import (
    Mover,
    MovingInstance,
    PlannedMove,
    StuckInstance,
    find_instances,
    read_group_without,
    sort_instances,
    with_requests,
)
from placement_sched.extensions.what_if.violations.report import report_violations
from placement_sched.limits import MAX_REBALANCE_RUNS, MAX_REBALANCE_SETS, MAX_REBALANCE_TARGETS
from placement_sched.model.document import Json
from placement_sched.model.grouping import group_rows, nest_rows
from placement_sched.model.names import format_count
from placement_sched.model.provider import describe_other_consumers
from placement_sched.scheduler.instance_requests import map_unknown_facts
from placement_sched.scheduler.scheduler import Scheduler, Simulation
from placement_sched.scheduler.selection import SchedulingRun
from placement_sched.store import simulated_changes
from placement_sched.store.compute import instances as instance_store
from placement_sched.store.compute.other_consumers import list_other_consumers
from placement_sched.store.placement import allocations
from placement_sched.store.simulated_changes import HostLoad

#: The resource class that measures the load of a host.
LOAD = "MEMORY_MB"
FIT, PACK, SPREAD, COMPLY = "fit", "pack", "spread", "comply"
GOALS = (FIT, PACK, SPREAD, COMPLY)
#: Hosts that are tried for a server with a violation, and runs after which a step is chosen.
_MAX_TARGETS, _MAX_STEP_RUNS = 8, 100
_CAPACITY = "capacity"
_NO_VIOLATION = "no server violates a rule"
_ADDS = "on each host found for it, the move would add another violation"
_LATER, _UNTRIED = "it needs more moves", "it was not tried: the search ended at a limit"


@dataclass(frozen=True, slots=True)
class Advice:
    """Moves towards a goal, each with its reason.

    ``reached`` is true if the moves reach the goal. ``complete`` is false if the search ended at a
    limit. ``unknown`` maps unknown facts of requests to moved instances. ``stuck`` are servers
    whose violations remain.
    """

    reached: bool
    outcome: str
    moves: tuple[tuple[PlannedMove, str], ...] = ()
    complete: bool = True
    unknown: Mapping[str, Sequence[str]] = field(default_factory=dict)
    stuck: tuple[StuckInstance, ...] = ()

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
            "stuck": [each.as_json() for each in self.stuck],
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
        methods: dict[str, Callable[[], Advice]] = {
            PACK: search.pack,
            SPREAD: search.spread,
            COMPLY: search.comply,
        }
        advice = search.fit(document or {}) if goal == FIT else methods[goal]()
        moved = {move.instance for move, _ in advice.moves}  # others have only been tried
        unexamined = {
            name: sorted(moved.intersection(mover.unexamined[name])) for name in mover.unexamined
        }
        return replace(advice, unknown={name: each for name, each in unexamined.items() if each})

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
        if run.selections:
            return Advice(True, f"it fits on {run.selections[0][0].service_host} as it is")
        targets = list(self.iterate_targets(document, _read_amounts(run)))
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

    def iterate_targets(self, document: Json, amounts: Mapping[str, int]) -> Iterator[_Target]:
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

    def comply(self) -> Advice:
        """Find moves that end violations and add no violation."""
        # The search uses half of the time, and the last check the rest.
        deadline = (monotonic() + self.simulation.source.until) / 2
        report = report_violations(self.simulation)
        initial = _read_violations(report)
        best = _ComplySearch(self, initial, 1, deadline)
        best.is_limited = True  # without moves, until a search ends
        for order in (1, -1):
            with self.mover.attempt():
                search = _ComplySearch(self, initial, order, deadline)
                search.run()
            if search.rank <= best.rank and not _has_added(initial, search.violations):
                best = search
            if search.is_limited or not (search.violations and search.moves):
                break
        number = sum(each["servers"] for each in report["unexamined"])
        note = f" ({format_count(number, 'server')} without a result)" if number else ""
        return best.build_advice(note)

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


@dataclass(frozen=True, slots=True)
class _Violation:
    """The host of a server, and the rules that reject it there.

    If ``is_over_capacity``, the moves of other servers may end it.
    """

    host: str
    rules: frozenset[str]
    is_over_capacity: bool


#: Violations by the uuids of servers.
_Violations = Mapping[str, _Violation]
#: Servers to move in turn, each with the hosts that it avoids.
_MovePlan = Sequence[tuple[MovingInstance, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class _Step:
    """Simulated moves, remaining violations, and a server that is stuck."""

    plan: _MovePlan
    moves: tuple[PlannedMove, ...]
    violations: _Violations
    stuck: StuckInstance | None


class _ComplySearch:
    """Search for moves that end violations.

    Each step leaves the fewest violations of the steps tried. Among equal steps, the server with
    the fewest possible hosts moves first, and with the ``order`` -1 last. After a move, the servers
    of its hosts and of its server group are checked, and all servers after the last.
    """

    def __init__(
        self, search: _MoveSearch, before: _Violations, order: int, deadline: float
    ) -> None:
        self._search, self._mover, self._order = search, search.mover, order
        self._connection = search.simulation.connection
        self._deadline = deadline
        self._moved: set[str] = set()
        self._stuck: dict[object, StuckInstance] = {}
        self.is_limited = False
        self.moves: list[tuple[PlannedMove, str]] = []
        self.violations = self._before = before
        records = instance_store.list_by_uuids(self._connection, list(before))
        self._servers = sort_instances(with_requests(self._connection, records))
        #: Servers with the same key can replace each other in a step.
        self._keys = {
            each.record.uuid: (
                each.batch_key,
                each.record.host,
                self._mover.find_obstacle_to_move(each),
            )
            for each in self._servers
        }

    @property
    def rank(self) -> tuple[int, int]:
        """Return the numbers of violations that remain and of moves."""
        return len(self.violations), len(self.moves)

    def run(self) -> None:
        """Make the moves in the simulation, and check all servers afterwards."""
        while self.violations and len(self.moves) < self._search.max_moves:
            step = self._find_step()
            if step is None or not self._make(step):
                break
        if self.moves:
            self.violations = self._check(None)

    def build_advice(self, note: str) -> Advice:
        """Return the moves, and the servers whose violations remain."""
        is_full = len(self.moves) >= self._search.max_moves
        stuck = []
        for uuid, violation in sorted(self.violations.items()):
            each = StuckInstance(uuid, violation.host, _LATER if is_full else _UNTRIED)
            if not is_full:
                each = self._stuck.get(self._keys.get(uuid), each)
            rules = ", ".join(sorted(violation.rules))
            stuck.append(replace(each, instance=uuid, reason=f"{rules}: {each.reason}"))
        ended, number = len(self._before) - len(stuck), len(self._before)
        outcome = f"the moves end {ended} of {format_count(number, 'violation')}"
        if not self.moves:
            outcome = (
                f"no moves end {format_count(number, 'violation')}" if number else _NO_VIOLATION
            )
        return Advice(
            not self.violations,
            outcome + note,
            tuple(self.moves),
            not (self.is_limited or self._search.is_limited),
            stuck=tuple(stuck),
        )

    def _check(self, hosts: Collection[str] | None) -> dict[str, _Violation]:
        return _read_violations(report_violations(self._search.simulation, hosts))

    def _find_step(self) -> _Step | None:
        """Return the best moves found of a single server, or moves of two servers."""
        self._stuck = {}
        number, steps = self._search.max_moves - len(self.moves), list[_Step]()
        max_runs = self._search.runs + _MAX_STEP_RUNS
        until = monotonic() + (self._deadline - monotonic()) / number  # its share of the time
        servers = {
            self._keys[each.record.uuid]: each
            for each in self._servers
            if each.record.uuid in self.violations and each.record.uuid not in self._moved
        }
        for step in chain.from_iterable(map(self._try_hosts, servers.values())):
            steps.append(step)
            if self._search.runs >= max_runs or monotonic() >= until:
                break
        if steps:
            options = Counter(step.moves[0].instance for step in steps)
            demand = Counter(step.moves[0].host for step in steps)

            def get_sort_key(step: _Step) -> tuple[int, int, int]:
                rank = options[step.moves[0].instance] * self._order
                return len(step.violations), rank, demand[step.moves[0].host]

            return min(steps, key=get_sort_key)
        if number < 2:
            return None
        chains = (self._find_chain(server) for server in servers.values())
        return next((step for step in chains if step), None)

    def _try_hosts(self, server: MovingInstance) -> Iterator[_Step]:
        """Yield a step for each host that the server can move to."""
        uuid, avoid, is_possible = server.record.uuid, list[str](), False
        key = self._keys[uuid]
        while len(avoid) < _MAX_TARGETS and not self._is_over():
            step = self._simulate([(server, tuple(avoid))])
            if step.stuck:
                if not avoid:
                    self._stuck[key] = step.stuck
                break
            avoid.append(step.moves[0].host)
            if self._is_better(step):
                is_possible = True
                yield step
        if avoid and not is_possible:
            self._stuck[key] = StuckInstance(uuid, server.record.host or "", _ADDS)

    def _find_chain(self, server: MovingInstance) -> _Step | None:
        """Find a move of another server after which a server can move to its host."""
        if self._is_over() or self._mover.find_obstacle_to_move(server) is not None:
            return None
        simulation = self._search.simulation
        document = {
            **server.document,
            **read_group_without(self._connection, server.record),
            "ignore_hosts": [server.record.host],
            "num_instances": 1,
        }
        try:
            request = simulation.reader.validate(simulation.reader.read(document))
            run = simulation.evaluate(self._connection, request)
        except (Invalid, NotFound):  # the server is stuck with this error
            return None
        unmovable = {server.record.uuid, *self._moved}
        for target in self._search.iterate_targets(document, _read_amounts(run)):
            for (first,) in target.list_sets(1, simulation.source.check):
                if first.record.uuid in unmovable or self._is_over():
                    continue
                if step := self._try_chain(first, server, target.host):
                    return step
        return None

    def _try_chain(self, first: MovingInstance, second: MovingInstance, host: str) -> _Step | None:
        avoid = [host]
        while len(avoid) <= _MAX_TARGETS:
            step = self._simulate([(first, tuple(avoid)), (second, ())])
            if self._is_better(step):
                return step
            if step.stuck:  # the first server, or the second, although the first has left
                return None
            avoid.append(step.moves[0].host)
        return None

    def _is_over(self) -> bool:
        has_time = monotonic() < self._deadline
        self.is_limited = self._search.runs >= MAX_REBALANCE_RUNS or not has_time
        return self.is_limited

    def _is_better(self, step: _Step) -> bool:
        has_fewer = len(step.violations) < len(self.violations)
        return not step.stuck and has_fewer and not _has_added(self.violations, step.violations)

    def _make(self, step: _Step) -> bool:
        """Make the moves of a step, unless they have other results this time."""
        made = self._simulate(step.plan, is_kept=True)
        if not self._is_better(made):
            self.is_limited = True
            return False
        ended = self.violations.keys() - made.violations.keys()
        rules = ", ".join(sorted({rule for uuid in ended for rule in self.violations[uuid].rules}))
        reasons = [f"ends {format_count(len(ended), 'violation')}: {rules}"]
        if len(made.moves) > 1:
            reasons.insert(0, f"frees capacity on {made.moves[1].host}")
        self.moves += zip(made.moves, reasons, strict=True)
        self._moved.update(move.instance for move in made.moves)
        self.violations = made.violations
        return True

    def _simulate(self, plan: _MovePlan, *, is_kept: bool = False) -> _Step:
        """Make moves in turn, up to the first that is not allowed.

        A move that adds a violation is not allowed. The moves are rolled back, unless ``is_kept``
        and the step is better.
        """
        violations, moves, stuck = self.violations, list[PlannedMove](), None
        with self._mover.attempt() as attempt:
            for server, avoid in plan:
                self._search.runs += 1
                origin = server.record.host or ""
                result = self._mover.migrate([server], avoid=[origin, *avoid])
                if not result.moves:
                    stuck = result.stuck[0]
                    break
                moves += result.moves
                after = self._check_after(server, moves[-1].host, violations)
                has_added, violations = _has_added(violations, after), after
                if has_added:
                    break
            step = _Step(plan, tuple(moves), violations, stuck)
            attempt.is_successful = is_kept and self._is_better(step)
        return step

    def _check_after(
        self, server: MovingInstance, host: str, violations: _Violations
    ) -> _Violations:
        """Check the servers that the move of a server to a host affects."""
        record = server.record
        hosts = {record.host or "", host}
        group = read_group_without(self._connection, record).get("instance_group", {})
        hosts.update(group.get("hosts", ()))
        own = violations.get(record.uuid)
        if own and own.is_over_capacity:  # perhaps of a provider that other hosts share
            hosts |= {each.host for each in violations.values() if each.is_over_capacity}
        checked = self._check(hosts)
        unchecked = {uuid: each for uuid, each in violations.items() if each.host not in hosts}
        return {**unchecked, **checked}


def _read_violations(report: Json) -> dict[str, _Violation]:
    return {
        each["uuid"]: _Violation(
            each["host"],
            frozenset(reason["rule"] for reason in each["reasons"]),
            any(reason["kind"] == _CAPACITY for reason in each["reasons"]),
        )
        for each in report["violations"]
    }


def _has_added(before: _Violations, after: _Violations) -> bool:
    """Return whether a server violates a rule that it did not violate before."""
    return any(
        uuid not in before or violation.rules - before[uuid].rules
        for uuid, violation in after.items()
    )


def _read_amounts(run: SchedulingRun) -> dict[str, int]:
    query = run.searches.query
    return {
        name: amount
        for group in (query.groups if query else ())
        if not group.suffix
        for name, amount in group.resources
    }


def _compute_share(load: HostLoad) -> float:
    return load.used / load.capacity if load.capacity else 1.0


def _sum_sizes(instances: Sequence[MovingInstance]) -> Any:
    return tuple(map(sum, zip(*(instance.size for instance in instances), strict=True)))
