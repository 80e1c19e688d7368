"""Count by division, in columns, where each host has one way to take an instance.

That is so in clouds without trees, and in trees where the root has all that is asked for. Every
host then takes as often as what is free there has room for, unless a filter refuses it: no object
is made for a host, and ten thousand are counted in milliseconds.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from placement_sched.model.placement.candidate import Candidates
from placement_sched.scheduler.capacity.host_counts import HostCounts
from placement_sched.scheduler.capacity.ledger import Stop
from placement_sched.scheduler.capacity.stepping import looks_at_all_hosts, stops_of, watching
from placement_sched.scheduler.choose import Run
from placement_sched.scheduler.host_state import candidates_of

#: Below it a floating point number is a whole number exactly.
_EXACT = 2.0**53


def divided(run: Run, classes: Mapping[str, int]) -> HostCounts | None:
    """Return what the hosts take; None where division does not do.

    It does where no host has anything of another, or two ways to choose from, and no filter looks
    at what earlier instances took. ``classes`` are the ids of resource classes by name.
    """
    spec, found = run.narrowed.spec, run.searches.found
    filters = run.chooser.filters_for(spec)
    if spec.instance_group is not None or looks_at_all_hosts(filters) or watching(filters, spec):
        return None
    amounts = _alone(found)
    ids = {provider.uuid: provider.id for provider in found.providers}
    if amounts is None or any(host.uuid not in ids for host in run.hosts):
        return None
    # Of two classes that are equally scarce the one of the lower id is named.
    asked = sorted(amounts, key=classes.__getitem__)
    columns = run.cloud.providers.free_columns(
        [ids[str(host.uuid)] for host in run.hosts], [classes[name] for name in asked]
    )
    if not asked or not all((np.abs(column) < _EXACT).all() for column in columns.values()):
        return None
    free = np.stack([columns[classes[name]].astype(np.int64) for name in asked])
    return _counted(run, asked, free, np.array([[amounts[name]] for name in asked], np.int64))


def _alone(found: Candidates) -> Mapping[str, int] | None:
    """Return the amounts that each host's only candidate takes of its root; None for any other."""
    requests = found.requests
    if not requests:
        return {}
    layout = requests[0].layout
    alone = all(one.layout is layout and one.uuids == (one.root_uuid,) for one in requests)
    once = len({one.root_uuid for one in requests}) == len(requests)
    return layout.amounts[0] if alone and once else None


def _counted(
    run: Run, asked: list[str], free: NDArray[np.int64], amounts: NDArray[np.int64]
) -> HostCounts:
    """Return what the hosts take; rows of ``free`` and ``amounts`` are classes, columns hosts."""
    hosts = run.hosts
    passing = run.chooser.passing(hosts, run.narrowed.spec)
    passed = {id(host) for host in passing.hosts}
    may = _where(id(host) in passed for host in hosts)
    times = (free // amounts).min(axis=0)
    # A filter from elsewhere may have left a host that passes without a candidate.
    placing = may & (times > 0) & _where(bool(candidates_of(host)) for host in hosts)
    instances = np.where(placing, times, 0)
    rest = free - instances * amounts
    stop_of: NDArray[np.int64] = (rest / amounts).argmin(axis=0)
    stops = [Stop(name, is_resource=True) for name in asked]
    refused = stops_of(passing)
    numbers: dict[Stop, int] = {}
    for row in np.flatnonzero(~may).tolist():
        stop = refused.get((hosts[row].host, hosts[row].nodename), Stop("candidates"))
        stop_of[row] = numbers.setdefault(stop, len(stops) + len(numbers))
    return HostCounts(
        hosts=[host.host for host in hosts],
        uuids=[host.uuid for host in hosts],
        instances=instances,
        stops=[*stops, *numbers],
        stop_of=stop_of,
        free={name: np.maximum(row, 0) for name, row in zip(asked, rest, strict=True)},
        left=((rest // amounts).min(axis=0) > 0).astype(np.int64),
    )


def _where(each: Iterable[bool]) -> NDArray[np.bool_]:
    return np.fromiter(each, np.bool_)
