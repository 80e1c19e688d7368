"""Adds the traits that aggregate metadata require to the providers of the aggregates' hosts.

``trait:X=required`` on an aggregate excludes requests that do not require X (request filter
``forbidden_aggregates``); those that do fit only where a provider has the trait. nova does not add
it: the spec leaves that to operators, or to a utility tool, which this is.

It records the traits that it adds and removes them when no aggregate requires them. Other traits
it never removes; nor those that were added to a provider that was recreated.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby

from placement_sched.errors import NotFound, ServiceFailed
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.naming import suggested
from placement_sched.model.placement.sync import (
    Changed,
    HostMap,
    ProviderTrait,
    SyncCode,
    SyncProblem,
    gravest,
)
from placement_sched.operations import Progress
from placement_sched.operations.sync import ports

#: Placement API reference, "Traits": what a trait of an operator's own is named.
_CUSTOM_NAME = re.compile(r"CUSTOM_[A-Z0-9_]+")


@dataclass(frozen=True, slots=True)
class _TraitPlan:
    """What is to be done; pairs are of provider uuid and trait.

    ``put`` and ``rebound`` have the uuid of the aggregate that requires it: rebound ones were put
    for another, which does not require it any more. ``forgotten`` are no longer on their providers,
    the providers of ``outlived`` are gone. ``refused`` are the problems: traits that cannot be
    created, and those that stay because another list of host aggregates may ask for them.
    """

    created: tuple[str, ...]
    put: Mapping[ProviderTrait, str]
    taken_off: frozenset[ProviderTrait]
    rebound: Mapping[ProviderTrait, str]
    forgotten: frozenset[ProviderTrait]
    outlived: frozenset[ProviderTrait]
    refused: tuple[SyncProblem, ...]


def _make_plan(
    hosts: HostMap,
    scope: Collection[HostAggregate],
    placement: ports.Placement,
    *,
    everything: bool,
) -> _TraitPlan:
    """Plan for aggregates in ``scope``; with ``everything``, also what was put for those gone."""
    found = placement.put_there()
    uuids = {one.uuid for one in scope}
    record = {pair: of for pair, of in found.pairs.items() if everything or of in uuids}
    asked = {trait for one in scope for trait in one.reserving_traits}
    named = asked | {trait for _, trait in record}
    known = placement.known_traits(named) if named else frozenset[str]()
    carriers = placement.carriers(known) if known else {}
    refused = {name for name in asked - known if not _CUSTOM_NAME.fullmatch(name)}
    wanted = ports.wanted_traits(hosts, scope)
    missing = {
        (provider, trait): aggregate
        for (provider, trait), aggregate in wanted.items()
        if trait not in refused and provider not in carriers.get(trait, ())
    }
    by_anyone = ports.wanted_traits(hosts)
    over = record.keys() - by_anyone.keys() - _out_of_sight(hosts, record)
    elsewhere = _asked_elsewhere(hosts, {pair: record[pair] for pair in over}, placement)
    over -= elsewhere.keys()
    carried = {(uuid, trait) for uuid, trait in over if uuid in carriers.get(trait, ())}
    return _TraitPlan(
        created=tuple(sorted(asked - known - refused)),
        put=missing,
        taken_off=frozenset(carried),
        rebound=_rebound(hosts, record, by_anyone),
        forgotten=frozenset(over - carried),
        outlived=found.outlived,
        refused=(*_refusals(scope, refused), *_kept(hosts, elsewhere)),
    )


def _out_of_sight(hosts: HostMap, record: Collection[ProviderTrait]) -> frozenset[ProviderTrait]:
    """Return the recorded pairs that may still be required, though no host has their providers.

    Only the list of compute nodes says whose provider it is. Where a host of an asking aggregate
    has none in it, a provider that is not in it either may be that host's.
    """
    hidden = {
        trait
        for one in hosts.aggregates
        if any(not hosts.nodes.get(host) for host in one.hosts)
        for trait in one.reserving_traits
    }
    return frozenset(
        (provider, trait)
        for provider, trait in record
        if trait in hidden and provider not in hosts.host_of
    )


def _asked_elsewhere(
    hosts: HostMap, record: Mapping[ProviderTrait, str], placement: ports.Placement
) -> dict[ProviderTrait, str]:
    """Return the recorded pairs that an aggregate of another list may require.

    A host leaves an aggregate, and its provider the provider aggregate, before the aggregate is
    deleted. So one that is not in the list, and in which the provider still is, was not deleted: it
    is in the list that another run followed.
    """
    unknown = {uuid for uuid in record.values() if hosts.by_uuid(uuid) is None}
    members = placement.members(unknown) if unknown else {}
    return {
        (provider, trait): aggregate
        for (provider, trait), aggregate in record.items()
        if provider in members.get(aggregate, ())
    }


def _kept(hosts: HostMap, elsewhere: Mapping[ProviderTrait, str]) -> Iterator[SyncProblem]:
    for (provider, trait), aggregate in sorted(elsewhere.items()):
        host = hosts.host_of.get(provider, provider)
        detail = (
            f"trait {trait} is kept on host {host}: it was added for aggregate {aggregate}, "
            "which is not in this list of host aggregates, though the provider is still in it. "
            "Use the list that has it (--os-cloud, --compute-url), or remove the "
            "provider from the provider aggregate"
        )
        yield SyncProblem(SyncCode.AGGREGATE_UNKNOWN, host, detail)


def _rebound(
    hosts: HostMap, record: Mapping[ProviderTrait, str], by_anyone: Mapping[ProviderTrait, str]
) -> dict[ProviderTrait, str]:
    asking = {
        one.uuid: ports.wanted_traits(hosts, [one]).keys()
        for one in hosts.aggregates
        if one.reserving_traits
    }
    return {
        pair: by_anyone[pair]
        for pair, aggregate in record.items()
        if pair in by_anyone and pair not in asking.get(aggregate, ())
    }


def _refusals(scope: Iterable[HostAggregate], refused: Collection[str]) -> Iterable[SyncProblem]:
    for name in sorted(refused):
        asking = ", ".join(one.name for one in scope if name in one.reserving_traits)
        detail = (
            f"trait {name}, required by aggregate {asking}, does not exist and cannot be created: "
            "only names of CUSTOM_ and capital letters, digits and underscores can be"
        )
        yield SyncProblem(SyncCode.TRAIT_REFUSED, name, detail)


@dataclass(frozen=True, slots=True)
class TraitsSynced:
    """What was done, as pairs of provider uuid and trait, and what could not be.

    Of a dry run it is what would be done. ``remembers`` is false where there is no record of what
    was put, so that nothing is ever taken off.
    """

    hosts: HostMap
    created: tuple[str, ...] = ()
    put: frozenset[ProviderTrait] = frozenset()
    taken_off: frozenset[ProviderTrait] = frozenset()
    problems: tuple[SyncProblem, ...] = ()
    remembers: bool = True
    dry_run: bool = False

    @property
    def code(self) -> SyncCode:
        """The return code: nova-manage's where it has one for it."""
        return gravest(self.problems)


