# SPDX-License-Identifier: Apache-2.0
"""The payloads of unversioned notifications."""

import pytest

from placement_sched.errors import NoValidHost
from placement_sched.notifications.event import END, ERROR, START, Event, Reason
from placement_sched.notifications.payloads import run_instance, unversioned
from tests.support.notification_requests import BARE, IMAGE, INSTANCE, OTHER, WHOLE, build_request

pytestmark = pytest.mark.slow

FLAVOR = {
    "id": 1,
    "flavorid": "f-1",
    "name": "m1.tiny",
    "vcpus": 3,
    "memory_mb": 512,
    "root_gb": 1,
    "ephemeral_gb": 2,
    "swap": 64,
    "rxtx_factor": 1.0,
    "vcpu_weight": 0,
    "disabled": False,
    "is_public": True,
    "description": None,
    "extra_specs": {"hw:cpu_policy": "mixed"},
    "projects": None,
    "created_at": None,
    "updated_at": None,
    "deleted_at": None,
    "deleted": False,
}
SIZE = {"vcpus": 3, "memory_mb": 512, "root_gb": 1, "ephemeral_gb": 2}
WHOLE_PAYLOAD = {
    "num_instances": 2,
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
        "properties": {"hw_architecture": "x86_64", "hw_cpu_sockets": 1},
    },
    "instance_type": FLAVOR,
    "instance_properties": {
        **SIZE,
        "uuid": INSTANCE,
        "project_id": "p1",
        "user_id": "u1",
        "availability_zone": "az1",
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
        "pci_requests": WHOLE["pci_requests"],
    },
}
BARE_PAYLOAD = {
    "num_instances": 1,
    "image": {},
    "instance_type": FLAVOR,
    "instance_properties": {
        **SIZE,
        "uuid": INSTANCE,
        "project_id": None,
        "user_id": None,
        "availability_zone": None,
        "numa_topology": None,
        "pci_requests": None,
    },
}
REASON = Reason.of(
    NoValidHost("No valid host was found: RamFilter rejected the last remaining host")
)


@pytest.mark.parametrize(("document", "expected"), [(WHOLE, WHOLE_PAYLOAD), (BARE, BARE_PAYLOAD)])
@pytest.mark.parametrize("phase", [START, END])
def test_request_has_the_unversioned_form(document, expected, phase):
    assert unversioned(Event(phase, build_request(document))) == {"request_spec": expected}


def test_error_has_its_reason():
    assert unversioned(Event(ERROR, build_request(BARE), REASON)) == {
        "request_spec": BARE_PAYLOAD,
        "code": "scheduler.no_valid_host",
        "reason": "No valid host was found: RamFilter rejected the last remaining host",
    }


@pytest.mark.parametrize(
    ("document", "instances"), [(WHOLE, [INSTANCE, OTHER]), (BARE, [INSTANCE])]
)
def test_run_instance_names_every_instance(document, instances):
    payload = run_instance(Event(START, build_request(document)))
    assert payload["request_spec"].pop("instance_uuids") == instances
    assert payload == unversioned(Event(START, build_request(document)))


def test_unexpected_error_has_only_its_name():
    assert Reason.of(KeyError("secret")) == Reason("placement.undefined_code", "KeyError")
