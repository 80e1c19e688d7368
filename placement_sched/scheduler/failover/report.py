# SPDX-License-Identifier: Apache-2.0
"""Failover capacity: whether the instances of failed hosts find places on other hosts.

A failure is a host, or a domain of hosts, or a set of them, that fails. The steps, in order::

    load      count the instances of each host by equal requests        screen.py
    screen    run each request once, and judge the failures by counts   screen.py
    simulate  place the instances of unclear failures, largest first    simulated.py
    remain    further instances until a failure gets worse              remaining.py

A failure is covered if the screen proves that a placement exists, or if the simulation finds a
placement. It is uncovered if the simulation, which places the instances largest first, finds no
placement. The answer is exact only if the screen proves that none exists, or if the simulation
places no instance at all.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from time import monotonic

from placement_sched.db.sql import batches
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid
from placement_sched.limits import MAX_FAILURE_SETS, MAX_REPORTED_FAILURES
from placement_sched.model.document import Json
from placement_sched.model.names import suggest_name
from placement_sched.scheduler.caches import Aggregates
from placement_sched.scheduler.capacity.count import Deadline, zones_of
from placement_sched.scheduler.drain_plan import MovingInstance, find_instances
from placement_sched.scheduler.failover.remaining import count_remaining
from placement_sched.scheduler.failover.screen import (
    FailedLoad,
    add_instances,
    read_requests,
    screen_requests,
)
from placement_sched.scheduler.failover.simulated import (
    COVERED,
    UNCOVERED,
    UNDETERMINED,
    Analysis,
    Failure,
    Outcome,
    judge,
)
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.store.compute import compute_nodes, server_groups

#: Domains besides keys in the metadata of aggregates.
ZONE, AGGREGATE = "zone", "aggregate"
#: Hosts whose instances are read at a time.
_BATCH = 500
_SETS = (
    "{sets:,} sets of {number} {noun}s can fail, and the limit is {limit:,}: a {noun} counts as "
    "covered only if the counts of hosts prove every set with it, and as uncovered only if it is "
    "uncovered alone"
)
_LATE = (
    "{number:,} {noun}s are undetermined: the computation took longer than [scheduler] "
    "failover_budget ({seconds:g} s), or a simulation longer than [scheduler] what_if_timeout"
)
_LARGEST_FIRST = (
    "{number:,} {noun}s are uncovered because placing the instances largest first found no "
    "placement: another order may place all"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverQuery:
    """A query about failover capacity.

    ``host_failures`` hosts fail together, or as many domains with ``within``: ``zone``,
    ``aggregate``, or a key in the metadata of aggregates, such as ``rack``. ``with_remaining``
    also counts further instances of each flavor. 0 ``seconds`` set no limit.
    """

    host_failures: int = 1
    within: str | None = None
    with_remaining: bool = True
    seconds: float = 0.0

    @property
    def noun(self) -> str:
        """Return the kind of a failing domain."""
        return self.within or "host"


def failover_capacity(scheduler: Scheduler, query: FailoverQuery) -> Json:
    """Return whether all instances of failed hosts find places elsewhere, largest first.

    Raises :class:`Invalid` with the JSON path of an unknown key, and the nearest valid key.
    """
    began, now = monotonic(), scheduler.clock()
    deadline = Deadline.after(query.seconds)
    with scheduler.source.read() as connection:
        domains = find_domains(scheduler, connection, query.within)
        loads, instances = read_loads(connection)
    # No more can fail than there are.
    number = min(query.host_failures, len(domains) or 1)
    sets, bounds = comb(len(domains), number), list[str]()
    failures: Sequence[Failure] = domains
    if number > 1 and sets <= MAX_FAILURE_SETS:
        failures = [_join(each) for each in combinations(domains, number)]
    elif number > 1:
        limits = {"number": number, "noun": query.noun, "limit": MAX_FAILURE_SETS}
        bounds.append(_SETS.format(sets=sets, **limits))
    outcomes = [Outcome(each, load_of(each.hosts, loads)) for each in failures]
    requests = read_requests(scheduler, {key: each.document for key, each in instances.items()})
    with scheduler.expensive_query_slot():
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
    reported.sort(key=lambda each: (each.state, -each.stuck, each.failure.name))
    return {
        "host_failures": number,
        "within": query.within,
        **{state: counts[state] for state in (COVERED, UNCOVERED, UNDETERMINED)},
        "failures": [each.as_json() for each in reported[:MAX_REPORTED_FAILURES]],
        "remaining": remaining,
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
    """Raise :class:`Invalid`, with the nearest key, if no aggregate has the key."""
    keys = {key for aggregate in aggregates.every for key in aggregate.metadata}
    keys |= {ZONE, AGGREGATE}
    if within is not None and within not in keys:
        hint = suggest_name("key", within, keys)
        raise Invalid(f"no aggregate has the metadata key {within!r}{hint}", json_path="$.within")


def find_domains(scheduler: Scheduler, connection: Connection, within: str | None) -> list[Failure]:
    """Return the hosts, or the domains of hosts, that may fail, by name.

    A host outside of all domains fails alone.
    """
    hosts = sorted({host for host, _ in compute_nodes.names_by_uuid(connection).values()})
    if within is None:
        return [Failure(host, frozenset((host,))) for host in hosts]
    aggregates = scheduler.memory.aggregates.current(connection)
    check_within(aggregates, within)
    members: dict[str, set[str]] = defaultdict(set)
    for host in hosts:
        own = aggregates.of_host(host)
        if within == ZONE:
            names: Collection[str] = zones_of(own)
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
    """Return the load of each host, and an instance of each distinct request."""
    hosts = sorted({host for host, _ in compute_nodes.names_by_uuid(connection).values()})
    loads = {host: FailedLoad(frozenset((host,))) for host in hosts}
    instances: dict[bytes, MovingInstance] = {}
    for batch in batches(hosts, _BATCH):
        moving = find_instances(connection, batch)
        names = {each.record.server_group for each in moving} - {None}
        groups = server_groups.by_uuids(connection, [name for name in names if name])
        add_instances(loads, instances, moving, groups)
    return loads, instances


def load_of(hosts: frozenset[str], loads: Mapping[str, FailedLoad]) -> FailedLoad:
    """Return the load of hosts that fail together."""
    total = FailedLoad(hosts)
    for host in sorted(hosts):
        if host in loads:
            total.add(loads[host])
    return total


def _require_all_sets(analysis: Analysis, number: int) -> None:
    """Keep only failures as covered that are covered in every set of ``number`` failures.

    In a set, the other failures have at most the largest numbers of instances and hosts.
    """
    outcomes, screen = analysis.outcomes, analysis.screen
    remaining = number - 1
    most_instances = sum(sorted((each.load.total for each in outcomes), reverse=True)[:remaining])
    most_hosts = sum(
        sorted((len(each.failure.hosts) for each in outcomes), reverse=True)[:remaining]
    )
    excluded = max((each.load.excluded for each in outcomes), default=0)
    is_tied = any(each.load.is_tied for each in outcomes)
    everything = FailedLoad(frozenset(), excluded=excluded)
    for outcome in outcomes:
        everything.counts.update(outcome.load.counts.keys())
    # The other failures may have any request.
    requests = screen.requests_of(everything)
    can_prove = requests is not None and not is_tied and not any(r.shared for r, _ in requests)
    for outcome in outcomes:
        if outcome.state != COVERED:
            continue
        load = replace(outcome.load, excluded=excluded)
        number = load.total + most_instances
        if not can_prove or any(
            each.spare_changes(load, number + most_hosts * each.max_weight) < 0
            for each, _ in requests or ()
        ):
            outcome.state = UNDETERMINED
