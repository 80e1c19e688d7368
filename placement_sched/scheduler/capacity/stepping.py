"""Place instances virtually, host by host, where a filter looks at what earlier ones took.

Hosts are independent here: each takes its own next instance, and all hosts are asked at once, so
that a round costs one call of each filter.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Self
from uuid import uuid4

from placement_sched.model.instance import HostInstance
from placement_sched.model.placement.candidate import AllocationRequest
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.capacity.ledger import Ledger, Stock, Stop, Way, lanes_of
from placement_sched.scheduler.filtering import FilterRun, run_filters
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.host_state import candidates_of, offer
from placement_sched.scheduler.plugin import calling, overrides

#: So many instances of a server group are named beforehand, so that no records need be read.
NAMED = 512
_NOVAS = ("host_passes", "_filter_one", "filter_all")


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


@dataclass(slots=True)
class Stepping:
    """Places one instance after the other on each host, until a filter or the room ends it."""

    filters: Sequence[BaseHostFilter]
    spec: RequestSpec
    stock: Stock
    deadline: Deadline

    def run(self, ledgers: Sequence[Ledger]) -> None:
        """Count what each host takes; where time is up, what it took so far."""
        for ledger in ledgers:  # once, not for every round
            ledger.ways = [Way(_json(way.candidate), way.amounts) for way in ledger.ways]
        waiting = [list(reversed(lane)) for lane in lanes_of(ledgers)]
        number, spec = 0, self.spec
        while waiting and not self.deadline.reached():
            uuids = spec.instance_uuids
            uuid = uuids[number] if number < len(uuids) else str(uuid4())
            one = spec.for_instance(uuid)
            asked = [lane[-1] for lane in waiting if self._offered(lane)]
            run = run_filters(self.filters, [ledger.host for ledger in asked], one, 1 + number)
            passed = {id(host) for host in run.hosts}
            self._refused([one for one in asked if id(one.host) not in passed], run)
            placed = [ledger for ledger in asked if id(ledger.host) in passed]
            for ledger in placed:
                self._place(ledger, one)
            spec = _with_members(spec, one, placed)
            waiting = [lane for lane in waiting if _drop_ended(lane)]
            number += 1

    def _offered(self, lane: list[Ledger]) -> bool:
        """Offer the node whose turn it is what fits there; False where no node is left."""
        while lane:
            ledger = lane[-1]
            fitting = [way for way in ledger.ways if self.stock.times(way) > 0]
            if fitting:
                ledger.ways = fitting
                offer(ledger.host, [way.candidate for way in fitting])
                return True
            ledger.ran_out(self.stock)
            lane.pop()
        return False

    def _refused(self, ledgers: Sequence[Ledger], run: FilterRun) -> None:
        reasons = stops_of(run)
        for ledger in ledgers:
            ledger.ended(reasons[ledger.host.host, ledger.host.nodename], self.stock)

    def _place(self, ledger: Ledger, one: RequestSpec) -> None:
        first: Any = candidates_of(ledger.host)[0]
        self.stock.take(Way(first, self.stock.amounts(first)))
        host, uuid = ledger.host, str(one.instance_uuid)
        host.consume_from_request(one)
        # It counts as placed by a request of its own.
        host.instances[uuid] = HostInstance.being_built(uuid, one, host.host, host.nodename)
        ledger.instances += 1


def stops_of(run: FilterRun) -> dict[tuple[str, str], Stop]:
    """Return by host and node which stage refused it."""
    return {
        (one.host, one.node): Stop(report.name) for report in run.reports for one in report.rejected
    }


def _json(candidate: Any) -> Any:
    return candidate.as_json() if isinstance(candidate, AllocationRequest) else candidate


def _drop_ended(lane: list[Ledger]) -> bool:
    while lane and lane[-1].stop is not None:
        lane.pop()
    return bool(lane)


def _with_members(spec: RequestSpec, one: RequestSpec, placed: Sequence[Ledger]) -> RequestSpec:
    """Return the request with the instances of this round in its server group, if it has one.

    Instances of the same round have one uuid: no host sees those of another.
    """
    group = spec.instance_group
    if group is None or one.instance_uuid is None:
        return spec
    members = tuple(dict.fromkeys((*group.members, one.instance_uuid)))
    hosts = tuple(dict.fromkeys((*group.hosts, *(ledger.host.host for ledger in placed))))
    return replace(spec, instance_group=replace(group, members=members, hosts=hosts))
