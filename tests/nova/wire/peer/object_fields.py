# SPDX-License-Identifier: Apache-2.0
"""The values of nova's objects as JSON, for nova's environment."""


def list_spec_fields(spec):
    fields = _list_set_fields(
        spec, ("project_id", "user_id", "availability_zone", "is_bfv", "num_instances")
    )
    fields |= _list_set_fields(
        spec, ("ignore_hosts", "force_hosts", "force_nodes", "scheduler_hints")
    )
    fields["flavor"] = _list_set_fields(spec.flavor, FLAVOR_FIELDS)
    for name, describe in _LIST_FIELDS_BY_PART.items():
        if spec.obj_attr_is_set(name):
            value = getattr(spec, name)
            fields[name] = None if value is None else describe(value)
    if fields.get("instance_group") is None and fields.get("scheduler_hints"):
        # The conductor has found no such group, so the scheduler ignores the hint.
        hints = fields["scheduler_hints"].items()
        fields["scheduler_hints"] = {name: value for name, value in hints if name != "group"}
    return fields


FLAVOR_FIELDS = [
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
_IMAGE_FIELDS = [
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
_REQUEST_GROUP_FIELDS = ("requester_id", "resources", "aggregates", "in_tree", "use_same_provider")
_REQUEST_GROUP_SET_FIELDS = ("required_traits", "forbidden_traits", "forbidden_aggregates")
_PCI_REQUEST_FIELDS = ("count", "spec", "alias_name", "request_id", "requester_id", "numa_policy")
_REQUESTED_NETWORK_FIELDS = [
    "network_id",
    "address",
    "port_id",
    "pci_request_id",
    "tag",
    "arq_uuid",
    "device_profile",
]


def _list_set_fields(entity, names):
    return {name: getattr(entity, name) for name in names if entity.obj_attr_is_set(name)}


def list_image_fields(image):
    properties = {
        name: getattr(image.properties, name)
        for name in image.properties.fields
        if image.properties.obj_attr_is_set(name)
    }
    if "hw_numa_cpus" in properties:
        properties["hw_numa_cpus"] = [sorted(cpus) for cpus in properties["hw_numa_cpus"]]
    return {**_list_set_fields(image, _IMAGE_FIELDS), "properties": properties}


def _list_destination_fields(destination):
    fields = _list_set_fields(
        destination, ("host", "node", "aggregates", "forbidden_aggregates", "allow_cross_cell_move")
    )
    if fields.get("forbidden_aggregates") is not None:
        fields["forbidden_aggregates"] = sorted(fields["forbidden_aggregates"])
    if destination.obj_attr_is_set("cell"):
        fields["cell"] = destination.cell and destination.cell.uuid
    return fields


def _list_network_fields(metadata):
    return {"physnets": sorted(metadata.physnets), "tunneled": metadata.tunneled}


def _list_limit_fields(limits):
    fields = _list_set_fields(limits, ("vcpu", "memory_mb", "disk_gb"))
    if limits.numa_topology is not None:
        fields["numa_topology"] = list_numa_limits_fields(limits.numa_topology)
    return fields


def list_numa_limits_fields(limits):
    fields = _list_set_fields(limits, ("cpu_allocation_ratio", "ram_allocation_ratio"))
    if limits.obj_attr_is_set("network_metadata"):
        fields["network_metadata"] = _list_network_fields(limits.network_metadata)
    return fields


def _list_instance_group_fields(group):
    fields = _list_set_fields(group, ("policy", "members", "hosts", "uuid", "name", "project_id"))
    return {**fields, "rules": group.rules if group.obj_attr_is_set("_rules") else {}}


def _list_request_group_fields(group):
    return {
        **_list_set_fields(group, _REQUEST_GROUP_FIELDS),
        **{name: sorted(getattr(group, name)) for name in _REQUEST_GROUP_SET_FIELDS},
    }


def _list_request_level_params_fields(params):
    sets = {name: sorted(getattr(params, name)) for name in ("root_required", "root_forbidden")}
    return {**sets, "same_subtree": params.same_subtree}


def _list_cpu_fields(cell):
    if cell.obj_attr_is_set("pcpuset"):
        return {"cpuset": sorted(cell.cpuset), "pcpuset": sorted(cell.pcpuset)}
    pinned = "cpu_policy" in cell and cell.cpu_policy == "dedicated"
    return {"pcpuset" if pinned else "cpuset": sorted(cell.cpuset)}


def _list_topology_fields(topology):
    cells = [
        {
            **_list_set_fields(
                cell, ("id", "memory", "pagesize", "cpu_policy", "cpu_thread_policy")
            ),
            **_list_cpu_fields(cell),
        }
        for cell in topology.cells
    ]
    return {"cells": cells, **_list_set_fields(topology, ("emulator_threads_policy",))}


_LIST_FIELDS_BY_PART = {
    "image": list_image_fields,
    "requested_destination": _list_destination_fields,
    "retry": lambda retry: retry.to_dict(),
    "limits": _list_limit_fields,
    "instance_group": _list_instance_group_fields,
    "requested_resources": lambda groups: [_list_request_group_fields(group) for group in groups],
    "request_level_params": _list_request_level_params_fields,
    "requested_networks": lambda networks: [
        _list_set_fields(network, _REQUESTED_NETWORK_FIELDS) for network in networks
    ],
    "security_groups": lambda groups: [
        group.uuid if "uuid" in group else group.name for group in groups
    ],
    "network_metadata": _list_network_fields,
    "numa_topology": _list_topology_fields,
    "pci_requests": lambda pci: [
        _list_set_fields(request, _PCI_REQUEST_FIELDS) for request in pci.requests
    ],
}
