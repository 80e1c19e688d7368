"""Makes provider aggregates match host aggregates, as ``nova-manage placement sync_aggregates``.

Host aggregates are nova's, or kept here; provider aggregates are placement's and have the same
uuid. What is missing in placement is added. What is too much is told, and removed if asked: nova
leaves that to operators, because it cannot know who put it there.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from placement_sched.errors import ServiceFailed
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.host_map import Disagreement, HostMap
from placement_sched.model.sync import Changed, Code, Problem, gravest
from placement_sched.operations.sync_ports import Directory, Note, Placement, Progress
from placement_sched.operations.sync_problems import hosts_without_provider, of_changes, stopped


@dataclass(frozen=True, slots=True)
class AggregateSync:
    """What was done to one aggregate, by provider uuid.

    ``stale`` belong to hosts outside of it and are still in; ``removed`` were, and were taken out.
    """

    aggregate: HostAggregate
    added: frozenset[str]
    removed: frozenset[str]
    stale: frozenset[str]


@dataclass(frozen=True, slots=True)
class AggregatesSynced:
    """What was done to all aggregates that were not as they should be, and what could not be."""

    hosts: HostMap
    aggregates: tuple[AggregateSync, ...]
    problems: tuple[Problem, ...]

    @property
    def code(self) -> Code:
        """nova-manage's return code."""
        return gravest(self.problems)


def sync_aggregates(
    directory: Directory,
    placement: Placement,
    *,
    remove_stale: bool = False,
    note: Note = lambda _: None,
    progress: Progress = lambda _done, _all: None,
) -> AggregatesSynced:
    """Put the root providers of aggregates' hosts into the provider aggregates; tell what was done.

    A host of several compute nodes is left as it is (nova's code 1), and one that lacks something
    (4, 5, 6) does not keep the others from being synchronised. A service that fails ends it: with
    placement that is code 2, and everything done before is told; another raises
    :class:`ServiceFailed`. Raises :class:`Unavailable` where the database does not answer.
    """
    hosts = directory.read()
    run = _Run(placement, hosts, note, progress)
    try:
        run.compare()
        run.mend(remove_stale=remove_stale)
        run.look_again(directory)
    except ServiceFailed as failure:
        run.problems.append(stopped(failure))
    return run.told()


class _Run:
    """One synchronisation under way: what is known, and what has been done."""

    def __init__(
        self, placement: Placement, hosts: HostMap, note: Note, progress: Progress
    ) -> None:
        self._placement = placement
        self._hosts = hosts
        self._note = note
        self._progress = progress
        self._differing: tuple[Disagreement, ...] = ()
        self._added: dict[str, set[str]] = {one.uuid: set() for one in hosts.aggregates}
        self._removed: dict[str, set[str]] = {one.uuid: set() for one in hosts.aggregates}
        several, lacking = hosts_without_provider(hosts, hosts.aggregates)
        self.problems: list[Problem] = [*several, *lacking]
        self._left_alone = {uuid for problem in several for uuid in hosts.nodes[problem.about]}

    def compare(self) -> None:
        """Find the aggregates that are not as they should be."""
        members = self._placement.members([one.uuid for one in self._hosts.aggregates])
        self._differing = tuple(self._hosts.disagreements(members))

    def mend(self, *, remove_stale: bool) -> None:
        """Put in what is lacking, and take out what is stale if that is asked."""
        work = list(self._work(remove_stale=remove_stale))
        total, done = sum(len(batch) for _, batch, _ in work), 0
        for aggregate, batch, joining in work:
            self._change(aggregate, batch, joining=joining)
            done += len(batch)
            self._progress(done, total)

    def look_again(self, directory: Directory) -> None:
        """Undo what host aggregates that changed meanwhile do not ask for any more.

        Whoever adds a host just then finds its provider in the aggregate, if it is a stale one,
        and changes nothing; so what was removed under his hands has to be put back.
        """
        if not any(self._added.values()) and not any(self._removed.values()):
            return
        now = directory.read()
        for aggregate in self._hosts.aggregates:
            found = now.by_uuid(aggregate.uuid)
            wanted = frozenset[str]() if found is None else now.nodes_in(found)
            if back := self._removed[aggregate.uuid] & wanted:
                self._change(aggregate, back, joining=True)
            gone = (self._added[aggregate.uuid] & now.host_of.keys()) - wanted
            if gone:
                self._change(aggregate, gone, joining=False)

    def told(self) -> AggregatesSynced:
        """Return what was done."""
        synced = tuple(
            AggregateSync(
                one.aggregate,
                added=frozenset(self._added[one.aggregate.uuid]),
                removed=frozenset(self._removed[one.aggregate.uuid]),
                stale=one.stale - self._removed[one.aggregate.uuid],
            )
            for one in self._differing
        )
        kept = tuple(one for one in synced if one.added or one.removed or one.stale)
        return AggregatesSynced(self._hosts, kept, tuple(sorted(self.problems)))

    def _work(self, *, remove_stale: bool) -> Iterator[tuple[HostAggregate, list[str], bool]]:
        for one in self._differing:
            for batch in self._batches(one.lacking - self._left_alone):
                yield one.aggregate, batch, True
            for batch in self._batches(one.stale if remove_stale else ()):
                yield one.aggregate, batch, False

    def _batches(self, providers: Collection[str]) -> Iterator[list[str]]:
        ordered, size = sorted(providers), self._placement.batch
        for start in range(0, len(ordered), size):
            yield ordered[start : start + size]

    def _change(
        self, aggregate: HostAggregate, providers: Collection[str], *, joining: bool
    ) -> None:
        change = self._placement.join if joining else self._placement.leave
        changed = change(aggregate.uuid, providers)
        mine, other = (self._added, self._removed) if joining else (self._removed, self._added)
        undone = changed.done & other[aggregate.uuid]
        mine[aggregate.uuid] |= changed.done - undone
        other[aggregate.uuid] -= undone
        self._tell(aggregate, changed, "added to" if joining else "removed from")

    def _tell(self, aggregate: HostAggregate, changed: Changed, done: str) -> None:
        for uuid in sorted(changed.done, key=self._named):
            self._note(f"{self._named(uuid)} (provider {uuid}) {done} {aggregate.name}")
        self.problems.extend(of_changes(changed, self._named, f"aggregate {aggregate.name}"))

    def _named(self, provider: str) -> str:
        return self._hosts.host_of.get(provider, provider)
