# SPDX-License-Identifier: Apache-2.0
"""Failover capacity: whether instances of failed hosts fit elsewhere.

A failure is a host or a domain of hosts that fails, or a set of hosts or domains that fail
together. The steps, in order::

    load      count the instances of each host by request               screen.py
    screen    run each request once, and judge the failures by counts   screen.py
    simulate  place the instances of unclear failures, largest first    this module
    remain    count further instances until a failure gets worse        this module

A failure is covered if the screen proves that a placement exists, or if the simulation finds a
placement. It is uncovered if the screen proves that no placement exists, or if the simulation finds
none. Uncovered by simulation is exact only if the simulation places no instance at all.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from math import comb
from time import monotonic
from typing import Any
from uuid import uuid4

from placement_sched.db.sql import split_batches
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, Unavailable
from placement_sched.limits import (
    MAX_FAILOVER_FLAVORS,
    MAX_FAILURE_SETS,
    MAX_PROBED_FAILURES,
    MAX_PROBED_INSTANCES,
    MAX_REPORTED_FAILURES,
)
from placement_sched.model.document import Json
from placement_sched.model.figures import Allowance
from placement_sched.model.instance import Instance
from placement_sched.model.names import suggest_name
from placement_sched.scheduler.caches import Aggregates
from placement_sched.scheduler.capacity.count import Deadline, collect_zones
from placement_sched.scheduler.capacity.report import compute_free_amounts
from placement_sched.scheduler.drain_plan import (
    MovePlan,
    Mover,
    MovingInstance,
    find_instances,
    sort_instances,
)
from placement_sched.scheduler.failover.screen import (
    FailedLoad,
    Screen,
    ScreenedRequest,
    Verdict,
    add_instances,
    read_requests,
    screen_requests,
)
from placement_sched.scheduler.request import SchedulingRequest
from placement_sched.scheduler.scheduler import Scheduler, Simulation
from placement_sched.scheduler.simulation import DISABLED, DRAINED
from placement_sched.store import simulated_changes
from placement_sched.store.compute import compute_nodes, server_groups
from placement_sched.store.compute import flavors as stored_flavors
from placement_sched.store.compute.other_consumers import list_other_consumers

#: States of failures in the answer.
COVERED, UNCOVERED, UNDETERMINED = "covered", "uncovered", "undetermined"
#: Kinds of domains that are not keys in the metadata of aggregates.
ZONE, AGGREGATE = "zone", "aggregate"
#: Number of hosts whose instances are read at a time.
_BATCH = 500
_SETS = (
    "{sets:,} sets of {number} {noun}s can fail, more than the limit of {limit:,}: a {noun} counts "
    "as covered only if host counts show that every set with it is covered, and as uncovered only "
    "if its failure alone is uncovered"
)
_LATE = (
    "{number:,} {noun}s are undetermined: the computation took longer than [scheduler] "
    "failover_budget ({seconds:g} s), or a simulation longer than [scheduler] what_if_timeout"
)
_LARGEST_FIRST = (
    "{number:,} {noun}s are uncovered if instances are placed largest first: another order may "
    "place all"
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Hosts that fail together, with the names of the host or domains."""

    name: str
    hosts: frozenset[str]


@dataclass(slots=True)
class Outcome:
    """Result for a failure.

    ``stuck_instances`` lists the instances that find no host, and ``stuck_count`` is their number.
    Without time to list the instances, ``stuck_instances`` is empty and ``stuck_count`` is a lower
    bound. ``is_proved`` is false if the simulation found no placement but in another order all
    instances may fit.
    """

    failure: Failure
    load: FailedLoad
    state: str = UNDETERMINED
    is_proved: bool = True
    stuck_count: int = 0
    stuck_instances: Sequence[Json] = ()

    def as_json(self) -> Json:
        """Return the outcome as a JSON object."""
        return {
            "name": self.failure.name,
            "hosts": sorted(self.failure.hosts),
            "state": self.state,
            "instances": self.load.total,
            "stuck": self.stuck_count,
            "nowhere": list(self.stuck_instances),
        }


