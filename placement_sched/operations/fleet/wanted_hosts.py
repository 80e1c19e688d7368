"""Lays what a fleet file says of hosts, services and providers over what there is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.inventory import Inventory
from placement_sched.model.node_report import (
    REPORT_KEYS,
    REPORTED_CLASSES,
    inventories_of,
    report_shape,
)
from placement_sched.model.service import COMPUTE_BINARY
from placement_sched.model.shape import Misfit, record
from placement_sched.operations.fleet import entries
from placement_sched.operations.fleet.entries import (
    anything,
    located,
    no_fewer,
    one_for_each,
    pattern,
)
from placement_sched.operations.fleet.patterns import expand, filled
from placement_sched.operations.fleet.state import ProviderState, ServiceState
from placement_sched.operations.fleet.wanted import Draft, derived
from placement_sched.operations.fleet.written import provider_name

Json = dict[str, Any]

#: Fields of a report that an entry gives by keys of its own, or that do not make it a report.
_OWN = frozenset({"uuid", "host", "hypervisor_hostname", "host_ip", "last_seen_up", "inventories"})
_REPORTED = REPORT_KEYS - _OWN
#: The shape of an entry; what a report has is read by the report's own shape.
HOST = record({**dict.fromkeys(_REPORTED, anything), **entries.HOST}, required=("host",))
#: The most characters of the name of a node, and so of its provider.
_LONGEST = 200


def lay_hosts(draft: Draft, entry: Json) -> None:
    """Make the nodes of an entry, their providers and services; raises :class:`Misfit`."""
    hosts, names = _names(entry)
    count = len(names)
    uuids = _for_each(entry, "uuid", count)
    addresses = _for_each(entry, "host_ip", count, alone=True)
    reported = _report(draft, entry, hosts[0], names[0], addresses[0] if addresses else None)
    roots: list[_Above] = []
    for index, (host, name) in enumerate(zip(hosts, names, strict=True)):
        uuid = uuids[index] if uuids else _uuid_of_node(draft, host, name)
        before = draft.nodes.get(uuid)
        seen = entry.get("last_seen_up") or (before.last_seen_up if before else draft.terms.now)
        node = reported or before
        if node is None:
            raise Misfit(f"'vcpus' and 'memory_mb' are required, as there is no host {host} yet")
        changes: Json = {"uuid": uuid, "host": host, "hypervisor_hostname": name}
        if addresses is not None:
            changes["host_ip"] = addresses[index]
        draft.put_node(replace(node, **changes, last_seen_up=seen))
        _heard_of(draft, host, seen)
        if entry.get("provider", True):
            _lay_root(draft, entry, draft.nodes[uuid], whole=reported is not None)
            roots.append(_Above(uuid, name, name))
    with located("providers"):
        _lay_below(draft, entry.get("providers", ()), roots)


def _names(entry: Json) -> tuple[Sequence[str], Sequence[str]]:
    """Return the host and the name of each node; a host may have several of them."""
    hosts: list[str] = entry["host"]
    names: list[str] = entry.get("node", hosts)
    count = max(len(hosts), len(names))
    with located("host"):
        hosts_of_each = one_for_each(hosts, count)
    with located("node" if "node" in entry else "host"):
        _refuse_long(names)
        return hosts_of_each, no_fewer(names, count)


def _refuse_long(names: Sequence[str]) -> None:
    if wrong := next((name for name in names if len(name) > _LONGEST), None):
        raise Misfit(f"{wrong!r} has {len(wrong)} characters, not 1 to {_LONGEST}")


def _for_each(entry: Json, key: str, count: int, *, alone: bool = False) -> Sequence[Any] | None:
    """Return the values of a key, one for each node; None where the entry has no such key."""
    if key not in entry:
        return None
    if entry[key] is None:
        return [None] * count
    with located(key):
        return one_for_each(entry[key], count) if alone else no_fewer(entry[key], count)


def _report(
    draft: Draft, entry: Json, host: str, name: str, address: str | None
) -> ComputeNode | None:
    """Return the node that the report of an entry makes; None where it has no report."""
    given = {key: value for key, value in entry.items() if key in _REPORTED}
    if not given:
        return None
    whole = {
        **given,
        "uuid": derived("node", host, name),
        "host": host,
        "hypervisor_hostname": name,
        "host_ip": address,
    }
    return report_shape(draft.terms.defaults)(whole).node


def _uuid_of_node(draft: Draft, host: str, name: str) -> str:
    return draft.node_names.get((host, name)) or derived("node", host, name)


def _heard_of(draft: Draft, host: str, seen: datetime) -> None:
    """Make a host's compute service, and note when it was heard of."""
    key = (host, COMPUTE_BINARY)
    service = draft.services.get(key)
    if service is None:
        uuid = derived("service", *key)
        service = ServiceState(uuid=uuid, host=host, binary=COMPUTE_BINARY, last_seen_up=seen)
    elif service.last_seen_up is None or service.last_seen_up < seen:
        service = replace(service, last_seen_up=seen)
    draft.put_service(service)


