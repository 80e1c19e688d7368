"""Finds what is wrong with aggregates that are reserved by traits, before requests run into it.

Metadata ``trait:X=required`` keep out who does not require X. To let in who does, X must be a
trait, be on the providers of the aggregate's hosts and on no others that hosts are served by, be
required by a flavor or an image, and the provider aggregate must have the hosts that the host
aggregate has.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from placement_sched.candidates.topology import SHARES
from placement_sched.config.settings import Settings
from placement_sched.db.connection import Connection
from placement_sched.model.aggregate_check import AggregateCheck, Finding, Kind
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.host_map import HostMap
from placement_sched.model.provider import Provider
from placement_sched.operations.reservations import Reservations
from placement_sched.operations.trait_reach import Reach
from placement_sched.store import (
    flavor_list,
    host_map,
    images,
    memberships,
    resource_providers,
    traits,
)

_PREFIX = "trait:"
_OUTSIDE = (
    "but in no aggregate that it reserves: who requires it may land there, beside who does not"
)


def check_aggregates(connection: Connection, settings: Settings) -> AggregateCheck:
    """Return who may use which aggregate, and what is wrong, in the order it should be mended.

    The number of statements does not depend on how many there are of anything.
    """
    hosts = host_map.read(connection)
    wanted = flavor_list.Wanted(is_public=None)
    reservations = Reservations(
        settings,
        hosts.aggregates,
        flavor_list.search(connection, wanted, extra_specs=True),
        images.all_images(connection),
    )
    world = _read(connection, hosts, reservations.aggregates)
    findings = (
        *_of_metadata(hosts.aggregates, reservations, world.known),
        *_of_membership(world),
        *_of_providers(world, reservations.aggregates),
    )
    return AggregateCheck(reservations.each(), findings, reservations.filtering)


@dataclass(frozen=True, slots=True)
class _World:
    """What placement has of the hosts: members and carriers by provider uuid."""

    hosts: HostMap
    known: frozenset[str]
    members: Mapping[str, frozenset[str]]
    carriers: Mapping[str, frozenset[str]]
    reach: Reach
    providers: Mapping[str, Provider]

    def named(self, provider: str) -> str:
        """Return the host of a provider, or else its name."""
        host = self.hosts.host_of.get(provider)
        return self.providers[provider].name if host is None else host

    def names(self, providers: Iterable[str]) -> tuple[str, ...]:
        """Return the hosts of providers, in order."""
        return tuple(sorted(map(self.named, providers)))


def _read(connection: Connection, hosts: HostMap, reserved: Iterable[HostAggregate]) -> _World:
    asked = {trait for one in reserved for trait in one.reserving_traits}
    carriers = dict(memberships.carriers(connection, {*asked, SHARES}))
    sharing = carriers.pop(SHARES, frozenset())
    of_traits = {uuid for some in carriers.values() for uuid in some}
    joined = memberships.joined(connection, of_traits & sharing)
    shared = {aggregate for some in joined.values() for aggregate in some}
    members = memberships.members(connection, {*shared, *(one.uuid for one in hosts.aggregates)})
    served = {uuid for one in shared for uuid in members.get(one, ())}
    providers = resource_providers.by_uuids(connection, of_traits | served | hosts.host_of.keys())
    return _World(
        hosts=hosts,
        known=frozenset(trait.name for trait in traits.by_names(connection, asked)),
        members=members,
        carriers=carriers,
        reach=Reach(hosts, members, sharing & of_traits, joined, providers),
        providers=providers,
    )


def _of_metadata(
    aggregates: Iterable[HostAggregate], reservations: Reservations, known: Collection[str]
) -> Iterator[Finding]:
    """Yield what the metadata say in vain."""
    if reservations.aggregates and not reservations.filtering:
        names = ", ".join(one.name for one in reservations.aggregates)
        yield Finding(
            Kind.FILTER_OFF,
            "[scheduler] enable_isolated_aggregate_filtering is off, so nobody is kept out of "
            f"{names}",
        )
    for one in aggregates:
        for key, value in one.metadata.items():
            if key.startswith(_PREFIX) and value != "required":
                yield Finding(
                    Kind.VALUE_IGNORED,
                    f"{key}={value} says nothing: only the value required does",
                    one.name,
                    key.removeprefix(_PREFIX),
                )
    for one in reservations.aggregates:
        yield from _of_asking(one, reservations, known)


def _of_asking(
    aggregate: HostAggregate, reservations: Reservations, known: Collection[str]
) -> Iterator[Finding]:
    reserved = sorted(aggregate.reserving_traits)
    for trait in reserved:
        if trait not in known:
            yield Finding(
                Kind.TRAIT_UNKNOWN,
                f"{trait} is no trait, and who requires it is refused; sync_traits makes it if it "
                "is CUSTOM_",
                aggregate.name,
                trait,
            )
    so = "so nobody may" if reservations.filtering else "so once the filter is on nobody may"
    unasked = [trait for trait in reserved if trait not in reservations.asked]
    for trait in unasked:
        yield Finding(
            Kind.TRAIT_UNASKED,
            f"no stored flavor and no stored image requires {trait}, {so} use the hosts",
            aggregate.name,
            trait,
        )
    if not unasked and not reservations.open_to_any_pair(aggregate):
        yield Finding(
            Kind.OPEN_TO_NOBODY,
            f"no stored flavor requires, even with an image, all of {', '.join(reserved)}, {so} "
            "use the hosts",
            aggregate.name,
        )


def _of_membership(world: _World) -> Iterator[Finding]:
    """Yield where placement has other members than the host aggregates."""
    for one in world.hosts.aggregates:
        without = [
            host
            for host in one.hosts
            if not any(node in world.providers for node in world.hosts.nodes.get(host, ()))
        ]
        if without:
            yield Finding(
                Kind.HOST_WITHOUT_PROVIDER,
                "in the aggregate, and without a resource provider",
                one.name,
                names=tuple(sorted(without)),
            )
    for differing in world.hosts.disagreements(world.members):
        name = differing.aggregate.name
        if lacking := differing.lacking & world.providers.keys():
            yield Finding(
                Kind.NOT_IN_PLACEMENT,
                "in the host aggregate, but not in the provider aggregate; sync_aggregates "
                "puts them in",
                name,
                names=world.names(lacking),
            )
        if differing.stale:
            yield Finding(
                Kind.STALE_IN_PLACEMENT,
                "in the provider aggregate, but not in the host aggregate; sync_aggregates "
                "--remove-stale takes them out",
                name,
                names=world.names(differing.stale),
            )


def _of_providers(world: _World, reserved: Iterable[HostAggregate]) -> Iterator[Finding]:
    """Yield where providers lack traits, or have them where nobody else is kept out."""
    for one in reserved:
        for trait in sorted(one.reserving_traits):
            nodes = world.hosts.nodes_in(one) & world.providers.keys()
            if lacking := nodes - world.carriers.get(trait, frozenset()):
                yield Finding(
                    Kind.TRAIT_LACKING,
                    f"without trait {trait}, so who requires it finds no room there; sync_traits "
                    "puts it on",
                    one.name,
                    trait,
                    world.names(lacking),
                )
    for trait, carriers in sorted(world.carriers.items()):
        if outside := world.reach.outside(trait, carriers):
            yield Finding(
                Kind.TRAIT_OUTSIDE,
                f"with trait {trait}, {_OUTSIDE}",
                trait=trait,
                names=world.names(outside),
            )
        served, by = world.reach.served_outside(trait, carriers)
        if served:
            yield Finding(
                Kind.TRAIT_OUTSIDE,
                f"served by {', '.join(world.names(by))} with trait {trait}, {_OUTSIDE}",
                trait=trait,
                names=world.names(served),
            )
