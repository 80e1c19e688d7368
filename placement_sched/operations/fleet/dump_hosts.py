"""Dumps hosts, services and providers; those that are alike share an entry, by a pattern."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from placement_sched.model import compute_node
from placement_sched.model.compute_node import Service
from placement_sched.model.document import Json
from placement_sched.model.placement.provider import Inventory
from placement_sched.operations.aggregate_policies import with_ratios
from placement_sched.operations.fleet.cloud import ProviderState, State, derived_uuid
from placement_sched.operations.fleet.draft import Terms
from placement_sched.operations.fleet.names import escape, natural_key, patterns_for, unquoted
from placement_sched.operations.root_providers import DISABLED_TRAIT
from placement_sched.scheduler.policies.registry import NO_RATIOS
from placement_sched.schemas.fields import INVENTORY
from placement_sched.schemas.node_report import read_report

_REQUIRED = ("vcpus", "memory_mb")
_SIZES = (*_REQUIRED, "local_gb", "memory_mb_used", "local_gb_used")
_NAMES = ("uuid", "host", "hypervisor_hostname", "host_ip", "last_seen_up")
_OWN = {*_SIZES, *compute_node.RATIOS.values(), *_NAMES}
_OTHERS = {name: name for name in compute_node.REPORT_KEYS if name not in _OWN}
_INVENTORY = {name: name for name in (*INVENTORY, "allocation_ratio")}


def differing(one: object, default: object, names: Mapping[str, str], *always: str) -> Json:
    """Return, by key, the values of fields that are not the default ones."""
    return {
        key: value
        for key, name in names.items()
        if (value := getattr(one, name)) != getattr(default, name) or key in always
    }


def filled(values: Json) -> Json:
    """Return the values that are not empty."""
    return {key: value for key, value in values.items() if value}


def given_id(key: str, value: str, kind: str, *names: str) -> Json:
    """Return an id by its key, unless it is derived from these names."""
    return {} if value == derived_uuid(kind, *names) else {key: unquoted(value)}


def grouped(
    things: Iterable[tuple[Json, Sequence[str | None]]],
) -> Iterator[tuple[Json, list[list[Any]]]]:
    """Yield each different entry with the columns of the names of all things that share it."""
    found: dict[str, tuple[Json, list[Sequence[str | None]]]] = {}
    for entry, names in things:
        # 1 and 1.0 are different numbers in a file, and the order of keys is kept.
        found.setdefault(json.dumps(entry), (entry, []))[1].append(names)
    for entry, rows in found.values():
        yield entry, [list(column) for column in zip(*rows, strict=True)]


def dump_hosts(state: State, terms: Terms) -> list[Json]:
    """Return the entries of hosts."""
    writer = _HostWriter(state, terms)
    nodes = sorted(state.nodes.values(), key=lambda one: natural_key(one.hypervisor_hostname))
    nodes.sort(key=lambda one: natural_key(one.host))
    return [_host(entry, columns) for entry, columns in grouped(map(writer.entry, nodes))]


def _has_root(state: State, node: compute_node.ComputeNode) -> bool:
    root = state.providers.get(node.uuid)
    return root is not None and root.parent is None and root.name == node.hypervisor_hostname


class _HostWriter:
    def __init__(self, state: State, terms: Terms) -> None:
        self._state, self._defaults = state, terms.defaults
        self._default_nodes: dict[tuple[Any, ...], compute_node.ComputeNode] = {}
        self._aggregates = state.aggregates_by_host()
        self._ratios = state.ratios_by_host(terms.policies)
        self._children = _children(state)
        self._disabled = state.disabled_hosts()

    def entry(self, node: compute_node.ComputeNode) -> tuple[Json, list[str | None]]:
        """Return the entry of a node without its names, and the names that belong in it."""
        names: list[str | None] = [node.host, node.hypervisor_hostname, node.uuid, node.host_ip]
        entry = {**self._report(node), "last_seen_up": node.last_seen_up.isoformat()}
        if not _has_root(self._state, node):
            return {**entry, "provider": False}, names
        provider = self._state.providers[node.uuid]
        # Ratios that follow from a policy are left out: they come with the aggregate.
        policed = with_ratios(node, self._ratios.get(node.host, NO_RATIOS))
        made = {one.resource_class: one for one in compute_node.inventories_of(policed)}
        beside: Json = {
            name: differing(one, _NEW_INVENTORY, _INVENTORY)
            for name, one in sorted(provider.inventories.items())
            if made.get(name) != one
        }
        # None is for an inventory that the report makes and the provider lacks.
        beside |= {name: None for name in made if name not in provider.inventories}
        traits = provider.traits - ({DISABLED_TRAIT} if node.host in self._disabled else set())
        entry |= filled({"inventories": beside, "traits": sorted(traits)})
        if provider.aggregates != self._aggregates.get(node.host, frozenset()):
            entry["provider_aggregates"] = sorted(provider.aggregates)
        root = node.hypervisor_hostname
        below = [self._child(one, root, names) for one in self._children[node.uuid]]
        return entry | filled({"providers": below}), names

    def _report(self, node: compute_node.ComputeNode) -> Json:
        sizes = {name: getattr(node, name) for name in _SIZES}
        key = tuple(sizes.values())
        if key not in self._default_nodes:
            # What a report of nothing but sizes makes.
            names = {"host": "h", "hypervisor_hostname": "h", "uuid": derived_uuid("node", "h")}
            self._default_nodes[key] = read_report({**names, **sizes}, self._defaults).node
        shown = {name: value for name, value in sizes.items() if value or name in _REQUIRED}
        shown |= {name: getattr(node, name) for name in compute_node.RATIOS.values()}
        others = differing(node, self._default_nodes[key], _OTHERS)
        return shown | {name: _report_value(name, value) for name, value in others.items()}

    def _child(self, provider: ProviderState, root: str, names: list[str | None]) -> Json:
        before, found, after = provider.name.partition(root)
        pattern = f"{escape(before)}{{root}}{escape(after)}" if found else escape(provider.name)
        names += [provider.name, provider.uuid]
        below = [self._child(one, root, names) for one in self._children[provider.uuid]]
        return {"name": pattern, **_contents(provider), **filled({"providers": below})}


def _host(entry: Json, columns: list[list[Any]]) -> Json:
    hosts, nodes, uuids, addresses, *below = columns
    shown: Json = {"host": patterns_for(hosts, alone=True)}
    if nodes != hosts:
        shown["node"] = patterns_for(nodes)
    if uuids != [derived_uuid("node", *names) for names in zip(hosts, nodes, strict=True)]:
        shown["uuid"] = patterns_for(uuids)
    if set(addresses) != {None}:
        shown["host_ip"] = patterns_for(addresses, alone=True)
    return shown | _with_uuids(entry, iter(below))


def _with_uuids(entry: Json, columns: Iterator[list[Any]]) -> Json:
    """Return an entry of which the providers below have their uuids, where not derived."""
    if "providers" not in entry:
        return entry
    children = []
    for child in entry["providers"]:
        names, uuids = next(columns), next(columns)
        shown: Json = {"name": child["name"]}
        if uuids != [derived_uuid("provider", name) for name in names]:
            shown["uuid"] = patterns_for(uuids)
        children.append(shown | _with_uuids(child, columns))
    return {**entry, "providers": children}


def _children(state: State) -> dict[str, list[ProviderState]]:
    found: dict[str, list[ProviderState]] = defaultdict(list)
    for one in sorted(state.providers.values(), key=lambda one: natural_key(one.name)):
        if one.parent is not None:
            found[one.parent].append(one)
    return found


def dump_providers(state: State) -> list[Json]:
    """Return the entries of providers that are not hosts', and of those below them."""
    below = _children(state)

    def entry_of(one: ProviderState) -> Json:
        entry = {"name": escape(one.name), **given_id("uuid", one.uuid, "provider", one.name)}
        entry |= _contents(one)
        if one.uuid in state.nodes:
            # Given in full, so that nothing follows from the host.
            entry |= {"traits": sorted(one.traits), "aggregates": sorted(one.aggregates)}
        return entry | filled({"providers": [entry_of(child) for child in below[one.uuid]]})

    roots = [
        one
        for one in state.providers.values()
        if one.parent is None
        and not (one.uuid in state.nodes and _has_root(state, state.nodes[one.uuid]))
    ]
    return [entry_of(one) for one in sorted(roots, key=lambda one: natural_key(one.name))]


