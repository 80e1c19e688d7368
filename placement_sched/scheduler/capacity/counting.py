"""How many more instances of a request fit: every step in order.

look      narrow, ask and look as for a selection, but with every candidate    pipeline.py
pass      filters and names leave out hosts for the first instance             choose.py
pool      what hosts take together of providers they share                     ledger.py
count     fill host by host; place by rounds if a filter looks at what         ledger.py,
          earlier instances took, or in order if the order of placing counts   placing.py
close     take back what a limited request never sees                          here
report    what stops each host, also those without candidates                  report.py
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from placement_sched.candidates.search import effective_limit, limiting_option
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, TooComplex
from placement_sched.model.aggregates import AFFINITY
from placement_sched.model.decision import DecisionSeed
from placement_sched.scheduler.capacity.ledger import (
    UNFINISHED,
    Ledger,
    SharedPool,
    Stock,
    Stop,
    find_pools,
)
from placement_sched.scheduler.capacity.placing import (
    Deadline,
    first_hosts,
    for_counting,
    keep_together,
    looks_at_all_hosts,
    place_by_rounds,
    place_in_order,
    stops_of,
    watching,
)
from placement_sched.scheduler.choose import Run
from placement_sched.scheduler.hosts.states import CloudView
from placement_sched.scheduler.pipeline import Scheduler
from placement_sched.scheduler.requests.reading import SchedulingRequest

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
