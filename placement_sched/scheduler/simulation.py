"""Changes carried out in a trial: what the real ones would have left there, and nothing committed.

A drained host is one whose compute service is disabled: its root provider has the trait
COMPUTE_STATUS_DISABLED besides, as ``os-services`` would put it there.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count, islice
from typing import Any
from uuid import UUID, uuid5

from placement_sched.db.scratch import Trial
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid
from placement_sched.limits import MAX_HOST_COPIES
from placement_sched.model.aggregates import ZONE_KEY, HostAggregate
from placement_sched.model.compute_node import RATIOS, REPORTED_TOTALS, ComputeNode
from placement_sched.model.document import Json
from placement_sched.model.hardware.numa import ReportedTopology
from placement_sched.model.names import suggested
from placement_sched.model.provider import Inventory, Provider
from placement_sched.schemas.changes import KINDS
from placement_sched.store import simulation
from placement_sched.store.compute import compute_nodes, host_aggregates
from placement_sched.store.placement import inventories, resource_classes


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainedHosts:
    """Hosts that get no new instances; in a plan their instances move away."""

    at: str
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedHosts:
    """Hosts that are not there, nor their providers; in a plan their instances move first."""

    at: str
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedHosts:
    """So many more hosts like one, empty and enabled, in the same aggregates."""

    at: str
    like: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedInventory:
    """Another inventory of a host, or of the provider of its tree that is named.

    None leaves a value as it is; a total of 0 takes the inventory away.
    """

    at: str
    host: str
    resource_class: str
    provider: str | None = None
    total: int | None = None
    reserved: int | None = None
    allocation_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedAggregate:
    """An aggregate with other hosts and metadata; metadata of None go."""

    at: str
    name: str
    add_hosts: tuple[str, ...]
    remove_hosts: tuple[str, ...]
    metadata: Mapping[str, str | None]


#: One change; ``at`` is the JSON path of what it says.
CloudChange = DrainedHosts | RemovedHosts | AddedHosts | ChangedInventory | ChangedAggregate


def changes_from(
    documents: Sequence[Json] | None, at: str = "$.changes"
) -> tuple[CloudChange, ...]:
    """Return the changes that JSON objects say, which the schema of changes accepts.

    Raises :class:`Invalid` with the JSON path of a key that is not known, and the nearest that is,
    and where more hosts are added than one question may add.
    """
    changes = tuple(
        _change(key, value, f"{at}[{position}]")
        for position, document in enumerate(documents or ())
        for key, value in document.items()
    )
    copies = sum(one.count for one in changes if isinstance(one, AddedHosts))
    if copies > MAX_HOST_COPIES:
        raise Invalid(f"{copies} hosts are added, at most {MAX_HOST_COPIES} can be", at=at)
    return changes


def _change(key: str, value: Any, at: str) -> CloudChange:
    path = f"{at}.{key}"
    match key:
        case "drain":
            return DrainedHosts(at=path, hosts=_each_once(value))
        case "remove":
            return RemovedHosts(at=path, hosts=_each_once(value))
        case "add":
            return AddedHosts(at=path, like=value["like"], count=value.get("count", 1))
        case "inventory":
            if not value.keys() & {"total", "reserved", "allocation_ratio"}:
                raise Invalid("nothing is changed: give a total, for one", at=path)
            return ChangedInventory(at=path, **value)
        case "aggregate":
            return ChangedAggregate(
                at=path,
                name=value["name"],
                add_hosts=_each_once(value.get("add_hosts", ())),
                remove_hosts=_each_once(value.get("remove_hosts", ())),
                metadata=value.get("metadata", {}),
            )
    raise Invalid(f"there is no change {key!r}{suggested('change', key, KINDS, alike=0.4)}", at=at)


def _each_once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


#: The statistics that count what a host does.
_COUNTED = ("num_instances", "io_workload", "failed_builds", "current_workload", "running_vms")
#: Prefixes of those that count instances by kind.
_COUNTED_BY = ("num_vm_", "num_task_", "num_os_type_", "num_proj_", "num_user_")


def copy_of(node: ComputeNode, host: str, number: int, now: datetime) -> ComputeNode:
    """Return a node like ``node`` on a new host, on which nothing runs yet.

    What the node keeps back for itself counts as used, as nova-compute reports it. PCI devices are
    as many as the node has free: a report does not say how many it has in all.
    """
    kept = node.reserved.get
    name = host if node.hypervisor_hostname == node.host else f"{node.hypervisor_hostname}+{number}"
    memory_used, disk_used = kept("MEMORY_MB", 0), kept("DISK_GB", 0)
    free_disk = node.local_gb - disk_used
    return replace(
        node,
        uuid=str(uuid5(UUID(node.uuid), str(number))),
        host=host,
        hypervisor_hostname=name,
        last_seen_up=now,
        vcpus_used=kept("VCPU", 0),
        memory_mb_used=memory_used,
        free_ram_mb=node.memory_mb - memory_used,
        local_gb_used=disk_used,
        free_disk_gb=None if node.free_disk_gb is None else free_disk,
        disk_available_least=None if node.disk_available_least is None else free_disk,
        stats={key: "0" if _counts(key) else value for key, value in node.stats.items()},
        numa_topology=_unused(node.numa_topology),
    )


def _counts(key: str) -> bool:
    return key in _COUNTED or key.startswith(_COUNTED_BY)


def _unused(topology: ReportedTopology | None) -> ReportedTopology | None:
    if topology is None:
        return None
    return ReportedTopology({**topology, "cells": [_unused_cell(one) for one in topology["cells"]]})


def _unused_cell(cell: Mapping[str, Any]) -> dict[str, Any]:
    pages = [{**one, "used": 0} for one in cell["mempages"]]
    return {**cell, "cpu_usage": 0, "memory_usage": 0, "pinned_cpus": [], "mempages": pages}


#: So many copies of a host are added at once.
_AT_ONCE = 200
#: Carried by the root providers of hosts whose compute service is disabled (os-traits).
DISABLED = "COMPUTE_STATUS_DISABLED"
#: What filters say of a drained host.
DRAINED = "drained in this question"


@dataclass(slots=True)
class AppliedChanges:
    """What changes came to: the hosts that are drained, those that are gone, those that are new."""

    drained: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)


def apply(trial: Trial, changes: Iterable[CloudChange], now: datetime) -> AppliedChanges:
    """Carry out changes in a trial, in their order; return what they came to.

    Raises :class:`Invalid` with the JSON path of what is not there, and the nearest that is, and
    :class:`Unavailable` where the time of the trial is over.
    """
    applied, connection = AppliedChanges(), trial.connection
    aggregates = _Aggregates(connection)
    for change in changes:
        trial.check()
        match change:
            case DrainedHosts():
                applied.drained += _drain(connection, change, now)
            case RemovedHosts():
                applied.removed += _remove(connection, change)
                aggregates.forget()
            case AddedHosts():
                applied.added += _add(trial, change, now)
                aggregates.forget()
            case ChangedInventory():
                _change_inventory(connection, change, now)
            case ChangedAggregate():
                _change_aggregate(connection, aggregates, change, now)
    return applied


class _Aggregates:
    """The host aggregates of a trial, read when one is asked for."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._by_name: dict[str, HostAggregate] | None = None

    @property
    def by_name(self) -> dict[str, HostAggregate]:
        """Return all, as changes have left them."""
        if self._by_name is None:
            found = host_aggregates.snapshot(self._connection)
            self._by_name = {one.name: one for one in found}
        return self._by_name

    def forget(self) -> None:
        """Let them be read again: hosts came or went."""
        self._by_name = None


