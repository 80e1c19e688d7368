# SPDX-License-Identifier: Apache-2.0
"""Failover capacity: whether instances of failed hosts fit elsewhere.

A failure is a host or a domain of hosts that fails, or a set of hosts or domains that fail
together. The steps, in order::

    load      count the instances of each host by request               screen.py
    screen    run each request once, and judge the failures by counts   screen.py
    simulate  place the instances of unclear failures, largest first    this module
    remain    bound the further instances that make no failure worse     this module

A failure is covered if the screen proves that a placement exists, or if the simulation finds a
placement. It is uncovered if the screen proves that no placement exists, or if the simulation finds
none. Uncovered by simulation is exact only if the simulation places no instance at all. The numbers
of further instances are proved by the screen, because a simulation tries only some of their hosts.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from time import monotonic

from placement_sched.db.transaction import Connection
from placement_sched.errors import Error, Invalid, Unavailable
from placement_sched.explain.host_verdict import HostVerdict
from placement_sched.extensions.what_if.capacity.count import Deadline, collect_zones
from placement_sched.extensions.what_if.drain_plan import (
    Mover,
    MovingInstance,
    find_instances,
    read_group_without,
)
from placement_sched.extensions.what_if.failover.screen import (
    Coverage,
    FailedLoad,
    Screen,
    ScreenedRequest,
    add_instances,
    read_requests,
    screen_requests,
)
from placement_sched.limits import MAX_FAILOVER_FLAVORS, MAX_FAILURE_SETS, MAX_REPORTED_FAILURES
from placement_sched.model.document import Json
from placement_sched.model.figures import Allowance
from placement_sched.model.grouping import split_batches
from placement_sched.model.names import suggest_name
from placement_sched.scheduler.caches import Aggregates
from placement_sched.scheduler.explain.verdicts import ReportedTree, TreesByName, build_verdicts
from placement_sched.scheduler.scheduler import Evaluator, Scheduler, Simulation
from placement_sched.scheduler.simulation import DISABLED, DRAINED
from placement_sched.store import simulated_changes
from placement_sched.store.compute import compute_nodes, server_groups
from placement_sched.store.compute import flavors as stored_flavors
from placement_sched.store.compute.other_consumers import list_other_consumers

#: States of failures in the report.
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
    "{failures} undetermined: the computation took longer than [scheduler] "
    "failover_budget ({seconds:g} s), or a simulation longer than [scheduler] what_if_timeout"
)
_LARGEST_FIRST = (
    "{failures} uncovered if instances are placed largest first: another order may place all"
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
    """Failures of a cloud, with their results."""

    scheduler: Scheduler
    deadline: Deadline
    screen: Screen
    outcomes: Sequence[Outcome]


def judge(analysis: Analysis) -> None:
    """Set the state of each failure, by the screen or else by a simulation.

    A simulation that places only some instances does not prove that no placement exists. Failures
    that the screen finds uncovered are also simulated, to list the instances that find no host.
    """
    uncovered, unclear = [], []
    for outcome in analysis.outcomes:
        coverage = analysis.screen.judge(outcome.load)
        if coverage is Coverage.COVERED:
            outcome.state = COVERED
        elif coverage is Coverage.UNCOVERED:
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


def simulate_failure(mover: Mover, hosts: frozenset[str]) -> list[Json]:
    """Return the instances that find no host if these hosts fail.

    The moves are rolled back.
    """
    scheduler, connection = mover.simulation, mover.simulation.connection
    with mover.attempt():
        simulated_changes.disable(connection, hosts, DISABLED, DRAINED, scheduler.clock())
        moving = find_instances(connection, hosts)
        plan = mover.move(moving, avoid=hosts)
        reasons = {each.instance: each for each in plan.stuck}
        stuck = [each for each in moving if each.record.uuid in reasons]
        by_key = {(each.request_key, each.record.server_group): each for each in stuck}
        names = compute_nodes.map_names_by_uuid(connection) if stuck else {}
        trees = {
            uuid: [ReportedTree(uuid, host, node)]
            for uuid, (host, node) in names.items()
            if host not in hosts
        }
        lacking = {
            key: _find_lacking(scheduler, connection, each, trees) for key, each in by_key.items()
        }
    return [
        {
            "uuid": each.record.uuid,
            "name": each.record.display_name,
            "flavor": (each.record.flavor or {}).get("name"),
            "host": each.record.host,
            "reason": reasons[each.record.uuid].reason,
            **reasons[each.record.uuid].values,
            "lacking": lacking[each.request_key, each.record.server_group],
        }
        for each in stuck
    ]


def _find_lacking(
    scheduler: Evaluator, connection: Connection, instance: MovingInstance, trees: TreesByName
) -> Json:
    """Return the smallest shortfall of any of these hosts, by class.

    Hosts that would reject the instance even with more free capacity do not count. The amounts are
    read after all other instances have moved.
    """
    document = {**instance.document, **read_group_without(connection, instance.record)}
    request = read_requests(scheduler, {b"": document}).get(b"")
    if request is None:
        return {}
    try:
        run = scheduler.evaluate(connection, request)
        verdicts = build_verdicts(connection, run, trees)
    except Error:  # e.g. a flavor without resources: no amount is lacking
        scheduler.source.check()
        return {}
    requested: Counter[str] = Counter()
    for group in run.searches.main.search.query.groups if run.searches.main else ():
        requested.update(dict(group.resources))
    shortfalls = [shortfall for each in verdicts if (shortfall := _read_shortfall(each))]
    return min(
        shortfalls,
        key=lambda short: sum(short[name] / (requested[name] or 1) for name in short),
        default={},
    )


def _read_shortfall(verdict: HostVerdict) -> dict[str, int]:
    """Return the amounts that a host lacks, empty if it has any other reason."""
    amounts: Counter[str] = Counter()
    for reason in verdict.reasons:
        change = reason.changes[0] if reason.changes else None
        # With more capacity, the compute service also reports a larger max_unit.
        if change is None or not (
            change.action == "add_capacity"
            or (change.action == "free" and "max_unit" not in change.values)
        ):
            return {}
        amounts[change.values["resource_class"]] += change.values["amount"]
    return dict(amounts)


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
        loads, instances, unknown = read_loads(connection)
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
    size = 1 if bounds else number
    outcomes = [Outcome(each, compute_load(each.hosts, loads)) for each in failures]
    requests = read_requests(scheduler, {key: each.document for key, each in instances.items()})
    with scheduler.hold_query_slot():
        screen = screen_requests(scheduler, requests, deadline)
    analysis = Analysis(scheduler, deadline, screen, outcomes)
    judge(analysis)
    remaining: list[Json] = []
    if bounds:
        _require_all_sets(analysis, number)
    elif query.with_remaining:
        remaining = [each.as_json() for each in count_remaining(analysis)]
    counts = Counter(outcome.state for outcome in outcomes)
    if counts[UNDETERMINED] and not bounds:
        failing = _format_failures(counts[UNDETERMINED], size, query.noun)
        bounds.append(_LATE.format(failures=failing, seconds=query.seconds))
    if unproved := sum(not outcome.is_proved for outcome in outcomes):
        failing = _format_failures(unproved, size, query.noun)
        bounds.append(_LARGEST_FIRST.format(failures=failing))
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
        "unknown": dict(unknown),
        "exact": not bounds,
        "bound": ". ".join(bounds) or None,
        "duration": round(monotonic() - began, 3),
        "computed_at": now.isoformat(),
    }


def _format_failures(count: int, size: int, noun: str) -> str:
    """Return the subject and verb of a sentence about failures."""
    plural, verb = ("", "is") if count == 1 else ("s", "are")
    if size > 1:
        return f"{count:,} set{plural} of {size} {noun}s {verb}"
    return f"{count:,} {noun}{plural} {verb}"


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
) -> tuple[Mapping[str, FailedLoad], Mapping[bytes, MovingInstance], Mapping[str, int]]:
    """Return loads of hosts, an instance per request, and unknown facts.

    The unknown facts have numbers of instances.
    """
    hosts = sorted({host for host, _ in compute_nodes.map_names_by_uuid(connection).values()})
    loads = {host: FailedLoad(frozenset((host,))) for host in hosts}
    instances: dict[bytes, MovingInstance] = {}
    unknown: Counter[str] = Counter()
    for batch in split_batches(hosts, _BATCH):
        moving = find_instances(connection, batch)
        names = {each.record.server_group for each in moving} - {None}
        groups = server_groups.map_by_uuid(connection, [name for name in names if name])
        add_instances(loads, instances, moving, groups)
        unknown.update(fact for each in moving for fact in each.unknown)
    return loads, instances, unknown


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


def count_remaining(analysis: Analysis) -> list[Allowance]:
    """Bound how many further instances of each flavor make no failure worse."""
    scheduler = analysis.scheduler
    with scheduler.source.read() as connection:
        names = sorted(flavor.name for flavor in stored_flavors.list_flavors(connection))
    keys = {f"flavor {name}".encode(): name for name in names[:MAX_FAILOVER_FLAVORS]}
    requests = read_requests(scheduler, {key: {"flavor": name} for key, name in keys.items()})
    with scheduler.hold_query_slot():
        flavors = screen_requests(scheduler, requests, Deadline.from_seconds(0)).requests
    spares: dict[frozenset[tuple[str, int]], Sequence[int]] = {}
    return [_bound_allowance(analysis, keys[key], flavors[key], spares) for key in requests]


def _bound_allowance(
    analysis: Analysis,
    name: str,
    flavor: ScreenedRequest | None,
    spares_by_largest: dict[frozenset[tuple[str, int]], Sequence[int]],
) -> Allowance:
    """Bound the allowance of a flavor from below, and from above if possible.

    ``spares_by_largest`` caches for each failure a number of further instances that it tolerates,
    by the largest amounts.
    """
    if flavor is None:
        return Allowance(name, 0)
    # The guaranteed placements of the screen depend on the largest amounts, also of the flavor.
    screen = Screen({**analysis.screen.requests, b"": flavor})
    largest = frozenset(screen.largest.items())
    if largest not in spares_by_largest:
        spares = [screen.count_spare_in_order(outcome.load) for outcome in analysis.outcomes]
        spares_by_largest[largest] = spares
    # A further instance that uses a shared provider can change several hosts.
    lower = 0 if flavor.shared else flavor.total
    for outcome, spare in zip(analysis.outcomes, spares_by_largest[largest], strict=True):
        load = outcome.load
        if spare < lower:
            lower = min(lower, screen.count_spare_placements(load, flavor))
        if any(host in flavor.fits for host in load.hosts):
            lower = min(lower, flavor.count_spare_changes(load, load.total))
    lower = max(lower, 0)
    at_most = flavor.total if flavor.has_maximum or not flavor.total else None
    if lower == at_most:
        # Even all instances that fit make no failure worse.
        return Allowance(name, lower, at_most)
    return _with_upper_bound(analysis, flavor, Allowance(name, lower, at_most))


def _with_upper_bound(
    analysis: Analysis, flavor: ScreenedRequest, allowance: Allowance
) -> Allowance:
    """Limit the allowance by the failure that gets worse first.

    Wherever the further instances are placed, the failure then leaves more instances without a
    host than today. That is proved only if their places are places of failed instances, too.
    """
    requests = {
        key: request
        for key, request in analysis.screen.requests.items()
        if request is not None
        and request.flavor == allowance.flavor
        and request.has_maximum
        and request.has_options_of(flavor)
    }
    for outcome in analysis.outcomes:
        # Without a simulation, more instances than ``stuck_count`` may be without a host today.
        is_counted = outcome.state == COVERED or outcome.stuck_instances
        if outcome.load.is_unscreenable or not is_counted:
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
