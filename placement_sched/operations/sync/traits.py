"""Adds the traits that aggregate metadata require to the providers of the aggregates' hosts.

``trait:X=required`` on an aggregate excludes requests that do not require X (request filter
``forbidden_aggregates``); those that do fit only if a provider has the trait. nova does not add
it: the spec leaves that to operators, or to a utility tool, which this is.

It records the traits that it adds and removes them when no aggregate requires them. Other traits
it never removes, nor traits that were added to a provider that was recreated.
"""

import re
from collections.abc import Collection, Iterable, Mapping

from placement_sched.errors import NotFound, ServiceFailed
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.naming import suggested
from placement_sched.model.placement.sync import (
    Change,
    HostMap,
    ProviderTrait,
    SyncCode,
    SyncProblem,
)
from placement_sched.operations import Progress
from placement_sched.operations.sync.own_placement import required_traits
from placement_sched.operations.sync.run import Note, Placement, ReadHosts, SyncRun, by_name

#: Placement API reference, "Traits": what a trait of an operator's own is named.
_CUSTOM_NAME = re.compile(r"CUSTOM_[A-Z0-9_]+")


def sync_traits(
    read_hosts: ReadHosts,
    placement: Placement,
    *,
    aggregate: str | None = None,
    dry_run: bool = False,
    note: Note = lambda _: None,
    progress: Progress = lambda _done, _all: None,
) -> SyncRun:
    """Add the traits that aggregates require, and remove those that none requires any more.

    With ``aggregate``, a name, only traits that it requires are added, and only traits that were
    added for it are removed. A dry run changes nothing. An unknown standard trait (code 7) and a
    host without provider (4, 5, 6) do not prevent the others from being synchronised. A failing
    service ends it: if that is placement, the code is 2, and everything done before is reported;
    another raises :class:`ServiceFailed`. Raises :class:`NotFound` for an unknown aggregate, and
    :class:`Unavailable` if the database does not answer.
    """
    hosts = read_hosts()
    scope = [each for each in hosts.aggregates if aggregate in {None, each.name}]
    if aggregate is not None and not scope:
        instead = suggested("aggregate", aggregate, [each.name for each in hosts.aggregates])
        raise NotFound(f"There is no host aggregate named {aggregate!r}{instead}")
    run = SyncRun(placement, hosts, note, progress, dry_run)
    run.report_hosts(each for each in scope if each.reserving_traits)
    # Every compute node of a host gets the trait, so several are not a problem.
    run.problems = [each for each in run.problems if each.code is not SyncCode.SEVERAL_NODES]
    try:
        _synchronise(run, scope, everything=aggregate is None)
    except ServiceFailed as failure:
        run.stop(failure)
    run.problems = sorted(set(run.problems))
    return run


def _synchronise(run: SyncRun, scope: Collection[HostAggregate], *, everything: bool) -> None:
    """Work on aggregates in ``scope``; with ``everything``, also on deleted aggregates."""
    hosts, placement, uuids = run.hosts, run.placement, {each.uuid for each in scope}
    whole_record, required = placement.read_record(), required_traits(hosts)
    record = {
        pair: aggregate
        for pair, aggregate in whole_record.pairs.items()
        if everything or aggregate in uuids
    }
    named = {trait for each in scope for trait in each.reserving_traits}
    traits = named | {trait for _, trait in record}
    known = placement.known_traits(traits) if traits else frozenset[str]()
    carriers = placement.providers_with("traits", known) if known else {}
    refused = {name for name in named - known if not _CUSTOM_NAME.fullmatch(name)}
    lacking = {
        (provider, trait): next(uuid for uuid in requiring if uuid in uuids)
        for (provider, trait), requiring in required.items()
        if trait not in refused and provider not in carriers.get(trait, ())
        if not uuids.isdisjoint(requiring)
    }
    over = record.keys() - required.keys() - _hidden_pairs(hosts, record)
    kept = _required_elsewhere(hosts, {pair: record[pair] for pair in over}, placement)
    over -= kept.keys()
    carried = {(uuid, trait): "" for uuid, trait in over if uuid in carriers.get(trait, ())}
    rebound = {
        pair: required[pair][0]
        for pair, aggregate in record.items()
        if pair in required and aggregate not in required[pair]
    }
    run.problems += [*_refusals(scope, refused), *kept.values()]
    if not run.dry_run:
        placement.update_record(whole_record.outlived, rebound, over - carried.keys())
    for trait in sorted(named - known - refused):
        if not run.dry_run:
            placement.create_trait(trait)
            run.note(f"trait {trait} created")
        run.created.append(trait)
    run.change_all(
        Change("traits", trait, {uuid: pairs[uuid, trait] for uuid in providers}, adding)
        for pairs, adding in ((lacking, True), (carried, False))
        for trait, providers in sorted(by_name(pairs).items())
    )


def _hidden_pairs(hosts: HostMap, record: Collection[ProviderTrait]) -> set[ProviderTrait]:
    """Return the recorded pairs that may still be required, though no host has their providers.

    Only the list of compute nodes says whose provider it is. If a host of a requiring aggregate
    has none in it, a provider that is not in it either may be that host's.
    """
    hidden = {
        trait
        for aggregate in hosts.aggregates
        if any(not hosts.nodes.get(host) for host in aggregate.hosts)
        for trait in aggregate.reserving_traits
    }
    return {pair for pair in record if pair[1] in hidden and pair[0] not in hosts.host_of}


def _required_elsewhere(
    hosts: HostMap, record: Mapping[ProviderTrait, str], placement: Placement
) -> dict[ProviderTrait, SyncProblem]:
    """Return the recorded pairs that an aggregate of another list may require.

    A host leaves an aggregate, and its provider the provider aggregate, before the aggregate is
    deleted. So an aggregate that is not in the list, but still has the provider, was not deleted:
    it is in the list that another run followed.
    """
    unknown = set(record.values()) - {each.uuid for each in hosts.aggregates}
    members = placement.providers_with("aggregates", unknown) if unknown else {}
    problems = {}
    for (provider, trait), aggregate in sorted(record.items()):
        if provider in members.get(aggregate, ()):
            host = hosts.host_of.get(provider, provider)
            detail = (
                f"trait {trait} is kept on host {host}: it was added for aggregate {aggregate}, "
                "which is not in this list of host aggregates, though the provider is still in it. "
                "Use the list that has it (--os-cloud, --compute-url), or remove the "
                "provider from the provider aggregate"
            )
            problems[provider, trait] = SyncProblem(SyncCode.AGGREGATE_UNKNOWN, host, detail)
    return problems


def _refusals(scope: Iterable[HostAggregate], refused: Collection[str]) -> Iterable[SyncProblem]:
    for name in sorted(refused):
        requiring = ", ".join(each.name for each in scope if name in each.reserving_traits)
        detail = (
            f"trait {name}, required by aggregate {requiring}, does not exist and cannot be "
            "created: only names of CUSTOM_ and capital letters, digits and underscores can be"
        )
        yield SyncProblem(SyncCode.TRAIT_REFUSED, name, detail)