@dataclass(slots=True)
class Analysis:
    """Failures of a cloud, with their results and the failed requests by key."""

    scheduler: Scheduler
    deadline: Deadline
    screen: Screen
    outcomes: Sequence[Outcome]
    requests: Mapping[bytes, SchedulingRequest]


def judge(analysis: Analysis) -> None:
    """Set the state of each failure, by the screen or else by a simulation.

    A simulation that places only some instances does not prove that no placement exists. Failures
    that the screen finds uncovered are also simulated, to list the instances that find no host.
    """
    uncovered, unclear = [], []
    for outcome in analysis.outcomes:
        verdict = analysis.screen.judge(outcome.load)
        if verdict is Verdict.COVERED:
            outcome.state = COVERED
        elif verdict is Verdict.UNCOVERED:
            outcome.state = UNCOVERED
            outcome.stuck_count = analysis.screen.count_stuck(outcome.load)
            uncovered.append(outcome)
        else:
            unclear.append(outcome)
    _simulate_all(analysis, unclear)
    for outcome in unclear:
        outcome.is_proved = outcome.state != UNCOVERED or outcome.stuck_count == outcome.load.total
    _simulate_all(analysis, uncovered[:MAX_REPORTED_FAILURES])


def _simulate_all(analysis: Analysis, outcomes: Sequence[Outcome]) -> None:
    """Simulate failures, several in each simulation, until the deadline."""
    waiting = list(outcomes)
    while waiting and not analysis.deadline.is_reached():
        done: list[tuple[Outcome, Sequence[Json]]] = []
        try:
            _simulate_some(analysis, waiting, done)
        except Unavailable:
            # The simulation of the next failure takes too long, or no query slot is free.
            waiting = waiting[len(done) + 1 :]
        else:
            waiting = waiting[len(done) :]
        for outcome, instances in done:
            outcome.stuck_instances, outcome.stuck_count = instances, len(instances)
            outcome.state = UNCOVERED if instances else COVERED


def _simulate_some(
    analysis: Analysis, waiting: Sequence[Outcome], done: list[tuple[Outcome, Sequence[Json]]]
) -> None:
    """Simulate failures for half of the time limit, and fill ``done``."""
    seconds = analysis.scheduler.live.get_settings().scheduler.what_if_timeout / 2

    def run(simulation: Simulation) -> None:
        until = monotonic() + seconds
        mover = Mover(simulation)
        done.clear()  # the transaction may run again
        for outcome in waiting:
            hosts = outcome.failure.hosts
            done.append((outcome, simulate_failure(mover, hosts)))
            if monotonic() > until or analysis.deadline.is_reached():
                return

    analysis.scheduler.simulate([], run)


def simulate_failure(
    mover: Mover,
    hosts: frozenset[str],
    added: Sequence[MovingInstance] = (),
    *,
    with_reasons: bool = True,
) -> list[Json]:
    """Return the instances that find no host if these hosts fail.

    ``added`` are further instances, which exist in this simulation only. The moves are rolled back.
    With ``with_reasons`` false, the JSON object of each instance is empty.
    """
    scheduler, connection = mover.simulation.scheduler, mover.simulation.connection
    with mover.attempt():
        simulated_changes.disable(connection, hosts, DISABLED, DRAINED, scheduler.clock())
        own = [each for each in added if each.record.host in hosts]
        moving = sort_instances([*find_instances(connection, hosts), *own])
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
    """Return the smallest shortfall of any host for the instance, by class.

    The free amounts are read after all other instances have moved.
    """
    request = read_requests(scheduler, {b"": instance.document}).get(b"")
    if request is None:
        return {}
    names = compute_nodes.map_names_by_uuid(connection)
    roots = [uuid for uuid, (host, _) in names.items() if host not in hosts]
    try:
        requested, free_by_root = compute_free_amounts(scheduler, connection, request, roots)
    except Invalid:  # e.g. a flavor without resources: no amount is lacking
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverQuery:
    """Query about failover capacity.

    ``host_failures`` is the number of hosts that fail together, or of domains if ``within`` is set:
    ``zone``, ``aggregate``, or a key in the metadata of aggregates, such as ``rack``.
    ``with_remaining`` also counts further instances of each flavor. 0 ``seconds``: no time limit.
    """

    host_failures: int = 1
    within: str | None = None
    with_remaining: bool = True
    seconds: float = 0.0

    @property
    def noun(self) -> str:
        """Return the noun for a part that fails: host, zone, aggregate or key."""
        return self.within or "host"


