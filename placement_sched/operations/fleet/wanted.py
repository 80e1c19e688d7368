"""What a cloud is to be: what it is, with what a fleet file says laid over it.

What a file does not name it leaves alone, be it a thing or a key of a thing. What it names becomes
as the file says: a list or a mapping that is given is the whole of it.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import os_resource_classes
import os_traits

from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.flavor import Flavor
from placement_sched.model.instance import Instance
from placement_sched.model.node_report import Defaults
from placement_sched.model.server_group import ServerGroup
from placement_sched.model.service import COMPUTE_BINARY
from placement_sched.model.shape import Misfit
from placement_sched.operations.fleet.policed import ratios_by_host, settled
from placement_sched.operations.fleet.state import (
    AggregateState,
    ConsumerState,
    FlavorState,
    ImageState,
    ProviderState,
    ServiceState,
    State,
)
from placement_sched.operations.root_providers import DISABLED_TRAIT
from placement_sched.scheduler.policies.ratios import NONE
from placement_sched.scheduler.policies.registry import Policies

Json = dict[str, Any]
Amounts = Mapping[str, int]
#: Returns what a flavor asks of a node.
Asked = Callable[[Flavor], Amounts]

_STANDARD_CLASSES = frozenset(os_resource_classes.STANDARDS)
_STANDARD_TRAITS = frozenset(os_traits.get_traits())
_CUSTOM = "CUSTOM_"


def derived(kind: str, *names: str) -> str:
    """Return the uuid of a thing for which a file gives none, always the same."""
    return str(uuid5(NAMESPACE_URL, f"placement-sched:fleet/{'/'.join((kind, *names))}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What holds where a file is silent: reports' defaults, nobody's project and user, amounts.

    ``policies`` are those that aggregates may name.
    """

    defaults: Defaults
    nobody: tuple[str, str]
    asked: Asked
    policies: Policies | None = None

    @property
    def now(self) -> datetime:
        """Return the time now, naive UTC."""
        return self.defaults.now


