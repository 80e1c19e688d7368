# SPDX-License-Identifier: Apache-2.0
"""Explanations as text for terminals."""

import io

import pytest
from rich.console import Console

from placement_sched.cli.scheduler.render_explanation import render
from placement_sched.explain.reader import describe_obstacle
from placement_sched.explain.values import WeightReport
from tests.support.explanations import (
    build_explanation,
    build_selection,
    build_stage,
    build_step,
    build_weighed_host,
    build_weight,
)

pytestmark = pytest.mark.slow

AGGREGATE_UUID = "3b1f4d3c-6d22-4a7e-9b5e-0c6a4a0d7f11"


def render_to_text(document: dict, *arguments, width: int = 80, **options) -> str:
    console = Console(file=io.StringIO(), width=width)
    render(document, console, *arguments, **options)
    return console.file.getvalue()


def render_to_lines(document: dict, *arguments, **options) -> list[str]:
    """Return the lines of an explanation without alignment."""
    return [
        " ".join(line.split())
        for line in render_to_text(document, *arguments, **options).splitlines()
    ]


def test_ignored_extra_specs_are_warnings_before_the_stages():
    document = build_explanation(steps=[build_step("resources", "VCPU:1", 4, 4)])
    assert "Warning" not in render_to_text(document)
    detail = "ignored: flavor extra spec group_policy=bogus: expected none or isolate"
    document["funnel"]["warnings"] = [{"key": "group_policy", "source": "flavor", "detail": detail}]
    text = render_to_text(document, width=120)
    assert f"Warning  {detail}" in text
    assert text.index("Warning") < text.index("Request filters")


def test_funnel_stage_shows_host_counts_before_and_after_with_a_bar():
    lines = render_to_lines(
        build_explanation(
            steps=[build_step("resources", "VCPU:1", 4, 2, [("cn1", "full"), ("cn2", "full")])],
            filters=[build_stage(2, 1, [("cn3", "disabled")], name="ComputeFilter")],
            hosts=[build_weighed_host("cn4", 0.0)],
        )
    )
    assert "4 2 ████████ resources VCPU:1" in lines
    assert "2 hosts: full (e.g. cn1)" in lines
    assert "2 1 ████ ComputeFilter" in lines
    assert "1 host: disabled (cn3)" in lines
    assert "1 host passed policy default" in lines


def test_funnel_stages_without_hosts_are_listed_by_name():
    lines = render_to_lines(
        build_explanation(
            steps=[
                build_step("resources", "VCPU:1", 1, 0, [("cn1", "full")]),
                build_step("required", "CUSTOM_A", 0, 0),
            ]
        )
    )
    assert "not reached: required CUSTOM_A" in lines
    assert not [line for line in lines if line.startswith("0 0")]


def test_number_of_rejected_hosts_that_are_not_listed_is_shown():
    lines = render_to_lines(
        build_explanation(
            steps=[
                build_step("resources", "VCPU:1", 9, 6, [("cn1", "full")]),
                build_step("limit", "5", 6, 5),
            ],
            hosts=[build_weighed_host("cn9", 0.0)],
        )
    )
    assert "2 more" in lines
    assert "1 removed" in lines


def test_hosts_beyond_the_limit_of_candidates_fit_and_were_not_weighed():
    step = build_step("limit", "2", 5, 2) | {"kind": "limit", "hosts": 2, "cut": 3}
    lines = render_to_lines(build_explanation(steps=[step]), width=120)
    assert "3 hosts fit, but were cut by the limit and not weighed" in lines
    assert "3 removed" not in lines


def test_rejections_of_an_unknown_kind_or_without_kind_keep_their_texts():
    rejected = [("cn1", "asks for 3 moons"), ("cn2", "asks for 4 moons"), ("cn3", "no sun")]
    kinds = [{"kind": "of_a_newer_server", "moons": 3}, {"kind": "of_a_newer_server", "moons": 4}]
    filters = [build_stage(3, 0, rejected, kinds, name="AcmeFilter")]
    lines = render_to_lines(build_explanation(filters=filters))
    assert {
        "1 host: asks for 3 moons (cn1)",
        "1 host: asks for 4 moons (cn2)",
        "1 host: no sun (cn3)",
    } <= set(lines)


