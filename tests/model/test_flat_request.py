# SPDX-License-Identifier: Apache-2.0
"""A request that is given value by value."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.model.flat_request import FlatRequest, hints, overrides, pairs

CALLED = {
    "flavor": "Flavor",
    "vcpus": "VCPUs",
    "ram": "Memory",
    "disk": "Disk",
    "extra_specs": "Extra specs",
    "image": "Image",
    "image_properties": "Image properties",
}


def test_what_is_not_given_is_left_to_the_scheduler():
    assert FlatRequest(flavor="m1.small").as_spec(CALLED) == {
        "num_instances": 1,
        "flavor": "m1.small",
    }


def test_sizes_describe_a_flavor():
    flavor = FlatRequest(vcpus=4, extra_specs={"hw:cpu_policy": "dedicated"}).as_spec(CALLED)[
        "flavor"
    ]
    assert (flavor["vcpus"], flavor["memory_mb"], flavor["root_gb"]) == (4, 512, 0)
    assert flavor["extra_specs"] == {"hw:cpu_policy": "dedicated"}


def test_a_size_of_zero_is_a_size():
    assert FlatRequest(vcpus=0).as_spec(CALLED)["flavor"]["vcpus"] == 0


def test_extra_specs_are_added_to_a_whole_flavor():
    given = {"vcpus": 1, "memory_mb": 1, "extra_specs": {"a": "1", "b": "1"}}
    flavor = FlatRequest(flavor=given, extra_specs={"b": "2"}).as_spec(CALLED)["flavor"]
    assert flavor["extra_specs"] == {"a": "1", "b": "2"}
    assert given["extra_specs"] == {"a": "1", "b": "1"}


def test_every_value_has_its_place_in_the_spec():
    asked = FlatRequest(
        flavor="m1",
        image_properties={"hw_machine_type": "q35"},
        count=3,
        zone="az1",
        project="p",
        hints={"a": ["b", "c"]},
        force_hosts=["cn1"],
        ignore_hosts=["cn2"],
    )
    assert asked.as_spec(CALLED) == {
        "num_instances": 3,
        "flavor": "m1",
        "image": {"properties": {"hw_machine_type": "q35"}},
        "availability_zone": "az1",
        "project_id": "p",
        "scheduler_hints": {"a": ["b", "c"]},
        "force_hosts": ["cn1"],
        "ignore_hosts": ["cn2"],
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"flavor": "a", "disk": 0},
            "Flavor cannot be combined with VCPUs, Memory, Disk and Extra specs",
        ),
        (
            {"flavor": "a", "extra_specs": {"b": "c"}},
            "Flavor cannot be combined with VCPUs, Memory, Disk and Extra specs",
        ),
        (
            {"image": "a", "image_properties": {"b": "c"}},
            "Image cannot be combined with Image properties",
        ),
    ],
)
def test_values_that_contradict_each_other_are_named(given, words):
    with pytest.raises(Invalid) as refused:
        FlatRequest(**given).as_spec(CALLED)
    assert refused.value.detail == words


def test_a_hint_that_is_given_twice_is_a_list():
    texts = ["different_host=a", "different_host=b", "group=g=h"]
    assert hints(texts, "Hints") == {"different_host": ["a", "b"], "group": "g=h"}


def test_values_of_options_are_json_where_they_can_be():
    texts = ["a.b=1.5", 'a.c=["x"]', "a.d=x", "a.e=true", "a.f="]
    expected = {"a.b": 1.5, "a.c": ["x"], "a.d": "x", "a.e": True, "a.f": ""}
    assert overrides(texts, "Options") == expected


@pytest.mark.parametrize("text", ["nonsense", "=value"])
def test_a_text_that_is_not_a_pair_is_named(text):
    with pytest.raises(Invalid) as refused:
        pairs([text], "Extra specs")
    assert refused.value.detail == f"Extra specs {text}: expected KEY=VALUE"
