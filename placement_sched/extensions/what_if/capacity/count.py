# SPDX-License-Identifier: Apache-2.0
"""Count of the further instances that fit for a request.

Options and pools are defined in ``host_counts.py``. The steps, in order::

    run       find all candidates, without the limit of a request                 scheduler.py
    filter    run the host filters for the first instance                         selection.py
    pool      find the providers that hosts share                                 host_counts.py
    count     fill each host. Place in rounds if filters depend on placed         host_counts.py,
              instances, or in order if the order of placements matters           count.py
    correct   drop hosts whose candidates are beyond the limit of a request       count.py
    report    report the limit of each host, also of hosts without candidates     report.py
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import repeat
from time import monotonic
from typing import Self
from uuid import uuid4

from placement_sched.candidates.search import compute_effective_limit, find_limiting_option
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, TooComplex
from placement_sched.explain.kinds import format_option
from placement_sched.explain.phrases import describe_upper_bound
from placement_sched.extensions.what_if.capacity.host_counts import (
    UNFINISHED,
    FreeCapacity,
    HostCounter,
    LimitReason,
    SharedPool,
    find_pools,
)
from placement_sched.model.aggregates import AFFINITY, HostAggregate, parse_zones
from placement_sched.model.constraint import LimitingOption
from placement_sched.model.decision import DecisionSeed
from placement_sched.model.grouping import group_rows
from placement_sched.model.instance import HostInstance
from placement_sched.model.rejection import USED_UP, Rejection
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.caches import Aggregates, ProcessCaches
from placement_sched.scheduler.drivers.filter_scheduler import FilterScheduler
from placement_sched.scheduler.filtering import FilterRun, get_filter, run_filters
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.host_manager import RequestView
from placement_sched.scheduler.host_state import get_candidates, set_candidates
from placement_sched.scheduler.plugin import PluginCall, has_overrides
from placement_sched.scheduler.request import SchedulingRequest
from placement_sched.scheduler.scheduler import Evaluator
from placement_sched.scheduler.selection import RemainingCapacity, SchedulingRun

#: Limit of instances in a count. The time limit ends every count earlier.
_MAX_INSTANCES = 1_000_000
_RANDOM_HOST = "hosts are chosen at random: the number may differ with other choices"
_LIMITED_SHARED = (
    "hosts share providers, and a request sees only the first {limit} candidates: the number "
    "assumes that it sees all of them"
)
OUT_OF_TIME = (
    "the count ended after [scheduler] capacity_budget ({seconds:g} s): the number is a minimum"
)
_TOO_COMPLEX = (
    "the combinations of providers exceed [placement] allocation_candidates_budget: only the "
    "candidates that one request sees are counted"
)
_LIMITED_UNDETERMINED = (
    "candidates are limited by {option}, and {blocked} of them are on rejected hosts: the number "
    "assumes that a request sees all other candidates, but it may see fewer"
)
_LIMITED_PARTLY = (
    "candidates are limited by {option}: a request sees only some candidates of some hosts"
)
#: Function that counts again on some compute nodes alone, given their uuids.
Recount = Callable[[Collection[str | None]], Sequence[HostCounter]]
#: Function that returns the names of the parts of the cloud that contain a host.
PartsOf = Callable[[str], tuple[str, ...]]


@dataclass(slots=True)
class Deadline:
    """Deadline of a count, which records in ``passed`` that it was reached."""

    at: float
    timer: Callable[[], float]
    passed: bool = False

    @classmethod
    def from_seconds(cls, seconds: float, timer: Callable[[], float] = monotonic) -> Self:
        """Return a deadline ``seconds`` from now, which never passes for 0."""
        return cls(timer() + seconds if seconds else float("inf"), timer)

    def is_reached(self) -> bool:
        """Return whether the deadline has passed."""
        self.passed = self.passed or self.timer() >= self.at
        return self.passed


def select_stateful_filters(
    filters: Iterable[BaseHostFilter], spec: RequestSpec
) -> list[BaseHostFilter]:
    """Return the filters that may reject a host after instances were placed.

    Filters that run once per request are left out, because their results do not change. So are
    shipped filters that reject no host for this request, but only without a server group, because
    each placed instance joins the group.
    """
    stateful = []
    for plugin in filters:
        with PluginCall(plugin):
            if not plugin.run_filter_for_index(1):
                continue
            is_shipped = get_filter(plugin) is plugin
            has_group = spec.instance_group is not None
            if is_shipped and not has_group and plugin.prepare(spec) is None:
                continue
        stateful.append(plugin)
    return stateful


def compares_hosts(filters: Iterable[BaseHostFilter], spec: RequestSpec) -> bool:
    """Return whether any filter may compare hosts with each other."""
    names = ("filter_all", "evaluate_hosts")
    return any(
        has_overrides(type(plugin), BaseHostFilter, names) or plugin.compares_hosts(spec)
        for plugin in filters
    )


def map_rejecting_stages(run: FilterRun) -> dict[tuple[str, str], LimitReason]:
    """Map each rejected pair of host and node to the stage that rejects it."""
    return {
        (each.host, each.node): LimitReason(report.name, rejection=each.rejection)
        for report in run.reports
        for each in report.rejected
    }


def place_by_rounds(
    counters: Sequence[HostCounter],
    filters: Sequence[BaseHostFilter],
    spec: RequestSpec,
    capacity: FreeCapacity,
    deadline: Deadline,
) -> None:
    """Place instances in rounds until each host is full or rejected.

    Each round runs ``filters`` again, and places an instance on each host that passes. The deadline
    ends the rounds, and hosts keep the instances placed so far.
    """
    for counter in counters:
        candidates = get_candidates(counter.state)
        counter.offers = [(each, capacity.build_option(each)) for each in candidates]
    waiting = [
        list(reversed(lane)) for lane in group_rows((each.host, each) for each in counters).values()
    ]
    number = 0
    while (
        waiting := [x for x in waiting if _offer_next(x, capacity)]
    ) and not deadline.is_reached():
        uuids = spec.instance_uuids
        uuid = uuids[number] if number < len(uuids) else str(uuid4())
        single = spec.with_instance(uuid)
        offered = [lane[-1] for lane in waiting]
        run = run_filters(filters, [counter.state for counter in offered], single, 1 + number)
        passed, rejecting_stages = {id(state) for state in run.hosts}, map_rejecting_stages(run)
        placed = []
        for counter in offered:
            if id(counter.state) in passed:
                _place(counter, single, capacity)
                placed.append(counter)
            else:
                counter.end_count(capacity, rejecting_stages[counter.host, counter.state.nodename])
        spec = _with_members(spec, single, placed)
        number += 1


def _offer_next(lane: list[HostCounter], capacity: FreeCapacity) -> bool:
    while lane:
        counter = lane[-1]
        if counter.limit_reason is UNFINISHED:
            if fitting := [each for each in counter.offers if capacity.count_fits(each[1]) > 0]:
                counter.offers, counter.options = fitting, [option for _, option in fitting]
                set_candidates(counter.state, [candidate for candidate, _ in fitting])
                return True
            counter.end_count(capacity)
        lane.pop()
    return False


def _place(counter: HostCounter, single: RequestSpec, capacity: FreeCapacity) -> None:
    capacity.take(capacity.build_option(get_candidates(counter.state)[0]))
    state, uuid = counter.state, str(single.instance_uuid)
    state.consume_from_request(single)
    # Record the instance as if another request had placed it.
    state.instances[uuid] = HostInstance.from_request_spec(uuid, single, state.host, state.nodename)
    counter.instances += 1


def _with_members(
    spec: RequestSpec, single: RequestSpec, placed: Sequence[HostCounter]
) -> RequestSpec:
    """Add the instances of a round to the request's server group.

    The instances that a round places on different hosts have the same uuid, so that they are a
    single new member of the group.
    """
    group = spec.instance_group
    if group is None or single.instance_uuid is None:
        return spec
    hosts = (counter.host for counter in placed)
    return replace(spec, instance_group=group.with_members((single.instance_uuid,), hosts))


def place_in_order(
    run: SchedulingRun,
    counters: Sequence[HostCounter],
    capacity: FreeCapacity,
    deadline: Deadline,
    inexact_reasons: list[str],
) -> None:
    """Place instance after instance on the best host, as a large request does."""
    spec, candidates = run.filtered_request.spec, run.searches.candidates
    progress = run.selector.begin(
        run.hosts, spec, RemainingCapacity(run.view.connection, candidates)
    )
    counter_by_state = {id(counter.state): counter for counter in counters}
    rejecting_stages: dict[tuple[str, str], LimitReason] = {}
    has_uuids = spec.instance_group is not None  # members of a group have uuids
    uuids = (str(uuid4()) if has_uuids else None for _ in repeat(None))
    unknown_fields: set[str] = set()
    for result in run.selector.iterate_instances(uuids, progress, number=_MAX_INSTANCES):
        reports = tuple(report for report in result.filters if report.name != USED_UP)
        rejecting_stages |= map_rejecting_stages(FilterRun([], reports))
        unknown_fields.update(each.field for report in reports for each in report.unexamined)
        if not result.ordered or deadline.is_reached():
            break
        counter = counter_by_state[id(result.ordered[0].obj)]
        capacity.take(capacity.build_option(get_candidates(counter.state)[0]))
        counter.instances += 1
        # A host that was rejected for an earlier instance may pass later.
        rejecting_stages.pop((counter.host, counter.state.nodename), None)
    for counter in counters:
        if limit_reason := rejecting_stages.get((counter.host, counter.state.nodename)):
            counter.end_count(capacity, limit_reason)
        elif not any(capacity.count_fits(option) > 0 for option in counter.all_options):
            counter.end_count(capacity)
    inexact_reasons += map(describe_upper_bound, sorted(unknown_fields))
    if _chooses_at_random(run):
        inexact_reasons.append(_RANDOM_HOST)
    limit = run.searches.query.limit if run.searches.query else None
    if limit is not None and len(candidates.requests) > limit:
        inexact_reasons.append(_LIMITED_SHARED.format(limit=limit))


def find_first_hosts(run: SchedulingRun) -> list[str]:
    """Return the best host for the first instance.

    If the driver chooses at random, all hosts that pass are returned.
    """
    spec = run.filtered_request.spec
    progress = run.selector.begin(run.hosts, spec, RemainingCapacity.create_unlimited())
    result = next(run.selector.iterate_instances((str(uuid4()),), progress, number=1))
    hosts = list(dict.fromkeys(host.obj.host for host in result.ordered))
    return hosts if _chooses_at_random(run) else hosts[:1]


def limit_to_group_host(
    counters: Sequence[HostCounter], first_hosts: Sequence[str], inexact_reasons: list[str]
) -> None:
    """Keep only the count of the host that a new affinity group gets.

    ``first_hosts`` are the hosts that the first instance may get. Of several hosts, the host that
    fits the fewest instances is kept. If their numbers differ, a reason is added to
    ``inexact_reasons``.
    """
    totals: Counter[str] = Counter()
    for counter in counters:
        totals[counter.host] += counter.instances
    chosen = min(first_hosts, key=totals.__getitem__, default=None)
    if len({totals[host] for host in first_hosts}) > 1:
        inexact_reasons.append(_RANDOM_HOST)
    limit = LimitReason("ServerGroupAffinityFilter", rejection=Rejection(kind="affinity"))
    for counter in counters:
        if counter.instances and counter.host != chosen:
            counter.instances, counter.limit_reason = 0, limit


def _chooses_at_random(run: SchedulingRun) -> bool:
    driver, options = run.request.plugins.driver, run.request.settings.filter_scheduler
    if not isinstance(driver, FilterScheduler):
        return True
    return bool(options.shuffle_best_same_weighed_hosts or options.host_subset_size > 1)


@dataclass(frozen=True, slots=True)
class CapacityCount:
    """Counted instances on the compute nodes with candidates.

    ``inexact_reasons`` are the reasons why the number is not exact. If nodes share providers so
    that the order of placements matters, ``recount`` counts again on some of the nodes alone.
    ``cut_by`` is the option that cut the search, if all candidates would be too many to combine.
    """

    run: SchedulingRun
    counters: Sequence[HostCounter] = ()
    inexact_reasons: Sequence[str] = ()
    recount: Recount | None = None
    cut_by: LimitingOption | None = None


def count_capacity(
    scheduler: Evaluator,
    connection: Connection,
    request: SchedulingRequest,
    view: RequestView | None = None,
    deadline: Deadline | None = None,
) -> CapacityCount:
    """Count the further instances that fit for a request.

    The request is for a single instance. ``view`` is a view that several requests share. The
    default ``deadline`` is ``[scheduler] capacity_budget`` seconds from now. Raises
    :class:`Invalid` for a rebuild, and the errors of :meth:`Evaluator.prepare_run`.
    """
    if request.spec.is_rebuild:
        raise Invalid(
            "a rebuild stays on its host and is not counted: remove the rebuild hint",
            json_path="$.request_spec.scheduler_hints",
        )
    seconds = request.settings.scheduler.capacity_budget
    deadline = deadline or Deadline.from_seconds(seconds)
    if request.spec.instance_group is not None:
        # The counted instances are new members of the group.
        request = replace(request, spec=replace(request.spec, instance_uuids=(str(uuid4()),)))
    seed = DecisionSeed.draw(scheduler.random)
    inexact_reasons: list[str] = []
    cut_by = None
    try:
        run = scheduler.prepare_run(connection, request, seed, unlimited=True, view=view)
    except TooComplex:
        run = scheduler.prepare_run(connection, request, seed, view=view)
        inexact_reasons.append(_TOO_COMPLEX)
        if run.searches.query:
            cut_by = find_limiting_option(run.searches.query.limit, request.settings)
    if run.filtered_request.rejection:
        return CapacityCount(run, inexact_reasons=inexact_reasons)

    def recount(uuids: Collection[str | None]) -> Sequence[HostCounter]:
        second_run = scheduler.prepare_run(connection, request, seed, unlimited=True)
        hosts = tuple(host for host in second_run.hosts if host.uuid in uuids)
        return count_hosts(replace(second_run, hosts=hosts), deadline, [])[0]

    counters, can_pool = count_hosts(run, deadline, inexact_reasons)
    _drop_hidden_hosts(run, counters, inexact_reasons)
    if deadline.passed:
        inexact_reasons.append(OUT_OF_TIME.format(seconds=seconds))
    # A search for all candidates would be too complex again.
    can_recount = not can_pool and cut_by is None
    return CapacityCount(run, counters, inexact_reasons, recount if can_recount else None, cut_by)


def count_hosts(
    run: SchedulingRun, deadline: Deadline, inexact_reasons: list[str]
) -> tuple[Sequence[HostCounter], bool]:
    """Count the instances of each host.

    Returns the counters, and whether shared providers could be counted as pools. If not, the order
    of placements matters.
    """
    searches = run.searches
    capacity = FreeCapacity.read_free(run.view.providers, searches.candidates, searches.class_ids)
    pools = find_pools(run.searches.candidates, run.hosts, capacity)
    each_pool = pools or [None] * len(run.hosts)
    counters = [
        HostCounter.from_state(host, capacity, pool)
        for host, pool in zip(run.hosts, each_pool, strict=True)
    ]
    spec = run.filtered_request.spec
    if pools is None or compares_hosts(run.selector.select_filters(spec), spec):
        place_in_order(run, counters, capacity, deadline, inexact_reasons)
    else:
        group = spec.instance_group
        is_new_affinity_group = group is not None and AFFINITY in group.policies and not group.hosts
        hosts = find_first_hosts(run) if is_new_affinity_group else []
        _count_independently(run, counters, capacity, deadline, inexact_reasons)
        if is_new_affinity_group:
            limit_to_group_host(counters, hosts, inexact_reasons)
    return counters, pools is not None


def _count_independently(
    run: SchedulingRun,
    counters: Sequence[HostCounter],
    capacity: FreeCapacity,
    deadline: Deadline,
    inexact_reasons: list[str],
) -> None:
    spec = run.filtered_request.spec
    passing = run.selector.filter_hosts(run.hosts, spec)
    fields = {each.field for report in passing.reports for each in report.unexamined}
    inexact_reasons += map(describe_upper_bound, sorted(fields))
    rejecting_stages, passed = map_rejecting_stages(passing), {id(host) for host in passing.hosts}
    passing_counters = []
    for counter in counters:
        if id(counter.state) in passed:
            counter.keep_passing_options(capacity)
            passing_counters.append(counter)
        else:
            unknown = LimitReason("candidates")
            counter.end_count(
                capacity, rejecting_stages.get((counter.host, counter.state.nodename), unknown)
            )
    if filters := select_stateful_filters(run.selector.select_filters(spec), spec):
        place_by_rounds(passing_counters, filters, spec, capacity, deadline)
    else:
        for counter in passing_counters:
            counter.fill(capacity)
    used: Counter[SharedPool] = Counter()
    pooled = [(counter, counter.pool) for counter in counters if counter.pool]
    for counter, pool in pooled:
        used[pool] += counter.instances
    for counter, pool in pooled:
        is_open = counter.limit_reason is UNFINISHED or counter.limit_reason.is_resource
        if is_open and used[pool] >= pool.limit:
            counter.end_count(capacity, pool.limit_reason)


def _drop_hidden_hosts(
    run: SchedulingRun, counters: Sequence[HostCounter], inexact_reasons: list[str]
) -> None:
    """Set the counts of hosts beyond the request's candidate limit to 0.

    A request gets a limited number of candidates, usually ``[scheduler] max_placement_results``.
    Full hosts have no candidates. Hosts that a filter rejects still have candidates, which may use
    up the limit so that other hosts never get a candidate.
    """
    query, settings = run.searches.query, run.request.settings
    requested = query.limit if query else None
    limit = compute_effective_limit(requested, settings)
    if limit is None:
        return
    offered = Counter([request.root_uuid for request in run.searches.candidates.requests])
    counter_of = {counter.uuid: counter for counter in counters}
    remaining_by_root = {
        root: counter_of[root].remaining_candidates if root in counter_of else count
        for root, count in offered.items()
    }
    # Candidates without a compute node use up the limit, too.
    blocked = sum(remaining_by_root.values())
    if blocked < limit:
        return
    option = find_limiting_option(requested, settings)
    options = settings.placement
    is_breadth_first = options.allocation_candidates_generation_strategy == "breadth-first"
    is_random = options.randomize_allocation_candidates
    if is_random or run.searches.fallback or (is_breadth_first and max(offered.values()) > 1):
        inexact_reasons.append(
            _LIMITED_UNDETERMINED.format(option=format_option(option.as_json()), blocked=blocked)
        )
        return
    # Go through the hosts in order. Candidates of rejected hosts use up the limit.
    position, in_part = 0, False
    for root, count in offered.items():
        counter, remaining = counter_of.get(root), remaining_by_root[root]
        hidden = position >= limit
        is_cut = count > 1 and remaining > 0 and position + count > limit
        position += remaining
        if counter and (hidden or is_cut):
            in_part = in_part or not hidden
            counter.instances, counter.limit_reason = 0, LimitReason.from_option(option)
    if in_part:
        inexact_reasons.append(_LIMITED_PARTLY.format(option=option))


class CloudPart(Enum):
    """Kind of the parts into which a capacity report divides the cloud."""

    ZONE = "zone"
    AGGREGATE = "aggregate"
    HOST = "host"
    CELL = "cell"


@dataclass(slots=True)
class SharedView:
    """View of the cloud, loaded once for all requests of a report."""

    connection: Connection
    caches: ProcessCaches
    _view: RequestView | None = None

    def get_view(self, request: SchedulingRequest) -> RequestView:
        """Return the view of the cloud for a request.

        Successive requests with the same policies share a view. A request that uses cached host
        states, as with CachingScheduler, gets a separate view.
        """
        fresh = RequestView.from_request(self.connection, request, self.caches)
        if fresh.states_age is not None:
            return fresh
        if self._view is None or self._view.policies is not fresh.policies:
            self._view = fresh
        return self._view


def build_parts_lookup(aggregates: Aggregates, per: CloudPart, default_zone: str) -> PartsOf:
    """Return a function that lists the parts of the cloud that contain a host."""
    of_host = aggregates.list_for_host
    if per is CloudPart.HOST:
        return lambda host: (host,)
    if per is CloudPart.AGGREGATE:
        return lambda host: tuple(dict.fromkeys(each.name for each in of_host(host)))
    return lambda host: tuple(collect_zones(of_host(host))) or (default_zone,)


def collect_zones(aggregates: Iterable[HostAggregate]) -> frozenset[str]:
    """Return the zones of these aggregates."""
    return frozenset().union(*(parse_zones(each.availability_zone) for each in aggregates))
