"""NUMA nodes and PCI devices as versioned notifications tell them."""

from placement_sched.model.numa_topology import InstanceNUMACell, InstanceNUMATopology
from placement_sched.model.pci_request import InstancePCIRequest, InstancePCIRequests
from placement_sched.notifications.versioned_object import Json, versioned


def numa_topology(topology: InstanceNUMATopology, instance_uuid: str | None) -> Json:
    """Return nova's ``InstanceNUMATopologyPayload``."""
    data = {
        "instance_uuid": instance_uuid,
        "cells": [_cell(cell) for cell in topology.cells],
        "emulator_threads_policy": topology.emulator_threads_policy,
    }
    return versioned("InstanceNUMATopologyPayload", "1.0", data)


def _cell(cell: InstanceNUMACell) -> Json:
    data = {
        "id": cell.id,
        "cpuset": sorted(cell.cpuset),
        "pcpuset": sorted(cell.pcpuset),
        "cpuset_reserved": None,
        "memory": cell.memory,
        "pagesize": cell.pagesize,
        "cpu_topology": None,
        "cpu_pinning_raw": None,
        "cpu_policy": cell.cpu_policy,
        "cpu_thread_policy": cell.cpu_thread_policy,
    }
    return versioned("InstanceNUMACellPayload", "1.2", data)


def pci_requests(wanted: InstancePCIRequests, instance_uuid: str | None) -> Json:
    """Return nova's ``InstancePCIRequestsPayload``."""
    data = {
        "instance_uuid": instance_uuid,
        "requests": [_pci_request(one) for one in wanted.requests],
    }
    return versioned("InstancePCIRequestsPayload", "1.0", data)


def _pci_request(one: InstancePCIRequest) -> Json:
    data = {
        "count": one.count,
        "spec": [{name: str(value) for name, value in spec.items()} for spec in one.spec],
        "alias_name": one.alias_name,
        "request_id": one.request_id,
        "numa_policy": one.numa_policy,
    }
    return versioned("InstancePCIRequestPayload", "1.1", data)
