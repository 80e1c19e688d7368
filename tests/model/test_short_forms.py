# SPDX-License-Identifier: Apache-2.0
"""Requests and simulated changes in their short forms."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.model.short_forms import (
    build_request_spec,
    parse_change,
    parse_hints,
    parse_overrides,
    parse_pairs,
    shorten_addition,
    shorten_change,
)

FIELD_LABELS = {
    "flavor": "Flavor",
    "vcpus": "VCPUs",
    "ram": "Memory",
    "disk": "Disk",
    "extra_specs": "Extra specs",
    "image": "Image",
    "image_properties": "Image properties",
}
FLAVOR_WITH_SIZES_ERROR = "Flavor cannot be combined with VCPUs, Memory, Disk and Extra specs"
IMAGE_WITH_PROPERTIES_ERROR = "Image cannot be combined with Image properties"


def test_missing_options_are_absent_from_the_request_spec():
    spec = build_request_spec({"flavor": "m1.small"}, FIELD_LABELS)
    assert spec == {"num_instances": 1, "flavor": "m1.small"}


def test_vcpus_memory_and_disk_options_become_a_flavor():
    specs = {"hw:cpu_policy": "dedicated"}
    flavor = build_request_spec({"vcpus": 4, "extra_specs": specs}, FIELD_LABELS)["flavor"]
    assert (flavor["vcpus"], flavor["memory_mb"], flavor["root_gb"]) == (4, 512, 0)
    assert flavor["extra_specs"] == specs
    assert build_request_spec({"vcpus": 0}, FIELD_LABELS)["flavor"]["vcpus"] == 0


def test_each_option_sets_its_field_of_the_request_spec():
    values = {
        "flavor": "m1",
        "image_properties": {"hw_machine_type": "q35"},
        "count": 3,
        "zone": "az1",
        "project": "p",
        "hints": {"a": ["b", "c"]},
        "force_hosts": ["cn1"],
        "ignore_hosts": ["cn2"],
    }
    assert build_request_spec(values, FIELD_LABELS) == {
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
    ("options", "message"),
    [
        ({"flavor": "a", "disk": 0}, FLAVOR_WITH_SIZES_ERROR),
        ({"flavor": "a", "extra_specs": {"b": "c"}}, FLAVOR_WITH_SIZES_ERROR),
        ({"image": "a", "image_properties": {"b": "c"}}, IMAGE_WITH_PROPERTIES_ERROR),
    ],
)
def test_contradicting_request_options_are_rejected_with_their_names(options, message):
    with pytest.raises(Invalid) as rejection:
        build_request_spec(options, FIELD_LABELS)
    assert rejection.value.detail == message


def test_repeated_scheduler_hint_becomes_a_list():
    texts = ["different_host=a", "different_host=b", "group=g=h"]
    assert parse_hints(texts, "Hints") == {"different_host": ["a", "b"], "group": "g=h"}


def test_option_values_are_parsed_as_json_if_possible():
    texts = ["a.b=1.5", 'a.c=["x"]', "a.d=x", "a.e=true", "a.f="]
    expected = {"a.b": 1.5, "a.c": ["x"], "a.d": "x", "a.e": True, "a.f": ""}
    assert parse_overrides(texts, "Options") == expected


@pytest.mark.parametrize("text", ["nonsense", "=value"])
def test_key_value_option_without_an_equals_sign_is_rejected(text):
    with pytest.raises(Invalid) as rejection:
        parse_pairs([text], "Extra specs")
    assert rejection.value.detail == f"Extra specs {text}: expected KEY=VALUE"


@pytest.mark.parametrize("names", [["cn1"], ["cn1", "cn2"], ["cn,1"], ["cn 1", "cn*2"], ["a=b"]])
def test_short_form_of_a_simulated_host_change_equals_the_long_form(names):
    assert parse_change(shorten_change("drain", names), "change") == {"drain": names}


@pytest.mark.parametrize("like", ["cn1", "cn*3", "cn,1"])
def test_short_form_of_simulated_new_hosts_equals_the_long_form(like):
    added = {"add": {"like": like, "count": 10}}
    assert parse_change(shorten_addition(like, "10"), "change") == added


@pytest.mark.parametrize("text", ["lift=cn1", "drain=", "{", "aggregate=x:y"])
def test_invalid_simulated_change_is_an_error_with_the_option_name(text):
    with pytest.raises(Invalid, match="line"):
        parse_change(text, "line")


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("add=cn1*1000000000", {"add": {"like": "cn1", "count": 1_000_000_000}}),
        ("add=cn1*-3", {"add": {"like": "cn1", "count": -3}}),
        (
            "inventory=cn1:VCPU=-3",
            {"inventory": {"host": "cn1", "resource_class": "VCPU", "total": -3}},
        ),
    ],
)
def test_numbers_of_simulated_changes_are_not_checked_by_the_parser(text, change):
    assert parse_change(text, "change") == change
