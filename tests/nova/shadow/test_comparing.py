# SPDX-License-Identifier: Apache-2.0
"""The verdict on each instance: nova's host compared with this scheduler's."""

import pytest

from placement_sched.model.shadow_result import (
    ALTERNATE,
    BOTH_NO_HOST,
    EQUAL_WEIGHT,
    ONLY_NOVA,
    ONLY_OURS,
    OTHER_HOST,
    PENDING,
    SAME_HOST,
    UNKNOWN,
)
from placement_sched.nova.shadow.comparing import HostRejection, judge, worst_verdict
from tests.nova.shadow.records import evaluation_record, host_name, instance_step, outcome_on

UUIDS = ("i1", "i2", "i3")
NO_ROOM = HostRejection(
    "allocation_candidates", "resources", "MEMORY_MB: 0 free of 8, 512 requested"
)
WRONG_ZONE = HostRejection("filters", "AggregateInstanceExtraSpecsFilter", "ssd is not true")


def judge_outcomes(record, *outcomes):
    return judge(record, UUIDS[: len(outcomes)], outcomes)


def verdicts_of(record, *outcomes):
    return [result.verdict for result in judge_outcomes(record, *outcomes)]


def test_same_host_is_agreement():
    (result,) = judge_outcomes(evaluation_record(instance_step("a")), outcome_on("a"))
    assert (result.verdict, result.nova_host) == (SAME_HOST, host_name("a"))


def test_other_host_of_equal_weight_is_agreement():
    (result,) = judge_outcomes(evaluation_record(instance_step("a", "b")), outcome_on("b"))
    assert result.verdict == EQUAL_WEIGHT
    assert result.detail["why"] == "b weighs the same as a"


def test_host_of_lower_weight_is_disagreement_with_both_weights():
    (result,) = judge_outcomes(
        evaluation_record(instance_step("a", weight=3.02), passed={"a": 3.02, "b": 1.5}),
        outcome_on("b"),
    )
    assert result.verdict == OTHER_HOST
    assert result.detail["why"] == "b weighs 1.5 here; a was chosen with the weight 3.02"
    assert (result.detail["our_weight"], result.detail["nova_weight"]) == (3.02, 1.5)


def test_host_rejected_by_a_stage_is_explained_by_the_stage():
    (result,) = judge_outcomes(
        evaluation_record(instance_step("a"), refused={"b": NO_ROOM}), outcome_on("b")
    )
    assert result.verdict == OTHER_HOST
    assert result.detail["why"] == (
        "b did not pass here: resources: MEMORY_MB: 0 free of 8, 512 requested; "
        "a was chosen with the weight 1"
    )


def test_host_without_recorded_reason_needs_explanation():
    (result,) = judge_outcomes(evaluation_record(instance_step("a")), outcome_on("b"))
    assert result.verdict == OTHER_HOST
    assert result.needs_reason


def test_no_host_on_both_sides_is_agreement():
    (result,) = judge_outcomes(
        evaluation_record(obstacle="no host has the trait"), outcome_on(None)
    )
    assert (result.verdict, result.detail) == (BOTH_NO_HOST, {"why": "no host has the trait"})


def test_host_found_only_by_nova_is_disagreement():
    (result,) = judge_outcomes(evaluation_record(refused={"b": WRONG_ZONE}), outcome_on("b"))
    assert result.verdict == ONLY_NOVA
    assert result.detail["why"] == (
        "b did not pass here: AggregateInstanceExtraSpecsFilter: ssd is not true"
    )


def test_host_found_only_by_this_service_is_disagreement():
    (result,) = judge_outcomes(evaluation_record(instance_step("a")), outcome_on(None))
    assert result.verdict == ONLY_OURS
    assert result.detail["why"] == "nova found no host; a was chosen here with the weight 1"


def test_unknown_nova_outcome_stays_undecided():
    assert verdicts_of(evaluation_record(instance_step("a")), None) == [UNKNOWN]


def test_host_of_a_retry_is_not_compared_with_the_first_choice():
    assert verdicts_of(
        evaluation_record(instance_step("a")), outcome_on("b", first_known=False)
    ) == [ALTERNATE]