def nodes_of(connection: Connection, names: Sequence[str], at: str) -> list[ComputeNode]:
    """Return the nodes of hosts that stand in the list at a JSON path, in the order of the hosts.

    Raises :class:`Invalid` for a host that is not there.
    """
    found = compute_nodes.named(connection, hosts=names, nodes=())
    nodes = {name: [one for one in found if one.host == name] for name in names}
    for position, name in enumerate(names):
        if not nodes[name]:
            raise _unknown_host(connection, name, f"{at}[{position}]")
    return [node for name in names for node in nodes[name]]


def _unknown_host(connection: Connection, name: str, at: str) -> Invalid:
    known = {host for host, _ in compute_nodes.names_by_uuid(connection).values()}
    return _unknown("host", name, known, at)


def _unknown(noun: str, name: str, known: Collection[str], at: str) -> Invalid:
    return Invalid(f"there is no {noun} {name!r}{suggested(noun, name, known)}", at=at)


def _drain(connection: Connection, change: DrainedHosts, now: datetime) -> tuple[str, ...]:
    nodes_of(connection, change.hosts, change.at)
    simulation.disable(connection, change.hosts, DISABLED, DRAINED, now)
    return change.hosts


def _remove(connection: Connection, change: RemovedHosts) -> tuple[str, ...]:
    nodes = nodes_of(connection, change.hosts, change.at)
    simulation.remove_hosts(connection, change.hosts, [node.uuid for node in nodes])
    return change.hosts


