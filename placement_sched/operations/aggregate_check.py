# SPDX-License-Identifier: Apache-2.0
"""Checks of aggregates that are reserved by traits.

Metadata ``trait:X=required`` exclude requests that do not require X. In a correct configuration,
trait X also exists, is on the providers of the aggregate's hosts and on providers of no other
hosts, and is required by a flavor or an image. The host aggregate and the provider aggregate have
the same hosts.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from functools import cached_property
from itertools import product

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Connection
from placement_sched.model.aggregates import HostAggregate, HostMap, ProviderTrait
from placement_sched.model.document import Json
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image, StoredImage
from placement_sched.model.provider import CUSTOM_PREFIX, SHARES, Provider
from placement_sched.operations.provider_sync import map_required_pairs
from placement_sched.scheduler.request_filters import forbidden_aggregates
from placement_sched.store import images
from placement_sched.store.compute import flavors, host_aggregates
from placement_sched.store.placement import aggregates, resource_providers, traits

_SINGULAR = {"is": "is", "has": "has", "lacks": "lacks"}
_PLURAL = {"is": "are", "has": "have", "lacks": "lack"}
_PREFIX = "trait:"


@dataclass(frozen=True, slots=True)
class Reserved:
    """A reserved aggregate, with the flavors and images that may use it.

    The forbidden flavors and images may not use it. A flavor is checked with an image that requires
    no trait, and an image with a flavor that requires no trait. Names are sorted. An image without
    a name is listed by its id.
    """

    aggregate: HostAggregate
    traits: tuple[str, ...]
    open_flavors: tuple[str, ...]
    forbidden_flavors: tuple[str, ...]
    open_images: tuple[str, ...]
    forbidden_images: tuple[str, ...]


#: The fixes of an unknown trait. Only a trait with the prefix can be created.
_SYNC = "sync_traits creates it"
_CORRECT = f"Only traits that begin with {CUSTOM_PREFIX} can be created: correct the metadata"


class _Kind(Enum):
    """Kind of a finding, whose sentence is the value."""

    FILTER_OFF = (
        "[scheduler] enable_isolated_aggregate_filtering is off, so no request is "
        "excluded from {reserved}"
    )
    VALUE_IGNORED = "{key}={value} has no effect: only the value 'required' is used"
    TRAIT_UNKNOWN = "trait {trait} does not exist: requests for it are rejected. {fix}"
    TRAIT_UNREQUESTED = "no stored flavor and no stored image requires {trait}, {so} use the hosts"
    OPEN_TO_NOBODY = (
        "no stored flavor, with or without an image, requires all of {all}, {so} use the hosts"
    )
    TRAIT_LACKING = (
        "{lacks} trait {trait}, so requests for it do not fit there. sync_traits adds it"
    )
    TRAIT_OUTSIDE = (
        "{served} trait {trait} but {is} in no aggregate reserved by this "
        "trait: requests that do not require the trait may also be scheduled there"
    )
    HOST_WITHOUT_PROVIDER = "{is} in the aggregate but {has} no resource provider"
    NOT_IN_PLACEMENT = (
        "{is} in the host aggregate but not in the provider aggregate. sync_aggregates adds it"
    )
    STALE_IN_PLACEMENT = (
        "{is} in the provider aggregate but not in the host aggregate. "
        "sync_aggregates --remove-stale removes it"
    )


@dataclass(frozen=True, slots=True)
class Finding:
    """A misconfiguration that rejects too many or too few requests.

    ``names`` are the affected hosts, sorted, or the names of providers that have no host. If they
    are written before ``detail``, the result is a sentence.
    """

    kind: str
    detail: str
    aggregate: str | None = None
    trait: str | None = None
    names: tuple[str, ...] = ()


def _build_finding(
    kind: _Kind,
    aggregate: HostAggregate | None = None,
    trait: str | None = None,
    names: Sequence[str] = (),
    **words: str,
) -> Finding:
    detail = kind.value.format(trait=trait, **_choose_verbs(names), **words)
    name = None if aggregate is None else aggregate.name
    return Finding(kind.name.lower(), detail, name, trait, tuple(sorted(names)))


def _choose_verbs(names: Sequence[str]) -> Mapping[str, str]:
    return _SINGULAR if len(names) == 1 else _PLURAL


@dataclass(frozen=True, slots=True)
class AggregateCheck:
    """The result of a check of all host aggregates.

    If ``filtering`` is false, the request filter is disabled: every request may use every host, and
    ``reserved`` shows the effect of enabling the filter.
    """

    reserved: tuple[Reserved, ...]
    findings: tuple[Finding, ...]
    filtering: bool

    def as_json(self) -> Json:
        """Return the response body of the scheduler API."""
        return {
            "filtering": self.filtering,
            "aggregates": [
                {
                    "uuid": entry.aggregate.uuid,
                    "name": entry.aggregate.name,
                    "traits": entry.traits,
                    "flavors": {"open": entry.open_flavors, "forbidden": entry.forbidden_flavors},
                    "images": {"open": entry.open_images, "forbidden": entry.forbidden_images},
                }
                for entry in self.reserved
            ],
            "findings": [asdict(finding) for finding in self.findings],
        }


def check_aggregates(connection: Connection, settings: Settings) -> AggregateCheck:
    """Check host aggregates, and the flavors and images that may use them."""
    hosts = host_aggregates.read_host_map(connection)
    reserved = tuple(aggregate for aggregate in hosts.aggregates if aggregate.reserving_traits)
    query = flavors.FlavorQuery(is_public=None)
    stored_flavors = flavors.search(connection, query, extra_specs=True)
    requirements = _Requirements(stored_flavors, images.list_images(connection))
    filtering = forbidden_aggregates.ForbiddenAggregates.with_settings(settings).enabled(settings)
    topology = _read(connection, hosts, reserved)
    findings = (
        *_check_metadata(topology, requirements, filtering=filtering),
        *_check_membership(topology),
        *_check_providers(topology),
    )
    return AggregateCheck(tuple(map(requirements.split_by_access, reserved)), findings, filtering)


class _Requirements:
    def __init__(self, flavors: Iterable[Flavor], images: Iterable[StoredImage]) -> None:
        self._flavors: dict[frozenset[str], list[str]] = defaultdict(list)
        self._images: dict[frozenset[str], list[str]] = defaultdict(list)
        for flavor in flavors:
            self._flavors[flavor.required_traits].append(flavor.name)
        for image in images:
            # Only the traits are parsed: invalid values of other properties do not matter.
            own = {key: text for key, text in image.properties.items() if key.startswith(_PREFIX)}
            required = Image.from_document({"properties": own}).required_traits
            self._images[required].append(image.name or image.uuid)
        self.traits = frozenset[str]().union(*self._flavors, *self._images)

    def split_by_access(self, aggregate: HostAggregate) -> Reserved:
        parts = []
        for by_traits in (self._flavors, self._images):
            names: tuple[list[str], list[str]] = ([], [])
            for required, texts in by_traits.items():
                names[bool(forbidden_aggregates.find_forbidden(required, (aggregate,)))].extend(
                    texts
                )
            parts += [tuple(sorted(group)) for group in names]
        return Reserved(aggregate, tuple(sorted(aggregate.reserving_traits)), *parts)

    def can_use(self, aggregate: HostAggregate) -> bool:
        return any(
            not forbidden_aggregates.find_forbidden(of_flavor | of_image, (aggregate,))
            for of_flavor, of_image in product(self._flavors, (*self._images, frozenset[str]()))
        )


@dataclass(frozen=True)
class _Topology:
    """Host aggregates, and the providers in them.

    A compute node offers the resources of its provider tree and of sharing providers. Providers
    without a host are checked too, because a host may report them later, except sharing providers:
    no instance is placed on them.

    ``reserved`` are the aggregates that require traits, and ``existing_traits`` these traits, if
    they exist. ``carriers`` maps required traits to providers, and ``members`` maps aggregates to
    providers. ``sharing`` are the sharing providers with a required trait, and ``joined`` maps them
    to their aggregates.
    """

    hosts: HostMap
    reserved: tuple[HostAggregate, ...]
    existing_traits: frozenset[str]
    members: Mapping[str, frozenset[str]]
    carriers: Mapping[str, frozenset[str]]
    sharing: frozenset[str]
    joined: Mapping[str, frozenset[str]]
    providers: Mapping[str, Provider]

    def list_names(self, providers: Iterable[str]) -> list[str]:
        host_of = self.hosts.host_of
        return sorted(host_of.get(uuid) or self.providers[uuid].name for uuid in providers)

    def find_outside(self, trait: str) -> set[str]:
        return {
            uuid
            for uuid in self.carriers[trait]
            if self._is_outside(uuid, trait) and (self._has_host(uuid) or uuid not in self.sharing)
        }

    def find_served_outside(self, trait: str) -> tuple[set[str], set[str]]:
        """Return nodes that get a trait by sharing, and the sharing providers."""
        carriers = self.carriers[trait]
        having = {self.providers[uuid].root_uuid for uuid in carriers}
        served: set[str] = set()
        sharing: set[str] = set()
        for uuid in carriers & self.joined.keys():
            roots = {
                self.providers[member].root_uuid
                for aggregate in self.joined[uuid]
                for member in self.members.get(aggregate, ())
                if self._is_outside(member, trait) and self._has_host(member)
            } - having
            served |= roots
            sharing |= {uuid} if roots else set()
        return served, sharing

    def _is_outside(self, uuid: str, trait: str) -> bool:
        root = self.providers[uuid].root_uuid
        return not {(root, trait), (uuid, trait)} & self._inside

    def _has_host(self, uuid: str) -> bool:
        return self.providers[uuid].root_uuid in self.hosts.host_of

    @cached_property
    def _inside(self) -> frozenset[ProviderTrait]:
        """Return (provider, reserving trait) pairs of all reserved aggregates.

        A provider is in an aggregate as the root provider of a host in the host aggregate, or as a
        member of the provider aggregate.
        """
        in_placement = (
            (member, trait)
            for aggregate in self.reserved
            for trait in aggregate.reserving_traits
            for member in self.members.get(aggregate.uuid, ())
        )
        return frozenset((*map_required_pairs(self.hosts, "traits"), *in_placement))


def _read(connection: Connection, hosts: HostMap, reserved: tuple[HostAggregate, ...]) -> _Topology:
    required = {trait for aggregate in reserved for trait in aggregate.reserving_traits}
    carriers = dict(traits.map_providers(connection, {*required, SHARES}))
    sharing = carriers.pop(SHARES, frozenset())
    of_traits = {uuid for uuids in carriers.values() for uuid in uuids}
    joined = aggregates.map_by_provider_uuid(connection, of_traits & sharing)
    shared = {aggregate for uuids in joined.values() for aggregate in uuids}
    shared_or_own = {*shared, *(aggregate.uuid for aggregate in hosts.aggregates)}
    members = aggregates.map_providers(connection, shared_or_own)
    served = {uuid for aggregate in shared for uuid in members.get(aggregate, ())}
    return _Topology(
        hosts=hosts,
        reserved=reserved,
        existing_traits=frozenset(
            trait.name for trait in traits.list_by_names(connection, required)
        ),
        members=members,
        carriers=carriers,
        sharing=sharing & of_traits,
        joined=joined,
        providers=resource_providers.map_by_uuid(connection, of_traits | served | {*hosts.host_of}),
    )


def _check_metadata(
    topology: _Topology, requirements: _Requirements, *, filtering: bool
) -> Iterator[Finding]:
    if topology.reserved and not filtering:
        yield _build_finding(
            _Kind.FILTER_OFF, reserved=", ".join(item.name for item in topology.reserved)
        )
    for aggregate in topology.hosts.aggregates:
        for key, value in aggregate.metadata.items():
            if key.startswith(_PREFIX) and value != "required":
                trait = key.removeprefix(_PREFIX)
                yield _build_finding(_Kind.VALUE_IGNORED, aggregate, trait, key=key, value=value)
    so = "so no request may" if filtering else "so once the filter is on no request may"
    for aggregate in topology.reserved:
        required = sorted(aggregate.reserving_traits)
        for trait in required:
            if trait not in topology.existing_traits:
                fix = _SYNC if trait.startswith(CUSTOM_PREFIX) else _CORRECT
                yield _build_finding(_Kind.TRAIT_UNKNOWN, aggregate, trait, fix=fix)
        unrequired = [trait for trait in required if trait not in requirements.traits]
        yield from (
            _build_finding(_Kind.TRAIT_UNREQUESTED, aggregate, trait, so=so) for trait in unrequired
        )
        if not unrequired and not requirements.can_use(aggregate):
            yield _build_finding(_Kind.OPEN_TO_NOBODY, aggregate, all=", ".join(required), so=so)


def _check_membership(topology: _Topology) -> Iterator[Finding]:
    nodes, existing = topology.hosts.nodes, topology.providers.keys()
    for aggregate in topology.hosts.aggregates:
        if without := [
            host for host in aggregate.hosts if not existing & nodes.get(host, frozenset())
        ]:
            yield _build_finding(_Kind.HOST_WITHOUT_PROVIDER, aggregate, names=without)
    for differing in topology.hosts.find_disagreements(topology.members):
        if lacking := topology.list_names(differing.lacking & existing):
            yield _build_finding(_Kind.NOT_IN_PLACEMENT, differing.aggregate, names=lacking)
        if stale := topology.list_names(differing.stale):
            yield _build_finding(_Kind.STALE_IN_PLACEMENT, differing.aggregate, names=stale)


def _check_providers(topology: _Topology) -> Iterator[Finding]:
    for aggregate in topology.reserved:
        for trait in sorted(aggregate.reserving_traits):
            nodes = topology.hosts.list_nodes(aggregate) & topology.providers.keys()
            if lacking := nodes - topology.carriers.get(trait, frozenset()):
                yield _build_finding(
                    _Kind.TRAIT_LACKING, aggregate, trait, topology.list_names(lacking)
                )
    for trait in sorted(topology.carriers):
        if outside := topology.list_names(topology.find_outside(trait)):
            has = _choose_verbs(outside)["has"]
            yield _build_finding(_Kind.TRAIT_OUTSIDE, trait=trait, names=outside, served=has)
        served, sharing = topology.find_served_outside(trait)
        if served:
            names = topology.list_names(served)
            providers = ", ".join(topology.list_names(sharing))
            served_by = f"{_choose_verbs(names)['is']} served by {providers} with"
            yield _build_finding(_Kind.TRAIT_OUTSIDE, trait=trait, names=names, served=served_by)