def report_failover_capacity(scheduler: Scheduler, query: FailoverQuery) -> Json:
    """Report whether the instances of each failure fit elsewhere.

    Raises :class:`Invalid`, with the nearest valid key, for an unknown key in ``query.within``.
    """
    began, now = monotonic(), scheduler.clock()
    deadline = Deadline.from_seconds(query.seconds)
    with scheduler.source.read() as connection:
        domains = find_domains(scheduler, connection, query.within)
        loads, instances = read_loads(connection)
        other_consumers = list_other_consumers(connection, None)
    # At most all hosts or domains can fail.
    number = min(query.host_failures, len(domains) or 1)
    sets, bounds = comb(len(domains), number), list[str]()
    failures: Sequence[Failure] = domains
    if number > 1 and sets <= MAX_FAILURE_SETS:
        failures = [_join(each) for each in combinations(domains, number)]
    elif number > 1:
        limits = {"number": number, "noun": query.noun, "limit": MAX_FAILURE_SETS}
        bounds.append(_SETS.format(sets=sets, **limits))
    outcomes = [Outcome(each, compute_load(each.hosts, loads)) for each in failures]
    requests = read_requests(scheduler, {key: each.document for key, each in instances.items()})
    with scheduler.hold_query_slot():
        screen = screen_requests(scheduler, requests, deadline)
    analysis = Analysis(scheduler, deadline, screen, outcomes, requests)
    judge(analysis)
    remaining: list[Json] = []
    if bounds:
        _require_all_sets(analysis, number)
    elif query.with_remaining:
        remaining = [each.as_json() for each in count_remaining(analysis)]
    counts = Counter(outcome.state for outcome in outcomes)
    if counts[UNDETERMINED] and not bounds:
        late = {"number": counts[UNDETERMINED], "noun": query.noun, "seconds": query.seconds}
        bounds.append(_LATE.format(**late))
    if unproved := sum(not outcome.is_proved for outcome in outcomes):
        bounds.append(_LARGEST_FIRST.format(number=unproved, noun=query.noun))
    reported = [each for each in outcomes if each.state != COVERED]
    reported.sort(key=lambda each: (each.state, -each.stuck_count, each.failure.name))
    return {
        "host_failures": number,
        "within": query.within,
        **{state: counts[state] for state in (COVERED, UNCOVERED, UNDETERMINED)},
        "failures": [each.as_json() for each in reported[:MAX_REPORTED_FAILURES]],
        "remaining": remaining,
        "other_consumers": {
            "consumers": len(other_consumers),
            "hosts": len({consumer.host for consumer in other_consumers}),
        },
        "exact": not bounds,
        "bound": ". ".join(bounds) or None,
        "duration": round(monotonic() - began, 3),
        "computed_at": now.isoformat(),
    }


def _join(failures: Iterable[Failure]) -> Failure:
    parts = list(failures)
    hosts = frozenset().union(*(each.hosts for each in parts))
    return Failure(", ".join(each.name for each in parts), hosts)


def check_within(aggregates: Aggregates, within: str | None) -> None:
    """Reject a metadata key that no aggregate has, and suggest the nearest."""
    keys = {key for aggregate in aggregates.all for key in aggregate.metadata}
    keys |= {ZONE, AGGREGATE}
    if within is not None and within not in keys:
        hint = suggest_name("key", within, keys)
        raise Invalid(f"no aggregate has the metadata key {within!r}{hint}", json_path="$.within")


