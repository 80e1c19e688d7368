# SPDX-License-Identifier: Apache-2.0
"""Sentences of the kinds of rejections by filters."""

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
from tests.explain.sentences import (
    AGGREGATE,
    CLAUSES,
    HOST_AMOUNTS,
    KINDS_WITH_TEXT,
    SENTENCES,
    SKEW,
)


def build_entry(kind, values):
    values = {"kind": kind, **values}
    return {**values, "reason": format_reason(values)}


@pytest.mark.parametrize(("kind", "values", "sentence"), SENTENCES)
def test_each_kind_of_a_filter_has_a_sentence(kind, values, sentence):
    assert format_reason({"kind": kind, **values}) == sentence


@pytest.mark.parametrize("kind", KINDS_WITH_TEXT)
def test_kind_with_a_text_of_its_own_keeps_the_text(kind):
    rejection = Rejection("2 of 3 nodes fit", kind=kind)
    assert describe_rejection(rejection) == "2 of 3 nodes fit"
    assert format_reason(build_reason(rejection)) == "2 of 3 nodes fit"


def test_every_kind_of_a_filter_is_tested():
    names = list(KINDS)
    tested = {kind for kind, *_ in SENTENCES} | set(KINDS_WITH_TEXT)
    assert set(names[names.index("claimed") + 1 :]) <= tested


@pytest.mark.parametrize(("kind", "values", "clause", "clauses"), CLAUSES)
def test_clause_is_about_a_host_or_several_hosts(kind, values, clause, clauses):
    values = {"kind": kind, **values}
    assert format_clause("RetryFilter", values, several=False) == clause
    assert format_clause("RetryFilter", values, several=True) == clauses


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


def test_members_of_one_and_of_several_are_separate_groups():
    entries = [
        build_entry("anti_affinity", {"members": members, "maximum": 1}) for members in (1, 2, 3)
    ]
    assert build_group_key(entries[0]) != build_group_key(entries[1])
    assert build_group_key(entries[1]) == build_group_key(entries[2])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"kind": "retry", "hosts": 2}, "tried before"),
        ({"kind": "numa_topology"}, "NUMA topology does not fit"),
        ({"kind": "unknown_zone"}, "no such zone"),
        (
            {"kind": "capacity", "resource_class": "DISK_GB", "requested": 2048, "unit": "MB"},
            "not enough disk",
        ),
        ({"kind": "topology_spread"}, ""),
    ],
)
def test_stage_of_a_filter_has_the_words_of_an_operator(values, words):
    assert describe_stage(values) == words


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


@pytest.mark.parametrize("kind", KINDS)
def test_words_of_every_kind_need_only_its_subject(kind):
    assert isinstance(describe_code(kind, None), str)


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
