"""How many more instances of a request fit: every step in order.

look      narrow, ask and look as for a selection, but with every candidate    pipeline.py
pass      filters and names leave out hosts for the first instance             choose.py
count     what each host takes: floors of free by asked; step by step where    ledger.py,
          a filter looks at what earlier instances took                        stepping.py
together  what hosts take together of pools they share; where the order of     pools.py,
          placing counts, place one after the other on the best host           in_order.py
close     take back what a limited request never sees                          window.py
report    what stops each host, also those without candidates                  report.py
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, TooComplex
from placement_sched.model.results.decision import DecisionSeed
from placement_sched.model.server_group import AFFINITY
from placement_sched.scheduler.capacity import in_order, window
from placement_sched.scheduler.capacity.ledger import Ledger, Stock, Stop
from placement_sched.scheduler.capacity.pools import SharedPools, pools_of
from placement_sched.scheduler.capacity.stepping import (
    Deadline,
    Stepping,
    for_counting,
    looks_at_all_hosts,
    stops_of,
    watching,
)
from placement_sched.scheduler.choose import Run
from placement_sched.scheduler.filtering import FilterRun
from placement_sched.scheduler.pipeline import Scheduler
from placement_sched.scheduler.requests.reading import SchedulingRequest

_OUT_OF_TIME = "the count ended after [scheduler] capacity_budget ({seconds:g} s): at least so many"
_TOO_MANY = (
    "there are more combinations of providers than [placement] allocation_candidates_budget "
    "allows to count: only the candidates that one request sees are counted"
)


@dataclass(slots=True)
class CapacityCount:
    """What came of a count: an account for each host, in the order of their candidates.

    ``doubts`` say why the number is not exact, if it is not.
    """

    run: Run
    ledgers: Sequence[Ledger] = ()
    pools: SharedPools = field(default_factory=SharedPools)
    stock: Stock = field(default_factory=lambda: Stock({}, {}, {}))
    doubts: list[str] = field(default_factory=list)

    @property
    def instances(self) -> int:
        """Return how many instances fit."""
        return self.of(self.ledgers)

    def of(self, some: Sequence[Ledger]) -> int:
        """Return how many instances fit on some of the hosts."""
        chosen = {id(ledger) for ledger in some}
        total = sum(ledger.instances for ledger in some)
        for one in self.pools.components:
            here = sum(ledger.instances for ledger in one.ledgers if id(ledger) in chosen)
            total -= max(here - one.most, 0)
        return total


def count(
    scheduler: Scheduler, connection: Connection, request: SchedulingRequest
) -> CapacityCount:
    """Return how many more instances of a request fit, read from this connection.

    The request is for one instance. Raises what :meth:`Scheduler.looked` raises.
    """
    if request.spec.is_rebuild:
        raise Invalid("a rebuild takes no capacity (at $.request_spec.scheduler_hints)")
    seconds = request.settings.scheduler.capacity_budget
    deadline, doubts = Deadline.after(seconds), []
    request = replace(request, spec=for_counting(request.spec))
    seed = DecisionSeed.drawn(scheduler.random)
    try:
        run = scheduler.looked(connection, request, seed, uncut=True)
    except TooComplex:
        run = scheduler.looked(connection, request, seed)
        doubts.append(_TOO_MANY)
    done = CapacityCount(run, doubts=doubts)
    if run.narrowed.refusal:
        return done
    done.stock = Stock.of(run.cloud.providers, run.searches.found, _classes(run))
    done.ledgers = [Ledger.of(host, done.stock) for host in run.hosts]
    _count(done, deadline)
    doubt = window.close(run, done.ledgers)
    done.doubts += [doubt] if doubt else []
    if deadline.passed:
        done.doubts.append(_OUT_OF_TIME.format(seconds=seconds))
    return done


def _classes(run: Run) -> dict[str, int]:
    searches = (run.searches.asked, run.searches.fallback)
    found: dict[str, int] = {}
    for one in searches:
        found.update(one.search.names.classes if one else {})
    return found


def _count(done: CapacityCount, deadline: Deadline) -> None:
    """CapacityCount by host, or in order where hosts are not independent."""
    run, spec = done.run, done.run.narrowed.spec
    filters = run.chooser.filters_for(spec)
    done.pools = pools_of(run.searches.found, done.ledgers, done.stock)
    if not done.pools.settled or looks_at_all_hosts(filters):
        in_order.place(done.run, done.ledgers, done.stock, deadline, done.doubts)
        return
    group = spec.instance_group
    if group is not None and AFFINITY in group.policies and not group.hosts:
        hosts = in_order.first_hosts(run)
        _count_apart(done, run.chooser.passing(run.hosts, spec), deadline)
        in_order.keep_together(done.ledgers, hosts, done.doubts)
        return
    _count_apart(done, run.chooser.passing(run.hosts, spec), deadline)


def _count_apart(done: CapacityCount, passing: FilterRun, deadline: Deadline) -> None:
    """CapacityCount what each host takes by itself."""
    run, spec, stock = done.run, done.run.narrowed.spec, done.stock
    stops, passed = stops_of(passing), {id(host) for host in passing.hosts}
    standing = []
    for ledger in done.ledgers:
        host = ledger.host
        if id(host) in passed:
            ledger.keep_left(stock)
            standing.append(ledger)
        else:
            unknown = Stop("candidates")
            ledger.ended(stops.get((host.host, host.nodename), unknown), stock)
    filters = watching(run.chooser.filters_for(spec), spec)
    if filters:
        Stepping(filters, spec, stock, deadline).run(standing)
    else:
        for ledger in standing:
            ledger.fill(stock)
    for one in done.pools.components:
        if sum(ledger.instances for ledger in one.ledgers) >= one.most:
            for ledger in one.ledgers:
                if ledger.stop is None or ledger.stop.is_resource:
                    ledger.stop = Stop(one.reason, is_resource=True)
