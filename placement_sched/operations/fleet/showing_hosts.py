"""Writes hosts, services and providers down; what is alike is written once, by a range of names."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.inventory import Inventory
from placement_sched.model.node_report import REPORT_KEYS, inventories_of, report_shape
from placement_sched.model.service import COMPUTE_BINARY
from placement_sched.operations.fleet.patterns import escaped
from placement_sched.operations.fleet.policed import ratios_by_host
from placement_sched.operations.fleet.state import ProviderState, ServiceState, State
from placement_sched.operations.fleet.wanted import Terms, aggregates_by_host, derived
from placement_sched.operations.fleet.words import few, natural_key, short
from placement_sched.operations.policy_ratios import with_ratios
from placement_sched.operations.root_providers import DISABLED_TRAIT
from placement_sched.scheduler.policies.ratios import NONE

Json = dict[str, Any]

_SIZES = ("vcpus", "memory_mb", "local_gb", "memory_mb_used", "local_gb_used")
_RATIOS = ("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio")
_NAMES = ("uuid", "host", "hypervisor_hostname", "host_ip", "last_seen_up")
_OTHERS = tuple(
    name
    for name in ComputeNode.__slots__
    if name in REPORT_KEYS and name not in {*_SIZES, *_RATIOS, *_NAMES}
)
_STOCK = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")
_NEW_STOCK = Inventory(resource_class="", total=0)


@dataclass(slots=True)
class _Alike:
    """Things of which one entry tells: what they share, and a column of each of their names."""

    entry: Json
    columns: list[list[str | None]] = field(default_factory=list)

    def add(self, names: Sequence[str | None]) -> None:
        if not self.columns:
            self.columns = [[] for _ in names]
        for column, name in zip(self.columns, names, strict=True):
            column.append(name)


def alike(
    things: Iterable[tuple[Json, Sequence[str | None]]],
) -> Iterable[tuple[Json, list[list[str | None]]]]:
    """Yield each different entry with the columns of the names of all things that share it."""
    found: dict[str, _Alike] = {}
    for entry, names in things:
        # Whether a number is written as 1 or 1.0 makes a difference, and so does the order.
        found.setdefault(json.dumps(entry), _Alike(entry)).add(names)
    for one in found.values():
        yield one.entry, one.columns


def show_hosts(state: State, terms: Terms) -> list[Json]:
    """Return the entries of hosts."""
    writer = _Writer(state, terms)
    nodes = sorted(
        state.nodes.values(),
        key=lambda node: (natural_key(node.host), natural_key(node.hypervisor_hostname)),
    )
    return [
        writer.whole(entry, columns) for entry, columns in alike(writer.host(one) for one in nodes)
    ]


def rooted(state: State) -> Callable[[ComputeNode], bool]:
    """Return whether a node has a root provider of its uuid and name, as reports make it."""

    def own(node: ComputeNode) -> bool:
        provider = state.providers.get(node.uuid)
        return (
            provider is not None
            and provider.parent is None
            and provider.name == node.hypervisor_hostname
        )

    return own


class _Writer:
    """Writes nodes of a state as entries."""

    def __init__(self, state: State, terms: Terms) -> None:
        self._state = state
        self._shape = report_shape(terms.defaults)
        self._usual: dict[tuple[Any, ...], ComputeNode] = {}
        self._aggregates = aggregates_by_host(state.aggregates.values())
        self._ratios = ratios_by_host(state.aggregates.values(), terms.policies)
        self._children = children_of(state)
        self._own = rooted(state)
        self._disabled = {
            host
            for (host, binary), one in state.services.items()
            if binary == COMPUTE_BINARY and one.disabled
        }

    def host(self, node: ComputeNode) -> tuple[Json, list[str | None]]:
        """Return the entry of a node without what it is called, and the names that belong in it."""
        names: list[str | None] = [node.host, node.hypervisor_hostname, node.uuid, node.host_ip]
        entry = self._report(node)
        entry["last_seen_up"] = node.last_seen_up.isoformat()
        if not self._own(node):
            return {**entry, "provider": False}, names
        provider = self._state.providers[node.uuid]
        # What follows from a policy is not told, as the aggregate tells it.
        policed = with_ratios(node, self._ratios.get(node.host, NONE))
        if told := _beside_report(policed, provider):
            entry["inventories"] = told
        traits = provider.traits - ({DISABLED_TRAIT} if node.host in self._disabled else set())
        if traits:
            entry["traits"] = sorted(traits)
        if provider.aggregates != self._aggregates.get(node.host, frozenset()):
            entry["provider_aggregates"] = sorted(provider.aggregates)
        if below := self._children.get(node.uuid):
            root = node.hypervisor_hostname
            entry["providers"] = [self._child(one, root, names) for one in below]
        return entry, names

    def whole(self, entry: Json, columns: list[list[Any]]) -> Json:
        """Return an entry with the names of all things that it tells of."""
        hosts, nodes, uuids, addresses, *below = columns
        several = len(set(hosts)) > 1 or len(hosts) == 1
        shown: Json = {"host": few(hosts if several else hosts[:1])}
        if nodes != hosts:
            shown["node"] = few(nodes)
        if uuids != [derived("node", *names) for names in zip(hosts, nodes, strict=True)]:
            shown["uuid"] = few(uuids)
        if set(addresses) != {None}:
            shown["host_ip"] = few(addresses if len(set(addresses)) > 1 else addresses[:1])
        shown |= {key: value for key, value in entry.items() if key != "providers"}
        if "providers" in entry:
            rest = iter(below)
            shown["providers"] = [_filled(one, rest) for one in entry["providers"]]
        return shown

    def _report(self, node: ComputeNode) -> Json:
        """Return what a report must say for this node to be made of it."""
        sizes = {name: getattr(node, name) for name in _SIZES}
        usual = self._usual_node(tuple(sizes.values()))
        shown = {
            name: value for name, value in sizes.items() if value or name in {"vcpus", "memory_mb"}
        }
        shown |= {name: getattr(node, name) for name in _RATIOS}
        for name in _OTHERS:
            value = getattr(node, name)
            if value != getattr(usual, name):
                shown[name] = _plain(name, value)
        return shown

    def _usual_node(self, sizes: tuple[Any, ...]) -> ComputeNode:
        """Return the node that a report of nothing but sizes makes."""
        if sizes not in self._usual:
            named = {"host": "h", "hypervisor_hostname": "h", "uuid": derived("node", "h", "h")}
            report = {**named, **dict(zip(_SIZES, sizes, strict=True))}
            self._usual[sizes] = self._shape(report).node
        return self._usual[sizes]

    def _child(self, provider: ProviderState, root: str, names: list[str | None]) -> Json:
        before, found, after = provider.name.partition(root)
        pattern = f"{escaped(before)}{{root}}{escaped(after)}" if found else escaped(provider.name)
        names += [provider.name, provider.uuid]
        entry: Json = {"name": pattern, **what_it_has(provider)}
        if below := self._children.get(provider.uuid):
            entry["providers"] = [self._child(one, root, names) for one in below]
        return entry


def _filled(entry: Json, columns: Iterator[list[Any]]) -> Json:
    """Return the entry of a provider below hosts with its uuids, where they are not derived."""
    names, uuids = next(columns), next(columns)
    shown: Json = {"name": entry["name"]}
    if uuids != [derived("provider", name) for name in names]:
        shown["uuid"] = few(uuids)
    shown |= {key: value for key, value in entry.items() if key != "providers"}
    if "providers" in entry:
        shown["providers"] = [_filled(one, columns) for one in entry["providers"]]
    return shown


def children_of(state: State) -> dict[str, list[ProviderState]]:
    """Return the providers below each, by its uuid, in the order in which people count them."""
    found: dict[str, list[ProviderState]] = defaultdict(list)
    for one in state.providers.values():
        if one.parent is not None:
            found[one.parent].append(one)
    for some in found.values():
        some.sort(key=lambda one: natural_key(one.name))
    return found


def show_providers(state: State) -> list[Json]:
    """Return the entries of providers that are no hosts', and of those below them."""
    below, own = children_of(state), rooted(state)

    def shown(one: ProviderState) -> Json:
        entry: Json = {"name": escaped(one.name)}
        if one.uuid != derived("provider", one.name):
            entry["uuid"] = one.uuid
        entry |= what_it_has(one)
        if one.uuid in state.nodes:
            # Nothing is to follow from what its host is in.
            entry |= {"traits": sorted(one.traits), "aggregates": sorted(one.aggregates)}
        if one.uuid in below:
            entry["providers"] = [shown(child) for child in below[one.uuid]]
        return entry

    roots = [
        one
        for one in state.providers.values()
        if one.parent is None and not (one.uuid in state.nodes and own(state.nodes[one.uuid]))
    ]
    return [shown(one) for one in sorted(roots, key=lambda one: natural_key(one.name))]


