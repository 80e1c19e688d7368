"""Servers as the compute API writes them, by microversion, from what is recorded of instances."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha224
from typing import Any, Self
from urllib.parse import quote

from placement_sched.api.call import Call
from placement_sched.api.compute import microversions as since
from placement_sched.api.compute.callers import may
from placement_sched.api.compute.moments import in_seconds
from placement_sched.db.connection import Connection
from placement_sched.model.flavor import Flavor
from placement_sched.model.instance import Instance
from placement_sched.model.server_status import IN_PROGRESS, power_state_of, status_of
from placement_sched.model.service import Service
from placement_sched.operations import availability_zones
from placement_sched.store import services

Json = dict[str, Any]

_HOST_STATUS = "os_compute_api:servers:show:host_status"
_ATTRIBUTE = "OS-EXT-SRV-ATTR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is told of servers beyond their records: zones and services of hosts, by host."""

    zones: Mapping[str, str]
    services: Mapping[str, Service]

    @classmethod
    def read(cls, call: Call, connection: Connection, found: Sequence[Instance]) -> Self:
        """Return what surrounds these instances, in two statements."""
        hosts = {instance.host for instance in found if instance.host}
        return cls(
            zones=availability_zones.of_hosts(connection, hosts, call.settings),
            services=services.by_hosts(connection, hosts),
        )


def shown_briefly(call: Call, instance: Instance) -> Json:
    """Return a server as lists without detail have it."""
    path = f"servers/{instance.uuid}"
    return {
        "id": instance.uuid,
        "name": instance.display_name,
        "links": [
            {"rel": "self", "href": f"{call.url}/v2.1/{path}"},
            {"rel": "bookmark", "href": f"{call.url}/{path}"},
        ],
    }


def shown(call: Call, instance: Instance, around: Surroundings) -> Json:
    """Return a server whole, but for its groups, which only the server alone is shown with."""
    status = status_of(instance.vm_state, instance.task_state)
    document = shown_briefly(call, instance) | {
        "status": status,
        "tenant_id": instance.project_id,
        "user_id": instance.user_id,
        "metadata": {},
        "hostId": _host_id(instance),
        "image": _image(call, instance),
        "flavor": _flavor(call, instance),
        "created": in_seconds(instance.created_at),
        "updated": in_seconds(instance.updated_at),
        "addresses": {},
        "accessIPv4": "",
        "accessIPv6": "",
        "config_drive": "",
        "key_name": None,
        "OS-DCF:diskConfig": "MANUAL",
        "OS-EXT-AZ:availability_zone": around.zones.get(instance.host or "", ""),
        "OS-EXT-STS:power_state": power_state_of(instance.vm_state),
        "OS-EXT-STS:task_state": instance.task_state,
        "OS-EXT-STS:vm_state": instance.vm_state,
        "OS-SRV-USG:launched_at": None,
        "OS-SRV-USG:terminated_at": None,
        "os-extended-volumes:volumes_attached": [],
    }
    if status in IN_PROGRESS:
        document["progress"] = 0
    return document | _newer(call) | _attributes(call, instance) | _host(call, instance, around)


def _newer(call: Call) -> Json:
    """Return what later versions brought, of which nothing is recorded."""
    brought = {
        "locked": (since.SERVER_LOCKED, False),
        "description": (since.SERVER_DESCRIPTION, None),
        "tags": (since.SERVER_TAGS, list[str]()),
        "trusted_image_certificates": (since.TRUSTED_CERTIFICATES, None),
        "locked_reason": (since.LOCKED_REASON, None),
        "pinned_availability_zone": (since.PINNED_ZONE, None),
    }
    return {key: value for key, (version, value) in brought.items() if call.version.has(version)}


def _attributes(call: Call, instance: Instance) -> Json:
    """Return what, by default, administrators alone see of a server."""
    hostname = {f"{_ATTRIBUTE}:hostname": _hostname(instance.display_name)}
    if not may(call, "os_compute_api:os-extended-server-attributes"):
        return hostname if call.version.has(since.HOSTNAME_FOR_ALL) else {}
    found: Json = {
        f"{_ATTRIBUTE}:host": instance.host,
        f"{_ATTRIBUTE}:hypervisor_hostname": instance.node,
        f"{_ATTRIBUTE}:instance_name": None,
    }
    if call.version.has(since.SERVER_ATTRIBUTES):
        found |= hostname | {
            f"{_ATTRIBUTE}:reservation_id": None,
            f"{_ATTRIBUTE}:launch_index": 0,
            f"{_ATTRIBUTE}:kernel_id": "",
            f"{_ATTRIBUTE}:ramdisk_id": "",
            f"{_ATTRIBUTE}:root_device_name": None,
            f"{_ATTRIBUTE}:user_data": None,
        }
    return found


def _host(call: Call, instance: Instance, around: Surroundings) -> Json:
    """Return the status of the host, where the caller may see it, or that it is unknown."""
    if not call.version.has(since.HOST_STATUS):
        return {}
    status = _host_status(call, instance, around)
    rule = f"{_HOST_STATUS}:unknown-only" if status == "UNKNOWN" else _HOST_STATUS
    seen = may(call, _HOST_STATUS) or may(call, rule)
    return {"host_status": status} if seen else {}


def _host_status(call: Call, instance: Instance, around: Surroundings) -> str:
    service = around.services.get(instance.host or "")
    if instance.host is None:
        return ""
    if service is None:
        return "UNKNOWN"
    if service.forced_down:
        return "DOWN"
    if service.disabled:
        return "MAINTENANCE"
    is_up = service.is_up(call.now(), call.settings.DEFAULT.service_down_time)
    return "UP" if is_up else "UNKNOWN"


def _host_id(instance: Instance) -> str:
    """Return what tells hosts apart for a project, and tells it nothing more of them."""
    if instance.host is None:
        return ""
    return sha224(f"{instance.project_id or ''}{instance.host}".encode()).hexdigest()


def _image(call: Call, instance: Instance) -> Json | str:
    """Return the image; the empty string where there is none, as of a server on a volume."""
    found = (instance.image or {}).get("id")
    if not found:
        return ""
    return {"id": found, "links": [_bookmark(call, f"images/{quote(found)}")]}


def _flavor(call: Call, instance: Instance) -> Json:
    """Return the flavor as it was recorded: whole from 2.47 on, by its id before."""
    recorded = instance.flavor or {}
    flavor = Flavor.from_document(recorded)
    told = next((each for each in (flavor.flavorid, flavor.id) if each is not None), "")
    if not call.version.has(since.EMBEDDED_FLAVOR):
        found = str(told)
        return {"id": found, "links": [_bookmark(call, f"flavors/{quote(found)}")]}
    document: Json = {
        "original_name": flavor.name or str(told),
        "vcpus": flavor.vcpus,
        "ram": flavor.memory_mb,
        "disk": flavor.root_gb,
        "ephemeral": flavor.ephemeral_gb,
        "swap": flavor.swap,
    }
    if may(call, "os_compute_api:os-flavor-extra-specs:index"):
        document["extra_specs"] = dict(flavor.extra_specs)
    return document


def _bookmark(call: Call, path: str) -> Json:
    return {"rel": "bookmark", "href": f"{call.url}/{path}"}


def _hostname(name: str) -> str:
    """Return the name as a host's: letters, digits, dots and hyphens, in lower case."""
    spelt = re.sub(r"[^a-z0-9.-]", "", re.sub(r"[ _]", "-", name.lower()))
    return spelt.strip(".-")[:63]
