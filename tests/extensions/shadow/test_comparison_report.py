# SPDX-License-Identifier: Apache-2.0
"""The report: the number of requests by verdict, and every disagreement."""

from datetime import datetime

import pytest

from placement_sched.extensions.shadow.comparison import WORDS, build_report, format_report
from placement_sched.model import shadow_result
from placement_sched.model.context import RequestIds
from placement_sched.model.shadow_result import ShadowResult
from tests.support.scheduling import make_uuid

EVALUATION_TIME = datetime(2026, 11, 22, 12, 0, 0)


def build_result(number, verdict, position=0, **facts):
    return ShadowResult(
        decision=f"d{number}",
        position=position,
        instance=make_uuid(number * 10 + position),
        verdict=verdict,
        request_ids=RequestIds(f"req-{number}"),
        flavor="m1.tiny",
        created_at=EVALUATION_TIME,
        **facts,
    )


def test_every_verdict_has_a_description():
    assert set(WORDS) == set(shadow_result.VERDICTS)


def test_every_verdict_is_agreement_disagreement_or_undecided():
    three = (shadow_result.AGREEING, shadow_result.DISAGREEING, shadow_result.OPEN)
    verdicts = sorted(verdict for group in three for verdict in group)
    assert verdicts == sorted(shadow_result.VERDICTS)


def test_agreement_ratio_counts_comparable_requests_only():
    verdicts = [
        shadow_result.SAME_HOST,
        shadow_result.EQUAL_WEIGHT,
        shadow_result.BOTH_NO_HOST,
        shadow_result.OTHER_HOST,
    ]
    verdicts += [shadow_result.PENDING, shadow_result.UNKNOWN]
    report = build_report(build_result(number, verdict) for number, verdict in enumerate(verdicts))
    assert (report["requests"], report["compared"], report["agreement"]) == (6, 4, 75.0)
    assert report["verdicts"] == dict.fromkeys(verdicts, 1)


def test_request_of_several_instances_counts_once():
    report = build_report(
        [
            build_result(1, shadow_result.SAME_HOST),
            build_result(1, shadow_result.ONLY_OURS, 1),
            build_result(2, shadow_result.SAME_HOST),
        ]
    )
    assert (report["requests"], report["instances"]) == (2, 3)
    assert report["verdicts"] == {shadow_result.SAME_HOST: 1, shadow_result.ONLY_OURS: 1}
    assert [disagreement["instance"] for disagreement in report["disagreements"]] == [make_uuid(11)]


def test_disagreement_names_both_hosts_and_the_reason():
    facts = {"our_host": "cn1", "nova_host": "cn2"}
    detail = {"our_weight": 2.0, "nova_weight": 1.25, "why": "cn2 weighs 1.25 here"}
    detail["rejection"] = {"kind": "down", "actual": 93}
    report = build_report([build_result(1, shadow_result.OTHER_HOST, detail=detail, **facts)])
    assert report["disagreements"][0]["rejection"] == {"kind": "down", "actual": 93}
    assert list(format_report(report)) == [
        "1 request for 1 instance",
        "0 % of 1 compared request agree with nova's choice",
        "",
        "       1  100.0 %  another host",
        "",
        "req-1 at 2026-11-22T12:00:00: another host",
        f"  instance {make_uuid(10)}, flavor m1.tiny",
        "  here: cn1 (weight 2); nova: cn2 (weight 1.25)",
        "  cn2 weighs 1.25 here",
        "  decision d1",
    ]


def test_unevaluated_request_has_no_decision():
    failed = ShadowResult(
        decision="d",
        position=0,
        instance=make_uuid(1),
        verdict=shadow_result.FAILED,
        detail={"why": "no such policy", "request_id": "req-9"},
        created_at=EVALUATION_TIME,
    )
    (row,) = build_report([failed])["disagreements"]
    assert (row["request_id"], row["decision"], row["why"]) == ("req-9", None, "no such policy")


@pytest.mark.parametrize("since", [None, EVALUATION_TIME])
def test_report_without_requests_says_that_none_was_evaluated(since):
    (line,) = format_report(build_report([], since))
    assert line.startswith("no request was evaluated alongside nova-scheduler")
    assert build_report([], since)["agreement"] is None
