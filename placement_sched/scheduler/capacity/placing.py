"""Place instances virtually where a filter looks at what earlier ones took, or the order counts.

Most hosts are independent: each takes its own next instance, and all hosts are asked at once, so
that a round costs one call of each filter. The order counts where hosts share providers unequally,
where a filter compares hosts, and for an affinity group that is nowhere yet: all its members go
where the first goes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from time import monotonic
from typing import Any, Self
from uuid import uuid4

from placement_sched.db.sql import grouped
from placement_sched.model.candidates_query import AllocationRequest
from placement_sched.model.explanation import USED_UP
from placement_sched.model.instance import HostInstance
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.capacity.ledger import UNFINISHED, Ledger, Stock, Stop
from placement_sched.scheduler.choose import Run
from placement_sched.scheduler.drivers.filter_scheduler import FilterScheduler
from placement_sched.scheduler.filtering import FilterRun, run_filters
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.headroom import Headroom
from placement_sched.scheduler.host_state import candidates_of, offer
from placement_sched.scheduler.plugin import calling, overrides

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