def _add(trial: Trial, change: AddedHosts, now: datetime) -> list[str]:
    connection = trial.connection
    nodes = compute_nodes.named(connection, hosts=[change.like], nodes=())
    if not nodes:
        raise _unknown_host(connection, change.like, f"{change.at}.like")
    aggregates = [one for one in host_aggregates.snapshot(connection) if change.like in one.hosts]
    trees = {node.uuid: simulation.providers_of(connection, [node.uuid]) for node in nodes}
    taken = compute_nodes.all_names(connection)
    numbered = ((number, f"{change.like}+{number}") for number in count(1))
    free = islice(((number, host) for number, host in numbered if host not in taken), change.count)
    added: list[str] = []
    while some := dict(islice(free, _AT_ONCE)):
        trial.check()
        uuids = {host: _copied(UUID(nodes[0].uuid), f"{host} service") for host in some.values()}
        simulation.add_services(connection, uuids, now)
        for node in nodes:
            copies = {number: copy_of(node, host, number, now) for number, host in some.items()}
            simulation.add_nodes(connection, list(copies.values()), now)
            tree = trees[node.uuid]
            named = [_names(node, new, tree, number) for number, new in copies.items()]
            simulation.add_trees(connection, tree, named, DISABLED, now)
        added += some.values()
    for aggregate in aggregates:
        host_aggregates.add_hosts(connection, aggregate.id, added, now)
    return added


def _names(
    node: ComputeNode, new: ComputeNode, tree: Iterable[Provider], number: int
) -> dict[str, tuple[str, str]]:
    """Return uuid and name of the copy of each provider of a node's tree."""
    return {
        one.uuid: (
            (new.uuid, new.hypervisor_hostname)
            if one.uuid == node.uuid
            else (_copied(UUID(one.uuid), str(number)), f"{one.name}+{number}")
        )
        for one in tree
    }


def _copied(uuid: UUID, name: str) -> str:
    return str(uuid5(uuid, name))


def _change_inventory(connection: Connection, change: ChangedInventory, now: datetime) -> None:
    nodes = compute_nodes.named(connection, hosts=[change.host], nodes=())
    if not nodes:
        raise _unknown_host(connection, change.host, f"{change.at}.host")
    if change.resource_class not in (known := resource_classes.all_names(connection)):
        raise _unknown(
            "resource class", change.resource_class, known, f"{change.at}.resource_class"
        )
    tree = simulation.providers_of(connection, [node.uuid for node in nodes])
    stocks = inventories.by_provider_id(connection, [one.id for one in tree])
    provider = _provider(change, tree, stocks)
    before = stocks.get(provider.id, {}).get(change.resource_class)
    after = _changed(before, change)
    if after.total and after.reserved > after.total:
        raise Invalid(f"{after.reserved} reserved are more than the total", at=change.at)
    simulation.put_inventory(connection, provider.id, after, now)
    reported = [node for node in nodes if node.uuid == provider.uuid]
    if change.resource_class in REPORTED_TOTALS:
        nodes_now = [_reporting(node, after) for node in reported]
        simulation.change_nodes(connection, nodes_now)


