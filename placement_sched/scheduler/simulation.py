# SPDX-License-Identifier: Apache-2.0
"""Changes of the cloud within a simulation, rolled back at its end.

Draining a host disables its compute service, and sets the trait COMPUTE_STATUS_DISABLED on its root
provider, as a request to ``os-services`` does.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, count, islice
from typing import Any
from uuid import UUID, uuid5

from placement_sched.db.transaction import Connection, ScratchTransaction
from placement_sched.errors import Invalid
from placement_sched.limits import MAX_HOST_COPIES
from placement_sched.model.compute_node import RATIOS, REPORTED_TOTALS, ComputeNode
from placement_sched.model.document import Json
from placement_sched.model.hardware.numa import ReportedTopology
from placement_sched.model.names import suggest_name
from placement_sched.model.provider import Inventory, Provider
from placement_sched.schemas.parts import CHANGE_KINDS
from placement_sched.store import simulated_changes
from placement_sched.store.compute import compute_nodes, host_aggregates
from placement_sched.store.placement import inventories, resource_classes

#: Statistics in a node's report that count instances or activity, and are 0 on a new host.
_COUNTERS = ("num_instances", "io_workload", "failed_builds", "current_workload", "running_vms")
#: Prefixes of further statistics of this kind.
_COUNTER_PREFIXES = ("num_vm_", "num_task_", "num_os_type_", "num_proj_", "num_user_")
#: Maximum number of copies of a host that an SQL statement inserts.
_BATCH_SIZE = 200
#: The trait of root providers of hosts whose compute service is disabled (os-traits).
DISABLED = "COMPUTE_STATUS_DISABLED"
#: The reason in the rejections of a drained host.
DRAINED = "drained in this simulation"


#: The beginning of an entry in a list of hosts that stands for the hosts of an aggregate.
_AGGREGATE, _LISTS_OF_HOSTS = "aggregate:", ("drain", "remove")


@dataclass(frozen=True, slots=True)
class CloudChange:
    """A change of the cloud, and its JSON path in the request.

    ``kind`` is a key of :data:`CHANGE_KINDS`, and ``value`` conforms to the schema of the kind:

    * ``drain``: hosts that get no new instances. A plan moves their instances away.
    * ``remove``: hosts that are removed with their providers. A plan moves their instances first.
      In both lists ``aggregate:NAME`` stands for the hosts of an aggregate before all changes.
    * ``add``: new, empty and enabled hosts like an existing host.
    * ``inventory``: new values for an inventory of a host, or of a named provider in its tree. A
      missing value does not change, and a total of 0 removes the inventory.
    * ``aggregate``: hosts to add to and remove from an aggregate, and metadata to set. None removes
      a metadata key.
    """

    json_path: str
    kind: str
    value: Any


def read_changes(documents: Sequence[Json] | None) -> tuple[CloudChange, ...]:
    """Read changes from JSON objects that match the schema of changes.

    Raises :class:`Invalid` with the JSON path for an unknown key (with the nearest valid key), for
    an inventory without new values, and if too many hosts are added.
    """
    changes = tuple(
        _read_change(kind, value, f"$.changes[{position}]")
        for position, document in enumerate(documents or ())
        for kind, value in document.items()
    )
    copies = sum(change.value.get("count", 1) for change in changes if change.kind == "add")
    if copies > MAX_HOST_COPIES:
        raise Invalid(
            f"{copies} hosts are added, the maximum is {MAX_HOST_COPIES}", json_path="$.changes"
        )
    return changes


def _read_change(kind: str, value: Any, json_path: str) -> CloudChange:
    if kind not in CHANGE_KINDS:
        suggestion = suggest_name("change", kind, CHANGE_KINDS, alike=0.4)
        raise Invalid(f"unknown kind of change {kind!r}{suggestion}", json_path=json_path)
    path = f"{json_path}.{kind}"
    if kind == "inventory" and not value.keys() & {"total", "reserved", "allocation_ratio"}:
        raise Invalid(
            "the inventory changes nothing: give a total, reserved or allocation_ratio",
            json_path=path,
        )
    if kind == "aggregate":
        lists = {name: _deduplicate(value.get(name, ())) for name in ("add_hosts", "remove_hosts")}
        value = {"metadata": {}, **value, **lists}
    return CloudChange(path, kind, _deduplicate(value) if isinstance(value, list) else value)


def _deduplicate(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def expand_aggregates(
    connection: Connection, changes: Sequence[CloudChange]
) -> tuple[CloudChange, ...]:
    """Replace ``aggregate:NAME`` by the hosts of the aggregate.

    Hosts without a compute node are left out. Raises :class:`Invalid` if there are none.
    """
    names = (name for each in changes if each.kind in _LISTS_OF_HOSTS for name in each.value)
    if not any(name.startswith(_AGGREGATE) for name in names):
        return tuple(changes)
    aggregates = {each.name: each for each in host_aggregates.read_snapshot(connection)}
    known_hosts = {host for host, _ in compute_nodes.map_names_by_uuid(connection).values()}

    def list_hosts(name: str, json_path: str) -> list[str]:
        if not name.startswith(_AGGREGATE):
            return [name]
        name = name.removeprefix(_AGGREGATE)
        if name not in aggregates:
            raise _build_unknown_name("aggregate", name, aggregates, json_path)
        members = sorted(aggregates[name].hosts & known_hosts)
        if not members:
            raise Invalid(f"aggregate {name} has no hosts", json_path=json_path)
        return members

    def expand(change: CloudChange) -> CloudChange:
        if change.kind not in _LISTS_OF_HOSTS:
            return change
        paths = (f"{change.json_path}[{position}]" for position in range(len(change.value)))
        hosts = chain.from_iterable(map(list_hosts, change.value, paths))
        return replace(change, value=_deduplicate(hosts))

    return tuple(map(expand, changes))


def copy_node(node: ComputeNode, host: str, number: int, now: datetime) -> ComputeNode:
    """Copy ``node`` to a new host without instances.

    Reserved amounts count as used, as in reports of nova-compute. The new node has only the PCI
    devices that are free on ``node``, because a report does not contain the used devices.
    """
    reserved = node.reserved.get
    name = host if node.hypervisor_hostname == node.host else f"{node.hypervisor_hostname}+{number}"
    memory_used, disk_used = reserved("MEMORY_MB", 0), reserved("DISK_GB", 0)
    free_disk = node.local_gb - disk_used
    topology, unused = node.numa_topology, {"cpu_usage": 0, "memory_usage": 0, "pinned_cpus": []}
    if topology is not None:
        cells = [
            {**cell, **unused, "mempages": [{**page, "used": 0} for page in cell["mempages"]]}
            for cell in topology["cells"]
        ]
        topology = ReportedTopology({**topology, "cells": cells})
    return replace(
        node,
        uuid=str(uuid5(UUID(node.uuid), str(number))),
        host=host,
        hypervisor_hostname=name,
        last_seen_up=now,
        vcpus_used=reserved("VCPU", 0),
        memory_mb_used=memory_used,
        free_ram_mb=node.memory_mb - memory_used,
        local_gb_used=disk_used,
        free_disk_gb=None if node.free_disk_gb is None else free_disk,
        disk_available_least=None if node.disk_available_least is None else free_disk,
        stats={
            key: "0" if key in _COUNTERS or key.startswith(_COUNTER_PREFIXES) else value
            for key, value in node.stats.items()
        },
        numa_topology=topology,
    )


def apply(scratch: ScratchTransaction, changes: Iterable[CloudChange], now: datetime) -> None:
    """Apply changes in a simulation.

    Raises :class:`Invalid` if a change is impossible, :class:`Unavailable` after the deadline.
    """
    connection = scratch.connection
    for change in changes:
        scratch.check()
        match change.kind:
            case "drain":
                get_nodes(connection, change.value, change.json_path)
                simulated_changes.disable(connection, change.value, DISABLED, DRAINED, now)
            case "remove":
                nodes = get_nodes(connection, change.value, change.json_path)
                simulated_changes.remove_hosts(
                    connection, change.value, [node.uuid for node in nodes]
                )
            case "add":
                _add(scratch, change, now)
            case "inventory":
                _change_inventory(connection, change, now)
            case "aggregate":
                _change_aggregate(connection, change, now)


def get_nodes(connection: Connection, names: Sequence[str], json_path: str) -> list[ComputeNode]:
    """Return the nodes of the named hosts, sorted like the names.

    Raises :class:`Invalid` for an unknown host, below ``json_path``.
    """
    all_nodes = compute_nodes.list_by_names(connection, hosts=names, nodes=())
    nodes = {name: [node for node in all_nodes if node.host == name] for name in names}
    for position, name in enumerate(names):
        if not nodes[name]:
            raise _build_unknown_host(connection, name, f"{json_path}[{position}]")
    return [node for name in names for node in nodes[name]]


def _build_unknown_host(connection: Connection, name: str, json_path: str) -> Invalid:
    names = {host for host, _ in compute_nodes.map_names_by_uuid(connection).values()}
    return _build_unknown_name("host", name, names, json_path)


def _build_unknown_name(noun: str, name: str, names: Collection[str], json_path: str) -> Invalid:
    return Invalid(
        f"there is no {noun} {name!r}{suggest_name(noun, name, names)}", json_path=json_path
    )


def _add(scratch: ScratchTransaction, change: CloudChange, now: datetime) -> None:
    connection, template_host = scratch.connection, change.value["like"]
    nodes = compute_nodes.list_by_names(connection, hosts=[template_host], nodes=())
    if not nodes:
        raise _build_unknown_host(connection, template_host, f"{change.json_path}.like")
    aggregates = [
        each for each in host_aggregates.read_snapshot(connection) if template_host in each.hosts
    ]
    trees = {
        node.uuid: simulated_changes.list_tree_providers(connection, [node.uuid]) for node in nodes
    }
    names = compute_nodes.list_names(connection)
    numbered = ((number, f"{template_host}+{number}") for number in count(1))
    unused = ((number, host) for number, host in numbered if host not in names)
    free = islice(unused, change.value.get("count", 1))
    added: list[str] = []
    while batch := dict(islice(free, _BATCH_SIZE)):
        scratch.check()
        first = UUID(nodes[0].uuid)
        uuids = {host: str(uuid5(first, f"{host} service")) for host in batch.values()}
        simulated_changes.add_services(connection, uuids, now)
        for node in nodes:
            copies = {number: copy_node(node, host, number, now) for number, host in batch.items()}
            simulated_changes.add_nodes(connection, list(copies.values()), now)
            tree = trees[node.uuid]
            copied = [_map_copied_names(node, new, tree, number) for number, new in copies.items()]
            simulated_changes.add_trees(connection, tree, copied, DISABLED, now)
        added += batch.values()
    for aggregate in aggregates:
        host_aggregates.add_hosts(connection, aggregate.id, added, now)


def _map_copied_names(
    node: ComputeNode, new: ComputeNode, tree: Iterable[Provider], number: int
) -> dict[str, tuple[str, str]]:
    return {
        provider.uuid: (
            (new.uuid, new.hypervisor_hostname)
            if provider.uuid == node.uuid
            else (str(uuid5(UUID(provider.uuid), str(number))), f"{provider.name}+{number}")
        )
        for provider in tree
    }


def _change_inventory(connection: Connection, change: CloudChange, now: datetime) -> None:
    host, name = change.value["host"], change.value["resource_class"]
    nodes = compute_nodes.list_by_names(connection, hosts=[host], nodes=())
    if not nodes:
        raise _build_unknown_host(connection, host, f"{change.json_path}.host")
    if name not in (classes := resource_classes.list_names(connection)):
        raise _build_unknown_name(
            "resource class", name, classes, f"{change.json_path}.resource_class"
        )
    tree = simulated_changes.list_tree_providers(connection, [node.uuid for node in nodes])
    inventory_rows = inventories.map_by_provider_id(connection, [each.id for each in tree])
    provider = _select_provider(change, tree, inventory_rows)
    old = inventory_rows.get(provider.id, {}).get(name)
    new = _change_values(old, change)
    if new.total and new.reserved > new.total:
        raise Invalid(
            f"reserved ({new.reserved}) is more than the total ({new.total})",
            json_path=change.json_path,
        )
    simulated_changes.put_inventory(connection, provider.id, new, now)
    reported = [node for node in nodes if node.uuid == provider.uuid]
    if name in REPORTED_TOTALS:
        nodes_now = [_update_report(node, new) for node in reported]
        simulated_changes.change_nodes(connection, nodes_now)


def _select_provider(
    change: CloudChange, tree: Sequence[Provider], inventory_rows: dict[int, dict[str, Inventory]]
) -> Provider:
    """Return the named provider, or the owner of the class, or else the root."""
    host, resource_class = change.value["host"], change.value["resource_class"]
    if (uuid_or_name := change.value.get("provider")) is not None:
        named = [provider for provider in tree if uuid_or_name in {provider.uuid, provider.name}]
        if not named:
            existing = {provider.name for provider in tree}
            raise _build_unknown_name(
                "provider", uuid_or_name, existing, f"{change.json_path}.provider"
            )
        return named[0]
    owners = [each for each in tree if resource_class in inventory_rows.get(each.id, {})]
    if len(owners) > 1:
        names = ", ".join(provider.name for provider in owners)
        raise Invalid(
            f"several providers of host {host} have {resource_class}: name one of "
            f"them as provider: {names}",
            json_path=change.json_path,
        )
    roots = [provider for provider in tree if provider.parent_uuid is None]
    if not owners and not roots:
        raise Invalid(f"host {host} has no resource provider", json_path=f"{change.json_path}.host")
    return next(iter(owners or roots))


def _change_values(old: Inventory | None, change: CloudChange) -> Inventory:
    value = change.value
    name, total = value["resource_class"], value.get("total", old.total if old else 0)
    if old is None:
        if not total:
            raise Invalid(
                f"host {value['host']} has no {name}: give a total", json_path=change.json_path
            )
        old = Inventory(resource_class=name, total=total, max_unit=total)
    # A max_unit that was no limit is set to the new total. A lower max_unit is kept, but limited to
    # the new total.
    is_unlimited = old.max_unit >= old.total
    return replace(
        old,
        total=total,
        max_unit=total if is_unlimited else min(old.max_unit, total) or 1,
        **{name: value[name] for name in ("reserved", "allocation_ratio") if name in value},
    )


def _update_report(node: ComputeNode, inventory: Inventory) -> ComputeNode:
    name, total = inventory.resource_class, inventory.total
    difference = total - getattr(node, REPORTED_TOTALS[name])
    sizes: dict[str, Any] = {REPORTED_TOTALS[name]: total, RATIOS[name]: inventory.allocation_ratio}
    changed = replace(node, **sizes, reserved={**node.reserved, name: inventory.reserved})
    if name == "MEMORY_MB" and node.free_ram_mb is not None:
        return replace(changed, free_ram_mb=node.free_ram_mb + difference)
    if name == "DISK_GB":
        least = node.disk_available_least
        free = node.free_disk_gb
        return replace(
            changed,
            free_disk_gb=None if free is None else free + difference,
            disk_available_least=None if least is None else least + difference,
        )
    return changed


def _change_aggregate(connection: Connection, change: CloudChange, now: datetime) -> None:
    name, metadata = change.value["name"], change.value["metadata"]
    added, removed = change.value["add_hosts"], change.value["remove_hosts"]
    by_name = {each.name: each for each in host_aggregates.read_snapshot(connection)}
    aggregate = by_name.get(name)
    if aggregate is None:
        raise _build_unknown_name("aggregate", name, by_name, f"{change.json_path}.name")
    nodes = get_nodes(connection, added, f"{change.json_path}.add_hosts")
    for position, host in enumerate(removed):
        if host not in aggregate.hosts:
            json_path = f"{change.json_path}.remove_hosts[{position}]"
            raise _build_unknown_name(f"host of aggregate {name}", host, aggregate.hosts, json_path)
    host_aggregates.change_metadata(connection, aggregate.id, metadata, now)
    new_hosts = [host for host in added if host not in aggregate.hosts]
    host_aggregates.add_hosts(connection, aggregate.id, new_hosts, now)
    for host in removed:
        host_aggregates.remove_host(connection, aggregate.id, host)
    simulated_changes.change_members(
        connection,
        aggregate.uuid,
        added=host_aggregates.find_provider_ids(connection, {node.host for node in nodes}),
        removed=host_aggregates.find_provider_ids(connection, removed),
        now=now,
    )
    zones: dict[str, str] = {}  # as in nova, a host is in a single availability zone
    for each in host_aggregates.read_snapshot(connection):
        zone = each.availability_zone
        for host in sorted(each.hosts) if zone is not None else ():
            if zones.setdefault(host, zone or "") != zone:
                raise Invalid(
                    f"host {host} would be in two availability zones, {zones[host]} and {zone}",
                    json_path=change.json_path,
                )
