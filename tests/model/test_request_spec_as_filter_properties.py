# SPDX-License-Identifier: Apache-2.0
"""A request read like the dictionaries of former days; what nova 34 tells was seen there."""

import pytest

from placement_sched.model.instance import HostInstance
from placement_sched.model.request_spec import request_spec_from
from tests.support.scheduling import instance

FLAVOR = {"name": "m1", "vcpus": 1, "memory_mb": 512, "root_gb": 1, "extra_specs": {"a": "b"}}
IMAGE = {
    "id": instance(1),
    "name": "cirros",
    "disk_format": "qcow2",
    "container_format": "bare",
    "properties": {"architecture": "x86_64"},
}
GROUP = {"uuid": instance(3), "policy": "affinity", "hosts": ["h1"], "members": [instance(4)]}
SPEC = request_spec_from(
    {
        "flavor": FLAVOR,
        "image": IMAGE,
        "project_id": "p1",
        "user_id": "u1",
        "availability_zone": "az1",
        "ignore_hosts": ["h1"],
        "scheduler_hints": {"rack": ["r1"], "m": ["a", "b"]},
        "instance_uuids": [instance(2), instance(5)],
        "retry": {"num_attempts": 1, "hosts": [["h9", "n9"]]},
        "instance_group": GROUP,
        "limits": {"vcpu": 1, "memory_mb": 2},
    }
)
PLAIN = request_spec_from({"flavor": FLAVOR})


def test_filter_properties_are_novas():
    assert SPEC.to_legacy_filter_properties_dict() == {
        "group_hosts": {"h1"},
        "group_members": {instance(4)},
        "group_policies": {"affinity"},
        "group_updated": True,
        "group_uuid": instance(3),
        "ignore_hosts": ["h1"],
        "limits": {"memory_mb": 2, "vcpu": 1},
        "retry": {"hosts": [["h9", "n9"]], "num_attempts": 1},
        "scheduler_hints": {"m": ["a", "b"], "rack": "r1"},
    }
    assert PLAIN.to_legacy_filter_properties_dict() == {}


def test_request_spec_dict_is_novas():
    told = SPEC.to_legacy_request_spec_dict()
    assert told == SPEC["request_spec"]
    assert told["instance_type"] is SPEC.flavor
    assert (told["num_instances"], told["instance_uuids"]) == (2, [instance(2), instance(5)])
    assert told["image"] == {
        "id": instance(1),
        "name": "cirros",
        "disk_format": "qcow2",
        "container_format": "bare",
        "min_ram": 0,
        "min_disk": 0,
        "properties": {"hw_architecture": "x86_64"},
    }
    assert told["instance_properties"] == {
        "uuid": instance(2),
        "project_id": "p1",
        "user_id": "u1",
        "availability_zone": "az1",
        "vcpus": 1,
        "memory_mb": 512,
        "root_gb": 1,
        "ephemeral_gb": 0,
        "numa_topology": None,
        "pci_requests": None,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("instance_type", SPEC.flavor),
        ("project_id", "p1"),
        ("group_policies", {"affinity"}),
        ("num_instances", 2),
        ("instance_uuids", [instance(2), instance(5)]),
        ("availability_zone", "az1"),
    ],
)
def test_each_is_read_by_its_name(name, value):
    assert SPEC.get(name) == SPEC[name] == value
    assert name in SPEC


@pytest.mark.parametrize("name", ["force_hosts", "retry", "group_hosts", "os_type", "context"])
def test_what_is_not_told_is_not_there(name):
    assert PLAIN.get(name) is None
    assert PLAIN.get(name, "other") == "other"
    with pytest.raises(KeyError, match=name):
        PLAIN[name]


@pytest.mark.parametrize("name", ["scheduler_hints", "limits"])
def test_what_filters_did_not_ask_for_first_is_there_and_empty(name):
    assert PLAIN[name] == PLAIN.get(name) == {}


def test_attributes_are_there_as_novas_objects_tell_it():
    assert "requested_destination" in PLAIN
    assert PLAIN.obj_attr_is_set("retry")
    assert "nonsense" not in PLAIN
    assert not PLAIN.obj_attr_is_set("nonsense")


@pytest.mark.parametrize("known", [SPEC.flavor, HostInstance(uuid="u", project_id="p")])
def test_flavors_and_instances_are_read_like_dictionaries(known):
    name = "memory_mb" if known is SPEC.flavor else "project_id"
    assert known[name] == known.get(name) == getattr(known, name)
    assert name in known
    assert "nonsense" not in known
    assert known.get("nonsense", 5) == 5
    with pytest.raises(KeyError, match="nonsense"):
        known["nonsense"]
