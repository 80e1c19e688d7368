"""Merges the entries of hosts, services and providers, and what roots have of their hosts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from placement_sched.model import compute_node
from placement_sched.model.compute_node import RATIOS, ComputeNode, Service
from placement_sched.model.document import Json
from placement_sched.model.provider import Inventory
from placement_sched.operations.fleet.cloud import Draft, ProviderState, derived_uuid
from placement_sched.operations.fleet.names import expand, fill_in, for_each, one_for_each
from placement_sched.operations.fleet.schema import read_node_name, read_provider_name
from placement_sched.operations.root_providers import DISABLED_TRAIT
from placement_sched.scheduler.policies.registry import NO_RATIOS, Ratios
from placement_sched.schemas.formats import DocumentError, located
from placement_sched.schemas.node_report import read_report

#: Fields of a report that an entry has as keys of its own, or that do not make it a report.
_OWN = frozenset({"uuid", "host", "hypervisor_hostname", "host_ip", "last_seen_up", "inventories"})
_REPORTED = frozenset(compute_node.REPORT_KEYS) - _OWN
#: A provider with the name of its root.
_Placed = tuple[ProviderState, str]


def merge_hosts(draft: Draft, entry: Json) -> None:
    """Put the nodes of an entry, with their providers and services."""
    hosts, names = _names(entry)
    uuids = for_each(entry, "uuid", len(names))
    addresses = for_each(entry, "host_ip", len(names), alone=True)
    reported = _report(draft, entry, hosts[0], names[0], addresses[0])
    roots: list[_Placed] = []
    for host, name, given, address in zip(hosts, names, uuids, addresses, strict=True):
        known = draft.node_uuids.get((host, name))
        uuid = given or known or derived_uuid("node", host, name)
        before = draft.after.nodes.get(uuid)
        node = reported or before
        if node is None:
            what = f"'vcpus' and 'memory_mb' are required, as there is no host {host} yet"
            raise DocumentError(what)
        last = before.last_seen_up if before else draft.now
        seen = entry.get("last_seen_up") or last
        node = replace(node, uuid=uuid, host=host, hypervisor_hostname=name, last_seen_up=seen)
        if "host_ip" in entry:
            node = replace(node, host_ip=address)
        _put_node(draft, node)
        service = _service(draft, host, compute_node.COMPUTE_BINARY)
        if service.last_seen_up is None or service.last_seen_up < seen:
            service = service._replace(last_seen_up=seen)
        _put_service(draft, service)
        if entry.get("provider", True):
            roots.append((_put_root(draft, entry, node, reported=reported is not None), name))
    _merge_below(draft, entry, roots)


def _names(entry: Json) -> tuple[Sequence[str], Sequence[str]]:
    """Return the host and the name of each node; a host may have several nodes."""
    hosts: list[str] = entry["host"]
    with located("host"):
        names = entry["node"] if "node" in entry else [read_node_name(one) for one in hosts]
        hosts_of_each = one_for_each(hosts, max(len(hosts), len(names)))
    with located("node" if "node" in entry else "host"):
        return hosts_of_each, one_for_each(names, len(hosts_of_each), alone=False)


def _report(draft: Draft, entry: Json, host: str, name: str, ip: str | None) -> ComputeNode | None:
    given = {key: value for key, value in entry.items() if key in _REPORTED}
    if not given:
        return None
    uuid = derived_uuid("node", host, name)
    names = {"uuid": uuid, "host": host, "hypervisor_hostname": name, "host_ip": ip}
    return read_report({**given, **names}, draft.defaults).node


def _service(draft: Draft, host: str, binary: str) -> Service:
    uuid = derived_uuid("service", host, binary)
    new = Service(0, uuid, host, binary)
    return draft.after.services.get((host, binary), new)


def _put_node(draft: Draft, node: ComputeNode) -> None:
    names, before = (node.host, node.hypervisor_hostname), draft.after.nodes.get(node.uuid)
    draft.note_entry("node", node.uuid)
    owner = draft.node_uuids.setdefault(names, node.uuid)
    if owner != node.uuid:
        raise DocumentError(f"the names {' '.join(names)} are already used by node {owner}")
    if before is not None and (before.host, before.hypervisor_hostname) != names:
        draft.node_uuids.pop((before.host, before.hypervisor_hostname), None)
    draft.after.nodes[node.uuid] = node


def _put_service(draft: Draft, service: Service) -> None:
    key = (service.host, service.binary)
    host, binary = owner = draft.service_keys.setdefault(service.uuid, key)
    if owner != key:
        raise DocumentError(f"uuid {service.uuid} already belongs to {binary} of {host}")
    draft.after.services[key] = service


def _put_root(draft: Draft, entry: Json, node: ComputeNode, *, reported: bool) -> ProviderState:
    """Put a node's provider: what its report makes, and what the entry has beside it."""
    before = draft.after.providers.get(node.uuid)
    had = before.inventories if before else {}
    made = {one.resource_class: one for one in compute_node.inventories_of(node)}
    others = {name: one for name, one in had.items() if name not in compute_node.REPORTED_CLASSES}
    if not reported and before:
        made = {name: one for name, one in had.items() if name in compute_node.REPORTED_CLASSES}
    provider = replace(
        before or ProviderState(uuid=node.uuid, name=""),
        name=node.hypervisor_hostname,
        inventories=_inventories(entry, others, made),
    )
    return _put_provider(draft, provider, entry, "provider_aggregates")


