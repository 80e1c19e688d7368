# SPDX-License-Identifier: Apache-2.0
"""What is noted of an evaluation, and read again."""

from types import SimpleNamespace

import pytest

from placement_sched.nova.shadow.comparing import (
    EvaluationRecord,
    HostName,
    HostRejection,
    InstanceStep,
)
from placement_sched.scheduler.weights import WeighedHost
from tests.nova.shadow.noted import host, notes, step


def weighed(*weights):
    return [
        WeighedHost(SimpleNamespace(host=f"h{number}", nodename=f"h{number}"), weight)
        for number, weight in enumerate(weights, 1)
    ]


def best(*weights, subset=1, most=10):
    found = InstanceStep.of(weighed(*weights), subset, most)
    return sorted(one.host for one in found.best)


def test_best_are_those_that_weigh_the_most():
    assert best(2.0, 2.0, 1.0) == ["h1", "h2"]


def test_rounding_does_not_part_equal_weights():
    assert best(0.1 + 0.2, 0.3, 0.2) == ["h1", "h2"]


def test_host_subset_size_adds_lighter_ones():
    assert best(3.0, 2.0, 1.0, subset=2) == ["h1", "h2"]


def test_host_drawn_from_the_subset_is_not_the_heaviest():
    assert best(2.0, 3.0, 1.0, subset=2) == ["h1", "h2"]


def test_no_more_are_noted_than_asked_for_and_the_rest_are_counted():
    found = InstanceStep.of(weighed(1.0, 1.0, 1.0), 1, 2)
    assert (len(found.best), found.more) == (2, 1)


def test_no_hosts_are_a_step_without_a_choice():
    assert InstanceStep.of([], 1, 10) == InstanceStep(None)


@pytest.mark.parametrize(
    "noted",
    [
        EvaluationRecord(),
        notes(
            step("a", "b", more=2),
            step(),
            passed={"a": 1.5},
            refused={"c": HostRejection("filters", "ComputeFilter", "down")},
            late=frozenset({"i"}),
            obstacle="why",
        ),
    ],
)
def test_notes_are_read_as_they_were_written(noted):
    assert EvaluationRecord.read(noted.as_json()) == noted


def test_node_of_another_name_is_shown_with_its_host():
    assert str(host("cn1")) == "cn1"
    assert str(HostName("ironic", "node-1")) == "ironic (node-1)"
