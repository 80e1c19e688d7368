# SPDX-License-Identifier: Apache-2.0
"""Hosts with recorded instances that must share a pinned CPU or a PCI device.

Only nova-compute has the assignment of CPUs and devices to instances, and its reports contain sums.
Therefore the requests of the recorded instances are compared with the numbers of a host: pinned
CPUs with all CPUs, PCI devices of instances claimed after the last report with the devices that it
has as free. If placement tracks PCI devices, they are allocations, and their capacity is verified.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict

from placement_sched.config.settings import Settings
from placement_sched.db.sql import grouped
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.flavor import Flavor
from placement_sched.model.hardware.numa import InstanceNUMATopology
from placement_sched.model.hardware.pci_requests import Alias
from placement_sched.model.hardware.request import RequestedHardware
from placement_sched.model.image import Image
from placement_sched.model.instance import Instance
from placement_sched.model.names import shorten_names
from placement_sched.scheduler.policies.registry import pci_aliases
from placement_sched.store.compute import compute_nodes
from tests.verifier import claims, devices, hardware, pinning
from tests.verifier.model import Fault

_Found = Iterator[tuple[Fault, Mapping[str, object]]]


def find_faults(connection: Connection, settings: Settings) -> _Found:
    instances, unreadable = hardware.instances_with_hardware(connection)
    yield from _unreadable_faults("instance", unreadable)
    hosts = {instance.host for instance in instances if instance.host is not None}
    uuids = compute_nodes.uuids_by_name(connection, hosts)
    by_node = _instances_by_node(instances, uuids)
    nodes, unreadable = hardware.nodes_of(connection, uuids.values())
    yield from _unreadable_faults("compute node", unreadable)
    tracked = settings.filter_scheduler.pci_in_placement
    aliases = None if tracked else pci_aliases(settings)
    with_devices = [] if aliases is None else _instances_with_devices(instances)
    places = claims.claimed_places(connection, with_devices)
    for node in nodes:
        on_node = by_node.get((node.host, node.hypervisor_hostname), [])
        try:
            readable, unreadable = _readable_instances(on_node)
            yield from _unreadable_faults("instance", unreadable)
            yield from _pinned_cpu_faults(node, readable)
            if aliases is not None:
                yield from _device_faults(connection, node, readable, places, aliases)
        except hardware.MALFORMED as failure:
            reason = hardware.unreadable_reason(failure)
            yield from _unreadable_faults(
                "compute node", [hardware.UnreadableRecord(node.uuid, reason)]
            )


def _instances_by_node(
    instances: Iterable[Instance], names: Collection[tuple[str, str]]
) -> Mapping[tuple[str | None, str | None], list[Instance]]:
    """Return the instances on each node. ``names`` has the host and the name of every node.

    An instance that is recorded without a node is counted if its host has a single node.
    """
    of_host = grouped(names)
    by_node: dict[tuple[str | None, str | None], list[Instance]] = defaultdict(list)
    for instance in instances:
        nodes = of_host.get(instance.host or "", ())
        node = nodes[0] if instance.node is None and len(nodes) == 1 else instance.node
        by_node[instance.host, node].append(instance)
    return by_node


def _unreadable_faults(what: str, records: Iterable[hardware.UnreadableRecord]) -> _Found:
    for uuid, reason in records:
        yield Fault.RECORD_UNREADABLE, {"what": what, "uuid": uuid, "reason": reason}


def _instances_with_devices(instances: Iterable[Instance]) -> list[str]:
    return [instance.uuid for instance in instances if hardware.DEVICES in str(instance.flavor)]


def _readable_instances(
    instances: Iterable[Instance],
) -> tuple[list[Instance], list[hardware.UnreadableRecord]]:
    readable, unreadable = list[Instance](), list[hardware.UnreadableRecord]()
    for instance in instances:
        try:
            _requested_hardware(instance)
        except Invalid:  # the functions below ignore an instance with an invalid request
            pass
        except hardware.MALFORMED as failure:
            reason = hardware.unreadable_reason(failure)
            unreadable.append(hardware.UnreadableRecord(instance.uuid, reason))
            continue
        readable.append(instance)
    return readable, unreadable


def _pinned_cpu_faults(node: ComputeNode, instances: Sequence[Instance]) -> _Found:
    cells = node.numa_topology.topology.cells if node.numa_topology is not None else ()
    cpus = frozenset[int]().union(*(cell.pcpuset for cell in cells))
    if not cpus:  # the host reports no CPUs for pinning
        return
    cores = pinning.pinned_cpus_per_core(cells)
    withheld = {
        instance.uuid: pinning.withheld_cpus(_topology_of(instance), cores)
        for instance in instances
    }
    withheld = {uuid: counts for uuid, counts in withheld.items() if any(counts)}
    number = sum(map(sum, withheld.values()))
    about = {"host": node.host, "instances": shorten_names(sorted(withheld))}
    if number > len(cpus):
        yield Fault.PINNED_CPUS, {**about, "asked": number, "there": len(cpus)}
    elif excess := pinning.find_excess(cells, withheld):
        yield Fault.PINNED_ON_NODES, {**about, **asdict(excess)}


def _topology_of(instance: Instance) -> InstanceNUMATopology | None:
    try:
        return _requested_hardware(instance).numa_topology
    except Invalid:
        return None


def _device_faults(
    connection: Connection,
    node: ComputeNode,
    instances: Sequence[Instance],
    places: devices.Places,
    aliases: Mapping[str, Alias],
) -> _Found:
    missing = list(
        devices.instances_without_devices(node, instances, places, _requested_hardware, aliases)
    )
    seen = devices.report_time(node)
    # The query of has_instance_left runs only for hosts that lack devices.
    if not missing or seen is None or claims.has_instance_left(connection, node.host, seen):
        return
    for instance, reason in missing:
        yield Fault.PCI_DEVICES, {"instance": instance.uuid, "host": node.host, "reason": reason}


def _requested_hardware(instance: Instance) -> RequestedHardware:
    described = instance.flavor or {}
    return RequestedHardware(Flavor.from_document(described), Image.from_document(instance.image))