def _put_provider(
    draft: Draft, provider: ProviderState, entry: Json, key: str = "aggregates"
) -> ProviderState:
    """Put a provider with the traits of an entry, and the aggregates under a key of it."""
    uuid, before = provider.uuid, draft.after.providers.get(provider.uuid)
    given = {"traits": entry.get("traits"), "aggregates": entry.get(key)}
    lists: Json = {name: frozenset(values) for name, values in given.items() if values is not None}
    provider = replace(provider, **lists)
    draft.given_lists.update((uuid, name) for name in lists)
    draft.note_entry("provider", uuid)
    owner = draft.provider_uuids.setdefault(provider.name, uuid)
    if owner != uuid:
        raise DocumentError(f"the name {provider.name} is already used by provider {owner}")
    draft.add_classes(provider.inventories)
    draft.add_traits(provider.traits)
    if before is not None and before.name != provider.name:
        draft.provider_uuids.pop(before.name, None)
    draft.after.providers[uuid] = provider
    return provider


def _inventories(
    entry: Json, before: Mapping[str, Inventory], made: Mapping[str, Inventory]
) -> dict[str, Inventory]:
    """Return the inventories of an entry, or those before, over what is made otherwise."""
    found = {**made, **before}
    if "inventories" in entry:
        found = dict(made)
        for name, given in entry["inventories"].items():
            if given is None:
                found.pop(name, None)
                continue
            found[name] = one = Inventory(resource_class=name, **given)
            if one.capacity < 0:
                what = f"{one.reserved} is more than the total, {one.total}"
                raise DocumentError(what, "inventories", name, "reserved")
    return found


def merge_providers(draft: Draft, entry: Json) -> None:
    """Put the providers of an entry that are not hosts', and those below them."""
    _merge_entry(draft, entry, [None])


def _merge_below(draft: Draft, entry: Json, parents: Sequence[_Placed]) -> None:
    above = draft.entry
    for index, below in enumerate(entry.get("providers", ())):
        draft.entry = (*above, "providers", index)
        with located("providers", index):
            _merge_entry(draft, below, parents)
    draft.entry = above


def _merge_entry(draft: Draft, entry: Json, parents: Sequence[_Placed | None]) -> None:
    """Put the providers of an entry below each parent; None makes them roots."""
    with located("name"):
        places = [(parent, name) for parent in parents for name in _names_below(entry, parent)]
    uuids = for_each(entry, "uuid", len(places))
    made: list[_Placed] = []
    for (parent, name), given in zip(places, uuids, strict=True):
        uuid = given or draft.provider_uuids.get(name) or derived_uuid("provider", name)
        before = draft.after.providers.get(uuid) or ProviderState(uuid=uuid, name=name)
        provider = replace(
            before,
            name=name,
            parent=parent and parent[0].uuid,
            inventories=_inventories(entry, before.inventories, {}),
        )
        _put_provider(draft, provider, entry)
        made.append((provider, parent[1] if parent else name))
    _merge_below(draft, entry, made)


def _names_below(entry: Json, parent: _Placed | None) -> list[str]:
    given = entry["name"]
    patterns = given if isinstance(given, list) else [given]
    if parent is not None:
        above = {"root": parent[1], "parent": parent[0].name}
        patterns = [fill_in(pattern, above) for pattern in patterns]
    return [read_provider_name(name) for pattern in patterns for name in expand(pattern)]


def merge_services(draft: Draft, entry: Json) -> None:
    """Put the services of an entry."""
    hosts, binary = entry["host"], entry.get("binary", compute_node.COMPUTE_BINARY)
    given: Json = {key: entry[key] for key in ("forced_down", "last_seen_up") if key in entry}
    for host, uuid in zip(hosts, for_each(entry, "uuid", len(hosts)), strict=True):
        draft.note_entry("service", host, binary)
        service = _service(draft, host, binary)._replace(**given)
        if "status" in entry:
            service = service._replace(disabled=entry["status"] == "disabled")
        reason = service.disabled_reason
        if "status" in entry and not service.disabled:
            reason = None
        service = service._replace(
            uuid=uuid or service.uuid, disabled_reason=entry.get("disabled_reason", reason)
        )
        if service.disabled_reason is not None and not service.disabled:
            raise DocumentError("only a disabled service has a reason", "disabled_reason")
        with located(*(("uuid",) if uuid else ())):
            _put_service(draft, service)


def settle_roots(draft: Draft) -> None:
    """Give roots the aggregates of their hosts, the mark of disabled ones and policies' ratios."""
    before, after, policies = draft.before, draft.after, draft.policies
    joined = before.aggregates_by_host(), after.aggregates_by_host()
    disabled = before.disabled_hosts(), after.disabled_hosts()
    ratios = before.ratios_by_host(policies), after.ratios_by_host(policies)
    nothing = frozenset[str]()
    for uuid, node in after.nodes.items():
        if (provider := after.providers.get(uuid)) is None:
            continue
        old, old_provider = before.nodes.get(uuid), before.providers.get(uuid)
        former_host = old.host if old and old_provider else ""
        members, traits = provider.aggregates, provider.traits
        if (uuid, "aggregates") not in draft.given_lists:
            left, came = joined[0].get(former_host, nothing), joined[1].get(node.host, nothing)
            members = members - (left - came) | (came - left)
        was_disabled, given = node.host in disabled[0], (uuid, "traits") in draft.given_lists
        if node.host in disabled[1]:
            if given or not was_disabled or old_provider is None:
                traits |= {DISABLED_TRAIT}
        elif was_disabled and not given:
            traits -= {DISABLED_TRAIT}
        had = NO_RATIOS if old is None else ratios[0].get(old.host, NO_RATIOS)
        has = ratios[1].get(node.host, NO_RATIOS)
        stock = _under_policies(provider, old_provider, node, had, has)
        after.providers[uuid] = replace(
            provider, aggregates=members, traits=traits, inventories=stock
        )


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
