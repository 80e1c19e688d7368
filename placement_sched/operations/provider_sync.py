# SPDX-License-Identifier: Apache-2.0
"""Synchronisation of placement aggregates and traits with host aggregates.

A host aggregate of nova or of this service and its provider aggregate in placement have the same
uuid. :func:`sync_aggregates` adds missing members to placement, like ``nova-manage placement
sync_aggregates``. Stale members, which are only in the provider aggregate, are reported, and are
removed on request. nova does not remove them, because an operator may have added them.

``trait:X=required`` on an aggregate excludes requests that do not require X (request filter
``forbidden_aggregates``). Requests that require X fit only if a provider has the trait. nova's spec
leaves adding the traits to a tool. :func:`sync_traits` is this tool. It records the traits that it
adds, and removes them when no aggregate requires them. It never removes other traits. A provider
that was deleted and created again counts as a new provider, whose traits stay.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from placement_sched.clients.placement import RemotePlacement
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import NotFound, ServiceFailed
from placement_sched.model.aggregates import (
    ChangeResult,
    HostAggregate,
    HostMap,
    ProviderChange,
    ProviderTrait,
    SyncCode,
    SyncedAttribute,
    SyncProblem,
    find_most_severe,
)
from placement_sched.model.clock import Clock
from placement_sched.model.grouping import split_batches
from placement_sched.model.names import suggest_name
from placement_sched.operations import Progress
from placement_sched.store import change_counters
from placement_sched.store.compute import host_aggregates
from placement_sched.store.placement import aggregates, resource_providers, traits

_ASSOCIATIONS = {"aggregates": aggregates.ASSOCIATIONS, "traits": traits.ASSOCIATIONS}
#: Callback that returns the host aggregates and hosts of nova or of this service.
ReadHosts = Callable[[], HostMap]
#: Callback for a line of output about each change.
Note = Callable[[str], None]
#: Placement API reference, "Traits": names of custom traits.
_CUSTOM_NAME = re.compile(r"CUSTOM_[A-Z0-9_]+")


def read_local_hosts(database: Database) -> HostMap:
    """Read the current host aggregates, hosts and nodes, in three statements."""
    with database.read() as connection:
        return host_aggregates.read_host_map(connection)


def map_required_pairs(
    hosts: HostMap, attribute: SyncedAttribute
) -> dict[tuple[str, str], list[str]]:
    """Map (provider uuid, trait or aggregate) pairs to requiring aggregates."""
    required: dict[tuple[str, str], list[str]] = defaultdict(list)
    for aggregate in hosts.aggregates:
        is_trait, nodes = attribute == "traits", hosts.list_nodes(aggregate)
        for name in aggregate.reserving_traits if is_trait else [aggregate.uuid]:
            for node in nodes:
                required[node, name].append(aggregate.uuid)
    return dict(required)


class LocalPlacement:
    """The providers in this database, with a record of the added traits.

    Each batch of changes is a transaction. With ``has_local_hosts``, the host aggregates are also
    in this database. A batch then locks them, and skips changes that no host aggregate requires any
    more.
    """

    #: A transaction of this size takes well under a second.
    batch = 2000
    has_record = True

    def __init__(self, database: Database, clock: Clock, *, has_local_hosts: bool) -> None:
        self._database, self._clock, self._has_local_hosts = database, clock, has_local_hosts

    def map_providers(
        self, attribute: SyncedAttribute, names: Collection[str]
    ) -> Mapping[str, frozenset[str]]:
        """Map each aggregate uuid or trait name to the uuids of its providers."""
        with self._database.read() as connection:
            return _ASSOCIATIONS[attribute].map_providers(connection, names)

    def find_existing_traits(self, names: Collection[str]) -> frozenset[str]:
        """Return the names of traits that exist."""
        with self._database.read() as connection:
            return frozenset(trait.name for trait in traits.list_by_names(connection, names))

    def create_trait(self, name: str) -> None:
        """Create a trait if it does not exist."""
        self._database.write(
            lambda connection: traits.add_missing(connection, [name], self._clock())
        )

    def find_existing_providers(self, providers: Collection[str]) -> frozenset[str]:
        """Return the uuids of providers that exist."""
        with self._database.read() as connection:
            return frozenset(resource_providers.map_by_uuid(connection, providers))

    def change(self, change: ProviderChange) -> ChangeResult:
        """Add or remove an aggregate or trait of providers, and record traits.

        A trait is recorded only for providers that lacked it. Only recorded traits are removed. A
        provider that was deleted and created again has no recorded traits.
        """

        def apply_change(connection: Connection) -> ChangeResult:
            attribute, name, providers, adding = change
            if self._has_local_hosts:
                change_counters.hold_version(connection, host_aggregates.SUBJECT)
                required = map_required_pairs(host_aggregates.read_host_map(connection), attribute)
                providers = {
                    uuid: required.get((uuid, name), [aggregate])[0]
                    for uuid, aggregate in providers.items()
                    if ((uuid, name) in required) is adding
                }
            existing = resource_providers.map_by_uuid(connection, providers)
            ids = {uuid: provider.id for uuid, provider in existing.items()}
            uuids = {id_: uuid for uuid, id_ in ids.items()}
            if attribute == "traits" and not adding:
                record = traits.read_synced(connection)
                uuids = {id_: uuid for id_, uuid in uuids.items() if (uuid, name) in record}
            association = _ASSOCIATIONS[attribute]
            write = association.add if adding else association.remove
            done = frozenset(uuids[id_] for id_ in write(connection, name, uuids, self._clock()))
            if attribute == "traits" and adding:
                pairs = {(uuid, name): providers[uuid] for uuid in done}
                traits.record_synced(connection, pairs, ids, self._clock())
            elif attribute == "traits":
                traits.forget_synced(connection, [(uuid, name) for uuid in providers])
            return ChangeResult(done, missing=frozenset(providers.keys() - ids.keys()))

        return self._database.write(apply_change)

    def read_record(self) -> dict[ProviderTrait, str]:
        """Map recorded (provider uuid, trait) pairs to uuids of aggregates."""
        with self._database.read() as connection:
            return traits.read_synced(connection)

    def update_record(
        self,
        new_aggregates: Mapping[ProviderTrait, str],
        removed_pairs: Collection[ProviderTrait],
        planned: Mapping[ProviderTrait, str],  # noqa: ARG002 - recorded with their changes
    ) -> None:
        """Update the record of the added traits.

        ``new_aggregates`` maps recorded pairs to the aggregates that require them now. The pairs in
        ``removed_pairs`` are removed. Every update also removes the pairs of deleted providers.
        """

        def write_record(connection: Connection) -> None:
            traits.forget_deleted_providers(connection)
            traits.rebind_synced(connection, new_aggregates, self._clock())
            traits.forget_synced(connection, removed_pairs)

        if new_aggregates or removed_pairs:
            self._database.write(write_record)


Placement = LocalPlacement | RemotePlacement


def group_by_name(pairs: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    """Map names to providers, given (provider uuid, name) pairs."""
    providers: dict[str, set[str]] = defaultdict(set)
    for provider, name in pairs:
        providers[name].add(provider)
    return providers


@dataclass
class SyncRun:
    """A synchronisation with its changes and problems.

    A dry run lists the changes that it would make. ``created`` are trait names. ``added``,
    ``removed`` and ``stale`` are pairs of a provider uuid and a trait name or aggregate uuid. A
    stale provider is in a provider aggregate, but its host is not in the host aggregate.
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
        """Return the exit code of the command, if possible nova-manage's."""
        return find_most_severe(self.problems)

    def change_all(self, changes: Iterable[ProviderChange]) -> None:
        """Make changes in batches of at most ``placement.batch`` providers."""
        parts = [
            change._replace(providers=dict(part))
            for change in changes
            for part in split_batches(sorted(change.providers.items()), self.placement.batch)
        ]
        total, done = sum(len(part.providers) for part in parts), 0
        for part in parts:
            self.change(part)
            done += len(part.providers)
            self.progress(done, total)

    def change(self, change: ProviderChange) -> None:
        """Make a change and record its result."""
        if self.dry_run:
            uuids = frozenset(change.providers)
            existing = self.placement.find_existing_providers(uuids) if change.adding else uuids
            changed = ChangeResult(existing, uuids - existing)
        else:
            changed = self.placement.change(change)
        pairs = self.added if change.adding else self.removed
        pairs.update((uuid, change.name) for uuid in changed.done)
        self._report(change, changed)

    def _report(self, change: ProviderChange, changed: ChangeResult) -> None:
        verb = "added to" if change.adding else "removed from"
        is_trait, aggregate = change.attribute == "traits", self.hosts.find_by_uuid(change.name)
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
        """Record a problem for each host that has no or several compute nodes."""
        for host in sorted({host for aggregate in aggregates for host in aggregate.hosts}):
            number = len(self.hosts.nodes.get(host, ()))
            if number > 1:
                code = SyncCode.SEVERAL_NODES
                detail = (
                    f"host {host} has {number} compute nodes, so the provider to change is "
                    "ambiguous. Use openstack resource provider aggregate set"
                )
            elif number == 0 and host in self.hosts.service_hosts:
                code, detail = SyncCode.NO_NODE, f"host {host} has a service, but no compute node"
            elif number == 0:
                code = SyncCode.HOST_UNKNOWN
                detail = f"host {host} has no service and no compute node"
            else:
                continue
            self.problems.append(SyncProblem(code, host, detail))

    def stop(self, failure: ServiceFailed) -> None:
        """Record a failure of placement, and raise that of another service."""
        if failure.service != "placement":
            raise failure
        self.problems.append(SyncProblem(SyncCode.PLACEMENT_FAILED, "placement", failure.detail))