def find_domains(scheduler: Scheduler, connection: Connection, within: str | None) -> list[Failure]:
    """List the hosts or domains of hosts that may fail, sorted by name.

    A host outside of all domains fails alone.
    """
    hosts = sorted({host for host, _ in compute_nodes.map_names_by_uuid(connection).values()})
    if within is None:
        return [Failure(host, frozenset((host,))) for host in hosts]
    aggregates = scheduler.caches.aggregates.get_current(connection)
    check_within(aggregates, within)
    members: dict[str, set[str]] = defaultdict(set)
    for host in hosts:
        own = aggregates.list_for_host(host)
        if within == ZONE:
            names: Collection[str] = collect_zones(own)
        elif within == AGGREGATE:
            names = [aggregate.name for aggregate in own]
        else:
            names = [each.metadata[within] for each in own if within in each.metadata]
        for name in names or (host,):
            members[name].add(host)
    return [Failure(name, frozenset(members[name])) for name in sorted(members)]


def read_loads(
    connection: Connection,
) -> tuple[Mapping[str, FailedLoad], Mapping[bytes, MovingInstance]]:
    """Return the load of each host, and an example instance of each request."""
    hosts = sorted({host for host, _ in compute_nodes.map_names_by_uuid(connection).values()})
    loads = {host: FailedLoad(frozenset((host,))) for host in hosts}
    instances: dict[bytes, MovingInstance] = {}
    for batch in split_batches(hosts, _BATCH):
        moving = find_instances(connection, batch)
        names = {each.record.server_group for each in moving} - {None}
        groups = server_groups.map_by_uuid(connection, [name for name in names if name])
        add_instances(loads, instances, moving, groups)
    return loads, instances


def compute_load(hosts: frozenset[str], loads: Mapping[str, FailedLoad]) -> FailedLoad:
    """Sum the instances of hosts that fail together."""
    total = FailedLoad(hosts)
    for host in sorted(hosts):
        if host in loads:
            total.add(loads[host])
    return total


def _require_all_sets(analysis: Analysis, number: int) -> None:
    """Keep a failure covered only if every set that contains it is covered.

    There are too many sets to judge each. For the other ``number - 1`` failures of a set, the
    largest numbers of instances and hosts are assumed.
    """
    outcomes, screen = analysis.outcomes, analysis.screen
    remaining = number - 1
    max_instances = sum(sorted((each.load.total for each in outcomes), reverse=True)[:remaining])
    max_hosts = sum(
        sorted((len(each.failure.hosts) for each in outcomes), reverse=True)[:remaining]
    )
    max_excluded_hosts = max((each.load.max_excluded_hosts for each in outcomes), default=0)
    is_unscreenable = any(each.load.is_unscreenable for each in outcomes)
    everything = FailedLoad(frozenset(), max_excluded_hosts=max_excluded_hosts)
    for outcome in outcomes:
        everything.counts.update(outcome.load.counts.keys())
    # The other failures may have instances of any request.
    requests = screen.list_requests(everything)
    can_prove = (
        requests is not None and not is_unscreenable and not any(r.shared for r, _ in requests)
    )
    for outcome in outcomes:
        if outcome.state != COVERED:
            continue
        load = replace(outcome.load, max_excluded_hosts=max_excluded_hosts)
        number = load.total + max_instances
        if not can_prove or any(
            each.count_spare_changes(load, number + max_hosts * each.max_guaranteed) < 0
            for each, _ in requests or ()
        ):
            outcome.state = UNDETERMINED


@dataclass(frozen=True, slots=True)
class _Flavor:
    """A stored flavor with its request, and the result on all hosts."""

    name: str
    key: bytes
    request: SchedulingRequest
    screened: ScreenedRequest | None