def _lay_root(draft: Draft, entry: Json, node: ComputeNode, *, whole: bool) -> None:
    before = draft.providers.get(node.uuid)
    _provider(
        draft,
        replace(
            before or ProviderState(uuid=node.uuid, name=""),
            name=node.hypervisor_hostname,
            inventories=_stocks(entry, node, before, whole=whole),
        ),
        {**entry, "aggregates": entry.get("provider_aggregates")},
    )


def _stocks(
    entry: Json, node: ComputeNode, before: ProviderState | None, *, whole: bool
) -> Mapping[str, Inventory]:
    """Return what a root has: what the report makes, and what the entry tells beside it."""
    had = {} if before is None else before.inventories
    reported = {one.resource_class: one for one in inventories_of(node)}
    if not whole and before is not None:
        reported = {name: one for name, one in had.items() if name in REPORTED_CLASSES}
    others = {name: one for name, one in had.items() if name not in REPORTED_CLASSES}
    told = entry.get("inventories", others)
    return {name: one for name, one in {**reported, **told}.items() if one is not None}


def _provider(draft: Draft, provider: ProviderState, entry: Json) -> None:
    """Keep a provider with the traits and aggregates that an entry tells."""
    if entry.get("traits") is not None:
        provider = replace(provider, traits=frozenset(entry["traits"]))
        draft.settled_traits.add(provider.uuid)
    if entry.get("aggregates") is not None:
        provider = replace(provider, aggregates=frozenset(entry["aggregates"]))
        draft.settled_aggregates.add(provider.uuid)
    draft.put_provider(provider)


@dataclass(frozen=True, slots=True)
class _Above:
    """The provider below which others are made: its uuid, its name and the name of its root."""

    uuid: str
    name: str
    root: str


def lay_providers(draft: Draft, entry: Json) -> None:
    """Make the providers of an entry that are no hosts', and those below them."""
    _lay_entry(draft, entry, [None])


def _lay_below(draft: Draft, below: Sequence[Json], parents: Sequence[_Above]) -> None:
    above = draft.entry
    for index, entry in enumerate(below):
        draft.entry = (*above, "providers", index)
        with located(index):
            _lay_entry(draft, entry, parents)
    draft.entry = above


def _lay_entry(draft: Draft, entry: Json, parents: Sequence[_Above | None]) -> None:
    """Make the providers of an entry below each of these; None makes them roots."""
    with located("name"):
        places = [(above, name) for above in parents for name in _names_below(entry["name"], above)]
    uuids = _for_each(entry, "uuid", len(places))
    made: list[_Above] = []
    for index, (above, name) in enumerate(places):
        uuid = uuids[index] if uuids else draft.provider_names.get(name)
        uuid = uuid or derived("provider", name)
        before = draft.providers.get(uuid) or ProviderState(uuid=uuid, name=name)
        told = entry.get("inventories")
        has = before.inventories if told is None else _only(told)
        parent = None if above is None else above.uuid
        _provider(draft, replace(before, name=name, parent=parent, inventories=has), entry)
        made.append(_Above(uuid, name, name if above is None else above.root))
    with located("providers"):
        _lay_below(draft, entry.get("providers", ()), made)


def _only(told: Mapping[str, Inventory | None]) -> dict[str, Inventory]:
    return {name: one for name, one in told.items() if one is not None}


def _names_below(given: Any, above: _Above | None) -> list[str]:
    found: list[str] = []
    for item in given if isinstance(given, list) else [given]:
        text = pattern(item)
        if above is not None:
            text = filled(text, {"root": above.root, "parent": above.name})
        found += [provider_name(name) for name in expand(text)]
    return found


def lay_services(draft: Draft, entry: Json) -> None:
    """Make the services of an entry; raises :class:`Misfit`."""
    hosts, binary = entry["host"], entry.get("binary", COMPUTE_BINARY)
    uuids = _for_each(entry, "uuid", len(hosts))
    for index, host in enumerate(hosts):
        draft.once("service", host, binary)
        key = (host, binary)
        before = draft.services.get(key) or ServiceState(
            uuid=derived("service", *key), host=host, binary=binary
        )
        changes: Json = {
            name: entry[name] for name in ("forced_down", "last_seen_up") if name in entry
        }
        if "status" in entry:
            changes["disabled"] = entry["status"] == "disabled"
            changes["disabled_reason"] = before.disabled_reason if changes["disabled"] else None
        if "disabled_reason" in entry:
            changes["disabled_reason"] = entry["disabled_reason"]
        if uuids:
            changes["uuid"] = uuids[index]
        service = replace(before, **changes)
        if service.disabled_reason is not None and not service.disabled:
            raise Misfit("only a service of the status disabled has a reason", "disabled_reason")
        with located(*(("uuid",) if uuids else ())):
            draft.put_service(service)
