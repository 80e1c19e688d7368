"""What synchronising aggregates and traits shares: batches of changes, and what prevents them."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from placement_sched.errors import ServiceFailed
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.placement.sync import (
    Change,
    Changed,
    HostMap,
    SyncCode,
    SyncProblem,
    gravest,
)
from placement_sched.operations import Progress
from placement_sched.operations.sync.own_placement import OwnPlacement
from placement_sched.remote.placement import RemotePlacement

#: Returns host aggregates and hosts as they are now, of nova or of this service.
ReadHosts = Callable[[], HostMap]
Placement = OwnPlacement | RemotePlacement
#: Called with a line about each change.
Note = Callable[[str], None]


def by_name(pairs: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Return the providers of pairs by trait or aggregate; an absent name has none."""
    providers: dict[str, set[str]] = defaultdict(set)
    for provider, name in pairs:
        providers[name].add(provider)
    return providers


@dataclass
class SyncRun:
    """A synchronisation and its result: what was changed, and what could not be.

    For a dry run it is what would be changed. ``created`` are traits. ``added``, ``removed`` and
    ``stale`` (providers still in an aggregate that does not have their host) are pairs of a
    provider's uuid and a trait or the uuid of an aggregate.
    """

    placement: Placement
    hosts: HostMap
    note: Note
    progress: Progress
    dry_run: bool = False
    problems: list[SyncProblem] = field(default_factory=list)
    created: list[str] = field(default_factory=list)
    added: set[tuple[str, str]] = field(default_factory=set)
    removed: set[tuple[str, str]] = field(default_factory=set)
    stale: set[tuple[str, str]] = field(default_factory=set)

    @property
    def code(self) -> SyncCode:
        """The return code, nova-manage's if it has that code."""
        return gravest(self.problems)

    def change_all(self, changes: Iterable[Change]) -> None:
        """Make changes in batches of the size that placement takes."""
        size, batches = self.placement.batch, []
        for change in changes:
            ordered = sorted(change.providers.items())
            batches += [
                change._replace(providers=dict(ordered[start : start + size]))
                for start in range(0, len(ordered), size)
            ]
        total, done = sum(len(batch.providers) for batch in batches), 0
        for batch in batches:
            self.change(batch)
            done += len(batch.providers)
            self.progress(done, total)

    def change(self, change: Change) -> None:
        """Make a change, and keep what was done and what was not."""
        if self.dry_run:
            existing = self.placement.existing(change.providers)
            changed = Changed(existing, frozenset(change.providers.keys() - existing))
        else:
            changed = self.placement.change(change)
        pairs = {(uuid, change.name) for uuid in changed.done}
        mine, other = (self.added, self.removed) if change.adding else (self.removed, self.added)
        mine |= pairs - other
        other -= pairs
        self._report(change, changed)

    def _report(self, change: Change, changed: Changed) -> None:
        """Note each change as a line, and what could not be changed as a problem."""
        verb, is_trait = (
            "added to" if change.adding else "removed from",
            change.attribute == "traits",
        )
        aggregate = self.hosts.by_uuid(change.name)
        label = aggregate.name if aggregate else change.name
        host_of = {uuid: self.hosts.host_of.get(uuid, uuid) for uuid in change.providers}
        for uuid in sorted(() if self.dry_run else changed.done, key=host_of.__getitem__):
            provider = f"{host_of[uuid]} (provider {uuid})"
            self.note(
                f"trait {label} {verb} {provider}" if is_trait else f"{provider} {verb} {label}"
            )
        # A deleted provider has lost its traits too.
        for uuid in changed.missing if change.adding or not is_trait else ():
            detail = (
                f"host {host_of[uuid]} has no resource provider: there is none with uuid {uuid} in "
                "placement"
            )
            self.problems.append(SyncProblem(SyncCode.NO_PROVIDER, host_of[uuid], detail))
        label = f"{'trait' if is_trait else 'aggregate'} {label}"
        for uuid, reason in changed.failed.items():
            detail = (
                f"host {host_of[uuid]} (provider {uuid}) could not be changed for {label}: {reason}"
            )
            self.problems.append(SyncProblem(SyncCode.UPDATE_FAILED, host_of[uuid], detail))

    def report_hosts(self, aggregates: Iterable[HostAggregate]) -> None:
        """Record which hosts of aggregates have several compute nodes, and which have none."""
        for host in sorted({host for aggregate in aggregates for host in aggregate.hosts}):
            number = len(self.hosts.nodes.get(host, ()))
            if number > 1:
                code = SyncCode.SEVERAL_NODES
                detail = (
                    f"host {host} has {number} compute nodes, and which of their providers is "
                    "meant is ambiguous; use openstack resource provider aggregate set"
                )
            elif number == 0 and host in self.hosts.known:
                code, detail = SyncCode.NO_NODE, f"host {host} has a service, but no compute node"
            elif number == 0:
                code = SyncCode.HOST_UNKNOWN
                detail = f"host {host} has no service and no compute node"
            else:
                continue
            self.problems.append(SyncProblem(code, host, detail))

    def stop(self, failure: ServiceFailed) -> None:
        """Record that placement failed; raise the failure of any other service again."""
        if failure.service != "placement":
            raise failure
        problem = SyncProblem(SyncCode.PLACEMENT_FAILED, "placement", failure.detail)
        self.problems.append(problem)
