"""Place one instance after the other on the best host, where the order of placing counts.

That is so where hosts share providers unequally, where a filter compares hosts, and for an affinity
group that is nowhere yet: all its members go where the first goes.
"""

from collections.abc import Sequence
from itertools import repeat
from uuid import uuid4

from placement_sched.model.results.stages import USED_UP
from placement_sched.scheduler.capacity.ledger import Ledger, Stock, Stop, Way, lanes_of
from placement_sched.scheduler.capacity.stepping import Deadline, stops_of
from placement_sched.scheduler.choose import Run
from placement_sched.scheduler.drivers.filter_scheduler import FilterScheduler
from placement_sched.scheduler.filtering import FilterRun
from placement_sched.scheduler.headroom import Headroom

#: More than can be placed in any budget.
_MOST = 1_000_000
_BY_LOT = "which host is taken is chosen at random: with others, another number may fit"
_CUT = (
    "hosts share providers, and a request sees only the first {limit} candidates: this is what "
    "fits if it sees them all"
)


def place(
    run: Run, ledgers: Sequence[Ledger], stock: Stock, deadline: Deadline, doubts: list[str]
) -> None:
    """Place as many as fit, as one request for that many would be placed."""
    spec, found = run.narrowed.spec, run.searches.found
    progress = run.chooser.begun(run.hosts, spec, Headroom(run.cloud.connection, found))
    accounts = {id(ledger.host): ledger for ledger in ledgers}
    stops: dict[tuple[str, str], Stop] = {}
    named = spec.instance_group is not None  # members of a group have uuids
    uuids = (str(uuid4()) if named else None for _ in repeat(None))
    for look in run.chooser.one_by_one(uuids, progress, number=_MOST):
        reports = tuple(one for one in look.filters if one.name != USED_UP)
        stops |= stops_of(FilterRun([], reports))
        if not look.ordered or deadline.reached():
            break
        ledger = accounts[id(look.ordered[0].obj)]
        first = ledger.host.allocation_candidates[0]
        stock.take(Way(first, stock.amounts(first)))
        ledger.instances += 1
    for ledger in ledgers:
        stop = stops.get((ledger.host.host, ledger.host.nodename))
        if stop is not None:
            ledger.ended(stop, stock)
        elif not any(stock.times(way) > 0 for way in ledger.every):
            ledger.ran_out(stock)
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
    totals = {
        lane[0].host.host: sum(ledger.instances for ledger in lane) for lane in lanes_of(ledgers)
    }
    chosen = min(firsts, key=totals.__getitem__, default=None)
    if len({totals[host] for host in firsts}) > 1:
        doubts.append(_BY_LOT)
    elsewhere = Stop("ServerGroupAffinityFilter")
    for ledger in ledgers:
        if ledger.instances and ledger.host.host != chosen:
            ledger.instances, ledger.stop = 0, elsewhere


def _draws(run: Run) -> bool:
    """Return whether the driver may take another host than the heaviest."""
    driver, options = run.request.plugins.driver, run.request.settings.filter_scheduler
    if not isinstance(driver, FilterScheduler):
        return True
    return bool(options.shuffle_best_same_weighed_hosts or options.host_subset_size > 1)
