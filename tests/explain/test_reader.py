# SPDX-License-Identifier: Apache-2.0
"""Summaries of rejections as text."""

import pytest

from placement_sched.explain.reader import (
    GroupedReason,
    compare_stages,
    describe_limit_reason,
    format_value,
    group_reasons,
    list_stage_reasons,
)


def build_host_rejections(*reasons: str) -> list[dict[str, str]]:
    return [
        {"host": f"cn{number}", "node": f"cn{number}", "reason": reason}
        for number, reason in enumerate(reasons)
    ]


def test_equal_rejection_reasons_are_counted_and_merged():
    assert group_reasons([]) == []
    groups = group_reasons(build_host_rejections("lacks trait X", "disabled", "lacks trait X"))
    assert groups == [
        GroupedReason(2, "lacks trait X", "cn0", "cn0"),
        GroupedReason(1, "disabled", "cn1", "cn1"),
    ]


def test_rejection_reasons_that_differ_in_amounts_are_merged_as_ranges():
    values = {"kind": "capacity", "resource_class": "CUSTOM_V100", "requested": 99, "capacity": 20}
    rejected = [
        {"host": f"cn-10.{free}", "node": f"cn-10.{free}", **values, "free": free}
        for free in (10, 9)
    ]
    for entry in rejected:
        entry["reason"] = f"CUSTOM_V100: {entry['free']} free of 20, 99 requested"
    groups = group_reasons(rejected)
    text = "CUSTOM_V100: 9..10 free of 20, 99 requested"
    assert groups == [GroupedReason(2, text, "cn-10.10", "cn-10.10")]
    rejected[0]["resource_class"] = "CUSTOM_V200"
    rejected[0]["reason"] = "CUSTOM_V200: 10 free of 20, 99 requested"
    assert [group.count for group in group_reasons(rejected)] == [1, 1]


def test_reasons_without_values_are_not_merged_by_their_numbers():
    reasons = ("10 free of 20, 99 requested", "9 free of 20, 99 requested")
    assert [group.count for group in group_reasons(build_host_rejections(*reasons))] == [1, 1]


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (
            ("lacks HW_CPU_X86_AVX2", "lacks HW_CPU_X86_AVX1"),
            ["lacks HW_CPU_X86_AVX1", "lacks HW_CPU_X86_AVX2"],
        ),
        (("b", "a"), ["a", "b"]),
    ],
    ids=["numbers within names", "equally frequent"],
)
def test_different_rejection_reasons_are_sorted(reasons, expected):
    assert [group.text for group in group_reasons(build_host_rejections(*reasons))] == expected


def test_node_name_is_shown_if_it_differs_from_the_host_name():
    (groups,) = group_reasons([{"host": "cn1", "node": "ironic7", "reason": "full"}])
    assert groups.example == "cn1 (ironic7)"


UUID = "3b1f4d3c-6d22-4a7e-9b5e-0c6a4a0d7f11"


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"reason": "VCPU", "kind": "capacity", "resource_class": "VCPU"}, "not enough VCPU"),
        (
            {
                "reason": "member_of",
                "detail": f"in:{UUID}",
                "kind": "not_in_aggregate",
                "aggregates": [UUID],
                "names": {UUID: "rack7"},
            },
            "not in rack7",
        ),
        ({"reason": "ComputeFilter", "kind": "down", "filter": "ComputeFilter"}, "down"),
        ({"reason": "ComputeFilter", "kind": "other", "filter": "ComputeFilter"}, "ComputeFilter"),
        ({"reason": "moons", "detail": "3", "kind": "of_a_newer_server"}, "moons 3"),
        ({"reason": "member_of", "detail": f"in:{UUID}", "names": {UUID: "a"}}, "member_of in:a"),
    ],
)
def test_limit_of_a_capacity_has_words_for_its_values_else_its_text(limit, words):
    assert describe_limit_reason(limit) == words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        ([], "-"),
        ([1.0, "a"], "1, a"),
        (1000000.0, "1000000"),
        (-0.5, "-0.5"),
        (1e300, "1e+300"),
        ({"before": 3, "after": 2}, "3 -> 2"),
        ({"applied": False, "changes": {}}, "not applied"),
        (
            {"applied": True, "changes": {"root_forbidden": ["A", "B"]}},
            "applied\nroot_forbidden A, B",
        ),
        ({"weight": 1.5, "RAMWeigher": 0.25}, "weight 1.5\nRAMWeigher 0.25"),
    ],
)
def test_values_of_an_explanation_are_formatted_as_text(value, text):
    assert format_value(value) == text


@pytest.mark.parametrize("all_sought", [True, False])
def test_scheduling_stages_after_the_last_reason_are_not_evaluated(all_sought):
    names = ("first", "second", "third")
    explanation = {"stages": [{"stage": "filters", "name": name} for name in names]}
    reasons = [{"stage": "filters", "name": "second", "reason": "full"}]
    if not all_sought:
        reasons.append({"stage": "filters", "name": "", "reason": "others were not sought"})
    path = list_stage_reasons(explanation, {"reasons": reasons})
    groups = {name: [reason["reason"] for reason in rejecting] for _, name, rejecting in path}
    expected = {"first": [], "second": ["full"], "third": [] if all_sought else ["not evaluated"]}
    assert groups == expected


@pytest.mark.parametrize("kind", ["capacity", "down", "missing_trait", "max_instances"])
def test_reason_without_the_values_of_its_kind_is_shown_by_its_text(kind):
    (group,) = group_reasons([{"host": "cn1", "node": "cn1", "reason": "my own", "kind": kind}])
    assert group.text == "my own"


def test_stage_of_the_second_explanation_follows_the_stage_that_precedes_it_there():
    """It followed all stages of the first: its counts rose again."""

    def build_run(*details: str) -> dict:
        steps = [
            {"constraint": "required", "detail": name, "before": 2, "after": 1} for name in details
        ]
        return {
            "funnel": {
                "allocation_candidates": {"steps": steps},
                "filters": [{"name": "ComputeFilter"}],
            }
        }

    stages = compare_stages([build_run("A", "D"), build_run("B", "A", "C", "D")])
    names = [name for name, _ in stages]
    assert names == ["required B", "required A", "required C", "required D", "ComputeFilter"]
