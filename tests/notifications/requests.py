# SPDX-License-Identifier: Apache-2.0
"""Documents of the scheduler API for requests that cause notifications."""

from typing import Any

from placement_sched.model.request_spec import RequestSpec, parse_request_spec
from tests.support.clouds import uuid_of

JsonObject = dict[str, Any]

INSTANCE_UUID, OTHER_INSTANCE_UUID = uuid_of("instance"), uuid_of("other")
IMAGE, GROUP_UUID, CELL, AGGREGATE = map(uuid_of, ("image", "group", "cell", "aggregate"))

FLAVOR = {
    "id": 1,
    "flavorid": "f-1",
    "name": "m1.tiny",
    "vcpus": 3,
    "memory_mb": 512,
    "root_gb": 1,
    "ephemeral_gb": 2,
    "swap": 64,
    "extra_specs": {"hw:cpu_policy": "mixed"},
}
#: A request with all fields.
REQUEST_WITH_ALL_FIELDS: JsonObject = {
    "project_id": "p1",
    "user_id": "u1",
    "instance_uuids": [INSTANCE_UUID, OTHER_INSTANCE_UUID],
    "availability_zone": "az1",
    "flavor": FLAVOR,
    "image": {
        "id": IMAGE,
        "name": "cirros",
        "status": "active",
        "visibility": "public",
        "owner": "p2",
        "size": 123,
        "virtual_size": 456,
        "container_format": "bare",
        "disk_format": "qcow2",
        "min_ram": 64,
        "min_disk": 1,
        "tags": ["small"],
        "properties": {"architecture": "x86_64", "hw_cpu_sockets": "1"},
    },
    "force_hosts": ["cn1", "cn2"],
    "force_nodes": ["node1"],
    "ignore_hosts": ["cn9"],
    "numa_topology": {
        "cells": [
            {
                "id": 0,
                "cpuset": [0],
                "pcpuset": [2, 1],
                "memory": 512,
                "pagesize": 4,
                "cpu_policy": "mixed",
                "cpu_thread_policy": "prefer",
            }
        ],
        "emulator_threads_policy": "share",
    },
    "pci_requests": {
        "requests": [
            {
                "count": 1,
                "spec": [{"vendor_id": "8086", "product_id": "1572"}],
                "alias_name": "nic",
                "request_id": uuid_of("pci"),
                "requester_id": None,
                "numa_policy": "legacy",
            }
        ]
    },
    "requested_destination": {
        "host": "cn3",
        "node": "node3",
        "cell": CELL,
        "aggregates": [AGGREGATE],
    },
    "retry": {"num_attempts": 1, "hosts": [["cn4", "node4"]]},
    "scheduler_hints": {"group": GROUP_UUID, "same_host": [INSTANCE_UUID, OTHER_INSTANCE_UUID]},
    "security_groups": ["default"],
    "instance_group": {
        "uuid": GROUP_UUID,
        "name": "web",
        "user_id": "u1",
        "project_id": "p1",
        "policy": "anti-affinity",
        "rules": {"max_server_per_host": 2},
        "members": [OTHER_INSTANCE_UUID],
        "hosts": ["cn5"],
    },
}
#: A request with the required fields only.
REQUEST_WITH_REQUIRED_FIELDS: JsonObject = {
    "instance_uuids": [INSTANCE_UUID],
    "flavor": FLAVOR,
    "image": None,
}


def build_request(document: JsonObject) -> RequestSpec:
    return parse_request_spec(document)