def test_first_attempt_is_compared_and_the_retry_is_named():
    (result,) = judge_outcomes(
        evaluation_record(instance_step("a")), outcome_on("a", ended_on=host_name("b"))
    )
    assert result.verdict == SAME_HOST
    assert result.detail["why"] == "the attempt failed, and a later attempt was on b"


class TestSeveralInstances:
    def test_same_host_sequence_is_agreement(self):
        record = evaluation_record(instance_step("a"), instance_step("b"), instance_step("a"))
        assert (
            verdicts_of(record, outcome_on("a"), outcome_on("b"), outcome_on("a"))
            == [SAME_HOST] * 3
        )

    def test_equal_hosts_in_another_order_are_agreement(self):
        record = evaluation_record(
            instance_step("a", "b", "c"), instance_step("b", "c"), instance_step("c")
        )
        assert verdicts_of(record, outcome_on("b"), outcome_on("a"), outcome_on("c")) == [
            EQUAL_WEIGHT,
            EQUAL_WEIGHT,
            SAME_HOST,
        ]

    def test_rotated_equal_hosts_are_agreement(self):
        record = evaluation_record(
            instance_step("a", "b", "c"), instance_step("b", "c"), instance_step("c")
        )
        assert (
            verdicts_of(record, outcome_on("c"), outcome_on("a"), outcome_on("b"))
            == [EQUAL_WEIGHT] * 3
        )

    def test_host_chosen_twice_by_nova_only_is_disagreement(self):
        passed = {"a": 1.0, "b": 1.0}
        record = evaluation_record(instance_step("a", "b"), instance_step("b"), passed=passed)
        assert verdicts_of(record, outcome_on("a"), outcome_on("a")) == [SAME_HOST, OTHER_HOST]

    def test_request_has_the_worst_verdict_of_its_instances(self):
        for verdicts, worst in (
            ([SAME_HOST, EQUAL_WEIGHT], EQUAL_WEIGHT),
            ([SAME_HOST, OTHER_HOST], OTHER_HOST),
            ([PENDING, SAME_HOST], PENDING),
        ):
            assert worst_verdict(verdicts) == worst


class TestLateEvaluation:
    """nova had claimed the instance before the request was evaluated."""

    LATE = frozenset({"i1"})

    def test_same_host_or_equal_weight_is_agreement(self):
        assert verdicts_of(
            evaluation_record(instance_step("a"), late=self.LATE), outcome_on("a")
        ) == [SAME_HOST]
        assert verdicts_of(
            evaluation_record(instance_step("a", "b"), late=self.LATE), outcome_on("b")
        ) == [EQUAL_WEIGHT]

    @pytest.mark.parametrize("facts", [{"refused": {"b": NO_ROOM}}, {"passed": {"b": 0.5}}, {}])
    def test_host_rejected_for_capacity_is_not_compared(self, facts):
        assert verdicts_of(
            evaluation_record(instance_step("a"), late=self.LATE, **facts), outcome_on("b")
        ) == [UNKNOWN]
        assert verdicts_of(evaluation_record(late=self.LATE, **facts), outcome_on("b")) == [UNKNOWN]

    def test_host_rejected_for_another_reason_is_compared(self):
        record = evaluation_record(instance_step("a"), late=self.LATE, refused={"b": WRONG_ZONE})
        assert verdicts_of(record, outcome_on("b")) == [OTHER_HOST]

    def test_rejection_by_a_capacity_filter_is_uncertain(self):
        full = HostRejection("filters", "NumInstancesFilter", "50 instances")
        record = evaluation_record(instance_step("a"), late=self.LATE, refused={"b": full})
        assert verdicts_of(record, outcome_on("b")) == [UNKNOWN]


def test_more_equal_hosts_than_recorded_stay_undecided():
    assert verdicts_of(evaluation_record(instance_step("a", more=3)), outcome_on("z")) == [UNKNOWN]
    lighter = evaluation_record(instance_step("a", more=3), passed={"a": 1.0, "z": 0.5})
    assert verdicts_of(lighter, outcome_on("z")) == [OTHER_HOST]


def test_weights_are_compared_per_instance():
    record = evaluation_record(instance_step("a"), instance_step("b"), passed={"a": 3.0, "b": 1.0})
    _, second = judge_outcomes(record, outcome_on("a"), outcome_on("a"))
    assert second.verdict == OTHER_HOST
    assert "nova_weight" not in second.detail
