"""Merges the entries of hosts, services and providers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from placement_sched.model import compute_node
from placement_sched.model.compute_node import Service
from placement_sched.model.document import Json
from placement_sched.model.placement.provider import Inventory
from placement_sched.operations.fleet.cloud import ProviderState, derived_uuid
from placement_sched.operations.fleet.draft import Draft
from placement_sched.operations.fleet.names import expand, fill_in, for_each, one_for_each
from placement_sched.operations.fleet.schema import read_node_name, read_provider_name
from placement_sched.schemas.formats import DocumentError, located
from placement_sched.schemas.node_report import read_report

#: Fields of a report that an entry has as keys of its own, or that do not make it a report.
_OWN = frozenset({"uuid", "host", "hypervisor_hostname", "host_ip", "last_seen_up", "inventories"})
_REPORTED = frozenset(compute_node.REPORT_KEYS) - _OWN


class _Parent(NamedTuple):
    """The parent of providers: its uuid, its name and the name of its root."""

    uuid: str
    name: str
    root: str


def merge_hosts(draft: Draft, entry: Json) -> None:
    """Put the nodes of an entry, with their providers and services."""
    hosts, names = _names(entry)
    uuids = for_each(entry, "uuid", len(names))
    addresses = for_each(entry, "host_ip", len(names), alone=True)
    reported = _report(draft, entry, hosts[0], names[0], addresses[0] if addresses else None)
    roots: list[_Parent] = []
    for index, (host, name) in enumerate(zip(hosts, names, strict=True)):
        known = draft.node_names.get((host, name))
        uuid = uuids[index] if uuids else known or derived_uuid("node", host, name)
        before = draft.after.nodes.get(uuid)
        node = reported or before
        if node is None:
            what = f"'vcpus' and 'memory_mb' are required, as there is no host {host} yet"
            raise DocumentError(what)
        address = node.host_ip if addresses is None else addresses[index]
        last = before.last_seen_up if before else draft.terms.defaults.now
        seen = entry.get("last_seen_up") or last
        node = replace(
            node, uuid=uuid, host=host, hypervisor_hostname=name, host_ip=address, last_seen_up=seen
        )
        draft.put_node(node)
        service = _service(draft, host, compute_node.COMPUTE_BINARY)
        if service.last_seen_up is None or service.last_seen_up < seen:
            service = service._replace(last_seen_up=seen)
        draft.put_service(service)
        if entry.get("provider", True):
            _put_root(draft, entry, node, reported=reported is not None)
            roots.append(_Parent(uuid, name, name))
    _merge_below(draft, entry, roots)


def _names(entry: Json) -> tuple[Sequence[str], Sequence[str]]:
    """Return the host and the name of each node; a host may have several nodes."""
    hosts: list[str] = entry["host"]
    with located("host"):
        names = entry["node"] if "node" in entry else [read_node_name(one) for one in hosts]
        hosts_of_each = one_for_each(hosts, max(len(hosts), len(names)))
    with located("node" if "node" in entry else "host"):
        return hosts_of_each, one_for_each(names, len(hosts_of_each), alone=False)


def _report(
    draft: Draft, entry: Json, host: str, name: str, ip: str | None
) -> compute_node.ComputeNode | None:
    given = {key: value for key, value in entry.items() if key in _REPORTED}
    if not given:
        return None
    uuid = derived_uuid("node", host, name)
    names = {"uuid": uuid, "host": host, "hypervisor_hostname": name, "host_ip": ip}
    return read_report({**given, **names}, draft.terms.defaults).node


def _service(draft: Draft, host: str, binary: str) -> Service:
    uuid = derived_uuid("service", host, binary)
    new = Service(0, uuid, host, binary)
    return draft.after.services.get((host, binary), new)


def _put_root(draft: Draft, entry: Json, node: compute_node.ComputeNode, *, reported: bool) -> None:
    """Put a node's provider: what its report makes, and what the entry has beside it."""
    before = draft.after.providers.get(node.uuid) or ProviderState(uuid=node.uuid, name="")
    had = before.inventories
    made = {one.resource_class: one for one in compute_node.inventories_of(node)}
    others = {name: one for name, one in had.items() if name not in compute_node.REPORTED_CLASSES}
    if not reported and node.uuid in draft.after.providers:
        made = {name: one for name, one in had.items() if name in compute_node.REPORTED_CLASSES}
    inventories = _inventories(entry, others, made)
    provider = replace(before, name=node.hypervisor_hostname, inventories=inventories)
    _put(draft, provider, entry.get("traits"), entry.get("provider_aggregates"))


def _put(draft: Draft, provider: ProviderState, traits: Any, aggregates: list[str] | None) -> None:
    if traits is not None:
        provider = replace(provider, traits=frozenset(traits))
        draft.given_traits.add(provider.uuid)
    if aggregates is not None:
        provider = replace(provider, aggregates=frozenset(aggregates))
        draft.given_aggregates.add(provider.uuid)
    draft.put_provider(provider)


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


def _merge_below(draft: Draft, entry: Json, parents: Sequence[_Parent]) -> None:
    above = draft.entry
    for index, below in enumerate(entry.get("providers", ())):
        draft.entry = (*above, "providers", index)
        with located("providers", index):
            _merge_entry(draft, below, parents)
    draft.entry = above


def _merge_entry(draft: Draft, entry: Json, parents: Sequence[_Parent | None]) -> None:
    """Put the providers of an entry below each parent; None makes them roots."""
    with located("name"):
        places = [(parent, name) for parent in parents for name in _names_below(entry, parent)]
    uuids = for_each(entry, "uuid", len(places))
    made: list[_Parent] = []
    for index, (parent, name) in enumerate(places):
        known = draft.provider_names.get(name) or derived_uuid("provider", name)
        uuid = uuids[index] if uuids else known
        before = draft.after.providers.get(uuid) or ProviderState(uuid=uuid, name=name)
        above = None if parent is None else parent.uuid
        inventories = _inventories(entry, before.inventories, {})
        provider = replace(before, name=name, parent=above, inventories=inventories)
        _put(draft, provider, entry.get("traits"), entry.get("aggregates"))
        made.append(_Parent(uuid, name, name if parent is None else parent.root))
    _merge_below(draft, entry, made)


def _names_below(entry: Json, parent: _Parent | None) -> list[str]:
    given = entry["name"]
    patterns = given if isinstance(given, list) else [given]
    if parent is not None:
        above = {"root": parent.root, "parent": parent.name}
        patterns = [fill_in(pattern, above) for pattern in patterns]
    return [read_provider_name(name) for pattern in patterns for name in expand(pattern)]


def merge_services(draft: Draft, entry: Json) -> None:
    """Put the services of an entry."""
    hosts, binary = entry["host"], entry.get("binary", compute_node.COMPUTE_BINARY)
    uuids = for_each(entry, "uuid", len(hosts))
    for index, host in enumerate(hosts):
        draft.name_once("service", host, binary)
        before = _service(draft, host, binary)
        changes: Json = {key: entry[key] for key in ("forced_down", "last_seen_up") if key in entry}
        if "status" in entry:
            changes["disabled"] = entry["status"] == "disabled"
            changes["disabled_reason"] = before.disabled_reason if changes["disabled"] else None
        if "disabled_reason" in entry:
            changes["disabled_reason"] = entry["disabled_reason"]
        if uuids:
            changes["uuid"] = uuids[index]
        service = before._replace(**changes)
        if service.disabled_reason is not None and not service.disabled:
            raise DocumentError("only a disabled service has a reason", "disabled_reason")
        with located(*(("uuid",) if uuids else ())):
            draft.put_service(service)
