# SPDX-License-Identifier: Apache-2.0
"""Payloads of unversioned and versioned notifications.

Names, versions and fields of versioned payloads are as in nova 34 and in the samples of
"Notifications in Nova".
"""

from collections.abc import Iterable

from placement_sched.model.aggregates import ServerGroup
from placement_sched.model.document import Json
from placement_sched.model.flavor import Flavor
from placement_sched.model.hardware.numa import InstanceNUMACell, InstanceNUMATopology
from placement_sched.model.hardware.pci_requests import InstancePCIRequests
from placement_sched.model.image import Image
from placement_sched.model.request_spec import Destination
from placement_sched.notifications.event import Event

# Fields that both formats copy.
_PROPERTIES = ("project_id", "user_id", "availability_zone")
_SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")
_FLAVOR = ("flavorid", "name", *_SIZES, "swap", "rxtx_factor", "vcpu_weight", "disabled")
_IMAGE = ("id", "name", "status", "visibility", "owner", "size", "virtual_size")
_FORMATS = ("container_format", "disk_format", "min_ram", "min_disk")
_CELL = ("id", "memory", "pagesize", "cpu_policy", "cpu_thread_policy")
_PCI_REQUEST = ("count", "alias_name", "request_id", "numa_policy")


def _pick(value: object, names: Iterable[str]) -> Json:
    return {name: getattr(value, name) for name in names}


def unversioned(event: Event) -> Json:
    """Build the payload of ``scheduler.select_destinations.*``.

    It has a code and a reason if the event has an error.
    """
    payload: Json = {"request_spec": _unversioned_spec(event)}
    if event.reason is not None:
        payload |= {"code": event.reason.code, "reason": event.reason.words}
    return payload


def run_instance(event: Event) -> Json:
    """Build the payload of ``scheduler.run_instance.*``, with all instances."""
    spec = event.spec
    instances = spec.instance_uuids or ([spec.instance_uuid] if spec.instance_uuid else ())
    return {"request_spec": _unversioned_spec(event) | {"instance_uuids": list(instances)}}


def _unversioned_spec(event: Event) -> Json:
    spec = event.spec
    pci = spec.pci_requests
    image = _pick(spec.image, (*_IMAGE, *_FORMATS)) | {
        "tags": list(spec.image.tags),
        "properties": spec.image.properties.to_dict(),
    }
    unset = dict.fromkeys(("projects", "created_at", "updated_at", "deleted_at"))
    return {
        "num_instances": spec.num_instances,
        # The known fields of the image; empty without an image.
        "image": {}
        if spec.image == Image()
        else {name: value for name, value in image.items() if value is not None},
        # All keys of nova's flavor; the timestamps are unknown.
        "instance_type": {
            "id": spec.flavor.id,
            **_build_flavor(spec.flavor),
            **unset,
            "deleted": False,
        },
        "instance_properties": {
            "uuid": event.instance_uuid,
            **_pick(spec, (*_PROPERTIES, *_SIZES)),
            "numa_topology": spec.numa_topology
            and {
                "cells": [_build_cell(cell) for cell in spec.numa_topology.cells],
                "emulator_threads_policy": spec.numa_topology.emulator_threads_policy,
            },
            "pci_requests": pci
            and {
                "requests": [
                    _pick(request, (*_PCI_REQUEST, "requester_id"))
                    | {"spec": [dict(spec) for spec in request.spec]}
                    for request in pci.requests
                ]
            },
        },
    }


def _build_flavor(flavor: Flavor) -> Json:
    access = _pick(flavor, ("is_public", "description"))
    return _pick(flavor, _FLAVOR) | access | {"extra_specs": dict(flavor.extra_specs)}


def _build_cell(cell: InstanceNUMACell) -> Json:
    return _pick(cell, _CELL) | {
        "cpuset": sorted(cell.cpuset),
        "pcpuset": sorted(cell.pcpuset),
        "cpuset_reserved": None,
        "cpu_pinning_raw": None,
    }


