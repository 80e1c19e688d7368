# SPDX-License-Identifier: Apache-2.0
"""The charts show exactly the numbers of an explanation."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.cli.report.charts import BEST, build_funnel_picture, build_weights_picture
from tests.support.explanations import (
    build_explanation,
    build_stage,
    build_step,
    build_weighed_host,
    build_weight,
)

host_counts = st.integers(min_value=0, max_value=10_000)
weight_values = st.floats(min_value=-50, max_value=50, allow_nan=False)


@given(st.lists(host_counts, min_size=2, max_size=8))
def test_width_of_a_funnel_stage_is_proportional_to_its_incoming_hosts(numbers):
    numbers.sort(reverse=True)
    pairs = list(itertools.pairwise(numbers))
    steps = [build_step("resources", f"VCPU:{index}", *pair) for index, pair in enumerate(pairs)]
    picture = build_funnel_picture(build_explanation(steps=steps)["funnel"])
    assert [(each.before, each.after) for each in picture.stages] == [p for p in pairs if p[0]]
    assert len(picture.unreached) == sum(not before for before, _ in pairs)
    for each in picture.stages:
        assert round(each.remaining_width + each.rejected_width, 6) == round(
            100 * each.before / numbers[0], 6
        )
        assert each.remaining_width >= 0 <= each.rejected_width
        assert each.unlisted == each.removed


def test_rejected_hosts_of_a_funnel_stage_are_listed_with_their_reasons():
    rejected = [("cn1", "no heartbeat for 93 s"), ("cn2", "no heartbeat for 95 s")]
    values = [{"kind": "down", "actual": 93}, {"kind": "down", "actual": 95}]
    filters = [build_stage(5, 2, rejected, values, name="ComputeFilter")]
    (rejecting,) = build_funnel_picture(build_explanation(filters=filters)["funnel"]).stages
    assert rejecting.rejected == tuple(rejected)
    assert [reason.text for reason in rejecting.reasons] == ["no heartbeat for 93 s..95 s"]
    assert (rejecting.removed, rejecting.unlisted) == (3, 1)
    assert rejecting.warning == ""


MEMORY = {"kind": "capacity", "resource_class": "MEMORY_MB", "requested": 4096}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (MEMORY, "not enough memory for 4 GiB"),
        (MEMORY | {"group": "_1"}, "not enough memory for 4 GiB (group _1)"),
        ({"kind": "forbidden_trait", "traits": ["CUSTOM_GPU"], "root": True}, "has CUSTOM_GPU"),
        ({"kind": "missing_trait", "traits": ["CUSTOM_A", "HW_B"]}, "no CUSTOM_A or HW_B"),
        ({"kind": "limit", "hosts": 2}, "cut by the limit of hosts, not weighed"),
        ({"kind": "of_a_newer_server"}, ""),
        ({}, ""),
    ],
)
def test_step_of_the_search_has_an_operators_words_for_its_values(values, words):
    step = {**build_step("family", "detail", 4, 2), **values}
    (picture,) = build_funnel_picture(build_explanation(steps=[step])["funnel"]).stages
    assert (picture.name, picture.words) == ("family detail", words)


def test_filter_has_an_operators_words_for_the_kinds_of_its_rejections():
    rejected = [("cn1", "reason 1"), ("cn2", "reason 2"), ("cn3", "reason 3")]
    values = [{"kind": "down", "actual": 93}, {"kind": "disabled"}, {"kind": "of_a_newer_server"}]
    filters = [build_stage(4, 1, rejected, values, name="ComputeFilter")]
    (stage,) = build_funnel_picture(build_explanation(filters=filters)["funnel"]).stages
    assert stage.words == "down or disabled"
    assert "reason 3" in [reason.text for reason in stage.reasons]


def test_stage_of_a_decision_recorded_without_kinds_keeps_its_texts():
    steps = [build_step("resources", "VCPU:4", 3, 2, [("cn1", "VCPU: 1 free of 8, 4 requested")])]
    filters = [build_stage(2, 1, [("cn2", "disabled")], name="ComputeFilter")]
    stages = build_funnel_picture(build_explanation(steps=steps, filters=filters)["funnel"]).stages
    assert [(each.name, each.words) for each in stages] == [
        ("resources VCPU:4", ""),
        ("ComputeFilter", ""),
    ]
    assert [each.reasons[0].text for each in stages] == [
        "VCPU: 1 free of 8, 4 requested",
        "disabled",
    ]


def test_funnel_stage_warns_of_missing_names_of_nova():
    filters = [{**build_stage(2, 2, [], name="AcmeFilter"), "missing_names": ["nova.quota"]}]
    (stage,) = build_funnel_picture(build_explanation(filters=filters)["funnel"]).stages
    assert stage.warning == "may differ from nova: it reads nova.quota, missing here"


@given(st.lists(st.lists(weight_values, min_size=3, max_size=3), min_size=1, max_size=2 * BEST))
def test_positive_and_negative_parts_of_a_weight_bar_are_stacked_from_zero(amounts):
    names = ["A", "B", "C"]
    hosts = [
        build_weighed_host(
            f"cn{index}",
            sum(row),
            **dict(zip(names, (build_weight(each, raw=each) for each in row), strict=True)),
        )
        for index, row in enumerate(amounts)
    ]
    picture = build_weights_picture(hosts, [{"name": name} for name in names])
    assert [bar.name for bar in picture.bars] == [each["host"] for each in hosts[:BEST]]
    shown = [name for name, _ in picture.weighers]
    assert sorted([*shown, *picture.without_effect]) == names
    for bar, row in zip(picture.bars, amounts, strict=False):
        parts = {part.weigher: part for part in bar.parts}
        assert parts.keys() == {name for name, amount in zip(names, row, strict=True) if amount}
        for sign in (1, -1):
            ends = sorted(
                (part.start, part.start + part.width)
                for part in bar.parts
                if part.weighted * sign > 0
            )
            for (_, end), (start, _) in itertools.pairwise(ends):
                assert abs(end - start) < 1e-6
            if ends:
                touching = ends[0][0] if sign > 0 else ends[-1][1]
                assert abs(touching - picture.zero) < 1e-6
                assert ends[0][0] > -1e-6
                assert ends[-1][1] < 100 + 1e-6


def test_weight_chart_without_hosts_has_no_bars():
    picture = build_weights_picture([], [{"name": "RAMWeigher"}])
    assert not picture.bars
    assert picture.without_effect == ("RAMWeigher",)


def test_weigher_that_reorders_only_hosts_below_the_best_is_shown_in_the_chart():
    best = [build_weighed_host(f"cn{n}", 1.0, RAMWeigher=build_weight(1.0, 1)) for n in range(BEST)]
    last = build_weighed_host(
        "last", -2.0, RAMWeigher=build_weight(1.0, 1), CPUWeigher=build_weight(1.0, 1, -3.0)
    )
    weighers = [{"name": "RAMWeigher"}, {"name": "CPUWeigher"}, {"name": "IoOpsWeigher"}]
    picture = build_weights_picture([*best, last], weighers)
    assert [name for name, _ in picture.weighers] == ["RAMWeigher", "CPUWeigher"]
    assert picture.without_effect == ("IoOpsWeigher",)
