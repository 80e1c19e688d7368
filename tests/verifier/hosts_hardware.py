# SPDX-License-Identifier: Apache-2.0
"""Finds hosts where two recorded instances must share a pinned CPU or a PCI device.

Which CPUs and devices an instance has is known to its nova-compute alone, and reported in sums: so
what is found is that there are fewer than the recorded instances request. Of CPUs all are counted,
of devices those of the instances that were claimed after the last report, of what was free then
(where placement tracks devices, they are allocations, and the capacity of these is verified).
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
    found, unread = hardware.instances_with_hardware(connection)
    yield from _unreadable_faults("instance", unread)
    hosts = {one.host for one in found if one.host is not None}
    known = compute_nodes.uuids_by_name(connection, hosts)
    on = _instances_by_node(found, known)
    nodes, unread = hardware.nodes_of(connection, known.values())
    yield from _unreadable_faults("compute node", unread)
    tracked = settings.filter_scheduler.pci_in_placement
    aliases = None if tracked else pci_aliases(settings)
    places = (
        {} if aliases is None else claims.claimed_places(connection, _instances_with_devices(found))
    )
    for node in nodes:
        there = on.get((node.host, node.hypervisor_hostname), [])
        try:
            whole, unread = _readable_instances(there)
            yield from _unreadable_faults("instance", unread)
            yield from _pinned_cpu_faults(node, whole)
            if aliases is not None:
                yield from _device_faults(connection, node, whole, places, aliases)
        except hardware.MALFORMED as failure:
            reason = hardware.unreadable_reason(failure)
            yield from _unreadable_faults(
                "compute node", [hardware.UnreadableRecord(node.uuid, reason)]
            )


def _instances_by_node(
    instances: Iterable[Instance], known: Collection[tuple[str, str]]
) -> Mapping[tuple[str | None, str | None], list[Instance]]:
    """Return the instances on each node, by its host and name, ``known`` being all nodes.

    One that is recorded without a node is on the only node that its host has. Of several it may be
    on any: then it is on none of them here.
    """
    of_host = grouped(known)
    on: dict[tuple[str | None, str | None], list[Instance]] = defaultdict(list)
    for one in instances:
        nodes = of_host.get(one.host or "", ())
        node = nodes[0] if one.node is None and len(nodes) == 1 else one.node
        on[one.host, node].append(one)
    return on


def _unreadable_faults(what: str, unread: Iterable[hardware.UnreadableRecord]) -> _Found:
    for uuid, reason in unread:
        yield Fault.RECORD_UNREADABLE, {"what": what, "uuid": uuid, "reason": reason}


def _instances_with_devices(instances: Iterable[Instance]) -> list[str]:
    return [one.uuid for one in instances if hardware.DEVICES in str(one.flavor)]


def _readable_instances(
    instances: Iterable[Instance],
) -> tuple[list[Instance], list[hardware.UnreadableRecord]]:
    whole, unread = list[Instance](), list[hardware.UnreadableRecord]()
    for one in instances:
        try:
            _requested_hardware(one)
        except Invalid:  # what it requests cannot be known: those below leave it out
            pass
        except hardware.MALFORMED as failure:
            unread.append(hardware.UnreadableRecord(one.uuid, hardware.unreadable_reason(failure)))
            continue
        whole.append(one)
    return whole, unread


def _pinned_cpu_faults(node: ComputeNode, instances: Sequence[Instance]) -> _Found:
    cells = node.numa_topology.topology.cells if node.numa_topology is not None else ()
    cpus = frozenset[int]().union(*(cell.pcpuset for cell in cells))
    if not cpus:  # not reported: how many there are is not known
        return
    cores = pinning.pinned_cpus_per_core(cells)
    asked = {one.uuid: pinning.withheld_cpus(_topology_of(one), cores) for one in instances}
    asked = {uuid: some for uuid, some in asked.items() if any(some)}
    number = sum(map(sum, asked.values()))
    about = {"host": node.host, "instances": shorten_names(sorted(asked))}
    if number > len(cpus):
        yield Fault.PINNED_CPUS, {**about, "asked": number, "there": len(cpus)}
    elif found := pinning.find_excess(cells, asked):
        yield Fault.PINNED_ON_NODES, {**about, **asdict(found)}


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
    found = list(
        devices.instances_without_devices(node, instances, places, _requested_hardware, aliases)
    )
    seen = devices.report_time(node)
    # Asked for few hosts: only where devices lack.
    if not found or seen is None or claims.has_left(connection, node.host, seen):
        return
    for one, reason in found:
        yield Fault.PCI_DEVICES, {"instance": one.uuid, "host": node.host, "reason": reason}


def _requested_hardware(instance: Instance) -> RequestedHardware:
    described = instance.flavor or {}
    return RequestedHardware(Flavor.from_document(described), Image.from_document(instance.image))
