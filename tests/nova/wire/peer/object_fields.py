# SPDX-License-Identifier: Apache-2.0
"""The values of nova's objects as JSON, for nova's environment."""


def spec_fields(spec):
    fields = _set(spec, ("project_id", "user_id", "availability_zone", "is_bfv", "num_instances"))
    fields |= _set(spec, ("ignore_hosts", "force_hosts", "force_nodes", "scheduler_hints"))
    fields["flavor"] = _set(spec.flavor, FLAVOR)
    for name, describe in _PARTS.items():
        if spec.obj_attr_is_set(name):
            value = getattr(spec, name)
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


def _set(entity, names):
    return {name: getattr(entity, name) for name in names if entity.obj_attr_is_set(name)}


def image_fields(image):
    properties = {
        name: getattr(image.properties, name)
        for name in image.properties.fields
        if image.properties.obj_attr_is_set(name)
    }
    if "hw_numa_cpus" in properties:
        properties["hw_numa_cpus"] = [sorted(cpus) for cpus in properties["hw_numa_cpus"]]
    return {**_set(image, _IMAGE), "properties": properties}


def _destination(destination):
    fields = _set(
        destination, ("host", "node", "aggregates", "forbidden_aggregates", "allow_cross_cell_move")
    )
    if fields.get("forbidden_aggregates") is not None:
        fields["forbidden_aggregates"] = sorted(fields["forbidden_aggregates"])
    if destination.obj_attr_is_set("cell"):
        fields["cell"] = destination.cell and destination.cell.uuid
    return fields


def _networks(metadata):
    return {"physnets": sorted(metadata.physnets), "tunneled": metadata.tunneled}


def _limits(limits):
    fields = _set(limits, ("vcpu", "memory_mb", "disk_gb"))
    if limits.numa_topology is not None:
        fields["numa_topology"] = numa_limits_fields(limits.numa_topology)
    return fields


def numa_limits_fields(limits):
    fields = _set(limits, ("cpu_allocation_ratio", "ram_allocation_ratio"))
    if limits.obj_attr_is_set("network_metadata"):
        fields["network_metadata"] = _networks(limits.network_metadata)
    return fields


def _group(group):
    fields = _set(group, ("policy", "members", "hosts", "uuid", "name", "project_id"))
    return {**fields, "rules": group.rules if group.obj_attr_is_set("_rules") else {}}


def _request_group(group):
    return {**_set(group, _GROUP), **{name: sorted(getattr(group, name)) for name in _SETS}}


def _level(params):
    sets = {name: sorted(getattr(params, name)) for name in ("root_required", "root_forbidden")}
    return {**sets, "same_subtree": params.same_subtree}


def _cpus(cell):
    if cell.obj_attr_is_set("pcpuset"):
        return {"cpuset": sorted(cell.cpuset), "pcpuset": sorted(cell.pcpuset)}
    pinned = "cpu_policy" in cell and cell.cpu_policy == "dedicated"
    return {"pcpuset" if pinned else "cpuset": sorted(cell.cpuset)}


def _topology(topology):
    cells = [
        {
            **_set(cell, ("id", "memory", "pagesize", "cpu_policy", "cpu_thread_policy")),
            **_cpus(cell),
        }
        for cell in topology.cells
    ]
    return {"cells": cells, **_set(topology, ("emulator_threads_policy",))}


_PARTS = {
    "image": image_fields,
    "requested_destination": _destination,
    "retry": lambda retry: retry.to_dict(),
    "limits": _limits,
    "instance_group": _group,
    "requested_resources": lambda groups: [_request_group(group) for group in groups],
    "request_level_params": _level,
    "requested_networks": lambda networks: [_set(network, _NETWORK) for network in networks],
    "security_groups": lambda groups: [
        group.uuid if "uuid" in group else group.name for group in groups
    ],
    "network_metadata": _networks,
    "numa_topology": _topology,
    "pci_requests": lambda pci: [_set(request, _PCI) for request in pci.requests],
}