def count_remaining(analysis: Analysis) -> list[Allowance]:
    """Bound how many further instances of each flavor make no failure worse."""
    flavors = _read_flavors(analysis)
    screened_requests = {flavor.key: flavor.screened for flavor in flavors}
    # The guaranteed placements of the screen depend on the largest amounts, also of these flavors.
    analysis.screen = Screen({**analysis.screen.requests, **screened_requests})
    spares = [analysis.screen.count_spare_in_order(outcome.load) for outcome in analysis.outcomes]
    allowances = [_bound_allowance(analysis, flavor, spares) for flavor in flavors]
    if len(analysis.outcomes) > MAX_PROBED_FAILURES:
        return allowances
    return [
        each if each.remaining == each.at_most else _search(analysis, flavor, each)
        for flavor, each in zip(flavors, allowances, strict=True)
    ]


def _read_flavors(analysis: Analysis) -> list[_Flavor]:
    scheduler = analysis.scheduler
    with scheduler.source.read() as connection:
        names = sorted(flavor.name for flavor in stored_flavors.list_flavors(connection))
    documents = {name.encode(): {"flavor": name} for name in names[:MAX_FAILOVER_FLAVORS]}
    requests = read_requests(scheduler, documents)
    with scheduler.hold_query_slot():
        screen = screen_requests(scheduler, requests, Deadline.from_seconds(0))
    return [
        _Flavor(key.decode(), _build_instance(request).request_key, request, screen.requests[key])
        for key, request in requests.items()
    ]


def _build_instance(request: SchedulingRequest) -> MovingInstance:
    values: dict[str, Any] = dict.fromkeys(each.name for each in fields(Instance))
    values |= {"uuid": str(uuid4()), "display_name": "", "flavor": request.document["flavor"]}
    return MovingInstance(Instance(**values), {"flavor": values["flavor"]})


def _bound_allowance(analysis: Analysis, flavor: _Flavor, spares: Sequence[int]) -> Allowance:
    """Bound the allowance of a flavor from below, and from above if possible.

    ``spares`` has for each failure a number of instances of any flavor that it tolerates.
    """
    screened = flavor.screened
    if screened is None:
        return Allowance(flavor.name, 0)
    lower = screened.total
    for outcome, spare in zip(analysis.outcomes, spares, strict=True):
        load = outcome.load
        if spare < lower:
            lower = min(lower, analysis.screen.count_spare_placements(load, screened))
        if any(host in screened.fits for host in load.hosts):
            lower = min(lower, screened.count_spare_changes(load, load.total))
    lower = max(lower, 0)
    if lower == screened.total and (screened.has_maximum or not lower):
        # Even all instances that fit make no failure worse.
        return Allowance(flavor.name, lower, lower)
    return _with_upper_bound(analysis, screened, Allowance(flavor.name, lower))


def _with_upper_bound(
    analysis: Analysis, screened: ScreenedRequest, allowance: Allowance
) -> Allowance:
    """Limit the allowance by the failure that gets worse first."""
    requests = {
        key: request
        for key, request in analysis.screen.requests.items()
        if request is not None
        and request.flavor == allowance.flavor
        and request.has_maximum
        # The flavor of a recorded instance may have been replaced by a flavor of the same name.
        and request.amounts == screened.amounts
        and screened.fits.keys() <= request.fits.keys()
    }
    for outcome in analysis.outcomes:
        if outcome.state == UNDETERMINED:
            continue
        for key, number in outcome.load.counts.items():
            request = requests.get(key)
            if request is None:
                continue
            at_most = _compute_spare_bound(analysis.screen, outcome, request, number)
            if allowance.at_most is None or at_most < allowance.at_most:
                # Further instances on the failing hosts have to be placed on other hosts, too.
                load = outcome.load.with_more(key, at_most + 1)
                stuck = analysis.screen.count_stuck(load)
                instances = max(outcome.load.total, stuck)
                failure = (outcome.failure.name, instances, instances - stuck)
                remaining = min(allowance.remaining, at_most)
                allowance = Allowance(allowance.flavor, remaining, at_most, *failure)
    return allowance


