# SPDX-License-Identifier: Apache-2.0
"""Sentences that are made of the texts of the kinds of rejections."""

import pytest

from placement_sched.explain.kinds import KINDS
from placement_sched.explain.phrases import (
    build_code,
    build_group_key,
    build_reason,
    describe_code,
    describe_rejection,
    describe_stage,
    format_clause,
    format_reason,
    format_title,
    get_subject,
    join_subject,
    merge_reasons,
)
from placement_sched.model.rejection import Rejection
from tests.explain.sentences import AGGREGATE, HOST_AMOUNTS, SKEW


def build_entry(kind, values):
    values = {"kind": kind, **values}
    return {**values, "reason": format_reason(values)}


@pytest.mark.parametrize(
    ("kind", "first", "second", "merged"),
    [
        (
            "capacity",
            {"resource_class": "MEMORY_MB", "requested": 512, "free": 4.5, **HOST_AMOUNTS},
            {"resource_class": "MEMORY_MB", "requested": 512, "free": 100.0, **HOST_AMOUNTS},
            "512 MB requested, 4.5..100 free of 1000 x 1.5",
        ),
        (
            "extra_spec",
            {"key": "capabilities:gen2", "requested": ">= 4", "actual": 1},
            {"key": "capabilities:gen2", "requested": ">= 4", "actual": 3},
            "capabilities:gen2: '>= 4' requested, 1..3 found",
        ),
        ("down", {"actual": 93}, {"actual": 95}, "no heartbeat for 93 s..95 s"),
        (
            "query",
            {"requested": "q", "attributes": {"$host": "'cn1'", "$vcpus_used": 1}},
            {"requested": "q", "attributes": {"$host": "'cn1'", "$vcpus_used": 4}},
            "q does not hold: $host is 'cn1', $vcpus_used is 1..4",
        ),
        (
            "topology_spread",
            {**SKEW, "members": 2, "fewest_members": 0},
            {**SKEW, "members": 4, "fewest_members": 1},
            (
                "Domain rack=r1 has 2..4 members, the emptiest (r3) has 0..1: skew 2 after "
                "placement exceeds max_skew 1"
            ),
        ),
    ],
)
def test_rejections_that_differ_in_numbers_are_merged_as_ranges(kind, first, second, merged):
    entries = [build_entry(kind, values) for values in (first, second)]
    assert build_group_key(entries[0]) == build_group_key(entries[1])
    assert merge_reasons(entries) == merged


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("affinity", {"hosts": ["cn-10.2"]}, {"hosts": ["cn-10.3"]}),
        ("missing_trait", {"traits": ["CUSTOM_V100"]}, {"traits": ["CUSTOM_V200"]}),
        ("no_allowed_aggregate", {"traits": ["CUSTOM_V100"]}, {"traits": ["CUSTOM_V200"]}),
        (
            "extra_spec",
            {"key": "x", "requested": "10", "actual": "11"},
            {"key": "x", "requested": "10", "actual": "12"},
        ),
        (
            "image_property",
            {"requested": ">=6", "hypervisor_version": "1.5.3"},
            {"requested": ">=6", "hypervisor_version": "1.5.4"},
        ),
    ],
)
def test_names_with_digits_are_never_merged_as_numbers(kind, first, second):
    entries = [build_entry(kind, values) for values in (first, second)]
    assert build_group_key(entries[0]) != build_group_key(entries[1])
    assert merge_reasons(entries[:1]) == format_reason(entries[0])


@pytest.mark.parametrize("kind", ["numa_topology", "of_a_plugin"])
def test_rejection_with_a_text_of_its_own_keeps_the_text(kind):
    entry = build_reason(Rejection("2 of 3 nodes fit", kind=kind))
    assert describe_rejection(Rejection("2 of 3 nodes fit", kind=kind)) == "2 of 3 nodes fit"
    assert merge_reasons([entry, entry]) == "2 of 3 nodes fit"
    assert format_clause("F", entry, several=False) == "F rejects it: 2 of 3 nodes fit"


def test_rejection_with_a_cause_of_a_newer_release_is_shown_with_its_text():
    entry = {"kind": "numa_topology", "cause": "of_a_newer_release", "reason": "2 of 3 fit"}
    assert merge_reasons([entry, entry]) == "2 of 3 fit"
    assert describe_stage(entry) == "NUMA topology does not fit"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "not_evaluated"])
