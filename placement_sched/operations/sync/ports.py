"""What synchronising reads and changes, and what can keep it from doing so."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from placement_sched.errors import ServiceFailed
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.placement import sync
from placement_sched.operations import Progress

#: Called with a line about each change.
Note = Callable[[str], None]


class Directory(Protocol):
    """Where host aggregates and hosts are kept: nova, or this service's compute API."""

    def read(self) -> sync.HostMap:
        """Return them as they are now; raises :class:`ServiceFailed`, :class:`Unavailable`."""


class Placement(Protocol):
    """Where providers, their aggregates and their traits are kept.

    Each method raises :class:`ServiceFailed` or :class:`Unavailable` where nothing can be done at
    all. A change of one provider that others change at the same moment is tried again.
    """

    #: How many providers are changed at most between two reports of progress.
    batch: int

    def members(self, aggregates: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the uuids of the providers in each of these aggregates."""

    def join(self, aggregate: str, providers: Collection[str]) -> sync.Changed:
        """Put providers into an aggregate."""

    def leave(self, aggregate: str, providers: Collection[str]) -> sync.Changed:
        """Take providers out of an aggregate."""

    def known_traits(self, names: Collection[str]) -> frozenset[str]:
        """Return which of these traits there are."""

    def create_trait(self, name: str) -> None:
        """Make a ``CUSTOM_`` trait, unless it is there."""

    def carriers(self, traits: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the uuids of the providers that have each of these traits, which there are."""

    def existing(self, providers: Collection[str]) -> frozenset[str]:
        """Return which of these providers there are."""

    def put_on(self, trait: str, providers: Mapping[str, str]) -> sync.Changed:
        """Add a trait to providers, and keep the record that it was put there.

        ``providers`` has the uuid of the aggregate that requires it, by provider. Of those that
        have it already no record is made: it is not ours.
        """

    def take_off(self, trait: str, providers: Collection[str]) -> sync.Changed:
        """Remove a trait from providers known to be those it was put on, and from the record."""

    @property
    def remembers(self) -> bool:
        """Whether there is a record of added traits, without which none is removed."""

    def put_there(self) -> sync.TraitRecord:
        """Return the record of added traits."""

    def settle(self, outlived: Collection[sync.ProviderTrait]) -> None:
        """Remove the pairs of deleted providers from the record, as it was read."""

    def remember(self, pairs: Mapping[sync.ProviderTrait, str]) -> None:
        """Record another aggregate for these pairs."""

    def forget(self, pairs: Collection[sync.ProviderTrait]) -> None:
        """Remove these pairs from the record."""


def wanted_traits(
    hosts: sync.HostMap, scope: Iterable[HostAggregate] | None = None
) -> dict[sync.ProviderTrait, str]:
    """Return the uuid of the aggregate that requires each trait on each provider.

    Of several that require the same it is the first. ``aggregates`` are all of them, unless given.
    """
    wanted: dict[sync.ProviderTrait, str] = {}
    for aggregate in hosts.aggregates if scope is None else scope:
        nodes = hosts.nodes_in(aggregate)
        for trait in aggregate.reserving_traits:
            for node in nodes:
                wanted.setdefault((node, trait), aggregate.uuid)
    return wanted


def hosts_without_provider(
    hosts: sync.HostMap, aggregates: Iterable[HostAggregate]
) -> tuple[list[sync.SyncProblem], list[sync.SyncProblem]]:
    """Return which hosts of aggregates have several compute nodes, and which have none."""
    several, lacking = [], []
    for host in sorted({host for one in aggregates for host in one.hosts}):
        number = len(hosts.nodes.get(host, ()))
        if number > 1:
            detail = (
                f"host {host} has {number} compute nodes, and which of their providers is "
                "meant is ambiguous; use openstack resource provider aggregate set"
            )
            several.append(sync.SyncProblem(sync.SyncCode.SEVERAL_NODES, host, detail))
        elif number == 0 and host in hosts.known:
            detail = f"host {host} has a service, but no compute node"
            lacking.append(sync.SyncProblem(sync.SyncCode.NO_NODE, host, detail))
        elif number == 0:
            detail = f"host {host} has no service and no compute node"
            lacking.append(sync.SyncProblem(sync.SyncCode.HOST_UNKNOWN, host, detail))
    return several, lacking


@dataclass
class SyncRun:
    """One synchronisation under way: what it works on, and what could not be done."""

    placement: Placement
    hosts: sync.HostMap
    note: Note
    progress: Progress
    problems: list[sync.SyncProblem]

    def named(self, provider: str) -> str:
        """Return the host of a provider, or its uuid where it has none."""
        return self.hosts.host_of.get(provider, provider)

    def report(self, changed: sync.Changed, what: str, before: str = "", after: str = "") -> None:
        """Note each change as a line, and what kept ``what`` from being changed as a problem."""
        for uuid in sorted(changed.done, key=self.named):
            self.note(f"{before}{self.named(uuid)} (provider {uuid}){after}")
        for uuid in changed.missing:
            host = self.named(uuid)
            detail = (
                f"host {host} has no resource provider: there is none with uuid {uuid} in placement"
            )
            self.problems.append(sync.SyncProblem(sync.SyncCode.NO_PROVIDER, host, detail))
        for uuid, reason in changed.failed.items():
            host = self.named(uuid)
            detail = f"host {host} (provider {uuid}) could not be changed for {what}: {reason}"
            self.problems.append(sync.SyncProblem(sync.SyncCode.UPDATE_FAILED, host, detail))

    def batches(self, providers: Iterable[str]) -> Iterator[list[str]]:
        """Yield providers in order, as many at a time as placement changes."""
        ordered, size = sorted(providers), self.placement.batch
        for start in range(0, len(ordered), size):
            yield ordered[start : start + size]


def stopped(failure: ServiceFailed) -> sync.SyncProblem:
    """Return that placement failed; raise the failure again where it is another service's."""
    if failure.service != "placement":
        raise failure
    return sync.SyncProblem(sync.SyncCode.PLACEMENT_FAILED, "placement", failure.detail)