def _compute_spare_bound(
    screen: Screen, outcome: Outcome, request: ScreenedRequest, number: int
) -> int:
    """Return an upper bound of the further instances that a failure tolerates.

    With more instances the failure certainly gets worse. ``number`` is its number of instances
    with this request. ``request.has_maximum`` must be true.
    """
    spare = request.count_fits_outside(outcome.load.hosts) - number
    if outcome.stuck_count:
        of_others = screen.count_stuck(outcome.load) - max(-spare, 0)
        spare += outcome.stuck_count - of_others
    return max(spare, 0)


def _search(analysis: Analysis, flavor: _Flavor, allowance: Allowance) -> Allowance:
    search = _Search(analysis, flavor, allowance)
    while not (search.is_done or analysis.deadline.is_reached()):
        number = search.probes
        try:
            analysis.scheduler.simulate([], search.run)
        except Unavailable:
            if search.probes == number:  # a single simulation takes too long
                break
    return search.allowance


@dataclass(slots=True)
class _Search:
    """Search for the ``allowance`` of a flavor, by simulations.

    ``step`` is the next increase of the number, and doubles with each probe.
    """

    analysis: Analysis
    flavor: _Flavor
    allowance: Allowance
    step: int = 1
    probes: int = 0

    @property
    def is_done(self) -> bool:
        low = self.allowance.remaining
        return low == self.allowance.at_most or low >= MAX_PROBED_INSTANCES

    def run(self, simulation: Simulation) -> None:
        """Probe numbers of instances for half of the simulation's time."""
        options = self.analysis.scheduler.live.get_settings().scheduler
        until = monotonic() + options.what_if_timeout / 2
        mover = Mover(simulation)
        while not self.is_done and monotonic() < until and not self.analysis.deadline.is_reached():
            number = self._choose_next_number()
            with mover.attempt():
                added = self._place(mover, number)
                worse = added and self._find_worse(mover, added)
            self._record_result(number, fits=added is not None, worse=worse or None)
            self.probes += 1

    def _choose_next_number(self) -> int:
        low, high = self.allowance.remaining, self.allowance.at_most
        number, self.step = low + self.step, 2 * self.step
        if high is not None:
            number = min(number, (low + high + 2) // 2)
        return min(number, MAX_PROBED_INSTANCES)

    def _record_result(
        self, number: int, *, fits: bool, worse: tuple[str, int, int] | None
    ) -> None:
        name = self.allowance.flavor
        if worse:
            self.allowance = Allowance(name, self.allowance.remaining, number - 1, *worse)
        elif not fits:
            self.allowance = Allowance(name, self.allowance.remaining, number - 1)
        else:
            self.allowance = replace(self.allowance, remaining=number)

    def _place(self, mover: Mover, number: int) -> list[MovingInstance] | None:
        instances = [_build_instance(self.flavor.request) for _ in range(number)]
        result = mover.place(instances, {})
        if not isinstance(result, MovePlan):
            return None
        moves = {move.instance: move for move in result.moves}
        for index, each in enumerate(instances):
            move = moves[each.record.uuid]
            record = replace(each.record, host=move.host, node=move.node)
            instances[index] = replace(each, record=record)
        return instances

    def _find_worse(
        self, mover: Mover, added: Sequence[MovingInstance]
    ) -> tuple[str, int, int] | None:
        """Find a failure that leaves more instances without a host than before.

        ``added`` are the instances placed in the simulation. Returns the name of the failure, its
        number of instances, and how many of them fit, or None if no failure gets worse.
        """
        key = self.flavor.key
        requests = {**self.analysis.requests, key: self.flavor.request}
        screen = screen_requests(mover.simulation.scheduler, requests, self.analysis.deadline)
        on_host = Counter(each.record.host for each in added)
        for outcome in self.analysis.outcomes:
            if outcome.state == UNDETERMINED:
                continue
            hosts = outcome.failure.hosts
            load: FailedLoad = outcome.load
            if number := sum(on_host[host] for host in hosts):
                load = load.with_more(key, number)
            if screen.judge(load) is Verdict.COVERED:
                continue
            stuck = len(simulate_failure(mover, hosts, added, with_reasons=False))
            if stuck > outcome.stuck_count:
                return outcome.failure.name, load.total, load.total - stuck
        return None
