# SPDX-License-Identifier: Apache-2.0
"""Parsed request specs as JSON with nova's field names."""

from typing import Any

from placement_sched.model.image import Image
from placement_sched.model.request_spec import RequestSpec, request_spec_from
from placement_sched.nova.request_spec import document_of

_LISTS = ("ignore_hosts", "force_hosts", "force_nodes", "security_groups")
_PLAIN = ("project_id", "user_id", "availability_zone", "is_bfv", "num_instances")


def convert_spec_to_document(primitive: Any) -> dict[str, Any]:
    document = document_of(primitive)
    spec = request_spec_from(document)
    fields = {name: getattr(spec, name) for name in _PLAIN}
    fields |= {name: list(getattr(spec, name)) for name in _LISTS}
    fields["scheduler_hints"] = dict(spec.scheduler_hints)
    fields["flavor"] = spec.flavor.as_document()
    for name, describe in _PARTS.items():
        fields[name] = describe(spec)
    return fields


def convert_image_to_document(image: Image) -> dict[str, Any]:
    properties = image.properties.to_dict()
    if "hw_numa_cpus" in properties:
        properties["hw_numa_cpus"] = [sorted(cpus) for cpus in properties["hw_numa_cpus"]]
    return {**_convert_fields(image, _IMAGE), "tags": list(image.tags), "properties": properties}


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
]
_NETWORK = [
    "network_id",
    "address",
    "port_id",
    "pci_request_id",
    "tag",
    "arq_uuid",
    "device_profile",
]
_PCI = ("count", "alias_name", "request_id", "requester_id", "numa_policy")


def _convert_fields(entity: Any, names: Any) -> dict[str, Any]:
    return {name: getattr(entity, name) for name in names}


def _convert_destination(spec: RequestSpec) -> Any:
    destination = spec.requested_destination
    return destination and {
        **_convert_fields(destination, ("host", "node", "cell", "allow_cross_cell_move")),
        "aggregates": list(destination.aggregates),
        "forbidden_aggregates": list(destination.forbidden_aggregates),
    }


def _convert_retry(spec: RequestSpec) -> Any:
    return spec.to_legacy_filter_properties_dict().get("retry")


def _convert_limits(spec: RequestSpec) -> Any:
    return spec.limits and _convert_fields(
        spec.limits, ("vcpu", "memory_mb", "disk_gb", "numa_topology")
    )


def _convert_group(spec: RequestSpec) -> Any:
    group = spec.instance_group
    return group and {
        **_convert_fields(group, ("policy", "uuid", "name", "project_id")),
        "rules": dict(group.rules),
        "members": list(group.members),
        "hosts": list(group.hosts),
    }


def _convert_requested_resources(spec: RequestSpec) -> Any:
    return [
        {
            **_convert_fields(resource, ("requester_id", "in_tree", "use_same_provider")),
            "resources": dict(resource.resources),
            "required_traits": sorted(resource.required_traits),
            "forbidden_traits": sorted(resource.forbidden_traits),
            "aggregates": [list(some) for some in resource.aggregates],
            "forbidden_aggregates": sorted(resource.forbidden_aggregates),
        }
        for resource in spec.requested_resources
    ]


def _convert_level(spec: RequestSpec) -> Any:
    return {
        "root_required": sorted(spec.root_required),
        "root_forbidden": sorted(spec.root_forbidden),
        "same_subtree": [list(some) for some in spec.same_subtree],
    }


def _convert_topology(spec: RequestSpec) -> Any:
    topology = spec.numa_topology
    return topology and {
        "emulator_threads_policy": topology.emulator_threads_policy,
        "cells": [
            {
                **_convert_fields(
                    cell, ("id", "memory", "pagesize", "cpu_policy", "cpu_thread_policy")
                ),
                "cpuset": sorted(cell.cpuset),
                "pcpuset": sorted(cell.pcpuset),
            }
            for cell in topology.cells
        ],
    }


def _convert_pci_requests(spec: RequestSpec) -> Any:
    if spec.pci_requests is None:
        return None
    return [
        {**_convert_fields(request, _PCI), "spec": [dict(some) for some in request.spec]}
        for request in spec.pci_requests.requests
    ]


_PARTS = {
    # A request without an image is parsed as an image without properties.
    "image": lambda spec: None if spec.image == Image() else convert_image_to_document(spec.image),
    "requested_destination": _convert_destination,
    "retry": _convert_retry,
    "limits": _convert_limits,
    "instance_group": _convert_group,
    "requested_resources": _convert_requested_resources,
    "request_level_params": _convert_level,
    "requested_networks": lambda spec: [
        _convert_fields(network, _NETWORK) for network in spec.requested_networks
    ],
    "network_metadata": lambda spec: spec.network_metadata,
    "numa_topology": _convert_topology,
    "pci_requests": _convert_pci_requests,
}