def sync_traits(
    directory: ports.Directory,
    placement: ports.Placement,
    *,
    aggregate: str | None = None,
    dry_run: bool = False,
    note: ports.Note = lambda _: None,
    progress: Progress = lambda _done, _all: None,
) -> TraitsSynced:
    """Add the traits that aggregates require, and remove those that none requires any more.

    With ``aggregate``, a name, only what that one asks for is put, and only what was put for it
    is taken off. A dry run changes nothing. An unknown standard trait (code 7) and a host without
    provider (4, 5, 6) do not keep the others from being synchronised. A service that fails ends it:
    with placement that is code 2, and everything done before is reported; another raises
    :class:`ServiceFailed`. Raises :class:`NotFound` for an aggregate that is not there, and
    :class:`Unavailable` where the database does not answer.
    """
    hosts = directory.read()
    scope = [one for one in hosts.aggregates if aggregate in {None, one.name}]
    if aggregate is not None and not scope:
        known = [one.name for one in hosts.aggregates]
        instead = suggested("aggregate", aggregate, known)
        raise NotFound(f"There is no host aggregate named {aggregate!r}{instead}")
    _, lacking = ports.hosts_without_provider(hosts, [one for one in scope if one.reserving_traits])
    run = _Run(placement, hosts, note, progress, lacking)
    try:
        plan = _make_plan(hosts, scope, placement, everything=aggregate is None)
        run.problems.extend(plan.refused)
        if dry_run:
            run.pretend(plan)
        else:
            run.carry_out(plan)
    except ServiceFailed as failure:
        run.problems.append(ports.stopped(failure))
    return TraitsSynced(
        hosts=hosts,
        created=tuple(run.created),
        put=frozenset(run.put),
        taken_off=frozenset(run.taken_off),
        problems=tuple(sorted(set(run.problems))),
        remembers=placement.remembers,
        dry_run=dry_run,
    )


@dataclass
class _Run(ports.SyncRun):
    """What has been done."""

    created: list[str] = field(default_factory=list)
    put: set[ProviderTrait] = field(default_factory=set)
    taken_off: set[ProviderTrait] = field(default_factory=set)

    def pretend(self, plan: _TraitPlan) -> None:
        """Record the plan as done; missing providers are reported as when it is carried out."""
        self.created.extend(plan.created)
        asked = {provider for provider, _ in plan.put}
        found = self.placement.existing(asked) if asked else frozenset[str]()
        self.put.update(pair for pair in plan.put if pair[0] in found)
        self.report(Changed(missing=frozenset(asked - found)), "traits")
        self.taken_off.update(plan.taken_off)

    def carry_out(self, plan: _TraitPlan) -> None:
        """Remove from the record what is no longer true, then add traits, then remove others."""
        self.placement.settle(plan.outlived)
        for trait in plan.created:
            self.placement.create_trait(trait)
            self.created.append(trait)
            self.note(f"trait {trait} created")
        total, done = len(plan.put) + len(plan.taken_off), 0
        for trait, batch in self._batches(plan.put):
            asking = {provider: plan.put[provider, trait] for provider in batch}
            self._keep(self.placement.put_on(trait, asking), trait, self.put, "added to")
            done += len(batch)
            self.progress(done, total)
        for trait, batch in self._batches(plan.taken_off):
            changed = self.placement.take_off(trait, batch)
            # A provider that is gone has lost its traits as well.
            self._keep(replace(changed, missing=frozenset()), trait, self.taken_off, "removed from")
            done += len(batch)
            self.progress(done, total)
        if plan.rebound:
            self.placement.remember(plan.rebound)
        if plan.forgotten:
            self.placement.forget(plan.forgotten)

    def _keep(self, changed: Changed, trait: str, kept: set[ProviderTrait], done: str) -> None:
        kept.update((uuid, trait) for uuid in changed.done)
        self.report(changed, f"trait {trait}", before=f"trait {trait} {done} ")

    def _batches(self, pairs: Iterable[ProviderTrait]) -> Iterator[tuple[str, list[str]]]:
        ordered = sorted(pairs, key=lambda pair: pair[1])
        for trait, some in groupby(ordered, key=lambda pair: pair[1]):
            for batch in self.batches(provider for provider, _ in some):
                yield trait, batch