def what_it_has(provider: ProviderState) -> Json:
    """Return what a provider has, which is no host's root."""
    shown: Json = {}
    if provider.inventories:
        shown["inventories"] = {
            name: _stock(one) for name, one in sorted(provider.inventories.items())
        }
    if provider.traits:
        shown["traits"] = sorted(provider.traits)
    if provider.aggregates:
        shown["aggregates"] = sorted(provider.aggregates)
    return shown


def _beside_report(node: ComputeNode, provider: ProviderState) -> Json:
    """Return what a root has otherwise than its report makes it; None is for what it has not."""
    made = {one.resource_class: one for one in inventories_of(node)}
    told: Json = {
        name: _stock(one)
        for name, one in sorted(provider.inventories.items())
        if made.get(name) != one
    }
    return told | {name: None for name in made if name not in provider.inventories}


def _stock(one: Inventory) -> Json:
    return {
        name: value for name in _STOCK if (value := getattr(one, name)) != getattr(_NEW_STOCK, name)
    }


def _plain(name: str, value: Any) -> Any:
    """Return a field of a report as it is written."""
    if name == "cpu_info":
        return _opened(value)
    if name == "stats":
        return {key: short(one) for key, one in value.items()}
    return json.loads(json.dumps(value))


def _opened(text: str) -> Any:
    """Return the object of which a JSON text is, where the text can be made of it again."""
    found = json.loads(text)
    return found if json.dumps(found) == text and _certain(found) else text