def test_rejection_of_a_plugin_without_the_values_of_its_kind_keeps_its_text(kind):
    entry = build_reason(Rejection("too noisy", kind=kind, values={"parts": ["x"], "actual": []}))
    assert entry["reason"] == merge_reasons([entry, entry]) == "too noisy"
    assert isinstance(describe_stage({"rejected": [entry]}), str)
    for several in (False, True):
        assert format_clause("F", entry, several=several)


def test_rejection_without_text_and_values_is_shown_by_its_code():
    assert describe_rejection(Rejection(kind="capacity")) == "capacity"
    filter_values = {"filter": "F", **Rejection(kind="missing_trait").as_json()}
    assert format_reason(filter_values) == "missing_trait:F"


def test_ids_of_numa_nodes_are_never_merged_as_numbers():
    def build_numa_entry(free, *nodes):
        amounts = {"requested": 8, "free": free, "total": 9}
        part = {"kind": "numa_topology", "cause": "memory", "host_nodes": nodes, **amounts}
        return build_entry("numa_topology", {"cause": "node", "instance_node": 0, "parts": [part]})

    first, second, third = build_numa_entry(3, 0), build_numa_entry(5, 0), build_numa_entry(3, 1)
    assert build_group_key(first) == build_group_key(second) != build_group_key(third)
    assert merge_reasons([first, second]) == (
        "NUMA node 0 of the instance fits on no NUMA node of the host: NUMA node 0: 8 MB "
        "requested, 3..5 of 9 MB free"
    )


def test_members_of_one_and_of_several_are_separate_groups():
    entries = [
        build_entry("anti_affinity", {"members": members, "maximum": 1}) for members in (1, 2, 3)
    ]
    assert build_group_key(entries[0]) != build_group_key(entries[1])
    assert build_group_key(entries[1]) == build_group_key(entries[2])


def test_subject_has_the_first_names_that_fit_into_the_column():
    uuids = [f"{number:036}" for number in range(10)]
    subject = get_subject({"kind": "forbidden_aggregate", "aggregates": uuids})
    assert subject == ",".join(uuids[:6])
    assert join_subject(subject.split(",")) == join_subject(uuids) == subject
    assert join_subject(uuids[:2]) == ",".join(uuids[:2])
    assert join_subject(["a" * 300]) == "a" * 255
    assert join_subject([]) == ""


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"kind": "capacity", "resource_class": "VCPU", "filter": "F"}, "capacity:VCPU"),
        ({"kind": "missing_trait", "traits": ["A", "B"]}, "missing_trait:A,B"),
        ({"kind": "down", "filter": "ComputeFilter"}, "down:ComputeFilter"),
        ({"filter": "OurFilter"}, "other:OurFilter"),
        ({"kind": "room"}, "room"),
    ],
)
def test_code_has_the_kind_and_the_subject(values, code):
    assert build_code(values) == code


@pytest.mark.parametrize(
    ("kind", "subject", "words"),
    [
        ("capacity", "MEMORY_MB", "not enough memory"),
        ("capacity", "CUSTOM_GPU", "not enough CUSTOM_GPU"),
        ("missing_trait", "A,B", "no A,B"),
        ("forbidden_aggregate", AGGREGATE, "reserved for other requests (gpu)"),
        ("disabled", "COMPUTE_STATUS_DISABLED", "disabled"),
        ("down", "ComputeFilter", "down"),
        ("room", None, ""),
        ("of_a_newer_release", "VCPU", ""),
    ],
)
def test_recorded_code_has_the_words_of_its_kind(kind, subject, words):
    assert describe_code(kind, subject, {AGGREGATE: "gpu"}) == words


@pytest.mark.parametrize(
    ("values", "title"),
    [
        ({"constraint": "resources", "resource_class": "VCPU", "requested": 4}, "resources VCPU"),
        (
            {"constraint": "resources", "resource_class": "VCPU", "requested": 4, "group": "_1"},
            "resources VCPU (group _1)",
        ),
        (
            {"constraint": "required", "kind": "missing_trait", "traits": ["CUSTOM_A:4"]},
            "required CUSTOM_A:4",
        ),
    ],
)
def test_title_of_a_step_has_no_requested_amount(values, title):
    assert format_title(values) == title
