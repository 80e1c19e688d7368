# SPDX-License-Identifier: Apache-2.0
"""Many refusals in few lines."""

import pytest

from placement_sched.model.explanation_reader import (
    GroupedReason,
    group_reasons,
    path_of,
    readable_value,
)


def refusals(*reasons: str) -> list[dict[str, str]]:
    return [
        {"host": f"cn{number}", "node": f"cn{number}", "reason": reason}
        for number, reason in enumerate(reasons)
    ]


def test_nobody_refused_is_no_reason():
    assert group_reasons([]) == []


def test_alike_reasons_are_counted_with_the_first_host_for_example():
    told = group_reasons(refusals("lacks trait X", "disabled", "lacks trait X"))
    assert told == [
        GroupedReason(2, "lacks trait X", "cn0", "cn0"),
        GroupedReason(1, "disabled", "cn1", "cn1"),
    ]


def test_reasons_that_differ_in_numbers_are_one_with_the_ranges():
    told = group_reasons(refusals("10 free of 20, 99 requested", "9 free of 20, 99 requested"))
    assert told == [GroupedReason(2, "9..10 free of 20, 99 requested", "cn0", "cn0")]


def test_numbers_within_names_are_not_ranged():
    told = group_reasons(refusals("lacks HW_CPU_X86_AVX2", "lacks HW_CPU_X86_AVX1"))
    assert [reason.text for reason in told] == ["lacks HW_CPU_X86_AVX1", "lacks HW_CPU_X86_AVX2"]


def test_equally_frequent_reasons_come_in_alphabetical_order():
    assert [reason.text for reason in group_reasons(refusals("b", "a"))] == ["a", "b"]


def test_a_node_of_another_name_than_its_host_is_told_with_it():
    (told,) = group_reasons([{"host": "cn1", "node": "ironic7", "reason": "full"}])
    assert told.example == "cn1 (ironic7)"


@pytest.mark.parametrize(
    ("value", "words"),
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
def test_a_value_is_written_as_people_read_it(value, words):
    assert readable_value(value) == words


@pytest.mark.parametrize("all_sought", [True, False])
def test_stages_after_the_first_reason_do_not_pass_where_others_were_not_sought(all_sought):
    names = ("first", "second", "third")
    explanation = {"stages": [{"stage": "filters", "name": name} for name in names]}
    reasons = [{"stage": "filters", "name": "second", "reason": "full"}]
    if not all_sought:
        reasons.append({"stage": "filters", "name": "", "reason": "others were not sought"})
    found = path_of(explanation, {"reasons": reasons})
    told = {name: [one["reason"] for one in rejecting] for _, name, rejecting in found}
    assert told == {
        "first": [],
        "second": ["full"],
        "third": [] if all_sought else ["not evaluated"],
    }
