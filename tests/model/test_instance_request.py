# SPDX-License-Identifier: Apache-2.0
"""Recorded requests of instances, and the documents made of them."""

import pytest

from placement_sched.model.instance import Instance
from placement_sched.model.instance_request import (
    build_request_document,
    describe_unknown_facts,
    find_unknown_facts,
    select_request,
)

NO_ZONE_REQUEST = {
    "availability_zone": None,
    "scheduler_hints": {},
    "is_bfv": False,
    "requested_resources": [],
}
ALL_FACTS = ("availability_zone", "scheduler_hints", "is_bfv", "requested_resources")


def make_instance(flavor="m1", **fields):
    return Instance(uuid="i", display_name="i", flavor={"name": flavor, "vcpus": 1}, **fields)


@pytest.mark.parametrize(
    ("document", "changes"),
    [
        ({}, {}),
        ({"force_hosts": ["cn1"], "ignore_hosts": ["cn2"], "instance_uuids": ["i"]}, {}),
        ({"availability_zone": "az1:cn1:n"}, {"availability_zone": "az1"}),
        ({"scheduler_hints": {"group": "g", "_nova_check_type": ["rebuild"]}}, {}),
        ({"is_bfv": True, "network_metadata": None}, {"is_bfv": True}),
        ({"requested_networks": [{"port_id": "p"}]}, {"requested_networks": [{"port_id": "p"}]}),
        (
            {"numa_topology": None, "flavor": {"name": "m1", "vcpus": 1}},
            {"numa_topology": None, "flavor": {"name": "m1"}},
        ),
    ],
)
def test_recorded_request_has_only_what_applies_again(document, changes):
    assert select_request(document) == {**NO_ZONE_REQUEST, **changes}


def test_numa_topology_and_devices_apply_only_to_the_original_flavor():
    request = select_request({"numa_topology": {"cells": []}, "flavor": {"name": "m1"}})
    document = build_request_document(make_instance(), request)
    assert document["numa_topology"] == {"cells": []}
    assert "numa_topology" not in build_request_document(make_instance("m2"), request)


def test_unknown_facts_are_counted_by_instances():
    unknown = {
        "availability_zone": ["a", "b", "c"],
        "image": ["a"],
        "is_bfv": ["a", "b", "c"],
        "requested_resources": ["b", "c"],
    }
    for servers in (["a"], 1):
        facts = describe_unknown_facts({"availability_zone": servers})
        assert facts == ["zone of 1 server is not known"]
    facts = describe_unknown_facts({"availability_zone": 3, "scheduler_hints": 3})
    assert facts == ["zone and scheduler hints of 3 servers are not known"]
    assert describe_unknown_facts(unknown) == [
        "zone and root disk (local or volume) of 3 servers are not known",
        "image properties of 1 server are not known",
        "port resources of 2 servers are not known",
    ]


def test_facts_that_a_record_lacks_are_unknown():
    image = {"id": "11111111-1111-4111-8111-111111111111"}
    assert find_unknown_facts(make_instance(), None) == ALL_FACTS
    assert find_unknown_facts(make_instance(image=image), NO_ZONE_REQUEST) == ("image",)
    whole_image = {**image, "properties": {}}
    assert find_unknown_facts(make_instance(image=whole_image), NO_ZONE_REQUEST) == ()
    assert find_unknown_facts(make_instance(), {"is_bfv": True}) == (
        *("availability_zone", "scheduler_hints", "requested_resources"),
    )
