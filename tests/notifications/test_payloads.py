# SPDX-License-Identifier: Apache-2.0
"""The payloads of versioned and unversioned notifications."""

import json
from typing import Any

import pytest

from placement_sched.errors import NoValidHost
from placement_sched.notifications import (
    END,
    ERROR,
    START,
    Event,
    Reason,
    build_run_instance_payload,
    build_unversioned_payload,
    build_versioned_payload,
)
from tests.notifications.requests import (
    AGGREGATE,
    CELL,
    GROUP_UUID,
    IMAGE,
    INSTANCE_UUID,
    OTHER_INSTANCE_UUID,
    REQUEST_WITH_ALL_FIELDS,
    REQUEST_WITH_REQUIRED_FIELDS,
    build_request,
)
from tests.support.clouds import uuid_of
from tests.support.nova_clouds import build_nova_object

pytestmark = pytest.mark.slow


#: Names of uuids in the payload below.
UUIDS_BY_PLACEHOLDER = {
    "INSTANCE": INSTANCE_UUID,
    "OTHER": OTHER_INSTANCE_UUID,
    "IMAGE": IMAGE,
    "GROUP": GROUP_UUID,
    "CELL": CELL,
    "AGGREGATE": AGGREGATE,
    "PCI": uuid_of("pci"),
}


def expand_nova_objects(value: Any) -> Any:
    """Return JSON with uuids and nova's objects, written as ``{"Name 1.0": fields}``."""
    if isinstance(value, list):
        return [expand_nova_objects(item) for item in value]
    if not isinstance(value, dict):
        return UUIDS_BY_PLACEHOLDER.get(value, value)
    fields = {name: expand_nova_objects(field) for name, field in value.items()}
    (first, *_) = fields or [""]
    name, _, version = first.partition(" ")
    return build_nova_object(name, version, fields[first]) if version else fields


#: A request with every field.
FULL_PAYLOAD = expand_nova_objects(
    json.loads(
        """{
"instance_uuid": "INSTANCE", "project_id": "p1", "user_id": "u1", "availability_zone": "az1",
"num_instances": 2,
"flavor": {"FlavorPayload 1.4": {
    "flavorid": "f-1", "name": "m1.tiny", "vcpus": 3, "memory_mb": 512, "root_gb": 1,
    "ephemeral_gb": 2, "swap": 64, "rxtx_factor": 1.0, "vcpu_weight": 0, "disabled": false,
    "is_public": true, "extra_specs": {"hw:cpu_policy": "mixed"}, "projects": null,
    "description": null}},
"image": {"ImageMetaPayload 1.0": {
    "id": "IMAGE", "name": "cirros", "status": "active", "visibility": "public",
    "protected": null, "checksum": null, "owner": "p2", "size": 123, "virtual_size": 456,
    "container_format": "bare", "disk_format": "qcow2", "created_at": null, "updated_at": null,
    "tags": ["small"], "direct_url": null, "min_ram": 64, "min_disk": 1,
    "properties": {"ImageMetaPropsPayload 1.20": {
        "hw_architecture": "x86_64", "hw_cpu_sockets": 1}}}},
"force_hosts": "cn1", "force_nodes": "node1", "ignore_hosts": ["cn9"],
"instance_group": {"ServerGroupPayload 1.1": {
    "uuid": "GROUP", "name": "web", "user_id": "u1", "project_id": "p1", "policies": null,
    "policy": "anti-affinity", "rules": {"max_server_per_host": "2"}, "members": ["OTHER"],
    "hosts": ["cn5"]}},
"numa_topology": {"InstanceNUMATopologyPayload 1.0": {
    "instance_uuid": "INSTANCE", "emulator_threads_policy": "share",
    "cells": [{"InstanceNUMACellPayload 1.2": {
        "id": 0, "cpuset": [0], "pcpuset": [1, 2], "cpuset_reserved": null, "memory": 512,
        "pagesize": 4, "cpu_topology": null, "cpu_pinning_raw": null, "cpu_policy": "mixed",
        "cpu_thread_policy": "prefer"}}]}},
"pci_requests": {"InstancePCIRequestsPayload 1.0": {
    "instance_uuid": "INSTANCE",
    "requests": [{"InstancePCIRequestPayload 1.1": {
        "count": 1, "spec": [{"vendor_id": "8086", "product_id": "1572"}], "alias_name": "nic",
        "request_id": "PCI", "numa_policy": "legacy"}}]}},
"requested_destination": {"DestinationPayload 1.0": {
    "host": "cn3", "node": "node3", "aggregates": ["AGGREGATE"],
    "cell": {"CellMappingPayload 2.0": {"uuid": "CELL", "name": null, "disabled": false}}}},
"retry": {"SchedulerRetriesPayload 1.0": {"num_attempts": 1, "hosts": ["node4"]}},
"scheduler_hints": {"group": ["GROUP"], "same_host": ["INSTANCE", "OTHER"]},
"security_groups": ["default"]}"""
    )
)
MINIMAL_PAYLOAD = {
    **dict.fromkeys(FULL_PAYLOAD),
    "instance_uuid": INSTANCE_UUID,
    "num_instances": 1,
    "flavor": FULL_PAYLOAD["flavor"],
    "scheduler_hints": {},
    "security_groups": [],
}


