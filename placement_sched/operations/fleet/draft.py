"""The cloud while a file is merged into it: an entry replaces what it names, the rest stays."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from placement_sched.model.compute_node import RATIOS, ComputeNode, Service
from placement_sched.model.flavor import Flavor
from placement_sched.model.placement.allocation import Amounts
from placement_sched.model.placement.provider import Inventory
from placement_sched.operations.fleet import cloud
from placement_sched.operations.fleet.cloud import ProviderState, State
from placement_sched.operations.root_providers import DISABLED_TRAIT
from placement_sched.scheduler.policies.registry import NO_RATIOS, Policies, Ratios
from placement_sched.schemas.formats import DocumentError
from placement_sched.schemas.node_report import Defaults

_CUSTOM = "CUSTOM_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What applies where a file is silent.

    That is the defaults of reports, the project and user of consumers without any, and the amounts
    that a flavor requests. ``policies`` are those that aggregates may name.
    """

    defaults: Defaults
    unknown_owner: tuple[str, str]
    requested: Callable[[Flavor], Amounts]
    policies: Policies | None = None


class Draft:
    """The cloud ``before`` a load, and as the entries read so far make it (``after``)."""

    def __init__(self, before: State, terms: Terms) -> None:
        self.before, self.terms, self.after = before, terms, before.copy()
        #: Root providers whose aggregates, and whose traits, the file gives.
        self.given_aggregates: set[str] = set()
        self.given_traits: set[str] = set()
        self.provider_names = {one.name: uuid for uuid, one in before.providers.items()}
        self.node_names = {_names(one): uuid for uuid, one in before.nodes.items()}
        #: The services that have a uuid, former ones included: two cannot swap theirs in one load.
        self.service_uuids = {one.uuid: key for key, one in before.services.items()}
        #: The keys of the entry that is being read.
        self.entry: tuple[str | int, ...] = ()

    def name_once(self, kind: str, *names: str) -> None:
        """Note the entry of a thing; raises :class:`DocumentError` if there was one before."""
        if (kind, *names) in self.after.entries:
            raise DocumentError(f"the {kind} {' '.join(names)} is already in the file")
        self.after.entries[(kind, *names)] = self.entry

    def add_classes(self, names: Iterable[str]) -> None:
        """Add custom resource classes; raises :class:`DocumentError` for an unknown one."""
        self.after.resource_classes.update(_custom("resource class", names, cloud.STANDARD_CLASSES))

    def add_traits(self, names: Iterable[str]) -> None:
        """Add custom traits; raises :class:`DocumentError` for an unknown one."""
        self.after.traits.update(_custom("trait", names, cloud.STANDARD_TRAITS))

    def put_provider(self, provider: ProviderState) -> None:
        """Put a provider; raises :class:`DocumentError` where another one has its name."""
        self.name_once("provider", provider.uuid)
        owner = self.provider_names.setdefault(provider.name, provider.uuid)
        if owner != provider.uuid:
            raise DocumentError(f"the name {provider.name} is already used by provider {owner}")
        self.add_classes(provider.inventories)
        self.add_traits(provider.traits)
        before = self.after.providers.get(provider.uuid)
        if before is not None and before.name != provider.name:
            self.provider_names.pop(before.name, None)
        self.after.providers[provider.uuid] = provider

    def put_node(self, node: ComputeNode) -> None:
        """Put a node; raises :class:`DocumentError` where another one has its names."""
        names = _names(node)
        self.name_once("node", node.uuid)
        owner = self.node_names.setdefault(names, node.uuid)
        if owner != node.uuid:
            raise DocumentError(f"the names {' '.join(names)} are already used by node {owner}")
        before = self.after.nodes.get(node.uuid)
        if before is not None and _names(before) != names:
            self.node_names.pop(_names(before), None)
        self.after.nodes[node.uuid] = node

    def put_service(self, service: Service) -> None:
        """Put a service; raises :class:`DocumentError` where another one has its uuid."""
        key = (service.host, service.binary)
        host, binary = owner = self.service_uuids.setdefault(service.uuid, key)
        if owner != key:
            raise DocumentError(f"uuid {service.uuid} already belongs to {binary} of {host}")
        self.after.services[key] = service

    def finish(self) -> State:
        """Return the cloud after the load; roots get their hosts' aggregates, traits and ratios."""
        before, after, policies = self.before, self.after, self.terms.policies
        joined = before.aggregates_by_host(), after.aggregates_by_host()
        disabled = before.disabled_hosts(), after.disabled_hosts()
        ratios = before.ratios_by_host(policies), after.ratios_by_host(policies)
        nothing = frozenset[str]()
        for uuid, node in after.nodes.items():
            if (provider := after.providers.get(uuid)) is None:
                continue
            old, old_provider = before.nodes.get(uuid), before.providers.get(uuid)
            former_host = old.host if old and old_provider else ""
            if uuid not in self.given_aggregates:
                left, came = joined[0].get(former_host, nothing), joined[1].get(node.host, nothing)
                stays = provider.aggregates - (left - came)
                provider = replace(provider, aggregates=stays | (came - left))
            traits, given = provider.traits, uuid in self.given_traits
            if node.host in disabled[1]:
                if given or node.host not in disabled[0] or old_provider is None:
                    traits |= {DISABLED_TRAIT}
            elif node.host in disabled[0] and not given:
                traits -= {DISABLED_TRAIT}
            had = NO_RATIOS if old is None else ratios[0].get(old.host, NO_RATIOS)
            has = ratios[1].get(node.host, NO_RATIOS)
            inventories = _under_policies(provider, old_provider, node, had, has)
            after.providers[uuid] = replace(provider, traits=traits, inventories=inventories)
        return after


def _names(node: ComputeNode) -> tuple[str, str]:
    return node.host, node.hypervisor_hostname


def _custom(noun: str, names: Iterable[str], standard: Collection[str]) -> set[str]:
    found = {name for name in names if name not in standard}
    for name in sorted(found):
        if not name.startswith(_CUSTOM) or name == _CUSTOM:
            raise DocumentError(f"there is no standard {noun} {name}; others begin with {_CUSTOM}")
    return found


def _under_policies(
    provider: ProviderState,
    before: ProviderState | None,
    node: ComputeNode,
    had: Ratios,
    has: Ratios,
) -> dict[str, Inventory]:
    """Return inventories of a node with the ratios that its host ``has`` by its policy.

    A ratio that it ``had`` by one, and that the file does not give, becomes the node's own.
    """
    inventories = dict(provider.inventories)
    for name, ratio in RATIOS.items():
        if name not in inventories:
            continue
        one, wanted = inventories[name], has.get(ratio)
        old = None if before is None else before.inventories.get(name)
        if wanted is None and ratio in had and old is not None:
            kept = old.allocation_ratio == one.allocation_ratio
            wanted = getattr(node, ratio) if kept else None
        if wanted is not None:
            inventories[name] = replace(one, allocation_ratio=wanted)
    return inventories