_NEW_INVENTORY = Inventory(resource_class="", total=0)


def _contents(provider: ProviderState) -> Json:
    inventories = {
        name: differing(one, _NEW_INVENTORY, _INVENTORY)
        for name, one in sorted(provider.inventories.items())
    }
    lists = {"traits": sorted(provider.traits), "aggregates": sorted(provider.aggregates)}
    return filled({"inventories": inventories, **lists})


def _report_value(name: str, value: Any) -> Any:
    if name == "cpu_info":
        # As an object where the same text is made of that again; fractions have several forms.
        fractions: list[str] = []
        note = fractions.append
        found = json.loads(value, parse_float=note, parse_constant=note)
        return found if not fractions and json.dumps(found) == value else value
    if name == "stats":
        return {key: unquoted(one) for key, one in value.items()}
    return json.loads(json.dumps(value))


def dump_services(state: State) -> list[Json]:
    """Return the entries of services that are not just what their hosts' reports make."""
    seen: dict[str, Any] = {}
    for node in state.nodes.values():
        seen[node.host] = max(node.last_seen_up, seen.get(node.host, node.last_seen_up))
    services = sorted(state.services.values(), key=lambda one: (one.binary, natural_key(one.host)))
    entries = ((_service(one, seen), [one.host, one.uuid]) for one in services)
    found: list[Json] = []
    for entry, (hosts, uuids) in grouped((one, names) for one, names in entries if one is not None):
        binary = str(entry.get("binary", compute_node.COMPUTE_BINARY))
        shown: Json = {"host": patterns_for(hosts)}
        if uuids != [derived_uuid("service", host, binary) for host in hosts]:
            shown["uuid"] = patterns_for(uuids)
        found.append(shown | entry)
    return found


def _service(one: Service, seen: Mapping[str, Any]) -> Json | None:
    """Return the entry of a service without its names; None where its host's report makes it."""
    reported = one.is_compute and one.host in seen
    entry: Json = {} if one.is_compute else {"binary": unquoted(one.binary)}
    if one.disabled:
        entry["status"] = "disabled"
        if one.disabled_reason is not None:
            entry["disabled_reason"] = unquoted(one.disabled_reason)
    if one.forced_down:
        entry["forced_down"] = True
    if one.last_seen_up != (seen[one.host] if reported else None):
        entry["last_seen_up"] = one.last_seen_up and one.last_seen_up.isoformat()
    derived = one.uuid == derived_uuid("service", one.host, one.binary)
    return None if reported and derived and not entry else entry
