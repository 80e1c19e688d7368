"""How many more instances of a request fit: every step in order.

look      narrow, ask and look as for a selection, but with every candidate    scheduler.py
pass      filters and names leave out hosts for the first instance             selection.py
pool      what hosts take together of providers they share                     accounts.py
count     fill host by host; place by rounds if a filter looks at what         accounts.py,
          earlier instances took, or in order if the order of placing counts   here
close     take back what a limited request never sees                          here
report    what stops each host, also those without candidates                  report.py
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from itertools import repeat
from time import monotonic
from typing import Any, Self
from uuid import uuid4

from placement_sched.candidates.search import effective_limit, limiting_option
from placement_sched.db.sql import grouped
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, TooComplex
from placement_sched.model.aggregates import AFFINITY, HostAggregate, zones
from placement_sched.model.candidates_query import AllocationRequest
from placement_sched.model.decision import DecisionSeed
from placement_sched.model.explanation import USED_UP
from placement_sched.model.instance import HostInstance
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.caches import Aggregates, Memory
from placement_sched.scheduler.capacity.accounts import (
    UNFINISHED,
    Ledger,
    SharedPool,
    Stock,
    Stop,
    find_pools,
)
from placement_sched.scheduler.drivers.filter_scheduler import FilterScheduler
from placement_sched.scheduler.filtering import FilterRun, run_filters
from placement_sched.scheduler.filters import BaseHostFilter, all_filters
from placement_sched.scheduler.host_manager import CloudView, SharedStates
from placement_sched.scheduler.host_state import candidates_of, offer
from placement_sched.scheduler.plugin import calling, overrides
from placement_sched.scheduler.request import SchedulingRequest
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.scheduler.selection import Headroom, Run

#: So many instances of a server group are named beforehand, so that no records need be read.
NAMED = 512
_NOVAS = ("host_passes", "_filter_one", "filter_all")
#: More than can be placed in any budget.
_MOST = 1_000_000
_BY_LOT = "which host is taken is chosen at random: with others, another number may fit"
_CUT = (
    "hosts share providers, and a request sees only the first {limit} candidates: this is what "
    "fits if it sees them all"
)


@dataclass(slots=True)
class Deadline:
    """When a count ends, whether it is done or not; ``passed``: it ended one."""

    at: float
    timer: Callable[[], float]
    passed: bool = False

    @classmethod
    def after(cls, seconds: float, timer: Callable[[], float] = monotonic) -> Self:
        """Return the end of a count that may take so many seconds from now; 0 is without end."""
        return cls(timer() + seconds if seconds else float("inf"), timer)

    def reached(self) -> bool:
        """Return whether it is time to end."""
        self.passed = self.passed or self.timer() >= self.at
        return self.passed


def watching(filters: Iterable[BaseHostFilter], spec: RequestSpec) -> list[BaseHostFilter]:
    """Return the filters whose verdict may change as instances of this request are placed.

    Those that run once per request say that theirs does not. One of ours that lets every host pass
    does so for the next instance as well, unless there is a server group, which grows.
    """
    found = []
    for plugin in filters:
        with calling(plugin):
            if not plugin.run_filter_for_index(1):
                continue
            mine = not overrides(plugin, BaseHostFilter, _NOVAS)
            grows = spec.instance_group is not None
            if mine and not grows and plugin.for_request(spec) is None:
                continue
        found.append(plugin)
    return found


def looks_at_all_hosts(filters: Iterable[BaseHostFilter]) -> bool:
    """Return whether a filter may compare hosts, so that they are not independent."""
    return any(overrides(plugin, BaseHostFilter, ("filter_all", "verdicts")) for plugin in filters)


def for_counting(spec: RequestSpec) -> RequestSpec:
    """Return the request with names for the instances of its group, where it has one."""
    if spec.instance_group is None:
        return spec
    return replace(spec, instance_uuids=tuple(str(uuid4()) for _ in range(NAMED)))


def stops_of(run: FilterRun) -> dict[tuple[str, str], Stop]:
    """Return by host and node which stage refused it."""
    return {
        (one.host, one.node): Stop(report.name) for report in run.reports for one in report.rejected
    }


def place_by_rounds(
    ledgers: Sequence[Ledger],
    filters: Sequence[BaseHostFilter],
    spec: RequestSpec,
    stock: Stock,
    deadline: Deadline,
) -> None:
    """Place one instance after the other on each host, until a filter or the room ends it.

    Where time is up, a host has what it took so far.
    """
    for ledger in ledgers:  # once, not for every round
        candidates = candidates_of(ledger.state)
        ledger.offers = [(_json(each), stock.way(each)) for each in candidates]
    waiting = [
        list(reversed(lane)) for lane in grouped((one.host, one) for one in ledgers).values()
    ]
    number = 0
    while (waiting := [lane for lane in waiting if _offer(lane, stock)]) and not deadline.reached():
        uuids = spec.instance_uuids
        uuid = uuids[number] if number < len(uuids) else str(uuid4())
        one = spec.for_instance(uuid)
        asked = [lane[-1] for lane in waiting]
        run = run_filters(filters, [ledger.state for ledger in asked], one, 1 + number)
        passed, stops = {id(state) for state in run.hosts}, stops_of(run)
        placed = []
        for ledger in asked:
            if id(ledger.state) in passed:
                _place(ledger, one, stock)
                placed.append(ledger)
            else:
                ledger.end(stock, stops[ledger.host, ledger.state.nodename])
        spec = _with_members(spec, one, placed)
        number += 1


def _json(candidate: Any) -> Any:
    return candidate.as_json() if isinstance(candidate, AllocationRequest) else candidate


def _offer(lane: list[Ledger], stock: Stock) -> bool:
    """Offer the node of a host whose turn it is what fits there; False if no node remains."""
    while lane:
        ledger = lane[-1]
        if ledger.stop is UNFINISHED:
            if fitting := [each for each in ledger.offers if stock.times(each[1]) > 0]:
                ledger.offers, ledger.ways = fitting, [way for _, way in fitting]
                offer(ledger.state, [candidate for candidate, _ in fitting])
                return True
            ledger.end(stock)
        lane.pop()
    return False


def _place(ledger: Ledger, one: RequestSpec, stock: Stock) -> None:
    stock.take(stock.way(candidates_of(ledger.state)[0]))
    state, uuid = ledger.state, str(one.instance_uuid)
    state.consume_from_request(one)
    # It counts as placed by a request of its own.
    state.instances[uuid] = HostInstance.being_built(uuid, one, state.host, state.nodename)
    ledger.instances += 1


def _with_members(spec: RequestSpec, one: RequestSpec, placed: Sequence[Ledger]) -> RequestSpec:
    """Return the request with the instances of this round in its server group, if it has one.

    Instances of the same round have one uuid: no host sees those of another.
    """
    group = spec.instance_group
    if group is None or one.instance_uuid is None:
        return spec
    members = tuple(dict.fromkeys((*group.members, one.instance_uuid)))
    hosts = tuple(dict.fromkeys((*group.hosts, *(ledger.host for ledger in placed))))
    return replace(spec, instance_group=replace(group, members=members, hosts=hosts))


def place_in_order(
    run: Run, ledgers: Sequence[Ledger], stock: Stock, deadline: Deadline, doubts: list[str]
) -> None:
    """Place as many as fit on the best host each, as one request for that many would be placed."""
    spec, found = run.narrowed.spec, run.searches.found
    progress = run.chooser.begun(run.hosts, spec, Headroom(run.cloud.connection, found))
    accounts = {id(ledger.state): ledger for ledger in ledgers}
    stops: dict[tuple[str, str], Stop] = {}
    named = spec.instance_group is not None  # members of a group have uuids
    uuids = (str(uuid4()) if named else None for _ in repeat(None))
    for look in run.chooser.one_by_one(uuids, progress, number=_MOST):
        reports = tuple(one for one in look.filters if one.name != USED_UP)
        stops |= stops_of(FilterRun([], reports))
        if not look.ordered or deadline.reached():
            break
        ledger = accounts[id(look.ordered[0].obj)]
        stock.take(stock.way(candidates_of(ledger.state)[0]))
        ledger.instances += 1
    for ledger in ledgers:
        if stop := stops.get((ledger.host, ledger.state.nodename)):
            ledger.end(stock, stop)
        elif not any(stock.times(way) > 0 for way in ledger.every):
            ledger.end(stock)
    if _draws(run):
        doubts.append(_BY_LOT)
    limit = run.searches.query.limit if run.searches.query else None
    if limit is not None and len(found.requests) > limit:
        doubts.append(_CUT.format(limit=limit))


def first_hosts(run: Run) -> list[str]:
    """Return the hosts that the first instance may go to: the best, or all if one is drawn."""
    spec = run.narrowed.spec
    progress = run.chooser.begun(run.hosts, spec, Headroom.unbounded())
    look = next(run.chooser.one_by_one((spec.instance_uuids[0],), progress, number=1))
    hosts = list(dict.fromkeys(host.obj.host for host in look.ordered))
    return hosts if _draws(run) else hosts[:1]


def keep_together(ledgers: Sequence[Ledger], firsts: Sequence[str], doubts: list[str]) -> None:
    """Keep what fits on the host where the group begins; of several the one that takes least."""
    totals: Counter[str] = Counter()
    for ledger in ledgers:
        totals[ledger.host] += ledger.instances
    chosen = min(firsts, key=totals.__getitem__, default=None)
    if len({totals[host] for host in firsts}) > 1:
        doubts.append(_BY_LOT)
    elsewhere = Stop("ServerGroupAffinityFilter")
    for ledger in ledgers:
        if ledger.instances and ledger.host != chosen:
            ledger.instances, ledger.stop = 0, elsewhere


def _draws(run: Run) -> bool:
    """Return whether the driver may take another host than the heaviest."""
    driver, options = run.request.plugins.driver, run.request.settings.filter_scheduler
    if not isinstance(driver, FilterScheduler):
        return True
    return bool(options.shuffle_best_same_weighed_hosts or options.host_subset_size > 1)


OUT_OF_TIME = "the count ended after [scheduler] capacity_budget ({seconds:g} s): at least so many"
_TOO_MANY = (
    "there are more combinations of providers than [placement] allocation_candidates_budget "
    "allows to count: only the candidates that one request sees are counted"
)
_DRAWN = (
    "candidates are limited by {option}, and refused hosts alone are {blocked}: which of the "
    "others a request sees is not determined, so this is what fits if it sees them all"
)
_IN_PART = "candidates are limited by {option}: of some hosts only a part of them is seen"

#: Counts again what fits, on the nodes of these uuids alone.
Recount = Callable[[Collection[str | None]], Sequence[Ledger]]


@dataclass(frozen=True, slots=True)
class CapacityCount:
    """What came of a count: the nodes with candidates, in the order of these.

    ``doubts`` say why the number is not exact, if it is not. ``recount`` is there if what some
    nodes take depends on what others take.
    """

    run: Run
    ledgers: Sequence[Ledger] = ()
    doubts: Sequence[str] = ()
    recount: Recount | None = None


def count_capacity(
    scheduler: Scheduler,
    connection: Connection,
    request: SchedulingRequest,
    cloud: CloudView | None = None,
    deadline: Deadline | None = None,
) -> CapacityCount:
    """Return how many more instances of a request fit, read from this connection.

    The request is for one instance. ``cloud`` is what it looks at, where several requests look at
    the same; without a ``deadline`` the count has ``[scheduler] capacity_budget``. Raises what
    :meth:`Scheduler.looked` raises.
    """
    if request.spec.is_rebuild:
        raise Invalid("a rebuild takes no capacity", at="$.request_spec.scheduler_hints")
    seconds = request.settings.scheduler.capacity_budget
    deadline = deadline or Deadline.after(seconds)
    request = replace(request, spec=for_counting(request.spec))
    seed = DecisionSeed.drawn(scheduler.random)
    doubts: list[str] = []
    try:
        run = scheduler.looked(connection, request, seed, uncut=True, cloud=cloud)
    except TooComplex:
        run = scheduler.looked(connection, request, seed, cloud=cloud)
        doubts.append(_TOO_MANY)
    if run.narrowed.refusal:
        return CapacityCount(run, doubts=doubts)

    def recount(uuids: Collection[str | None]) -> Sequence[Ledger]:
        again = scheduler.looked(connection, request, seed, uncut=True)
        hosts = tuple(host for host in again.hosts if host.uuid in uuids)
        return count_hosts(replace(again, hosts=hosts), deadline, [])[0]

    ledgers, are_apart = count_hosts(run, deadline, doubts)
    _drop_unseen(run, ledgers, doubts)
    if deadline.passed:
        doubts.append(OUT_OF_TIME.format(seconds=seconds))
    return CapacityCount(run, ledgers, doubts, None if are_apart else recount)


def count_hosts(run: Run, deadline: Deadline, doubts: list[str]) -> tuple[Sequence[Ledger], bool]:
    """Count on the hosts of a run; False if what some take depends on what others take."""
    searches = (run.searches.asked, run.searches.fallback)
    classes = {k: v for one in searches if one for k, v in one.search.names.classes.items()}
    stock = Stock.of(run.cloud.providers, run.searches.found, classes)
    pools = find_pools(run.searches.found, run.hosts, stock)
    each_pool = pools or [None] * len(run.hosts)
    ledgers = [
        Ledger.of(host, stock, pool) for host, pool in zip(run.hosts, each_pool, strict=True)
    ]
    spec = run.narrowed.spec
    if pools is None or looks_at_all_hosts(run.chooser.filters_for(spec)):
        run.cloud.forget_states()
        place_in_order(run, ledgers, stock, deadline, doubts)
    else:
        group = spec.instance_group
        together = group is not None and AFFINITY in group.policies and not group.hosts
        hosts = first_hosts(run) if together else []
        _count_apart(run, ledgers, stock, deadline)
        if together:
            keep_together(ledgers, hosts, doubts)
    return ledgers, pools is not None


def _count_apart(run: Run, ledgers: Sequence[Ledger], stock: Stock, deadline: Deadline) -> None:
    """Count what each host takes by itself."""
    spec = run.narrowed.spec
    passing = run.chooser.passing(run.hosts, spec)
    stops, passed = stops_of(passing), {id(host) for host in passing.hosts}
    standing = []
    for ledger in ledgers:
        if id(ledger.state) in passed:
            ledger.keep_left(stock)
            standing.append(ledger)
        else:
            unknown = Stop("candidates")
            ledger.end(stock, stops.get((ledger.host, ledger.state.nodename), unknown))
    if filters := watching(run.chooser.filters_for(spec), spec):
        run.cloud.forget_states()
        place_by_rounds(standing, filters, spec, stock, deadline)
    else:
        for ledger in standing:
            ledger.fill(stock)
    taken: Counter[SharedPool] = Counter()
    pooled = [(ledger, ledger.pool) for ledger in ledgers if ledger.pool]
    for ledger, pool in pooled:
        taken[pool] += ledger.instances
    for ledger, pool in pooled:
        is_open = ledger.stop is UNFINISHED or ledger.stop.is_resource
        if is_open and taken[pool] >= pool.most:
            ledger.end(stock, pool.stop)


def _drop_unseen(run: Run, ledgers: Sequence[Ledger], doubts: list[str]) -> None:
    """Take back what was counted on hosts that a request never sees.

    A request looks at the first ``max_placement_results`` candidates. Hosts that are full are not
    among them, but those that a filter refuses are, and may hide others for ever.
    """
    query, settings = run.searches.query, run.request.settings
    requested = query.limit if query else None
    limit = effective_limit(requested, settings)
    if limit is None:
        return
    offered = Counter([request.root_uuid for request in run.searches.found.requests])
    of_root = {ledger.uuid: ledger for ledger in ledgers}
    left = {
        root: of_root[root].left if root in of_root else number for root, number in offered.items()
    }
    # What is on no compute node stays where it is as well.
    blocked = sum(left.values())
    if blocked < limit:
        return
    option = limiting_option(requested, settings)
    options = settings.placement
    in_turn = options.allocation_candidates_generation_strategy == "breadth-first"
    at_random = options.randomize_allocation_candidates
    if at_random or run.searches.fallback or (in_turn and max(offered.values()) > 1):
        doubts.append(_DRAWN.format(option=option, blocked=blocked))
        return
    # In their order, until refused ones alone fill the limit.
    before, in_part = 0, False
    for root, number in offered.items():
        ledger, remaining = of_root.get(root), left[root]
        hidden = before >= limit
        is_cut = number > 1 and remaining > 0 and before + number > limit
        before += remaining
        if ledger and (hidden or is_cut):
            in_part = in_part or not hidden
            ledger.instances, ledger.stop = 0, Stop("limit", option)
    if in_part:
        doubts.append(_IN_PART.format(option=option))


class Per(Enum):
    """What the capacity may be shown for each of."""

    ZONE = "zone"
    AGGREGATE = "aggregate"
    HOST = "host"
    CELL = "cell"


#: Gives the names of the parts that a host is in.
PartsOf = Callable[[str], tuple[str, ...]]


@dataclass(slots=True)
class OneCloud:
    """The cloud as the requests of one question see it, read once for all that can share it."""

    connection: Connection
    memory: Memory
    _view: CloudView | None = None
    _parts: dict[tuple[Aggregates, Per, str], PartsOf] = field(default_factory=dict)

    def view_for(self, request: SchedulingRequest) -> CloudView:
        """Return what a request looks at: what those before it did, or a view of its own.

        Host states are shared where nothing is written to them. Filters that are shipped return
        what they leave, and write nothing; one from elsewhere may write, as nova's do.
        """
        fresh = CloudView.of(self.connection, request, self.memory)
        plugins = request.plugins
        filters = {type(one) for one in plugins.driver.filters(plugins.filters)}
        kept = fresh.states_age is not None
        if kept or request.spec.instance_group or not filters <= {*all_filters()}:
            return fresh
        if self._view is None or self._view.policies is not fresh.policies:
            self._view = fresh
            self._view.shared_states = SharedStates()
        return self._view

    def parts_of(self, aggregates: Aggregates, per: Per, default_zone: str) -> PartsOf:
        """Return what gives the zones or aggregates of a host, or the host."""
        key = (aggregates, per, default_zone)
        if key not in self._parts:
            self._parts[key] = cache(_named(aggregates, per, default_zone))
        return self._parts[key]


def _named(aggregates: Aggregates, per: Per, default_zone: str) -> PartsOf:
    of_host = aggregates.of_host
    if per is Per.HOST:
        return lambda host: (host,)
    if per is Per.AGGREGATE:
        return lambda host: tuple(dict.fromkeys(each.name for each in of_host(host)))
    return lambda host: tuple(zones_of(of_host(host))) or (default_zone,)


def zones_of(aggregates: Iterable[HostAggregate]) -> frozenset[str]:
    """Return the zones of these aggregates."""
    return frozenset().union(*(zones(one.availability_zone) for one in aggregates))
