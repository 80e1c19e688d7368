"""A request as filters read it before nova had request specs: ``filter_properties``.

``filter_properties.get("instance_type")["memory_mb"]`` is what filters of Icehouse to Liberty do;
nova's request spec of today still tells most of it, by ``to_legacy_filter_properties_dict``. Keys
that stood for what a filter cannot have here (``context``, ``config_options``) are not there.
Source: nova's developer documentation of those days, and nova 34 observed.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

Maker = Callable[[Any], Any]


def request_dict(spec: Any) -> dict[str, Any]:
    """Return the request as the dictionary that was ``filter_properties["request_spec"]``."""
    return {
        "num_instances": spec.num_instances,
        "instance_uuids": list(spec.instance_uuids),
        "instance_type": spec.flavor,
        "image": _image(spec),
        "instance_properties": {
            "uuid": spec.instance_uuid,
            "project_id": spec.project_id,
            "user_id": spec.user_id,
            "availability_zone": spec.availability_zone,
            "vcpus": spec.vcpus,
            "memory_mb": spec.memory_mb,
            "root_gb": spec.root_gb,
            "ephemeral_gb": spec.ephemeral_gb,
            "numa_topology": spec.numa_topology,
            "pci_requests": spec.pci_requests,
        },
    }


def _image(spec: Any) -> dict[str, Any]:
    names = ("id", "name", "disk_format", "container_format", "min_ram", "min_disk")
    told = {name: getattr(spec.image, name) for name in names}
    return {**told, "properties": spec.image.properties.to_dict()}


def _hints(spec: Any) -> dict[str, Any]:
    return {name: spec.get_scheduler_hint(name) for name in spec.scheduler_hints}


def _limits(spec: Any) -> dict[str, Any]:
    names = ("vcpu", "memory_mb", "disk_gb", "numa_topology")
    told = {name: getattr(spec.limits, name, None) for name in names}
    return {name: value for name, value in told.items() if value is not None}


def _retry(spec: Any) -> dict[str, Any] | None:
    if spec.retry is None:
        return None
    hosts = [[tried.host, tried.hypervisor_hostname] for tried in spec.retry.hosts]
    return {"num_attempts": spec.retry.num_attempts, "hosts": hosts}


def _of_group(make: Maker) -> Maker:
    return lambda spec: None if spec.instance_group is None else make(spec.instance_group)


def _list_of(name: str) -> Maker:
    return lambda spec: list(getattr(spec, name)) or None


#: What nova's request spec tells today; what is None is not there.
_TOLD: Mapping[str, Maker] = MappingProxyType(
    {
        "scheduler_hints": lambda spec: _hints(spec) or None,
        "ignore_hosts": _list_of("ignore_hosts"),
        "force_hosts": _list_of("force_hosts"),
        "force_nodes": _list_of("force_nodes"),
        "retry": _retry,
        "limits": lambda spec: _limits(spec) or None,
        "group_updated": _of_group(lambda _: True),
        "group_uuid": _of_group(lambda group: group.uuid),
        "group_hosts": _of_group(lambda group: set(group.hosts)),
        "group_members": _of_group(lambda group: set(group.members)),
        "group_policies": _of_group(lambda group: set(group.policies)),
        "requested_destination": lambda spec: spec.requested_destination,
    }
)
#: What filters were handed besides.
_HANDED: Mapping[str, Maker] = MappingProxyType(
    {
        **_TOLD,
        # There in any case: filters wrote limits, and did not ask whether there were hints.
        "scheduler_hints": _hints,
        "limits": _limits,
        "request_spec": request_dict,
        "instance_type": lambda spec: spec.flavor,
        "instance_uuids": lambda spec: list(spec.instance_uuids) or None,
        "num_instances": lambda spec: spec.num_instances,
        "project_id": lambda spec: spec.project_id,
        "user_id": lambda spec: spec.user_id,
        "availability_zone": lambda spec: spec.availability_zone,
        "os_type": lambda spec: spec.image.properties.get("os_type"),
        "pci_requests": lambda spec: spec.pci_requests,
    }
)


def filter_properties_dict(spec: Any) -> dict[str, Any]:
    """Return what nova's request spec of today tells of the old dictionary."""
    told = {name: make(spec) for name, make in _TOLD.items()}
    return {name: value for name, value in told.items() if value is not None}


def filter_property(spec: Any, name: str) -> Any:
    """Return what the old dictionary had under a name, or None; made when it is asked for."""
    make = _HANDED.get(name)
    return None if make is None else make(spec)