def versioned(event: Event) -> Json:
    """Build the payload of versioned ``select_destinations`` notifications.

    It is the request spec or, if the event has an error, an object with the request spec and the
    error.
    """
    payload = _build_request_spec(event)
    if event.reason is None:
        return payload
    error = {"request_spec": payload, "code": event.reason.code, "reason": event.reason.words}
    result = _wrap("SelectDestinationsErrorPayload", "1.0", error)
    return result | {"nova_object.namespace": "placement_sched"}


def _build_request_spec(event: Event) -> Json:
    spec, uuid = event.spec, event.instance_uuid
    flavor = _build_flavor(spec.flavor) | {"projects": None}
    data = _pick(spec, (*_PROPERTIES, "num_instances")) | {
        "instance_uuid": uuid,
        "flavor": _wrap("FlavorPayload", "1.4", flavor),
        "image": None if spec.image == Image() else _build_image(spec.image),
        "force_hosts": next(iter(spec.force_hosts), None),
        "force_nodes": next(iter(spec.force_nodes), None),
        "ignore_hosts": list(spec.ignore_hosts) or None,
        "instance_group": spec.instance_group and _build_group(spec.instance_group),
        "numa_topology": spec.numa_topology and _build_topology(spec.numa_topology, uuid),
        "pci_requests": spec.pci_requests and _build_pci_requests(spec.pci_requests, uuid),
        "requested_destination": (
            spec.requested_destination and _build_destination(spec.requested_destination)
        ),
        "retry": None,
        "scheduler_hints": {name: list(values) for name, values in spec.scheduler_hints.items()},
        "security_groups": list(spec.security_groups),
    }
    if spec.retry:
        nodes = [host.hypervisor_hostname for host in spec.retry.hosts]
        retry = {"num_attempts": spec.retry.num_attempts, "hosts": nodes}
        data["retry"] = _wrap("SchedulerRetriesPayload", "1.0", retry)
    return _wrap("RequestSpecPayload", "1.1", data)


def _build_image(image: Image) -> Json:
    unset = ("protected", "checksum", "created_at", "updated_at", "direct_url")
    data = _pick(image, (*_IMAGE, *_FORMATS)) | {
        **dict.fromkeys(unset),
        "tags": list(image.tags),
        "properties": _wrap("ImageMetaPropsPayload", "1.20", image.properties.to_dict()),
    }
    return _wrap("ImageMetaPayload", "1.0", data)


def _build_group(group: ServerGroup) -> Json:
    data = _pick(group, ("uuid", "name", "user_id", "project_id", "policy")) | {
        "policies": None,
        "rules": {name: str(value) for name, value in group.rules.items()},
        "members": list(group.members),
        "hosts": list(group.hosts),
    }
    return _wrap("ServerGroupPayload", "1.1", data)


def _build_destination(destination: Destination) -> Json:
    cell = {"uuid": destination.cell, "name": None, "disabled": False}
    data = {
        "host": destination.host,
        "node": destination.node,
        "cell": destination.cell and _wrap("CellMappingPayload", "2.0", cell),
        "aggregates": list(destination.aggregates) or None,
    }
    return _wrap("DestinationPayload", "1.0", data)


def _build_topology(topology: InstanceNUMATopology, uuid: str | None) -> Json:
    cells = [
        _wrap("InstanceNUMACellPayload", "1.2", {**_build_cell(cell), "cpu_topology": None})
        for cell in topology.cells
    ]
    policy = topology.emulator_threads_policy
    data = {"instance_uuid": uuid, "cells": cells, "emulator_threads_policy": policy}
    return _wrap("InstanceNUMATopologyPayload", "1.0", data)


def _build_pci_requests(pci_requests: InstancePCIRequests, uuid: str | None) -> Json:
    requests = [
        _pick(request, _PCI_REQUEST)
        | {"spec": [{name: str(value) for name, value in spec.items()} for spec in request.spec]}
        for request in pci_requests.requests
    ]
    data = {
        "instance_uuid": uuid,
        "requests": [_wrap("InstancePCIRequestPayload", "1.1", request) for request in requests],
    }
    return _wrap("InstancePCIRequestsPayload", "1.0", data)


def _wrap(name: str, version: str, data: Json) -> Json:
    return {
        "nova_object.name": name,
        "nova_object.namespace": "nova",
        "nova_object.version": version,
        "nova_object.data": data,
    }