def test_suggestion_that_only_repeats_the_reason_is_not_printed():
    constraint = {"constraint": "resources", "detail": "VCPU:4", "kind": "capacity"}
    reason = "2 hosts meet all constraints but resources VCPU:4"
    document = build_explanation()
    obstacle = {"reason": reason, "hosts": 2, "constraints": [constraint]}
    stage = {"stage": "allocation_candidates", "name": "resources VCPU:4", **constraint}
    entry = {"words": "2 hosts would fit", "hosts": 2, "without": [stage], "change": None}
    document["funnel"] |= {"obstacle": obstacle, "would_fit": [entry]}
    assert "would fit" not in render_to_text(document)
    entry["change"] = {"action": "change_request"}
    assert "2 hosts would fit" in render_to_text(document)
    # A decision of an earlier release has no values.
    entry["change"] = None
    document["funnel"]["obstacle"] = {"reason": reason}
    assert "2 hosts would fit" in render_to_text(document)


def test_only_the_most_frequent_rejection_reasons_are_shown():
    reasons = [(f"cn{letter}", f"reason {letter}") for letter in "abcdefg"]
    lines = render_to_lines(
        build_explanation(
            filters=[build_stage(8, 1, reasons, name="Some")],
            hosts=[build_weighed_host("cnh", 0.0)],
        )
    )
    assert "1 host: reason e (cne)" in lines
    assert "2 more" in lines
    assert not [line for line in lines if "reason f" in line]


def test_best_three_hosts_have_the_weight_of_each_weigher():
    hosts = [
        build_weighed_host(
            f"cn{number}", 3.0 - number, RAMWeigher=build_weight(1 / (number + 1), 4096 - number)
        )
        for number in range(4)
    ]
    lines = render_to_lines(build_explanation(hosts=hosts, weighers=["RAMWeigher"]))
    assert "Best 3 of 4 cn0 cn1 cn2" in lines
    assert "weight 3.000 2.000 1.000" in lines
    assert "RAMWeigher 1.000 (raw 4096) 0.500 (raw 4095) 0.333 (raw 4094)" in lines


def test_detail_of_a_weigher_is_printed_below_the_host():
    one = build_weighed_host(
        "cn1", 1.0, Strands={**build_weight(1.0, -2), "detail": "leaves 4 VCPU"}
    )
    lines = render_to_lines(build_explanation(hosts=[one], weighers=["Strands"]))
    assert "cn1: Strands leaves 4 VCPU" in lines


def test_product_of_a_weigher_is_shown_if_its_multiplier_is_not_1():
    one = build_weighed_host("cn1", -1.0, RAMWeigher=build_weight(0.5, 4096, -2.0))
    lines = render_to_lines(build_explanation(hosts=[one], weighers=["RAMWeigher"]))
    assert "RAMWeigher -2 x 0.500 = -1.000 (raw 4096)" in lines


def test_host_without_weighers_is_shown_with_its_weight_only():
    lines = render_to_lines(build_explanation(hosts=[build_weighed_host("cn1", 0.0)]))
    assert lines[lines.index("Best 1 of 1 cn1") + 2] == "weight 0.000"


def test_requested_hosts_are_not_labelled_best():
    """Nor is their number shown as a rank."""
    document = build_explanation(
        filters=[build_stage(9, 7, name="ComputeFilter")], hosts=[build_weighed_host("cn5", 0.0)]
    )
    document["verdicts"] = [{"host": "cn5", "node": "cn5", "rank": 6}]
    lines = render_to_lines(document)
    assert "7 hosts passed policy default" in lines
    assert "Requested cn5" in lines
    assert "rank 6 of 7" in lines


def test_explanation_with_many_weighers_is_at_most_80_columns_wide():
    names = [f"Weigher{number}OfALongName" for number in range(12)]
    weights = {name: build_weight(0.5, 123456) for name in names}
    text = render_to_text(
        build_explanation(hosts=[build_weighed_host("cn1", 6.0, **weights)] * 3, weighers=names)
    )
    assert max(map(len, text.splitlines())) <= 80
    assert all(name in text for name in names)


def test_equal_allocations_of_instances_are_shown_only_once():
    lines = render_to_lines(
        build_explanation(hosts=[build_weighed_host("cn1", 0.0)]),
        [build_selection("i-1", "cn1", VCPU=1), build_selection("i-2", "cn2", VCPU=1)],
    )
    assert "Claimed 2 instances on 2 hosts each VCPU=1" in lines
    assert "i-2 cn2 nova" in lines


def test_different_allocations_are_shown_per_instance():
    lines = render_to_lines(
        build_explanation(hosts=[build_weighed_host("cn1", 0.0)]),
        [build_selection("i-1", "cn1", VCPU=1), build_selection("i-2", "cn1", PCPU=1)],
        "Selected, not claimed",
    )
    assert "Selected, not claimed 2 instances on 1 host" in lines
    assert "i-2 cn1 nova PCPU=1" in lines


