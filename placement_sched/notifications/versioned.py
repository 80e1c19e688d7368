"""A request as versioned notifications tell it: nova's ``RequestSpecPayload``.

Names, versions and fields are those of nova 34; what a consumer may find in the samples of
"Notifications in Nova" stands where it stands there.
"""

from placement_sched.model.destination import Destination
from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.model.server_group import ServerGroup
from placement_sched.model.spec import Retry
from placement_sched.notifications.event import Event
from placement_sched.notifications.versioned_hardware import numa_topology, pci_requests
from placement_sched.notifications.versioned_object import Json, versioned

#: Whose objects are nova's not.
_OURS = "placement_sched"


def payload_of(event: Event) -> Json:
    """Return the request; of an error an object of our own, with the request and the reason."""
    told = _request_spec(event)
    if event.reason is None:
        return told
    return versioned(
        "SelectDestinationsErrorPayload",
        "1.0",
        {"request_spec": told, "code": event.reason.code, "reason": event.reason.words},
        namespace=_OURS,
    )


def _request_spec(event: Event) -> Json:
    spec, uuid = event.spec, event.instance_uuid
    data = {
        "instance_uuid": uuid,
        "project_id": spec.project_id,
        "user_id": spec.user_id,
        "availability_zone": spec.availability_zone,
        "num_instances": spec.num_instances,
        "flavor": _flavor(spec.flavor),
        "image": None if spec.image == Image() else _image(spec.image),
        "force_hosts": next(iter(spec.force_hosts), None),
        "force_nodes": next(iter(spec.force_nodes), None),
        "ignore_hosts": list(spec.ignore_hosts) or None,
        "instance_group": spec.instance_group and _group(spec.instance_group),
        "numa_topology": spec.numa_topology and numa_topology(spec.numa_topology, uuid),
        "pci_requests": spec.pci_requests and pci_requests(spec.pci_requests, uuid),
        "requested_destination": (
            spec.requested_destination and _destination(spec.requested_destination)
        ),
        "retry": spec.retry and _retry(spec.retry),
        "scheduler_hints": {name: list(values) for name, values in spec.scheduler_hints.items()},
        "security_groups": list(spec.security_groups),
    }
    return versioned("RequestSpecPayload", "1.1", data)


def _flavor(flavor: Flavor) -> Json:
    data = {
        "flavorid": flavor.flavorid,
        "name": flavor.name,
        "vcpus": flavor.vcpus,
        "memory_mb": flavor.memory_mb,
        "root_gb": flavor.root_gb,
        "ephemeral_gb": flavor.ephemeral_gb,
        "swap": flavor.swap,
        "rxtx_factor": flavor.rxtx_factor,
        "vcpu_weight": flavor.vcpu_weight,
        "disabled": flavor.disabled,
        "is_public": flavor.is_public,
        "extra_specs": dict(flavor.extra_specs),
        "projects": None,
        "description": flavor.description,
    }
    return versioned("FlavorPayload", "1.4", data)


def _image(image: Image) -> Json:
    properties = versioned("ImageMetaPropsPayload", "1.20", image.properties.to_dict())
    data = {
        "id": image.id,
        "name": image.name,
        "status": image.status,
        "visibility": image.visibility,
        "protected": None,
        "checksum": None,
        "owner": image.owner,
        "size": image.size,
        "virtual_size": image.virtual_size,
        "container_format": image.container_format,
        "disk_format": image.disk_format,
        "created_at": None,
        "updated_at": None,
        "tags": list(image.tags),
        "direct_url": None,
        "min_ram": image.min_ram,
        "min_disk": image.min_disk,
        "properties": properties,
    }
    return versioned("ImageMetaPayload", "1.0", data)


def _group(group: ServerGroup) -> Json:
    data = {
        "uuid": group.uuid,
        "name": group.name,
        "user_id": group.user_id,
        "project_id": group.project_id,
        "policies": None,
        "policy": group.policy,
        "rules": {name: str(value) for name, value in group.rules.items()},
        "members": list(group.members),
        "hosts": list(group.hosts),
    }
    return versioned("ServerGroupPayload", "1.1", data)


def _destination(wanted: Destination) -> Json:
    data = {
        "host": wanted.host,
        "node": wanted.node,
        "cell": wanted.cell and _cell(wanted.cell),
        "aggregates": list(wanted.aggregates) or None,
    }
    return versioned("DestinationPayload", "1.0", data)


def _cell(uuid: str) -> Json:
    return versioned("CellMappingPayload", "2.0", {"uuid": uuid, "name": None, "disabled": False})


def _retry(retry: Retry) -> Json:
    data = {
        "num_attempts": retry.num_attempts,
        "hosts": [tried.hypervisor_hostname for tried in retry.hosts],
    }
    return versioned("SchedulerRetriesPayload", "1.0", data)