def _provider(
    change: ChangedInventory, tree: Sequence[Provider], stocks: dict[int, dict[str, Inventory]]
) -> Provider:
    """Return the provider of a host that is meant: the one named, else the one with the class.

    Where no provider has the class, it is the root.
    """
    if change.provider is not None:
        named = [one for one in tree if change.provider in {one.uuid, one.name}]
        if not named:
            known = {one.name for one in tree}
            raise _unknown("provider", change.provider, known, f"{change.at}.provider")
        return named[0]
    having = [one for one in tree if change.resource_class in stocks.get(one.id, {})]
    if len(having) > 1:
        names = ", ".join(one.name for one in having)
        raise Invalid(
            f"several providers of host {change.host} have {change.resource_class}: name one as "
            f"provider: {names}",
            at=change.at,
        )
    roots = [one for one in tree if one.parent_uuid is None]
    if not having and not roots:
        raise Invalid(f"host {change.host} has no resource provider", at=f"{change.at}.host")
    return next(iter(having or roots))


def _changed(before: Inventory | None, change: ChangedInventory) -> Inventory:
    if before is None:
        if not change.total:
            raise Invalid(
                f"host {change.host} has no {change.resource_class}: give a total", at=change.at
            )
        before = Inventory(
            resource_class=change.resource_class, total=change.total, max_unit=change.total
        )
    total = before.total if change.total is None else change.total
    # The largest amount was all there is, or still is what it was.
    whole = before.max_unit >= before.total
    given: dict[str, Any] = {
        "reserved": change.reserved,
        "allocation_ratio": change.allocation_ratio,
    }
    return replace(
        before,
        total=total,
        max_unit=total if whole else min(before.max_unit, total) or 1,
        **{name: value for name, value in given.items() if value is not None},
    )


def _reporting(node: ComputeNode, inventory: Inventory) -> ComputeNode:
    """Return what a node would report that has this inventory."""
    name, total = inventory.resource_class, inventory.total
    more = total - getattr(node, REPORTED_TOTALS[name])
    sizes: dict[str, Any] = {REPORTED_TOTALS[name]: total, RATIOS[name]: inventory.allocation_ratio}
    changed = replace(node, **sizes, reserved={**node.reserved, name: inventory.reserved})
    if name == "MEMORY_MB" and node.free_ram_mb is not None:
        return replace(changed, free_ram_mb=node.free_ram_mb + more)
    if name == "DISK_GB":
        least = node.disk_available_least
        free = node.free_disk_gb
        return replace(
            changed,
            free_disk_gb=None if free is None else free + more,
            disk_available_least=None if least is None else least + more,
        )
    return changed


def _change_aggregate(
    connection: Connection, aggregates: _Aggregates, change: ChangedAggregate, now: datetime
) -> None:
    every = aggregates.by_name
    aggregate = every.get(change.name)
    if aggregate is None:
        raise _unknown("aggregate", change.name, every, f"{change.at}.name")
    nodes = nodes_of(connection, change.add_hosts, f"{change.at}.add_hosts")
    for position, host in enumerate(change.remove_hosts):
        if host not in aggregate.hosts:
            at = f"{change.at}.remove_hosts[{position}]"
            raise _unknown(f"host of aggregate {change.name}", host, aggregate.hosts, at)
    host_aggregates.change_metadata(connection, aggregate.id, change.metadata, now)
    new = [host for host in change.add_hosts if host not in aggregate.hosts]
    host_aggregates.add_hosts(connection, aggregate.id, new, now)
    for host in change.remove_hosts:
        host_aggregates.remove_host(connection, aggregate.id, host)
    simulation.change_members(
        connection,
        aggregate.uuid,
        added=host_aggregates.provider_ids_of_hosts(connection, {node.host for node in nodes}),
        removed=host_aggregates.provider_ids_of_hosts(connection, change.remove_hosts),
        now=now,
    )
    metadata = {**aggregate.metadata, **change.metadata}
    every[change.name] = replace(
        aggregate,
        hosts=aggregate.hosts.union(new).difference(change.remove_hosts),
        metadata={key: value for key, value in metadata.items() if value is not None},
    )
    _check_zones(every.values(), change)


def _check_zones(every: Iterable[HostAggregate], change: ChangedAggregate) -> None:
    """Raise :class:`Invalid` where a host is in two availability zones, which nova refuses."""
    zones: dict[str, str] = {}
    for one in every:
        zone = one.metadata.get(ZONE_KEY)
        for host in sorted(one.hosts) if zone is not None else ():
            if zones.setdefault(host, zone or "") != zone:
                raise Invalid(
                    f"host {host} would be in two availability zones, {zones[host]} and {zone}",
                    at=change.at,
                )