def test_reason_of_a_request_filter_that_is_not_applied_is_shown():
    report = {"name": "owner_nova_filter", "applied": False, "elapsed_ms": 0.1, "changes": {}}
    document = build_explanation(request_filters=[{**report, "reason": "2 of 4 nodes lack it"}])
    lines = render_to_lines(document)
    assert "owner_nova_filter not applied: 2 of 4 nodes lack it" in lines


def test_request_filters_are_shown_with_their_changes():
    lines = render_to_lines(
        build_explanation(
            request_filters=[
                {"name": "quiet", "applied": False, "changes": {}},
                {"name": "some", "applied": True, "changes": {"aggregates": ["a", "b", "c", "d"]}},
                {
                    "name": "more",
                    "applied": True,
                    "changes": {"by_trait": {"X": ["a"], "Y": ["b"]}},
                },
            ]
        )
    )
    assert "some aggregates: a, b, c, ... (4)" in lines
    assert "more by_trait: X: a; Y: b" in lines
    assert not [line for line in lines if "quiet" in line]


def test_aggregate_uuids_are_shown_as_names_except_in_the_query():
    document = build_explanation(
        request_filters=[
            {"name": "forbidden_aggregates", "applied": True}
            | {"changes": {"forbidden_aggregates": [AGGREGATE_UUID]}}
        ],
        steps=[
            build_step(
                "member_of", f"!in:{AGGREGATE_UUID}", 2, 1, [("cn1", f"in {AGGREGATE_UUID}")]
            )
        ],
        hosts=[build_weighed_host("cn2", 0.0)],
    )
    document["funnel"]["allocation_candidates"]["query"] = f"member_of=%21in%3A{AGGREGATE_UUID}"
    assert "Query" not in render_to_text(document)
    lines = render_to_lines(document, names={AGGREGATE_UUID: "windows"}, verbose=True)
    assert "forbidden_aggregates windows" in lines
    assert f"Query member_of=%21in%3A{AGGREGATE_UUID}" in lines
    assert "2 1 ████████ member_of !in:windows" in lines
    assert "1 host: in windows (cn1)" in lines


def test_explanation_on_a_terminal_without_unicode_has_ascii_bars():
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding="ascii") as file:
        document = build_explanation(
            steps=[build_step("resources", "VCPU:1", 4, 4)], hosts=[build_weighed_host("cn1", 0.0)]
        )
        render(document, Console(file=file, width=80))
        file.flush()
        assert b"################" in raw.getvalue()


def test_reason_for_no_valid_host_is_that_of_the_server():
    document = build_explanation()
    document["funnel"]["obstacle"] = {"stage": "filters", "name": "F", "reason": "F rejected all"}
    assert describe_obstacle(document) == "F rejected all"
    assert "No valid host F rejected all" in " ".join(render_to_lines(document))


def test_missing_reason_for_no_valid_host_is_shown_as_not_reported():
    assert "No valid host the server did not report" in " ".join(
        render_to_lines(build_explanation())
    )


def test_reached_limit_of_allocation_candidates_is_shown_with_its_option():
    limit = build_step("limit", "5", 6, 5) | {"option": "[scheduler] max_placement_results"}
    lines = render_to_lines(
        build_explanation(steps=[limit], hosts=[build_weighed_host("cn1", 0.0)])
    )
    assert "6 5 █████████████ limit 5 by [scheduler] max_placement_results" in lines


def test_request_filter_without_changes_is_shown():
    document = build_explanation(steps=[build_step("resources", "VCPU:1", 1, 1)])
    report = {"name": "forbidden_aggregates", "applied": True, "elapsed_ms": 0.1, "changes": {}}
    document["funnel"]["request_filters"] = [report]
    assert "forbidden_aggregates changed nothing" in render_to_lines(document)


def test_negative_zero_weight_is_shown_without_a_sign():
    weights = {"IoOpsWeigher": build_weight(0.0, 0.0, -1.0)}
    document = build_explanation(
        steps=[build_step("resources", "VCPU:1", 1, 1)],
        hosts=[build_weighed_host("cn1", 0.0, **weights)],
    )
    assert "-0.000" not in render_to_text(document)


def test_weigher_that_assigns_weights_is_not_listed_without_effect():
    report = WeightReport(0.0, 0.0, 1.0, "added 6 to the weight of the host itself", 6.0)
    document = build_explanation(
        steps=[build_step("resources", "VCPU:1", 1, 1)],
        hosts=[build_weighed_host("cn1", 6.0, AddW=report.as_json())],
        weighers=["AddW"],
    )
    lines = render_to_lines(document)
    assert "AddW 6.000 (raw 0)" in lines
    assert not [line for line in lines if "without effect" in line]