def sync_aggregates(
    read_hosts: ReadHosts,
    placement: Placement,
    *,
    remove_stale: bool = False,
    note: Note = lambda _: None,
    progress: Progress = lambda _done, _all: None,
) -> SyncRun:
    """Add root providers of hosts to the provider aggregates of the hosts.

    A host with several compute nodes is skipped (exit code 1 of nova-manage). A host without
    service, node or provider is skipped too (4, 5, 6). A failure of placement stops the run with
    code 2, and the changes so far are reported. Raises :class:`ServiceFailed` if another service
    fails, and :class:`Unavailable` if the database is unavailable.
    """
    hosts = read_hosts()
    run = SyncRun(placement, hosts, note, progress)
    run.report_hosts(hosts.aggregates)
    ambiguous = {uuid for uuids in hosts.nodes.values() if len(uuids) > 1 for uuid in uuids}
    changes = []
    try:
        uuids = [aggregate.uuid for aggregate in hosts.aggregates]
        for differing in hosts.find_disagreements(placement.map_providers("aggregates", uuids)):
            uuid = differing.aggregate.uuid
            run.stale |= {(provider, uuid) for provider in differing.stale}
            changes.append(_change(uuid, differing.lacking - ambiguous, adding=True))
            if remove_stale:
                changes.append(_change(uuid, differing.stale, adding=False))
        run.change_all(changes)
    except ServiceFailed as failure:
        run.stop(failure)
    run.stale -= run.removed
    run.problems.sort()
    return run