@dataclass(slots=True)
class Draft:
    """A cloud in the making. Each noun by what tells one from the other, as in :class:`State`."""

    before: State
    terms: Terms
    resource_classes: set[str] = field(init=False)
    traits: set[str] = field(init=False)
    flavors: dict[str, FlavorState] = field(init=False)
    images: dict[str, ImageState] = field(init=False)
    server_groups: dict[str, ServerGroup] = field(init=False)
    nodes: dict[str, ComputeNode] = field(init=False)
    services: dict[tuple[str, str], ServiceState] = field(init=False)
    providers: dict[str, ProviderState] = field(init=False)
    aggregates: dict[str, AggregateState] = field(init=False)
    instances: dict[str, Instance] = field(init=False)
    consumers: dict[str, ConsumerState] = field(init=False)
    #: Roots of which the file tells the aggregates, and those of which it tells the traits.
    settled_aggregates: set[str] = field(default_factory=set)
    settled_traits: set[str] = field(default_factory=set)
    provider_names: dict[str, str] = field(init=False)
    node_names: dict[tuple[str, str], str] = field(init=False)
    #: Whose the uuids of services are, those before included: two cannot change theirs at once.
    service_uuids: dict[str, tuple[str, str]] = field(init=False)
    #: The keys of the entry that is being laid, and of those that told things before it.
    entry: tuple[str | int, ...] = ()
    told_at: dict[tuple[str, ...], tuple[str | int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        before = self.before
        self.resource_classes = set(before.resource_classes)
        self.traits = set(before.traits)
        self.flavors = dict(before.flavors)
        self.images = dict(before.images)
        self.server_groups = dict(before.server_groups)
        self.nodes = dict(before.nodes)
        self.services = dict(before.services)
        self.providers = dict(before.providers)
        self.aggregates = dict(before.aggregates)
        self.instances = dict(before.instances)
        self.consumers = dict(before.consumers)
        self.provider_names = {one.name: uuid for uuid, one in before.providers.items()}
        self.node_names = {
            (one.host, one.hypervisor_hostname): uuid for uuid, one in before.nodes.items()
        }
        self.service_uuids = {one.uuid: key for key, one in before.services.items()}

    def once(self, kind: str, *names: str) -> None:
        """Raise :class:`Misfit` where the file has named this thing before."""
        if (kind, *names) in self.told_at:
            raise Misfit(f"the {kind} {' '.join(names)} is in the file already")
        self.told_at[(kind, *names)] = self.entry

    def know_classes(self, names: Iterable[str]) -> None:
        """Make custom resource classes; raises :class:`Misfit` for one that cannot be."""
        self.resource_classes |= _custom("resource class", names, _STANDARD_CLASSES)

    def know_traits(self, names: Iterable[str]) -> None:
        """Make custom traits; raises :class:`Misfit` for one that cannot be."""
        self.traits |= _custom("trait", names, _STANDARD_TRAITS)

    def put_provider(self, provider: ProviderState) -> None:
        """Keep a provider as it shall be; raises :class:`Misfit` where its name is another's."""
        self.once("provider", provider.uuid)
        owner = self.provider_names.setdefault(provider.name, provider.uuid)
        if owner != provider.uuid:
            raise Misfit(f"the provider {owner} is named {provider.name} already")
        self.know_classes(provider.inventories)
        self.know_traits(provider.traits)
        before = self.providers.get(provider.uuid)
        if before is not None and before.name != provider.name:
            self.provider_names.pop(before.name, None)
        self.providers[provider.uuid] = provider

    def put_node(self, node: ComputeNode) -> None:
        """Keep a node as it shall be; raises :class:`Misfit` where its names are another's."""
        names = (node.host, node.hypervisor_hostname)
        self.once("node", node.uuid)
        owner = self.node_names.setdefault(names, node.uuid)
        if owner != node.uuid:
            raise Misfit(f"the node {owner} has the names {' '.join(names)} already")
        before = self.nodes.get(node.uuid)
        if before is not None and (before.host, before.hypervisor_hostname) != names:
            self.node_names.pop((before.host, before.hypervisor_hostname), None)
        self.nodes[node.uuid] = node

    def put_service(self, service: ServiceState) -> None:
        """Keep a service as it shall be; raises :class:`Misfit` where its uuid is another's."""
        key = (service.host, service.binary)
        host, binary = owner = self.service_uuids.setdefault(service.uuid, key)
        if owner != key:
            raise Misfit(f"{service.uuid} is the uuid of {binary} of {host} already")
        self.services[key] = service

    def provider_of(self, text: str) -> str:
        """Return the uuid of the provider of this uuid or name; raises :class:`Misfit`."""
        if text in self.providers:
            return text
        if text not in self.provider_names:
            raise Misfit(f"there is no provider {text}")
        return self.provider_names[text]

    def settled(self) -> State:
        """Return the whole, with what follows from the rest where the file does not tell it."""
        self._join_aggregates()
        self._mark_disabled()
        self._settle_ratios()
        return State(
            resource_classes=frozenset(self.resource_classes),
            traits=frozenset(self.traits),
            flavors=self.flavors,
            images=self.images,
            server_groups=self.server_groups,
            nodes=self.nodes,
            services=self.services,
            providers=self.providers,
            aggregates=self.aggregates,
            instances=self.instances,
            consumers=self.consumers,
            told_at=self.told_at,
        )

    def _join_aggregates(self) -> None:
        """Let providers follow their hosts into aggregates and out of them."""
        was = aggregates_by_host(self.before.aggregates.values())
        is_now = aggregates_by_host(self.aggregates.values())
        for uuid, node in self.nodes.items():
            provider = self.providers.get(uuid)
            if provider is None or uuid in self.settled_aggregates:
                continue
            old = self.before.nodes.get(uuid)
            left = was.get(old.host, frozenset()) if old and uuid in self.before.providers else ()
            came = is_now.get(node.host, frozenset())
            wanted = (provider.aggregates - (set(left) - came)) | (came - set(left))
            if wanted != provider.aggregates:
                self.providers[uuid] = _changed(provider, aggregates=frozenset(wanted))

    def _settle_ratios(self) -> None:
        """Let inventories have the ratios of the policies that their hosts are under."""
        policies = self.terms.policies
        was = ratios_by_host(self.before.aggregates.values(), policies)
        is_now = ratios_by_host(self.aggregates.values(), policies)
        if not was and not is_now:
            return
        for uuid, node in self.nodes.items():
            provider = self.providers.get(uuid)
            old = self.before.nodes.get(uuid)
            had = NONE if old is None else was.get(old.host, NONE)
            has = is_now.get(node.host, NONE)
            if provider is not None and (had or has):
                before = self.before.providers.get(uuid)
                self.providers[uuid] = settled(provider, before, node, had, has)

    def _mark_disabled(self) -> None:
        """Put the mark of disabled hosts on their root providers, and take it off."""
        was, is_now = _disabled(self.before.services), _disabled(self.services)
        for uuid, node in self.nodes.items():
            provider = self.providers.get(uuid)
            if provider is None:
                continue
            told = uuid in self.settled_traits
            traits = provider.traits
            if node.host in is_now and (
                told or node.host not in was or uuid not in self.before.providers
            ):
                traits |= {DISABLED_TRAIT}
            elif node.host in was and node.host not in is_now and not told:
                traits -= {DISABLED_TRAIT}
            if traits != provider.traits:
                self.providers[uuid] = _changed(provider, traits=traits)


def aggregates_by_host(aggregates: Iterable[AggregateState]) -> dict[str, frozenset[str]]:
    """Return the uuids of the aggregates that each host is in."""
    found: dict[str, set[str]] = defaultdict(set)
    for one in aggregates:
        for host in one.hosts:
            found[host].add(one.uuid)
    return {host: frozenset(uuids) for host, uuids in found.items()}


def _disabled(services: Mapping[tuple[str, str], ServiceState]) -> frozenset[str]:
    return frozenset(
        host
        for (host, binary), one in services.items()
        if binary == COMPUTE_BINARY and one.disabled
    )


def _changed(provider: ProviderState, **changes: Any) -> ProviderState:
    return ProviderState(**{name: getattr(provider, name) for name in provider.__slots__} | changes)


def _custom(noun: str, names: Iterable[str], standard: Collection[str]) -> set[str]:
    """Return the custom ones among these names; raises :class:`Misfit` for an unknown one."""
    found = {name for name in names if name not in standard}
    for name in sorted(found):
        if not name.startswith(_CUSTOM) or name == _CUSTOM:
            raise Misfit(f"there is no standard {noun} {name}; others begin with {_CUSTOM}")
    return found
