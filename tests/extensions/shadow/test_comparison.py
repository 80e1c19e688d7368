# SPDX-License-Identifier: Apache-2.0
"""The verdict on each instance: nova's host compared with this scheduler's."""

from types import SimpleNamespace

import pytest

from placement_sched.extensions.shadow.comparison import (
    EvaluationRecord,
    HostName,
    HostRejection,
    InstanceStep,
    find_worst_verdict,
    judge,
)
from placement_sched.model.shadow_result import (
    BOTH_NO_HOST,
    EQUAL_WEIGHT,
    ONLY_NOVA,
    ONLY_OURS,
    OTHER_HOST,
    PENDING,
    SAME_HOST,
    UNKNOWN,
)
from placement_sched.scheduler.weights import WeighedHost
from tests.extensions.shadow.records import (
    build_evaluation_record,
    build_host_name,
    build_instance_step,
    build_outcome_on_host,
)

INSTANCE_UUIDS = ("i1", "i2", "i3")
EVALUATION_ON_HOST_A = build_evaluation_record(build_instance_step("a"))
OUTCOME_ON_HOST_A, OUTCOME_ON_HOST_B, OUTCOME_ON_HOST_Z, OUTCOME_WITHOUT_HOST = map(
    build_outcome_on_host, ("a", "b", "z", None)
)
MEMORY_VALUES = {"kind": "capacity", "resource_class": "MEMORY_MB", "requested": 512, "free": 0}
MEMORY_REJECTION = HostRejection(
    "allocation_candidates", "resources", "MEMORY_MB: 0 free of 8, 512 requested", MEMORY_VALUES
)
NUM_INSTANCES_REJECTION = HostRejection("filters", "NumInstancesFilter", "50 instances")
AGGREGATE_REJECTION = HostRejection(
    "filters", "AggregateInstanceExtraSpecsFilter", "ssd is not true"
)


INSTANCES_CLAIMED_BEFORE = frozenset({"i1"})


def judge_outcomes(record, *outcomes):
    return judge(record, INSTANCE_UUIDS[: len(outcomes)], outcomes)


@pytest.mark.parametrize(
    ("record", "outcome", "verdict", "why"),
    [
        (EVALUATION_ON_HOST_A, OUTCOME_ON_HOST_A, SAME_HOST, None),
        (
            build_evaluation_record(build_instance_step("a", "b")),
            OUTCOME_ON_HOST_B,
            EQUAL_WEIGHT,
            "b weighs the same as a",
        ),
        (
            build_evaluation_record(build_instance_step("a"), rejected={"b": MEMORY_REJECTION}),
            OUTCOME_ON_HOST_B,
            OTHER_HOST,
            f"b did not pass here: {MEMORY_REJECTION}. a was chosen with the weight 1",
        ),
        (
            build_evaluation_record(obstacle="no host has the trait"),
            OUTCOME_WITHOUT_HOST,
            BOTH_NO_HOST,
            "no host has the trait",
        ),
        (
            build_evaluation_record(rejected={"b": AGGREGATE_REJECTION}),
            OUTCOME_ON_HOST_B,
            ONLY_NOVA,
            "b did not pass here: AggregateInstanceExtraSpecsFilter: ssd is not true",
        ),
        (
            EVALUATION_ON_HOST_A,
            OUTCOME_WITHOUT_HOST,
            ONLY_OURS,
            "nova found no host, but a was chosen here with the weight 1",
        ),
        (EVALUATION_ON_HOST_A, None, UNKNOWN, "nova's outcome is unknown"),
        (
            EVALUATION_ON_HOST_A,
            build_outcome_on_host("a", ended_on=build_host_name("b")),
            SAME_HOST,
            "The attempt failed, and a later attempt was on b",
        ),
        (
            build_evaluation_record(build_instance_step("a", more=3)),
            OUTCOME_ON_HOST_Z,
            UNKNOWN,
            "further hosts of the same weight as a that are not recorded: 3",
        ),
        (
            build_evaluation_record(build_instance_step("a", more=3), passed={"a": 1.0, "z": 0.5}),
            OUTCOME_ON_HOST_Z,
            OTHER_HOST,
            "z weighs 0.5 here. a was chosen with the weight 1",
        ),
    ],
)
def test_verdict_on_an_instance_has_its_reason(record, outcome, verdict, why):
    (result,) = judge_outcomes(record, outcome)
    assert (result.verdict, result.detail.get("why")) == (verdict, why)
    assert result.nova_host == (outcome and outcome.host)


def test_host_of_lower_weight_is_disagreement_with_both_weights():
    record = build_evaluation_record(
        build_instance_step("a", weight=3.02), passed={"a": 3.02, "b": 1.5}
    )
    (result,) = judge_outcomes(record, OUTCOME_ON_HOST_B)
    assert result.verdict == OTHER_HOST
    assert (result.detail["our_weight"], result.detail["nova_weight"]) == (3.02, 1.5)


def test_disagreement_has_the_values_of_the_rejection():
    record = build_evaluation_record(build_instance_step("a"), rejected={"b": MEMORY_REJECTION})
    (same,) = judge_outcomes(record, OUTCOME_ON_HOST_A)
    (rejected,) = judge_outcomes(record, OUTCOME_ON_HOST_B)
    assert (same.detail.get("rejection"), rejected.detail["rejection"]) == (None, MEMORY_VALUES)


