"""Requests in notifications: nova's former request spec, and its versioned ``RequestSpecPayload``.

Names, versions and fields of versioned payloads are those of nova 34; what a consumer may find in
the samples of "Notifications in Nova" is at the same place.
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

# What both kinds show as it is.
_PROPERTIES = ("project_id", "user_id", "availability_zone")
_SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")
_FLAVOR = ("flavorid", "name", *_SIZES, "swap", "rxtx_factor", "vcpu_weight", "disabled")
_IMAGE = ("id", "name", "status", "visibility", "owner", "size", "virtual_size")
_FORMATS = ("container_format", "disk_format", "min_ram", "min_disk")
_CELL = ("id", "memory", "pagesize", "cpu_policy", "cpu_thread_policy")
_PCI_REQUEST = ("count", "alias_name", "request_id", "numa_policy")


def _of(found: object, names: Iterable[str]) -> Json:
    return {name: getattr(found, name) for name in names}


def unversioned(event: Event) -> Json:
    """Return the payload of ``scheduler.select_destinations.*``, with the reason of an error."""
    payload: Json = {"request_spec": _former_spec(event)}
    if event.reason is not None:
        payload |= {"code": event.reason.code, "reason": event.reason.words}
    return payload


def run_instance(event: Event) -> Json:
    """Return the payload of ``scheduler.run_instance.*``: every instance is named."""
    spec = event.spec
    instances = spec.instance_uuids or ([spec.instance_uuid] if spec.instance_uuid else ())
    return {"request_spec": _former_spec(event) | {"instance_uuids": list(instances)}}


def _former_spec(event: Event) -> Json:
    spec = event.spec
    pci = spec.pci_requests
    image = _of(spec.image, (*_IMAGE, *_FORMATS)) | {
        "tags": list(spec.image.tags),
        "properties": spec.image.properties.to_dict(),
    }
    never = dict.fromkeys(("projects", "created_at", "updated_at", "deleted_at"))
    return {
        "num_instances": spec.num_instances,
        # What is known of the image; nothing, where there is none.
        "image": {}
        if spec.image == Image()
        else {name: value for name, value in image.items() if value is not None},
        # Every key of nova's, though when it was made is not known.
        "instance_type": {"id": spec.flavor.id, **_flavor(spec.flavor), **never, "deleted": False},
        "instance_properties": {
            "uuid": event.instance_uuid,
            **_of(spec, (*_PROPERTIES, *_SIZES)),
            "numa_topology": spec.numa_topology
            and {
                "cells": [_cell(cell) for cell in spec.numa_topology.cells],
                "emulator_threads_policy": spec.numa_topology.emulator_threads_policy,
            },
            "pci_requests": pci
            and {
                "requests": [
                    _of(one, (*_PCI_REQUEST, "requester_id"))
                    | {"spec": [dict(spec) for spec in one.spec]}
                    for one in pci.requests
                ]
            },
        },
    }


def _flavor(flavor: Flavor) -> Json:
    more = _of(flavor, ("is_public", "description"))
    return _of(flavor, _FLAVOR) | more | {"extra_specs": dict(flavor.extra_specs)}


def _cell(cell: InstanceNUMACell) -> Json:
    return _of(cell, _CELL) | {
        "cpuset": sorted(cell.cpuset),
        "pcpuset": sorted(cell.pcpuset),
        "cpuset_reserved": None,
        "cpu_pinning_raw": None,
    }


def versioned(event: Event) -> Json:
    """Return the request; of an error an object of our own, with the request and the reason."""
    payload = _request_spec(event)
    if event.reason is None:
        return payload
    error = {"request_spec": payload, "code": event.reason.code, "reason": event.reason.words}
    own = _object("SelectDestinationsErrorPayload", "1.0", error)
    return own | {"nova_object.namespace": "placement_sched"}


def _request_spec(event: Event) -> Json:
    spec, uuid = event.spec, event.instance_uuid
    flavor = _flavor(spec.flavor) | {"projects": None}
    data = _of(spec, (*_PROPERTIES, "num_instances")) | {
        "instance_uuid": uuid,
        "flavor": _object("FlavorPayload", "1.4", flavor),
        "image": None if spec.image == Image() else _image(spec.image),
        "force_hosts": next(iter(spec.force_hosts), None),
        "force_nodes": next(iter(spec.force_nodes), None),
        "ignore_hosts": list(spec.ignore_hosts) or None,
        "instance_group": spec.instance_group and _group(spec.instance_group),
        "numa_topology": spec.numa_topology and _topology(spec.numa_topology, uuid),
        "pci_requests": spec.pci_requests and _pci_requests(spec.pci_requests, uuid),
        "requested_destination": (
            spec.requested_destination and _destination(spec.requested_destination)
        ),
        "retry": None,
        "scheduler_hints": {name: list(values) for name, values in spec.scheduler_hints.items()},
        "security_groups": list(spec.security_groups),
    }
    if spec.retry:
        tried = [one.hypervisor_hostname for one in spec.retry.hosts]
        retry = {"num_attempts": spec.retry.num_attempts, "hosts": tried}
        data["retry"] = _object("SchedulerRetriesPayload", "1.0", retry)
    return _object("RequestSpecPayload", "1.1", data)


def _image(image: Image) -> Json:
    never = ("protected", "checksum", "created_at", "updated_at", "direct_url")
    data = _of(image, (*_IMAGE, *_FORMATS)) | {
        **dict.fromkeys(never),
        "tags": list(image.tags),
        "properties": _object("ImageMetaPropsPayload", "1.20", image.properties.to_dict()),
    }
    return _object("ImageMetaPayload", "1.0", data)


def _group(group: ServerGroup) -> Json:
    data = _of(group, ("uuid", "name", "user_id", "project_id", "policy")) | {
        "policies": None,
        "rules": {name: str(value) for name, value in group.rules.items()},
        "members": list(group.members),
        "hosts": list(group.hosts),
    }
    return _object("ServerGroupPayload", "1.1", data)


def _destination(wanted: Destination) -> Json:
    cell = {"uuid": wanted.cell, "name": None, "disabled": False}
    data = {
        "host": wanted.host,
        "node": wanted.node,
        "cell": wanted.cell and _object("CellMappingPayload", "2.0", cell),
        "aggregates": list(wanted.aggregates) or None,
    }
    return _object("DestinationPayload", "1.0", data)


def _topology(topology: InstanceNUMATopology, uuid: str | None) -> Json:
    cells = [
        _object("InstanceNUMACellPayload", "1.2", {**_cell(cell), "cpu_topology": None})
        for cell in topology.cells
    ]
    policy = topology.emulator_threads_policy
    data = {"instance_uuid": uuid, "cells": cells, "emulator_threads_policy": policy}
    return _object("InstanceNUMATopologyPayload", "1.0", data)


def _pci_requests(wanted: InstancePCIRequests, uuid: str | None) -> Json:
    requests = [
        _of(one, _PCI_REQUEST)
        | {"spec": [{name: str(value) for name, value in spec.items()} for spec in one.spec]}
        for one in wanted.requests
    ]
    data = {
        "instance_uuid": uuid,
        "requests": [_object("InstancePCIRequestPayload", "1.1", one) for one in requests],
    }
    return _object("InstancePCIRequestsPayload", "1.0", data)


def _object(name: str, version: str, data: Json) -> Json:
    """Return nova's object of this name and version, with its fields."""
    return {
        "nova_object.name": name,
        "nova_object.namespace": "nova",
        "nova_object.version": version,
        "nova_object.data": data,
    }