@pytest.mark.parametrize(
    ("document", "expected"),
    [(REQUEST_WITH_ALL_FIELDS, FULL_PAYLOAD), (REQUEST_WITH_REQUIRED_FIELDS, MINIMAL_PAYLOAD)],
)
@pytest.mark.parametrize("phase", [START, END])
def test_versioned_notification_payload_is_the_object_of_nova(document, expected, phase):
    payload = build_versioned_payload(Event(phase, build_request(document)))
    assert payload == build_nova_object("RequestSpecPayload", "1.1", expected)


def test_notification_payload_of_a_bare_destination_has_nulls():
    spec = build_request(REQUEST_WITH_REQUIRED_FIELDS | {"requested_destination": {"host": "cn1"}})
    destination = build_versioned_payload(Event(START, spec))["nova_object.data"][
        "requested_destination"
    ]
    nulls = {"node": None, "cell": None, "aggregates": None}
    assert destination == build_nova_object("DestinationPayload", "1.0", {"host": "cn1", **nulls})


def test_versioned_error_payload_has_the_request_and_the_reason():
    reason = Reason.from_exception(NoValidHost("No valid host was found: there is no such host"))
    payload = build_versioned_payload(
        Event(ERROR, build_request(REQUEST_WITH_REQUIRED_FIELDS), reason)
    )
    assert payload == {
        "nova_object.name": "SelectDestinationsErrorPayload",
        "nova_object.namespace": "placement_sched",
        "nova_object.version": "1.0",
        "nova_object.data": {
            "request_spec": build_nova_object("RequestSpecPayload", "1.1", MINIMAL_PAYLOAD),
            "code": "scheduler.no_valid_host",
            "reason": "No valid host was found: there is no such host",
        },
    }


UNVERSIONED_FLAVOR = {
    **FULL_PAYLOAD["flavor"]["nova_object.data"],
    **dict.fromkeys(("projects", "created_at", "updated_at", "deleted_at")),
    "id": 1,
    "deleted": False,
}
FLAVOR_SIZE = {"vcpus": 3, "memory_mb": 512, "root_gb": 1, "ephemeral_gb": 2}
UNVERSIONED_FULL_PAYLOAD = {
    "num_instances": 2,
    "image": {
        name: value
        for name, value in FULL_PAYLOAD["image"]["nova_object.data"].items()
        if value is not None
    }
    | {"properties": {"hw_architecture": "x86_64", "hw_cpu_sockets": 1}},
    "instance_type": UNVERSIONED_FLAVOR,
    "instance_properties": {
        **FLAVOR_SIZE,
        "uuid": INSTANCE_UUID,
        **{name: FULL_PAYLOAD[name] for name in ("project_id", "user_id", "availability_zone")},
        "numa_topology": {
            "cells": [
                {
                    "id": 0,
                    "cpuset": [0],
                    "pcpuset": [1, 2],
                    "cpuset_reserved": None,
                    "memory": 512,
                    "pagesize": 4,
                    "cpu_pinning_raw": None,
                    "cpu_policy": "mixed",
                    "cpu_thread_policy": "prefer",
                }
            ],
            "emulator_threads_policy": "share",
        },
        "pci_requests": REQUEST_WITH_ALL_FIELDS["pci_requests"],
    },
}
UNVERSIONED_MINIMAL_PAYLOAD = {
    "num_instances": 1,
    "image": {},
    "instance_type": UNVERSIONED_FLAVOR,
    "instance_properties": {
        **FLAVOR_SIZE,
        "uuid": INSTANCE_UUID,
        "project_id": None,
        "user_id": None,
        "availability_zone": None,
        "numa_topology": None,
        "pci_requests": None,
    },
}
NO_VALID_HOST_REASON = Reason.from_exception(
    NoValidHost("No valid host was found: RamFilter rejected the last remaining host")
)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (REQUEST_WITH_ALL_FIELDS, UNVERSIONED_FULL_PAYLOAD),
        (REQUEST_WITH_REQUIRED_FIELDS, UNVERSIONED_MINIMAL_PAYLOAD),
    ],
)
@pytest.mark.parametrize("phase", [START, END])
def test_unversioned_notification_payload_is_that_of_nova(document, expected, phase):
    assert build_unversioned_payload(Event(phase, build_request(document))) == {
        "request_spec": expected
    }


def test_unversioned_error_payload_has_the_reason():
    assert build_unversioned_payload(
        Event(ERROR, build_request(REQUEST_WITH_REQUIRED_FIELDS), NO_VALID_HOST_REASON)
    ) == {
        "request_spec": UNVERSIONED_MINIMAL_PAYLOAD,
        "code": "scheduler.no_valid_host",
        "reason": "No valid host was found: RamFilter rejected the last remaining host",
    }


@pytest.mark.parametrize(
    ("document", "instances"),
    [
        (REQUEST_WITH_ALL_FIELDS, [INSTANCE_UUID, OTHER_INSTANCE_UUID]),
        (REQUEST_WITH_REQUIRED_FIELDS, [INSTANCE_UUID]),
    ],
)
def test_run_instance_payload_has_every_instance(document, instances):
    payload = build_run_instance_payload(Event(START, build_request(document)))
    assert payload["request_spec"].pop("instance_uuids") == instances
    assert payload == build_unversioned_payload(Event(START, build_request(document)))


def test_notification_of_an_unexpected_error_has_only_its_class_name():
    assert Reason.from_exception(KeyError("secret")) == Reason(
        "placement.undefined_code", "KeyError"
    )
