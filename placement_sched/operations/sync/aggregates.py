"""Makes provider aggregates match host aggregates, as ``nova-manage placement sync_aggregates``.

Host aggregates are nova's, or kept here; provider aggregates are placement's and have the same
uuid. What is missing in placement is added. Stale members are reported, and removed if asked: nova
leaves them to operators, because it cannot know who added them.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from placement_sched.errors import ServiceFailed
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.placement.sync import (
    Disagreement,
    HostMap,
    SyncCode,
    SyncProblem,
    gravest,
)
from placement_sched.operations import Progress
from placement_sched.operations.sync import ports


@dataclass(frozen=True, slots=True)
class AggregateSync:
    """What was done to an aggregate; ``stale`` providers do not belong to it and are still in."""

    aggregate: HostAggregate
    added: frozenset[str]
    removed: frozenset[str]
    stale: frozenset[str]


@dataclass(frozen=True, slots=True)
class AggregatesSynced:
    """What was done to all aggregates that were not as they should be, and what could not be."""

    hosts: HostMap
    aggregates: tuple[AggregateSync, ...]
    problems: tuple[SyncProblem, ...]

    @property
    def code(self) -> SyncCode:
        """nova-manage's return code."""
        return gravest(self.problems)


def sync_aggregates(
    directory: ports.Directory,
    placement: ports.Placement,
    *,
    remove_stale: bool = False,
    note: ports.Note = lambda _: None,
    progress: Progress = lambda _done, _all: None,
) -> AggregatesSynced:
    """Put the root providers of aggregates' hosts into the provider aggregates.

    A host of several compute nodes is left as it is (nova's code 1), and one that lacks something
    (4, 5, 6) does not keep the others from being synchronised. A service that fails ends it: with
    placement that is code 2, and everything done before is reported; another raises
    :class:`ServiceFailed`. Raises :class:`Unavailable` where the database does not answer.
    """
    hosts = directory.read()
    several, lacking = ports.hosts_without_provider(hosts, hosts.aggregates)
    run = _Run(placement, hosts, note, progress, [*several, *lacking])
    left_alone = {uuid for problem in several for uuid in hosts.nodes[problem.about]}
    differing: list[Disagreement] = []
    try:
        members = placement.members([one.uuid for one in hosts.aggregates])
        differing += hosts.disagreements(members)
        run.mend(differing, left_alone, remove_stale=remove_stale)
        run.look_again(directory)
    except ServiceFailed as failure:
        run.problems.append(ports.stopped(failure))
    synced = tuple(
        AggregateSync(
            one.aggregate,
            added=frozenset(run.added[one.aggregate.uuid]),
            removed=frozenset(run.removed[one.aggregate.uuid]),
            stale=one.stale - run.removed[one.aggregate.uuid],
        )
        for one in differing
    )
    kept = tuple(one for one in synced if one.added or one.removed or one.stale)
    return AggregatesSynced(hosts, kept, tuple(sorted(run.problems)))


@dataclass
class _Run(ports.SyncRun):
    """What has been done, as uuids of providers by that of the aggregate."""

    added: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    removed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def mend(
        self, differing: Iterable[Disagreement], left_alone: Collection[str], *, remove_stale: bool
    ) -> None:
        """Put in what is lacking, and take out what is stale if that is asked."""
        work: list[tuple[HostAggregate, list[str], bool]] = []
        for one in differing:
            lacking = self.batches(one.lacking.difference(left_alone))
            work += [(one.aggregate, batch, True) for batch in lacking]
            stale = self.batches(one.stale if remove_stale else ())
            work += [(one.aggregate, batch, False) for batch in stale]
        total, done = sum(len(batch) for _, batch, _ in work), 0
        for aggregate, batch, joining in work:
            self._change(aggregate, batch, joining=joining)
            done += len(batch)
            self.progress(done, total)

    def look_again(self, directory: ports.Directory) -> None:
        """Undo changes that no longer match, as host aggregates may have changed meanwhile.

        A request that adds a host just then finds its provider in the aggregate, if it is a stale
        one, and changes nothing; so what was removed meanwhile has to be added again.
        """
        if not any(self.added.values()) and not any(self.removed.values()):
            return
        now = directory.read()
        for aggregate in self.hosts.aggregates:
            found = now.by_uuid(aggregate.uuid)
            wanted = frozenset[str]() if found is None else now.nodes_in(found)
            if back := self.removed[aggregate.uuid] & wanted:
                self._change(aggregate, back, joining=True)
            if gone := (self.added[aggregate.uuid] & now.host_of.keys()) - wanted:
                self._change(aggregate, gone, joining=False)

    def _change(self, aggregate: HostAggregate, uuids: Collection[str], *, joining: bool) -> None:
        change = self.placement.join if joining else self.placement.leave
        changed = change(aggregate.uuid, uuids)
        mine, other = (self.added, self.removed) if joining else (self.removed, self.added)
        undone = changed.done & other[aggregate.uuid]
        mine[aggregate.uuid] |= changed.done - undone
        other[aggregate.uuid] -= undone
        done = f" {'added to' if joining else 'removed from'} {aggregate.name}"
        self.report(changed, f"aggregate {aggregate.name}", after=done)
