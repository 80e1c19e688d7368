# SPDX-License-Identifier: Apache-2.0
"""The values of nova's objects as JSON, for nova's environment."""

from nova import objects


def spec_fields(one):
    fields = _set(one, ("project_id", "user_id", "availability_zone", "is_bfv", "num_instances"))
    fields |= _set(one, ("ignore_hosts", "force_hosts", "force_nodes", "scheduler_hints"))
    fields["flavor"] = _set(one.flavor, FLAVOR)
    for name, describe in _PARTS.items():
        if one.obj_attr_is_set(name):
            value = getattr(one, name)
            fields[name] = None if value is None else describe(value)
    if fields.get("instance_group") is None and fields.get("scheduler_hints"):
        # The conductor has found no such group, so the scheduler ignores the hint.
        hints = fields["scheduler_hints"].items()
        fields["scheduler_hints"] = {name: value for name, value in hints if name != "group"}
    return fields


FLAVOR = [
    "id",
    "name",
    "flavorid",
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
    "extra_specs",
]
_IMAGE = [
    "id",
    "name",
    "status",
    "visibility",
    "owner",
    "size",
    "virtual_size",
    "disk_format",
    "container_format",
    "min_ram",
    "min_disk",
    "tags",
]
_GROUP = ("requester_id", "resources", "aggregates", "in_tree", "use_same_provider")
_SETS = ("required_traits", "forbidden_traits", "forbidden_aggregates")
_PCI = ("count", "spec", "alias_name", "request_id", "requester_id", "numa_policy")
_NETWORK = [
    "network_id",
    "address",
    "port_id",
    "pci_request_id",
    "tag",
    "arq_uuid",
    "device_profile",
]


def _set(one, names):
    return {name: getattr(one, name) for name in names if one.obj_attr_is_set(name)}


def instance_fields(one):
    names = ("uuid", "host", "node", "project_id", "user_id", "display_name", "vm_state")
    fields = _set(one, (*names, "task_state"))
    for name in ("created_at", "updated_at"):
        if one.obj_attr_is_set(name):
            time = getattr(one, name)
            fields[name] = time and time.replace(tzinfo=None).isoformat()
    fields["flavor"] = _set(one.flavor, FLAVOR) if one.obj_attr_is_set("flavor") else None
    if "flavor" not in one and one.obj_attr_is_set("memory_mb"):
        fields["flavor"] = _set(one, ("vcpus", "memory_mb", "root_gb", "ephemeral_gb"))
    if one.obj_attr_is_set("image_ref") and one.obj_attr_is_set("system_metadata"):
        fields["image"] = image_fields(objects.ImageMeta.from_instance(one))
    return fields


def image_fields(one):
    properties = {
        name: getattr(one.properties, name)
        for name in one.properties.fields
        if one.properties.obj_attr_is_set(name)
    }
    if "hw_numa_cpus" in properties:
        properties["hw_numa_cpus"] = [sorted(cpus) for cpus in properties["hw_numa_cpus"]]
    return {**_set(one, _IMAGE), "properties": properties}


def _destination(one):
    fields = _set(
        one, ("host", "node", "aggregates", "forbidden_aggregates", "allow_cross_cell_move")
    )
    if fields.get("forbidden_aggregates") is not None:
        fields["forbidden_aggregates"] = sorted(fields["forbidden_aggregates"])
    if one.obj_attr_is_set("cell"):
        fields["cell"] = one.cell and one.cell.uuid
    return fields


def _networks(one):
    return {"physnets": sorted(one.physnets), "tunneled": one.tunneled}


def _limits(one):
    fields = _set(one, ("vcpu", "memory_mb", "disk_gb"))
    if one.numa_topology is not None:
        fields["numa_topology"] = numa_limits_fields(one.numa_topology)
    return fields


def numa_limits_fields(one):
    fields = _set(one, ("cpu_allocation_ratio", "ram_allocation_ratio"))
    if one.obj_attr_is_set("network_metadata"):
        fields["network_metadata"] = _networks(one.network_metadata)
    return fields


def _group(one):
    fields = _set(one, ("policy", "members", "hosts", "uuid", "name", "project_id"))
    return {**fields, "rules": one.rules if one.obj_attr_is_set("_rules") else {}}


def _request_group(one):
    return {**_set(one, _GROUP), **{name: sorted(getattr(one, name)) for name in _SETS}}


def _level(one):
    sets = {name: sorted(getattr(one, name)) for name in ("root_required", "root_forbidden")}
    return {**sets, "same_subtree": one.same_subtree}


def _cpus(cell):
    if cell.obj_attr_is_set("pcpuset"):
        return {"cpuset": sorted(cell.cpuset), "pcpuset": sorted(cell.pcpuset)}
    pinned = "cpu_policy" in cell and cell.cpu_policy == "dedicated"
    return {"pcpuset" if pinned else "cpuset": sorted(cell.cpuset)}


def _topology(one):
    cells = [
        {
            **_set(cell, ("id", "memory", "pagesize", "cpu_policy", "cpu_thread_policy")),
            **_cpus(cell),
        }
        for cell in one.cells
    ]
    return {"cells": cells, **_set(one, ("emulator_threads_policy",))}


_PARTS = {
    "image": image_fields,
    "requested_destination": _destination,
    "retry": lambda one: one.to_dict(),
    "limits": _limits,
    "instance_group": _group,
    "requested_resources": lambda some: [_request_group(one) for one in some],
    "request_level_params": _level,
    "requested_networks": lambda some: [_set(one, _NETWORK) for one in some],
    "security_groups": lambda some: [one.uuid if "uuid" in one else one.name for one in some],
    "network_metadata": _networks,
    "numa_topology": _topology,
    "pci_requests": lambda one: [_set(request, _PCI) for request in one.requests],
}
