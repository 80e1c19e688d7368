# SPDX-License-Identifier: Apache-2.0
"""The verdict on each instance: nova's host beside the one chosen here."""

import pytest

from placement_sched.model import shadow_result
from placement_sched.nova.shadow.comparing import HostRejection, judge, worst_verdict
from tests.nova.shadow.noted import host, notes, on, step

UUIDS = ("i1", "i2", "i3")
NO_ROOM = HostRejection(
    "allocation_candidates", "resources", "MEMORY_MB: 0 free of 8, 512 requested"
)
WRONG_ZONE = HostRejection("filters", "AggregateInstanceExtraSpecsFilter", "ssd is not true")


def judged(noted, *found):
    return judge(noted, UUIDS[: len(found)], found)


def verdicts(noted, *found):
    return [one.verdict for one in judged(noted, *found)]


def test_same_host_agrees():
    (one,) = judged(notes(step("a")), on("a"))
    assert (one.verdict, one.nova_host) == (shadow_result.SAME_HOST, host("a"))


def test_another_host_of_equal_weight_agrees():
    (one,) = judged(notes(step("a", "b")), on("b"))
    assert one.verdict == shadow_result.EQUAL_WEIGHT
    assert one.detail["why"] == "b weighs the same as a"


def test_host_of_less_weight_does_not_and_both_weights_are_named():
    (one,) = judged(notes(step("a", weight=3.02), passed={"a": 3.02, "b": 1.5}), on("b"))
    assert one.verdict == shadow_result.OTHER_HOST
    assert one.detail["why"] == "b weighs 1.5 here; a was chosen with the weight 3.02"
    assert (one.detail["our_weight"], one.detail["nova_weight"]) == (3.02, 1.5)


def test_host_that_a_stage_refused_is_explained_by_it():
    (one,) = judged(notes(step("a"), refused={"b": NO_ROOM}), on("b"))
    assert one.verdict == shadow_result.OTHER_HOST
    assert one.detail["why"] == (
        "b did not pass here: resources: MEMORY_MB: 0 free of 8, 512 requested; "
        "a was chosen with the weight 1"
    )


def test_host_of_which_nothing_is_noted_needs_a_reason():
    (one,) = judged(notes(step("a")), on("b"))
    assert one.verdict == shadow_result.OTHER_HOST
    assert one.needs_reason


def test_neither_found_a_host():
    (one,) = judged(notes(obstacle="no host has the trait"), on(None))
    assert (one.verdict, one.detail) == (
        shadow_result.BOTH_NO_HOST,
        {"why": "no host has the trait"},
    )


def test_only_nova_found_a_host():
    (one,) = judged(notes(refused={"b": WRONG_ZONE}), on("b"))
    assert one.verdict == shadow_result.ONLY_NOVA
    assert one.detail["why"] == (
        "b did not pass here: AggregateInstanceExtraSpecsFilter: ssd is not true"
    )


def test_only_this_service_found_a_host():
    (one,) = judged(notes(step("a")), on(None))
    assert one.verdict == shadow_result.ONLY_OURS
    assert one.detail["why"] == "nova found no host; a was chosen here with the weight 1"


def test_what_nova_did_may_stay_unknown():
    assert verdicts(notes(step("a")), None) == [shadow_result.UNKNOWN]


def test_host_of_a_later_attempt_says_nothing_of_the_first():
    assert verdicts(notes(step("a")), on("b", first_known=False)) == [shadow_result.ALTERNATE]


def test_first_attempt_counts_and_the_later_one_is_named():
    (one,) = judged(notes(step("a")), on("a", ended_on=host("b")))
    assert one.verdict == shadow_result.SAME_HOST
    assert one.detail["why"] == "the attempt failed, and a later attempt was on b"


class TestOfSeveralInstances:
    def test_same_sequence_agrees(self):
        noted = notes(step("a"), step("b"), step("a"))
        assert verdicts(noted, on("a"), on("b"), on("a")) == [shadow_result.SAME_HOST] * 3

    def test_equal_hosts_in_another_order_agree(self):
        noted = notes(step("a", "b", "c"), step("b", "c"), step("c"))
        assert verdicts(noted, on("b"), on("a"), on("c")) == [
            shadow_result.EQUAL_WEIGHT,
            shadow_result.EQUAL_WEIGHT,
            shadow_result.SAME_HOST,
        ]

    def test_equal_hosts_in_a_circle_agree(self):
        noted = notes(step("a", "b", "c"), step("b", "c"), step("c"))
        assert verdicts(noted, on("c"), on("a"), on("b")) == [shadow_result.EQUAL_WEIGHT] * 3

    def test_host_taken_twice_where_ours_is_another_does_not(self):
        passed = {"a": 1.0, "b": 1.0}
        noted = notes(step("a", "b"), step("b"), passed=passed)
        assert verdicts(noted, on("a"), on("a")) == [
            shadow_result.SAME_HOST,
            shadow_result.OTHER_HOST,
        ]

    def test_request_has_the_gravest_of_its_verdicts(self):
        assert (
            worst_verdict([shadow_result.SAME_HOST, shadow_result.EQUAL_WEIGHT])
            == shadow_result.EQUAL_WEIGHT
        )
        assert (
            worst_verdict([shadow_result.SAME_HOST, shadow_result.OTHER_HOST])
            == shadow_result.OTHER_HOST
        )
        assert (
            worst_verdict([shadow_result.PENDING, shadow_result.SAME_HOST]) == shadow_result.PENDING
        )


class TestOfLateEvaluation:
    """nova's own claim was there already when the request was evaluated."""

    LATE = frozenset({"i1"})

    def test_same_host_and_equal_weight_agree_all_the_same(self):
        assert verdicts(notes(step("a"), late=self.LATE), on("a")) == [shadow_result.SAME_HOST]
        assert verdicts(notes(step("a", "b"), late=self.LATE), on("b")) == [
            shadow_result.EQUAL_WEIGHT
        ]

    @pytest.mark.parametrize("facts", [{"refused": {"b": NO_ROOM}}, {"passed": {"b": 0.5}}, {}])
    def test_other_host_that_may_be_for_the_claim_is_not_compared(self, facts):
        assert verdicts(notes(step("a"), late=self.LATE, **facts), on("b")) == [
            shadow_result.UNKNOWN
        ]
        assert verdicts(notes(late=self.LATE, **facts), on("b")) == [shadow_result.UNKNOWN]

    def test_other_host_for_a_reason_that_has_nothing_to_do_with_room_is(self):
        noted = notes(step("a"), late=self.LATE, refused={"b": WRONG_ZONE})
        assert verdicts(noted, on("b")) == [shadow_result.OTHER_HOST]

    def test_filter_of_room_is_not_certain(self):
        full = HostRejection("filters", "NumInstancesFilter", "50 instances")
        noted = notes(step("a"), late=self.LATE, refused={"b": full})
        assert verdicts(noted, on("b")) == [shadow_result.UNKNOWN]


def test_more_equal_hosts_than_are_noted_leave_it_open():
    assert verdicts(notes(step("a", more=3)), on("z")) == [shadow_result.UNKNOWN]
    lighter = notes(step("a", more=3), passed={"a": 1.0, "z": 0.5})
    assert verdicts(lighter, on("z")) == [shadow_result.OTHER_HOST]


def test_weight_of_a_later_instance_is_not_that_of_the_first():
    noted = notes(step("a"), step("b"), passed={"a": 3.0, "b": 1.0})
    _, second = judged(noted, on("a"), on("a"))
    assert second.verdict == shadow_result.OTHER_HOST
    assert "nova_weight" not in second.detail
