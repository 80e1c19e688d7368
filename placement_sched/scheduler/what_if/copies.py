"""A host like another one, as it would report when it is new: the same hardware, and empty."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.hardware.numa import ReportedTopology

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
