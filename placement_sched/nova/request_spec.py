# SPDX-License-Identifier: Apache-2.0
"""Conversion of nova's RequestSpec to a request spec document.

Set fields keep their values. Unset fields, as in objects of older releases, are absent from the
document. If NUMA topology or PCI requests are absent, flavor and image determine them later.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from oslo_log import log

from placement_sched.errors import Invalid
from placement_sched.model.aggregates import POLICIES
from placement_sched.model.document import Json
from placement_sched.model.hardware.cpu_policy import EMULATOR_THREADS_POLICIES
from placement_sched.model.image import CHOICES, READERS
from placement_sched.nova.objects import (
    FieldReader,
    ObjectType,
    UnreadableObject,
    boolean,
    make_dict_reader,
    make_list_object_reader,
    make_list_reader,
    make_policy_reader,
    make_set_reader,
    number,
    read_anything,
    read_integer,
    read_short_text,
    text,
)
from placement_sched.schemas import formats

LOG = log.getLogger(__name__)

#: The path of the request spec in error messages: the argument of ``select_destinations``.
SPEC_PATH = "spec_obj"

_PROPERTIES = ObjectType(
    "ImageMetaProps",
    {
        **dict.fromkeys(READERS, read_anything),
        "hw_numa_cpus": make_list_reader(make_set_reader(read_integer)),
        "hw_numa_mem": make_list_reader(read_integer),
        "traits_required": make_list_reader(text),
    },
)


def read_raw_properties(primitive: Any, path: str) -> Json | None:
    """Convert an ImageMetaProps, or null, to image properties of glance.

    If the object is newer than nova 34, properties with unsupported values are left out. Raises
    :class:`~placement_sched.nova.objects.UnreadableObject` if it is not an ImageMetaProps.
    """
    if primitive is None:
        return None
    typed = _PROPERTIES.read(primitive, path)
    if _PROPERTIES.is_newer(primitive):
        typed = dict(_select_supported_properties(typed))
    raw: Json = {}
    for name, value in typed.items():
        write = _GLANCE_WRITERS.get(name)
        raw |= {name: value} if write is None else write(value or ())
    return raw


def _select_supported_properties(typed: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in typed.items():
        reader = READERS.get(name)
        try:
            if reader is not None:
                reader(value)
        except (TypeError, ValueError):
            LOG.debug("image property %s has a value of a newer nova and is left out", name)
        else:
            yield name, value


#: Converters of the image properties that have other names in glance.
_GLANCE_WRITERS: Mapping[str, Callable[[Any], Json]] = {
    "hw_numa_cpus": lambda cells: {
        f"hw_numa_cpus.{cell}": ",".join(map(str, cpus)) for cell, cpus in enumerate(cells)
    },
    "hw_numa_mem": lambda cells: {
        f"hw_numa_mem.{cell}": memory for cell, memory in enumerate(cells)
    },
    "traits_required": lambda names: {f"trait:{name}": "required" for name in names},
}

#: The fields of an ImageMeta, for the ``image`` of a request spec document.
IMAGE_FIELDS: Mapping[str, FieldReader] = {
    **dict.fromkeys(("id", "name", "status", "visibility", "owner"), text),
    **dict.fromkeys(("disk_format", "container_format"), text),
    **dict.fromkeys(("size", "virtual_size", "min_ram", "min_disk"), read_integer),
    "tags": make_list_reader(text),
    "properties": read_raw_properties,
}
IMAGE = ObjectType("ImageMeta", IMAGE_FIELDS)


FLAVOR = ObjectType(
    "Flavor",
    {
        **dict.fromkeys(
            ("id", "vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap"), read_integer
        ),
        **dict.fromkeys(("flavorid", "name", "description"), text),
        "extra_specs": make_dict_reader(text),
        "rxtx_factor": number,
        "vcpu_weight": read_integer,
        **dict.fromkeys(("disabled", "is_public"), boolean),
    },
    required=("vcpus", "memory_mb"),
)
_CELL = ObjectType("CellMapping", {"uuid": text}, required=("uuid",))
_NETWORK_METADATA = ObjectType(
    "NetworkMetadata", {"physnets": make_set_reader(text), "tunneled": boolean}
)
_NUMA_CELL = ObjectType(
    "InstanceNUMACell",
    {
        **dict.fromkeys(("id", "memory", "pagesize"), read_integer),
        **dict.fromkeys(("cpuset", "pcpuset"), make_set_reader(read_integer)),
        **{
            name: make_policy_reader(CHOICES[f"hw_{name}"])
            for name in ("cpu_policy", "cpu_thread_policy")
        },
    },
    required=("memory",),
)
_COMPUTE_NODE = ObjectType("ComputeNode", dict.fromkeys(("host", "hypervisor_hostname"), text))
_SECURITY_GROUP = ObjectType("SecurityGroup", dict.fromkeys(("uuid", "name"), text))


def _read_numa_cell(primitive: Any, path: str) -> Json:
    """Read a cell, whose ``cpuset`` had the pinned CPUs before version 1.5."""
    cell = _NUMA_CELL.read(primitive, path)
    if "pcpuset" not in cell and cell.get("cpu_policy") == "dedicated":
        return {**cell, "pcpuset": cell.get("cpuset"), "cpuset": []}
    return cell if cell.get("cpuset") is not None else {**cell, "cpuset": []}


def _read_hosts_tried(primitive: Any, path: str) -> list[list[str | None]] | None:
    nodes = _NODES(primitive, path)
    if nodes is None:
        return None
    return [[node.get("host"), node.get("hypervisor_hostname")] for node in nodes]


def _read_security_groups(primitive: Any, path: str) -> list[str] | None:
    """Read security groups as uuids, or as names if nova has no uuid for them."""
    groups = _GROUPS(primitive, path)
    if groups is None:
        return None
    named = (group.get("uuid") or group.get("name") for group in groups)
    return [name for name in named if name]


_NODES = make_list_object_reader("ComputeNodeList", _COMPUTE_NODE)
_GROUPS = make_list_object_reader("SecurityGroupList", _SECURITY_GROUP)
_NUMA_LIMITS = ObjectType(
    "NUMATopologyLimits",
    {
        **dict.fromkeys(("cpu_allocation_ratio", "ram_allocation_ratio"), number),
        "network_metadata": _NETWORK_METADATA,
    },
)
_LIMITS = ObjectType(
    "SchedulerLimits",
    {**dict.fromkeys(("vcpu", "memory_mb", "disk_gb"), number), "numa_topology": _NUMA_LIMITS},
)
_RETRY = ObjectType("SchedulerRetries", {"num_attempts": read_integer, "hosts": _read_hosts_tried})
_SERVER_GROUP = ObjectType(
    "InstanceGroup",
    {
        **dict.fromkeys(("uuid", "name", "project_id", "user_id", "policy"), text),
        **dict.fromkeys(("policies", "members", "hosts"), make_list_reader(text)),
        "_rules": make_dict_reader(text),
    },
)
_DESTINATION = ObjectType(
    "Destination",
    {
        **dict.fromkeys(("host", "node"), text),
        # Only the uuid of a CellMapping, not the cell's passwords.
        "cell": lambda primitive, path: (_CELL(primitive, path) or {}).get("uuid"),
        "aggregates": make_list_reader(text),
        "forbidden_aggregates": make_set_reader(text),
        "allow_cross_cell_move": boolean,
    },
)
_REQUEST_GROUP = ObjectType(
    "RequestGroup",
    {
        **dict.fromkeys(("requester_id", "in_tree"), text),
        "resources": make_dict_reader(read_integer),
        **dict.fromkeys(("required_traits", "forbidden_traits"), make_set_reader(text)),
        "aggregates": make_list_reader(make_list_reader(text)),
        "forbidden_aggregates": make_set_reader(text),
        "use_same_provider": boolean,
    },
)
_LEVEL_PARAMS = ObjectType(
    "RequestLevelParams",
    {
        **dict.fromkeys(("root_required", "root_forbidden"), make_set_reader(text)),
        "same_subtree": make_list_reader(make_list_reader(text)),
    },
)
_NETWORK = ObjectType(
    "NetworkRequest",
    dict.fromkeys(
        ("network_id", "address", "port_id", "pci_request_id", "tag", "arq_uuid", "device_profile"),
        text,
    ),
)
_NUMA_TOPOLOGY = ObjectType(
    "InstanceNUMATopology",
    {
        "cells": make_list_reader(_read_numa_cell),
        "emulator_threads_policy": make_policy_reader(EMULATOR_THREADS_POLICIES),
    },
    required=("cells",),
)
_PCI_REQUEST = ObjectType(
    "InstancePCIRequest",
    {
        "count": read_integer,
        "spec": make_list_reader(make_dict_reader(read_anything, nulls=True)),
        **dict.fromkeys(("alias_name", "request_id", "requester_id"), text),
        "numa_policy": make_policy_reader(CHOICES["hw_pci_numa_affinity_policy"]),
    },
    required=("count",),
)
_PCI_REQUESTS = ObjectType(
    "InstancePCIRequests", {"requests": make_list_reader(_PCI_REQUEST.read)}, required=("requests",)
)


def _read_server_group(primitive: Any, path: str) -> Json | None:
    """Read a group, which had policies and no rules before version 1.11."""
    group = _SERVER_GROUP(primitive, path)
    if group is None:
        return None
    policies = group.pop("policies", None)
    policy = group.get("policy") or (policies[0] if policies else None)
    if policy is None:
        raise UnreadableObject(f"{path}: InstanceGroup has no policy")
    if policy not in POLICIES:
        allowed = ", ".join(POLICIES)
        raise UnreadableObject(
            f"{path}.policy: unknown server group policy {policy!r}. Valid policies: {allowed}"
        )
    try:
        rules = {name: int(value) for name, value in (group.pop("_rules", None) or {}).items()}
    except (TypeError, ValueError):
        raise UnreadableObject(f"{path}._rules: a rule is not an integer") from None
    return {**group, "policy": policy, "rules": rules}


_SPEC = ObjectType(
    "RequestSpec",
    {
        "flavor": FLAVOR,
        "image": IMAGE,
        **dict.fromkeys(("project_id", "user_id", "availability_zone"), read_short_text),
        "instance_uuid": text,
        "num_instances": read_integer,
        "is_bfv": boolean,
        **dict.fromkeys(("ignore_hosts", "force_hosts", "force_nodes"), make_list_reader(text)),
        "requested_destination": _DESTINATION,
        "retry": _RETRY,
        "limits": _LIMITS,
        "instance_group": _read_server_group,
        "scheduler_hints": make_dict_reader(make_list_reader(text)),
        "requested_resources": make_list_reader(_REQUEST_GROUP.read),
        "request_level_params": _LEVEL_PARAMS,
        "requested_networks": make_list_object_reader("NetworkRequestList", _NETWORK),
        "security_groups": _read_security_groups,
        "network_metadata": _NETWORK_METADATA,
        "numa_topology": _NUMA_TOPOLOGY,
        "pci_requests": _PCI_REQUESTS,
    },
    required=("flavor",),
)


def read_instance_uuids(values: Any) -> list[str]:
    """Read a list of instance uuids, or raise :class:`UnreadableObject`."""
    if not isinstance(values, list | tuple):
        raise UnreadableObject("instance_uuids is not a list")
    try:
        return [formats.read(formats.parse_uuid, uuid) for uuid in values]
    except Invalid:
        raise UnreadableObject("instance_uuids contains an invalid uuid") from None


def build_document(primitive: Any, instance_uuids: Sequence[str] | None = None) -> Json:
    """Convert a RequestSpec to a request spec document.

    ``instance_uuids`` are from the call. In calls before 4.4, the instance is in the spec. Raises
    :class:`~placement_sched.nova.objects.UnreadableObject` with the path of the invalid field.
    """
    if primitive is None:
        # Calls of 4.0 to 4.2 have dictionaries instead, without the uuids for claims.
        raise UnreadableObject(
            "select_destinations has no spec_obj: calls of versions 4.0 to 4.2 are not supported. "
            "Unset [upgrade_levels] scheduler of nova-conductor, or set it to 4.5"
        )
    document = _SPEC.read(primitive, SPEC_PATH)
    if document.get("instance_group") is None:
        # nova-conductor did not find the group: it was deleted, and its hint has no effect.
        (document.get("scheduler_hints") or {}).pop("group", None)
    uuid = document.pop("instance_uuid", None)
    if instance_uuids:
        document["instance_uuids"] = read_instance_uuids(instance_uuids)
    elif uuid and (document.get("num_instances") or 1) == 1:
        document["instance_uuids"] = [uuid]
    return document