def _certain(value: Any) -> bool:
    """Return whether a value is read from YAML as it was: fractions may be of more forms."""
    if isinstance(value, Mapping):
        return all(map(_certain, value.values()))
    if isinstance(value, list):
        return all(map(_certain, value))
    return not isinstance(value, float)


def show_services(state: State) -> list[Json]:
    """Return the entries of services that are not just what their hosts' reports make."""
    seen: dict[str, Any] = {}
    for node in state.nodes.values():
        seen[node.host] = max(node.last_seen_up, seen.get(node.host, node.last_seen_up))
    services = sorted(state.services.values(), key=lambda one: (one.binary, natural_key(one.host)))
    found: list[Json] = []
    for entry, (hosts, uuids) in alike(
        told for one in services if (told := _service(one, seen)) is not None
    ):
        binary = entry.get("binary", COMPUTE_BINARY)
        shown: Json = {"host": few([str(host) for host in hosts])}
        if uuids != [derived("service", str(host), binary) for host in hosts]:
            shown["uuid"] = few([str(uuid) for uuid in uuids])
        found.append(shown | entry)
    return found


def _service(one: ServiceState, seen: Mapping[str, Any]) -> tuple[Json, list[str | None]] | None:
    entry: Json = {}
    if one.binary != COMPUTE_BINARY:
        entry["binary"] = short(one.binary)
    if one.disabled:
        entry["status"] = "disabled"
    if one.disabled and one.disabled_reason is not None:
        entry["disabled_reason"] = short(one.disabled_reason)
    if one.forced_down:
        entry["forced_down"] = True
    usual = seen.get(one.host) if one.binary == COMPUTE_BINARY else None
    if one.last_seen_up != usual:
        entry["last_seen_up"] = one.last_seen_up and one.last_seen_up.isoformat()
    reported = one.binary == COMPUTE_BINARY and one.host in seen
    if not entry and reported and one.uuid == derived("service", one.host, one.binary):
        return None
    return entry, [one.host, one.uuid]
