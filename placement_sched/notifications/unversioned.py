"""A request as unversioned notifications tell it: nova's request spec of former days."""

from typing import Any

from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.model.numa_topology import InstanceNUMACell, InstanceNUMATopology
from placement_sched.model.pci_request import InstancePCIRequest, InstancePCIRequests
from placement_sched.notifications.event import Event

Json = dict[str, Any]

_IMAGE = (
    "id",
    "name",
    "status",
    "visibility",
    "owner",
    "size",
    "virtual_size",
    "container_format",
    "disk_format",
)
_FLAVOR = (
    "id",
    "flavorid",
    "name",
    "vcpus",
    "memory_mb",
    "root_gb",
    "ephemeral_gb",
    "swap",
    "rxtx_factor",
    "vcpu_weight",
    "disabled",
    "is_public",
    "description",
)


def payload_of(event: Event) -> Json:
    """Return what ``scheduler.select_destinations.*`` tells; of an error the reason, too."""
    told: Json = {"request_spec": _request_spec(event)}
    if event.reason is not None:
        told |= {"code": event.reason.code, "reason": event.reason.words}
    return told


def run_instance_payload_of(event: Event) -> Json:
    """Return what ``scheduler.run_instance.*`` tells: every instance is named."""
    return {"request_spec": _request_spec(event) | {"instance_uuids": _instances(event)}}


def _instances(event: Event) -> list[str]:
    spec = event.spec
    return list(spec.instance_uuids or ([spec.instance_uuid] if spec.instance_uuid else ()))


def _request_spec(event: Event) -> Json:
    spec = event.spec
    return {
        "num_instances": spec.num_instances,
        "image": _image(spec.image),
        "instance_type": _flavor(spec.flavor),
        "instance_properties": {
            "uuid": event.instance_uuid,
            "project_id": spec.project_id,
            "user_id": spec.user_id,
            "availability_zone": spec.availability_zone,
            "vcpus": spec.vcpus,
            "memory_mb": spec.memory_mb,
            "root_gb": spec.root_gb,
            "ephemeral_gb": spec.ephemeral_gb,
            "numa_topology": spec.numa_topology and _numa_topology(spec.numa_topology),
            "pci_requests": spec.pci_requests and _pci_requests(spec.pci_requests),
        },
    }


def _image(image: Image) -> Json:
    """Return what is known of the image; nothing, where there is none."""
    if image == Image():
        return {}
    known = {name: getattr(image, name) for name in _IMAGE}
    return {
        **{name: value for name, value in known.items() if value is not None},
        "min_ram": image.min_ram,
        "min_disk": image.min_disk,
        "tags": list(image.tags),
        "properties": image.properties.to_dict(),
    }


def _flavor(flavor: Flavor) -> Json:
    """Return the flavor with every key of nova's, though when it was made is not known."""
    return {
        **{name: getattr(flavor, name) for name in _FLAVOR},
        "extra_specs": dict(flavor.extra_specs),
        "projects": None,
        "created_at": None,
        "updated_at": None,
        "deleted_at": None,
        "deleted": False,
    }


def _numa_topology(topology: InstanceNUMATopology) -> Json:
    return {
        "cells": [_cell(cell) for cell in topology.cells],
        "emulator_threads_policy": topology.emulator_threads_policy,
    }


def _cell(cell: InstanceNUMACell) -> Json:
    return {
        "id": cell.id,
        "cpuset": sorted(cell.cpuset),
        "pcpuset": sorted(cell.pcpuset),
        "cpuset_reserved": None,
        "memory": cell.memory,
        "pagesize": cell.pagesize,
        "cpu_pinning_raw": None,
        "cpu_policy": cell.cpu_policy,
        "cpu_thread_policy": cell.cpu_thread_policy,
    }


def _pci_requests(wanted: InstancePCIRequests) -> Json:
    return {"requests": [_pci_request(one) for one in wanted.requests]}


def _pci_request(one: InstancePCIRequest) -> Json:
    return {
        "count": one.count,
        "spec": [dict(spec) for spec in one.spec],
        "alias_name": one.alias_name,
        "request_id": one.request_id,
        "requester_id": one.requester_id,
        "numa_policy": one.numa_policy,
    }