def _change(aggregate: str, providers: Iterable[str], *, adding: bool) -> ProviderChange:
    return ProviderChange("aggregates", aggregate, dict.fromkeys(providers, aggregate), adding)


def sync_traits(
    read_hosts: ReadHosts,
    placement: Placement,
    *,
    aggregate: str | None = None,
    dry_run: bool = False,
    note: Note = lambda _: None,
    progress: Progress = lambda _done, _all: None,
) -> SyncRun:
    """Add the traits that aggregates require, and remove outdated traits.

    With ``aggregate``, a name, only the traits of this aggregate are added or removed. An unknown
    standard trait (exit code 7) and a host without provider (4, 5, 6) are skipped. A failure of
    placement stops the run with code 2, and the changes so far are reported. Raises
    :class:`ServiceFailed` if another service fails, :class:`NotFound` for an unknown aggregate, and
    :class:`Unavailable` if the database is unavailable.
    """
    hosts = read_hosts()
    scope = [each for each in hosts.aggregates if aggregate in {None, each.name}]
    if aggregate is not None and not scope:
        instead = suggest_name("aggregate", aggregate, [each.name for each in hosts.aggregates])
        raise NotFound(f"There is no host aggregate named {aggregate!r}{instead}")
    run = SyncRun(placement, hosts, note, progress, dry_run)
    run.report_hosts(each for each in scope if each.reserving_traits)
    # Every compute node of a host gets the trait, so several nodes are not a problem.
    run.problems = [each for each in run.problems if each.code is not SyncCode.SEVERAL_NODES]
    try:
        _synchronize(run, scope, everything=aggregate is None)
    except ServiceFailed as failure:
        run.stop(failure)
    run.problems = sorted(set(run.problems))
    return run


