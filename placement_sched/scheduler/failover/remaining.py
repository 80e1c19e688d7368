# SPDX-License-Identifier: Apache-2.0
"""Further instances of flavors until a failure gets worse.

A failure gets worse if more of its instances than now find no place, including further instances
on its hosts. Two numbers bound the further instances that make no failure worse:

* While the screen proves that enough hosts pass, further instances make nothing worse, wherever
  they are placed.
* A failure with instances of the same flavor and amounts, whose other hosts fit ``k`` more of them
  than the failure has, gets worse with the further instance ``k + 1``, wherever it is placed. If
  some of its instances find no place now, e.g. because of a server group, further instances may use
  the capacity that they leave free: ``k`` grows by their number, less the instances of other
  requests that certainly find no place.

If the bounds differ and there are few failures, simulations place further instances as the
scheduler would in a single request, and then simulate the failures, to find the number between the
bounds. This number depends on the chosen hosts, and so on the reports that weighers read.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from time import monotonic
from typing import Any
from uuid import uuid4

from placement_sched.db.scratch import ScratchTransaction
from placement_sched.errors import Unavailable
from placement_sched.limits import MAX_FAILOVER_FLAVORS, MAX_PROBED_FAILURES, MAX_PROBED_INSTANCES
from placement_sched.model.figures import Allowance
from placement_sched.model.instance import Instance
from placement_sched.scheduler.capacity.count import Deadline
from placement_sched.scheduler.drain_plan import MovePlan, Mover, MovingInstance
from placement_sched.scheduler.failover.screen import (
    FailedLoad,
    RequestOnHosts,
    Screen,
    Verdict,
    read_requests,
    screen_requests,
)
from placement_sched.scheduler.failover.simulated import (
    UNDETERMINED,
    Analysis,
    Outcome,
    simulate_failure,
)
from placement_sched.scheduler.request import SchedulingRequest
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.store.compute import flavors as stored_flavors


@dataclass(frozen=True, slots=True)
class _Flavor:
    """A flavor: the key of its request, the request, and its result on the whole cloud."""

    name: str
    key: bytes
    request: SchedulingRequest
    on_hosts: RequestOnHosts | None


def count_remaining(analysis: Analysis) -> list[Allowance]:
    """Return the allowance of each stored flavor, by name, without invalid flavors."""
    flavors = _read_flavors(analysis)
    on_hosts = {flavor.key: flavor.on_hosts for flavor in flavors}
    # Weights depend on the largest amounts, also of these flavors.
    analysis.screen = Screen({**analysis.screen.requests, **on_hosts})
    spares = [analysis.screen.spare_in_order(outcome.load) for outcome in analysis.outcomes]
    allowances = [_bound(analysis, flavor, spares) for flavor in flavors]
    if len(analysis.outcomes) > MAX_PROBED_FAILURES:
        return allowances
    return [
        each if each.remaining == each.at_most else _search(analysis, flavor, each)
        for flavor, each in zip(flavors, allowances, strict=True)
    ]


def _read_flavors(analysis: Analysis) -> list[_Flavor]:
    scheduler = analysis.scheduler
    with scheduler.source.read() as connection:
        names = sorted(flavor.name for flavor in stored_flavors.all_flavors(connection))
    documents = {name.encode(): {"flavor": name} for name in names[:MAX_FAILOVER_FLAVORS]}
    requests = read_requests(scheduler, documents)
    with scheduler.expensive_query_slot():
        screen = screen_requests(scheduler, requests, Deadline.after(0))
    return [
        _Flavor(key.decode(), _new_instance(request).request_key, request, screen.requests[key])
        for key, request in requests.items()
    ]


def _new_instance(request: SchedulingRequest) -> MovingInstance:
    values: dict[str, Any] = dict.fromkeys(each.name for each in fields(Instance))
    values |= {"uuid": str(uuid4()), "display_name": "", "flavor": request.whole["flavor"]}
    return MovingInstance(Instance(**values), {"flavor": values["flavor"]})


def _bound(analysis: Analysis, flavor: _Flavor, spares: Sequence[int]) -> Allowance:
    """Return the allowance by the two bounds of the module.

    ``spares`` are the spare placements of each outcome for any flavor.
    """
    on_hosts = flavor.on_hosts
    if on_hosts is None:
        return Allowance(flavor.name, 0)
    lower = on_hosts.total
    for outcome, spare in zip(analysis.outcomes, spares, strict=True):
        load = outcome.load
        if spare < lower:
            lower = min(lower, analysis.screen.spare_placements(load, on_hosts))
        if any(host in on_hosts.fits for host in load.hosts):
            lower = min(lower, on_hosts.spare_changes(load, load.total))
    lower = max(lower, 0)
    if lower == on_hosts.total and (on_hosts.has_maximum or not lower):
        # All that fit keep the promise.
        return Allowance(flavor.name, lower, lower)
    return _with_upper_bound(analysis, on_hosts, Allowance(flavor.name, lower))


def _with_upper_bound(
    analysis: Analysis, on_hosts: RequestOnHosts, allowance: Allowance
) -> Allowance:
    """Return the allowance with the failure that gets worse first for certain, if any."""
    requests = {
        key: request
        for key, request in analysis.screen.requests.items()
        if request is not None
        and request.flavor == allowance.flavor
        and request.has_maximum
        # The flavor of a recorded instance may have been replaced by another of its name.
        and request.amounts == on_hosts.amounts
        and on_hosts.fits.keys() <= request.fits.keys()
    }
    for outcome in analysis.outcomes:
        if outcome.state == UNDETERMINED:
            continue
        for key, number in outcome.load.counts.items():
            request = requests.get(key)
            if request is None:
                continue
            at_most = _spare_until_worse(analysis.screen, outcome, request, number)
            if allowance.at_most is None or at_most < allowance.at_most:
                # Further instances on its own hosts have to be placed on other hosts, too.
                load = outcome.load.with_more(key, at_most + 1)
                stuck = analysis.screen.count_stuck(load)
                instances = max(outcome.load.total, stuck)
                failure = (outcome.failure.name, instances, instances - stuck)
                remaining = min(allowance.remaining, at_most)
                allowance = Allowance(allowance.flavor, remaining, at_most, *failure)
    return allowance


def _spare_until_worse(
    screen: Screen, outcome: Outcome, request: RequestOnHosts, number: int
) -> int:
    """Return the most further instances that do not prove that a failure gets worse.

    The failure has ``number`` instances of the request, which has a maximum.
    """
    spare = request.fits_outside(outcome.load.hosts) - number
    if outcome.stuck:
        of_others = screen.count_stuck(outcome.load) - max(-spare, 0)
        spare += outcome.stuck - of_others
    return max(spare, 0)


def _search(analysis: Analysis, flavor: _Flavor, allowance: Allowance) -> Allowance:
    search = _Search(analysis, flavor, allowance)
    while not (search.is_done or analysis.deadline.reached()):
        number = search.probes
        try:
            analysis.scheduler.simulate([], search.run)
        except Unavailable:
            if search.probes == number:  # a single simulation takes too long
                break
    return search.allowance


@dataclass(slots=True)
class _Search:
    """A search for the number of further instances, which changes ``allowance``.

    ``step`` is the next increase while nothing breaks the promise.
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

    def run(self, scheduler: Scheduler, scratch: ScratchTransaction) -> None:
        """Probe numbers for half of the time of a simulation."""
        options = self.analysis.scheduler.live.settings().scheduler
        until = monotonic() + options.what_if_timeout / 2
        mover = Mover(scheduler, scratch, scheduler.clock())
        while not self.is_done and monotonic() < until and not self.analysis.deadline.reached():
            number = self._next_number()
            with mover.attempt():
                added = self._place(mover, number)
                worse = added and self._find_worse(mover, scheduler, scratch, added)
            self._note(number, fits=added is not None, worse=worse or None)
            self.probes += 1

    def _next_number(self) -> int:
        low, high = self.allowance.remaining, self.allowance.at_most
        number, self.step = low + self.step, 2 * self.step
        if high is not None:
            number = min(number, (low + high + 2) // 2)
        return min(number, MAX_PROBED_INSTANCES)

    def _note(self, number: int, *, fits: bool, worse: tuple[str, int, int] | None) -> None:
        name = self.allowance.flavor
        if worse:
            self.allowance = Allowance(name, self.allowance.remaining, number - 1, *worse)
        elif not fits:
            self.allowance = Allowance(name, self.allowance.remaining, number - 1)
        else:
            self.allowance = replace(self.allowance, remaining=number)

    def _place(self, mover: Mover, number: int) -> list[MovingInstance] | None:
        instances = [_new_instance(self.flavor.request) for _ in range(number)]
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
        self,
        mover: Mover,
        scheduler: Scheduler,
        scratch: ScratchTransaction,
        added: Sequence[MovingInstance],
    ) -> tuple[str, int, int] | None:
        """Return the failure that gets worse: name, all instances, instances with a place."""
        key = self.flavor.key
        requests = {**self.analysis.requests, key: self.flavor.request}
        screen = screen_requests(scheduler, requests, self.analysis.deadline)
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
            stuck = len(
                simulate_failure(mover, scheduler, scratch, hosts, added, with_reasons=False)
            )
            if stuck > outcome.stuck:
                return outcome.failure.name, load.total, load.total - stuck
        return None