def test_disagreement_without_a_recorded_reason_needs_an_explanation():
    (result,) = judge_outcomes(EVALUATION_ON_HOST_A, OUTCOME_ON_HOST_B)
    assert result.verdict == OTHER_HOST
    assert result.needs_reason


@pytest.mark.parametrize(
    ("best", "chosen", "verdicts"),
    [
        (("a", "b", "a"), "aba", [SAME_HOST] * 3),
        (("abc", "bc", "c"), "bac", [EQUAL_WEIGHT, EQUAL_WEIGHT, SAME_HOST]),
        (("abc", "bc", "c"), "cab", [EQUAL_WEIGHT] * 3),
        (("ab", "b"), "aa", [SAME_HOST, OTHER_HOST]),
    ],
    ids=["same sequence", "another order", "rotated", "a host twice"],
)
def test_equal_hosts_of_several_instances_are_agreement_in_any_order(best, chosen, verdicts):
    record = build_evaluation_record(
        *(build_instance_step(*hosts) for hosts in best), passed={"a": 1.0, "b": 1.0}
    )
    results = judge_outcomes(record, *map(build_outcome_on_host, chosen))
    assert [result.verdict for result in results] == verdicts


def test_request_has_the_worst_verdict_of_its_instances():
    for verdicts, worst in (
        ([SAME_HOST, EQUAL_WEIGHT], EQUAL_WEIGHT),
        ([SAME_HOST, OTHER_HOST], OTHER_HOST),
        ([PENDING, SAME_HOST], PENDING),
    ):
        assert find_worst_verdict(verdicts) == worst


@pytest.mark.parametrize(
    ("steps", "facts", "chosen", "verdict"),
    [
        ("a", {}, "a", SAME_HOST),
        ("ab", {}, "b", EQUAL_WEIGHT),
        ("a", {"rejected": {"b": MEMORY_REJECTION}}, "b", UNKNOWN),
        ("a", {"rejected": {"b": NUM_INSTANCES_REJECTION}}, "b", UNKNOWN),
        ("a", {"passed": {"b": 0.5}}, "b", UNKNOWN),
        ("a", {}, "b", UNKNOWN),
        ("", {"rejected": {"b": MEMORY_REJECTION}}, "b", UNKNOWN),
        ("a", {"rejected": {"b": AGGREGATE_REJECTION}}, "b", OTHER_HOST),
    ],
)
def test_host_claimed_before_the_evaluation_is_not_compared_by_capacity(
    steps, facts, chosen, verdict
):
    record = build_evaluation_record(
        build_instance_step(*steps), late=INSTANCES_CLAIMED_BEFORE, **facts
    )
    verdicts = [result.verdict for result in judge_outcomes(record, build_outcome_on_host(chosen))]
    assert verdicts == [verdict]


def test_weights_for_the_first_instance_do_not_explain_the_second_instance():
    record = build_evaluation_record(
        build_instance_step("a"), build_instance_step("b"), passed={"a": 3.0, "b": 1.0}
    )
    _, second = judge_outcomes(record, OUTCOME_ON_HOST_A, OUTCOME_ON_HOST_A)
    assert second.verdict == OTHER_HOST
    assert "nova_weight" not in second.detail


def build_weighed_hosts(*weights):
    return [
        WeighedHost(SimpleNamespace(host=f"h{number}", nodename=f"h{number}"), weight)
        for number, weight in enumerate(weights, 1)
    ]


def find_best_host_names(*weights, subset=1, most=10):
    step = InstanceStep.from_weighed_hosts(build_weighed_hosts(*weights), subset, most)
    return sorted(name.host for name in step.best)


@pytest.mark.parametrize(
    ("weights", "subset"),
    [((2.0, 2.0, 1.0), 1), ((0.1 + 0.2, 0.3, 0.2), 1), ((3.0, 2.0, 1.0), 2), ((2.0, 3.0, 1.0), 2)],
    ids=["equal", "rounding errors", "host_subset_size", "chosen host has a lower weight"],
)
def test_best_hosts_have_the_highest_weight_or_are_in_the_subset(weights, subset):
    assert find_best_host_names(*weights, subset=subset) == ["h1", "h2"]


def test_recorded_best_hosts_are_limited_and_further_hosts_are_counted():
    step = InstanceStep.from_weighed_hosts(build_weighed_hosts(1.0, 1.0, 1.0), 1, 2)
    assert (len(step.best), step.more) == (2, 1)


def test_instance_step_without_weighed_hosts_has_no_chosen_host():
    assert InstanceStep.from_weighed_hosts([], 1, 10) == InstanceStep(None)


@pytest.mark.parametrize(
    "record",
    [
        EvaluationRecord(),
        build_evaluation_record(
            build_instance_step("a", "b", more=2),
            build_instance_step(),
            passed={"a": 1.5},
            rejected={
                "b": MEMORY_REJECTION,
                "c": HostRejection("filters", "ComputeFilter", "down"),
            },
            late=frozenset({"i"}),
            obstacle="why",
        ),
    ],
)
def test_evaluation_record_read_from_its_json_is_equal(record):
    assert EvaluationRecord.read(record.as_json()) == record


def test_node_with_another_name_is_shown_with_its_host():
    assert str(build_host_name("cn1")) == "cn1"
    assert str(HostName("ironic", "node-1")) == "ironic (node-1)"
