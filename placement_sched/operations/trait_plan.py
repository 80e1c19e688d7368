"""What ``sync_traits`` is to do: compared are metadata, what providers have, and the record."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.host_map import HostMap
from placement_sched.model.sync import Code, Problem
from placement_sched.operations.sync_ports import Pair, Placement
from placement_sched.operations.wanted_traits import wanted_traits

#: Placement API reference, "Traits": what a trait of an operator's own is named.
_CUSTOM_NAME = re.compile(r"CUSTOM_[A-Z0-9_]+")


@dataclass(frozen=True, slots=True)
class TraitPlan:
    """What is to be done; pairs are of provider uuid and trait.

    ``put`` and ``rebound`` tell the uuid of the aggregate that asks: rebound ones were put for
    another, which does not ask any more. ``forgotten`` are on their providers no more, of
    ``outlived`` ones these providers are gone. ``refused`` are the problems: traits that cannot be
    created, and those that stay because another list of host aggregates may ask for them.
    """

    created: tuple[str, ...]
    put: Mapping[Pair, str]
    taken_off: frozenset[Pair]
    rebound: Mapping[Pair, str]
    forgotten: frozenset[Pair]
    outlived: frozenset[Pair]
    refused: tuple[Problem, ...]


def make_plan(
    hosts: HostMap, scope: Collection[HostAggregate], placement: Placement, *, everything: bool
) -> TraitPlan:
    """Return what is to be done for the aggregates in ``scope``, which are all of them or one.

    With ``everything``, what was put for aggregates that are gone is looked at as well.
    """
    told = placement.put_there()
    record = told.pairs if everything else _put_for(scope, told.pairs)
    asked = {trait for one in scope for trait in one.reserving_traits}
    named = asked | {trait for _, trait in record}
    known = placement.known_traits(named) if named else frozenset[str]()
    carriers = placement.carriers(known) if known else {}
    refused = {name for name in asked - known if not _CUSTOM_NAME.fullmatch(name)}
    wanted = wanted_traits(hosts, scope)
    missing = {
        (provider, trait): aggregate
        for (provider, trait), aggregate in wanted.items()
        if trait not in refused and provider not in carriers.get(trait, ())
    }
    by_anyone = wanted_traits(hosts)
    over = record.keys() - by_anyone.keys() - _out_of_sight(hosts, record)
    elsewhere = _asked_elsewhere(hosts, {pair: record[pair] for pair in over}, placement)
    over -= elsewhere.keys()
    carried = {(uuid, trait) for uuid, trait in over if uuid in carriers.get(trait, ())}
    return TraitPlan(
        created=tuple(sorted(asked - known - refused)),
        put=missing,
        taken_off=frozenset(carried),
        rebound=_rebound(hosts, record, by_anyone),
        forgotten=frozenset(over - carried),
        outlived=told.outlived,
        refused=(*_refusals(scope, refused), *_kept(hosts, elsewhere)),
    )


def _put_for(scope: Iterable[HostAggregate], record: Mapping[Pair, str]) -> Mapping[Pair, str]:
    uuids = {one.uuid for one in scope}
    return {pair: aggregate for pair, aggregate in record.items() if aggregate in uuids}


def _out_of_sight(hosts: HostMap, record: Collection[Pair]) -> frozenset[Pair]:
    """Return the recorded pairs that may still be asked for, though no host has their providers.

    Whose provider it is tells the list of compute nodes alone. Where a host of an asking aggregate
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
    hosts: HostMap, record: Mapping[Pair, str], placement: Placement
) -> dict[Pair, str]:
    """Return the recorded pairs that an aggregate may ask for which only another list has.

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


def _kept(hosts: HostMap, elsewhere: Mapping[Pair, str]) -> Iterator[Problem]:
    for (provider, trait), aggregate in sorted(elsewhere.items()):
        host = hosts.host_of.get(provider, provider)
        yield Problem(
            Code.AGGREGATE_UNKNOWN,
            host,
            f"trait {trait} stays on host {host}: it was put there for aggregate {aggregate}, "
            "which is not in the list of host aggregates that was followed, though the provider "
            "is still in it. Follow the list that has it (--os-cloud, --compute-url), or take the "
            "provider out of the provider aggregate",
        )


def _rebound(
    hosts: HostMap, record: Mapping[Pair, str], by_anyone: Mapping[Pair, str]
) -> dict[Pair, str]:
    """Return the recorded pairs that only another aggregate than the noted one asks for."""
    asking = {
        one.uuid: wanted_traits(hosts, [one]).keys()
        for one in hosts.aggregates
        if one.reserving_traits
    }
    return {
        pair: by_anyone[pair]
        for pair, aggregate in record.items()
        if pair in by_anyone and pair not in asking.get(aggregate, ())
    }


def _refusals(scope: Iterable[HostAggregate], refused: Collection[str]) -> Iterable[Problem]:
    for name in sorted(refused):
        asking = ", ".join(one.name for one in scope if name in one.reserving_traits)
        yield Problem(
            Code.TRAIT_REFUSED,
            name,
            f"trait {name}, which aggregate {asking} asks for, is not there and is not made: only "
            "names of CUSTOM_ and capital letters, digits and underscores can be",
        )
