"""How many more instances of a request fit: every step in order.

look      narrow, ask and look as for a selection, but with every candidate    pipeline.py
pass      filters and names leave out hosts for the first instance             choose.py
divide    what each host takes, where it has one way: in columns               dividing.py
count     else host by host: floors of free by asked; step by step where       ledger.py,
          a filter looks at what earlier instances took                        stepping.py
together  what hosts take together of pools they share; where the order of     pools.py,
          placing counts, place one after the other on the best host           in_order.py
close     take back what a limited request never sees                          window.py
report    what stops each host, also those without candidates                  never_fitting.py,
                                                                               report.py
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, TooComplex
from placement_sched.model.results.decision import DecisionSeed
from placement_sched.model.server_group import AFFINITY
from placement_sched.scheduler.capacity import in_order
from placement_sched.scheduler.capacity.dividing import divided
from placement_sched.scheduler.capacity.host_counts import HostCounts
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
from placement_sched.scheduler.capacity.window import unseen
from placement_sched.scheduler.choose import Run
from placement_sched.scheduler.filtering import FilterRun
from placement_sched.scheduler.hosts.states import CloudView
from placement_sched.scheduler.pipeline import Scheduler
from placement_sched.scheduler.requests.reading import SchedulingRequest

OUT_OF_TIME = "the count ended after [scheduler] capacity_budget ({seconds:g} s): at least so many"
_TOO_MANY = (
    "there are more combinations of providers than [placement] allocation_candidates_budget "
    "allows to count: only the candidates that one request sees are counted"
)


#: Counts again what fits, on the nodes of these uuids alone.
Recount = Callable[[Collection[str | None]], HostCounts]


@dataclass(frozen=True, slots=True)
class CapacityCount:
    """What came of a count: the nodes with candidates, in the order of these.

    ``doubts`` say why the number is not exact, if it is not. ``recount`` is there if what some
    nodes take depends on what others take.
    """

    run: Run
    counts: HostCounts = field(default_factory=HostCounts)
    doubts: Sequence[str] = ()
    recount: Recount | None = None


@dataclass(slots=True)
class _Accounts:
    """The accounts of the hosts of a run, in the order of their candidates."""

    run: Run
    stock: Stock
    ledgers: Sequence[Ledger]
    deadline: Deadline
    doubts: list[str]
    pools: SharedPools = field(default_factory=SharedPools)

    def counts(self) -> HostCounts:
        """Return what the accounts came to."""
        return HostCounts.of(self.ledgers, self.stock, self.pools.components)


def count(
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
    classes = classes_of(run)
    counts, recount = divided(run, classes), None
    if counts is None:
        accounts = _counted(run, classes, deadline, doubts)
        counts = accounts.counts()
        if not accounts.pools.settled:

            def recount(uuids: Collection[str | None]) -> HostCounts:
                again = scheduler.looked(connection, request, seed, uncut=True)
                hosts = tuple(host for host in again.hosts if host.uuid in uuids)
                return by_host(replace(again, hosts=hosts), classes, deadline, [])

    never = unseen(run, dict(zip(counts.uuids, counts.left.tolist(), strict=True)))
    doubts += [never.doubt] if never.doubt else []
    if deadline.passed:
        doubts.append(OUT_OF_TIME.format(seconds=seconds))
    counts = counts.without(never.uuids, Stop("limit", never.option))
    return CapacityCount(run, counts, doubts, recount)


def classes_of(run: Run) -> dict[str, int]:
    """Return the ids of the resource classes that the search of a run knows, by name."""
    searches = (run.searches.asked, run.searches.fallback)
    found: dict[str, int] = {}
    for one in searches:
        found.update(one.search.names.classes if one else {})
    return found


def by_host(run: Run, classes: dict[str, int], deadline: Deadline, doubts: list[str]) -> HostCounts:
    """Count host by host, or in order where hosts are not independent."""
    return _counted(run, classes, deadline, doubts).counts()


def _counted(run: Run, classes: dict[str, int], deadline: Deadline, doubts: list[str]) -> _Accounts:
    stock = Stock.of(run.cloud.providers, run.searches.found, classes)
    ledgers = [Ledger.of(host, stock) for host in run.hosts]
    accounts = _Accounts(run, stock, ledgers, deadline, doubts)
    _count(accounts)
    return accounts


def _count(done: _Accounts) -> None:
    """Count by host, or in order where hosts are not independent."""
    run, spec = done.run, done.run.narrowed.spec
    filters = run.chooser.filters_for(spec)
    done.pools = pools_of(run.searches.found, done.ledgers, done.stock)
    if not done.pools.settled or looks_at_all_hosts(filters):
        run.cloud.forget_states()
        in_order.place(done.run, done.ledgers, done.stock, done.deadline, done.doubts)
        return
    group = spec.instance_group
    if group is not None and AFFINITY in group.policies and not group.hosts:
        hosts = in_order.first_hosts(run)
        _count_apart(done, run.chooser.passing(run.hosts, spec))
        in_order.keep_together(done.ledgers, hosts, done.doubts)
        return
    _count_apart(done, run.chooser.passing(run.hosts, spec))


def _count_apart(done: _Accounts, passing: FilterRun) -> None:
    """Count what each host takes by itself."""
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
        run.cloud.forget_states()
        Stepping(filters, spec, stock, done.deadline).run(standing)
    else:
        for ledger in standing:
            ledger.fill(stock)
    for one in done.pools.components:
        if sum(ledger.instances for ledger in one.ledgers) >= one.most:
            for ledger in one.ledgers:
                if ledger.stop is None or ledger.stop.is_resource:
                    ledger.stop = Stop(one.reason, is_resource=True)
