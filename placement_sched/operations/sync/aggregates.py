"""Makes provider aggregates match host aggregates, as ``nova-manage placement sync_aggregates``.

Host aggregates are nova's, or kept here; provider aggregates are placement's and have the same
uuid. What is missing in placement is added. Stale members are reported, and removed if asked: nova
leaves them to operators, because it cannot know who added them.
"""

from collections.abc import Iterable

from placement_sched.errors import ServiceFailed
from placement_sched.model.placement.sync import Change, SyncCode
from placement_sched.operations import Progress
from placement_sched.operations.sync.run import Note, Placement, ReadHosts, SyncRun, by_name


def sync_aggregates(
    read_hosts: ReadHosts,
    placement: Placement,
    *,
    remove_stale: bool = False,
    note: Note = lambda _: None,
    progress: Progress = lambda _done, _all: None,
) -> SyncRun:
    """Put the root providers of aggregates' hosts into the provider aggregates.

    A host of several compute nodes is left as it is (nova's code 1), and a host that lacks a
    service, node or provider (4, 5, 6) does not prevent the others from being synchronised. A
    failing service ends it: if that is placement, the code is 2, and everything done before is
    reported; another raises :class:`ServiceFailed`. Raises :class:`Unavailable` if the database
    does not answer.
    """
    hosts = read_hosts()
    run = SyncRun(placement, hosts, note, progress)
    run.report_hosts(hosts.aggregates)
    several = [each.about for each in run.problems if each.code is SyncCode.SEVERAL_NODES]
    ambiguous = {uuid for host in several for uuid in hosts.nodes[host]}
    changes = []
    try:
        uuids = [aggregate.uuid for aggregate in hosts.aggregates]
        for differing in hosts.disagreements(placement.providers_with("aggregates", uuids)):
            uuid = differing.aggregate.uuid
            run.stale |= {(provider, uuid) for provider in differing.stale}
            changes.append(_change(uuid, differing.lacking - ambiguous, adding=True))
            if remove_stale:
                changes.append(_change(uuid, differing.stale, adding=False))
        run.change_all(changes)
        if run.added or run.removed:
            _undo_outdated(run, read_hosts)
    except ServiceFailed as failure:
        run.stop(failure)
    run.stale -= run.removed
    run.problems.sort()
    return run


def _undo_outdated(run: SyncRun, read_hosts: ReadHosts) -> None:
    """Undo changes that no longer match, as host aggregates may have changed since.

    A request that adds a host during the run finds its provider in the aggregate, if it is a stale
    member, and changes nothing; so a provider that was removed since has to be added again.
    """
    now = read_hosts()
    added, removed = by_name(run.added), by_name(run.removed)
    for uuid in [aggregate.uuid for aggregate in run.hosts.aggregates]:
        current = now.by_uuid(uuid)
        wanted = frozenset[str]() if current is None else now.nodes_in(current)
        if back := removed[uuid] & wanted:
            run.change(_change(uuid, back, adding=True))
        if gone := (added[uuid] & now.host_of.keys()) - wanted:
            run.change(_change(uuid, gone, adding=False))


def _change(aggregate: str, providers: Iterable[str], *, adding: bool) -> Change:
    return Change("aggregates", aggregate, dict.fromkeys(providers, aggregate), adding)