def _synchronize(run: SyncRun, scope: Collection[HostAggregate], *, everything: bool) -> None:
    hosts, placement, uuids = run.hosts, run.placement, {each.uuid for each in scope}
    required = map_required_pairs(hosts, "traits")
    record = {
        pair: aggregate
        for pair, aggregate in placement.read_record().items()
        if everything or aggregate in uuids
    }
    reserving_traits = {trait for each in scope for trait in each.reserving_traits}
    traits = reserving_traits | {trait for _, trait in record}
    existing = placement.find_existing_traits(traits) if traits else frozenset[str]()
    carriers = placement.map_providers("traits", existing)
    rejected = {name for name in reserving_traits - existing if not _CUSTOM_NAME.fullmatch(name)}
    lacking = {
        (provider, trait): next(uuid for uuid in requiring if uuid in uuids)
        for (provider, trait), requiring in required.items()
        if trait not in rejected and provider not in carriers.get(trait, ())
        if not uuids.isdisjoint(requiring)
    }
    outdated = record.keys() - required.keys() - _find_pairs_of_unlisted_nodes(hosts, record)
    required_elsewhere = _find_required_elsewhere(
        hosts, {pair: record[pair] for pair in outdated}, placement
    )
    outdated -= required_elsewhere.keys()
    carried = {(uuid, trait): "" for uuid, trait in outdated if uuid in carriers.get(trait, ())}
    new_aggregates = {
        pair: required[pair][0]
        for pair, aggregate in record.items()
        if pair in required and aggregate not in required[pair]
    }
    for name in sorted(rejected):
        requiring = ", ".join(each.name for each in scope if name in each.reserving_traits)
        detail = (
            f"trait {name}, required by aggregate {requiring}, does not exist and cannot be "
            "created: its name must be CUSTOM_ with capital letters, digits and underscores"
        )
        run.problems.append(SyncProblem(SyncCode.TRAIT_REJECTED, name, detail))
    run.problems += required_elsewhere.values()
    if not run.dry_run:
        placement.update_record(new_aggregates, outdated - carried.keys(), lacking)
    for trait in sorted(reserving_traits - existing - rejected):
        if not run.dry_run:
            placement.create_trait(trait)
            run.note(f"trait {trait} created")
        run.created.append(trait)
    run.change_all(
        ProviderChange("traits", trait, {uuid: pairs[uuid, trait] for uuid in providers}, adding)
        for pairs, adding in ((lacking, True), (carried, False))
        for trait, providers in sorted(group_by_name(pairs).items())
    )


def _find_pairs_of_unlisted_nodes(
    hosts: HostMap, record: Collection[ProviderTrait]
) -> set[ProviderTrait]:
    """Return recorded pairs whose provider may be an unlisted compute node.

    If a host has no node in the list of compute nodes, any provider that is not a listed node may
    be its node. Such a provider therefore keeps the traits that the host's aggregates require.
    """
    protected_traits = {
        trait
        for aggregate in hosts.aggregates
        if any(not hosts.nodes.get(host) for host in aggregate.hosts)
        for trait in aggregate.reserving_traits
    }
    return {pair for pair in record if pair[1] in protected_traits and pair[0] not in hosts.host_of}


def _find_required_elsewhere(
    hosts: HostMap, record: Mapping[ProviderTrait, str], placement: Placement
) -> dict[ProviderTrait, SyncProblem]:
    """Find recorded traits that an unlisted aggregate may require.

    Returns a problem for each recorded pair of provider and trait.

    Before an aggregate is deleted, its hosts and their providers are removed from it. An aggregate
    that is not listed, but still has the provider, was therefore not deleted. It belongs to another
    list, for example to the list of another nova.
    """
    unknown = set(record.values()) - {each.uuid for each in hosts.aggregates}
    members = placement.map_providers("aggregates", unknown)
    problems = {}
    for (provider, trait), aggregate in sorted(record.items()):
        if provider in members.get(aggregate, ()):
            host = hosts.host_of.get(provider, provider)
            detail = (
                f"trait {trait} is kept on host {host}: it was added for aggregate {aggregate}, "
                "which still has the provider, but is not in this list of host aggregates. Use the "
                "list that has the aggregate (--os-cloud, --compute-url), or remove the provider "
                "from the provider aggregate"
            )
            problems[provider, trait] = SyncProblem(SyncCode.AGGREGATE_UNKNOWN, host, detail)
    return problems
