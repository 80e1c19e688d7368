# SPDX-License-Identifier: Apache-2.0
"""The record of an evaluation, and its serialization."""

from types import SimpleNamespace

import pytest

from placement_sched.nova.shadow.comparing import (
    EvaluationRecord,
    HostName,
    HostRejection,
    InstanceStep,
)
from placement_sched.scheduler.weights import WeighedHost
from tests.nova.shadow.records import evaluation_record, host_name, instance_step


def weighed_hosts(*weights):
    return [
        WeighedHost(SimpleNamespace(host=f"h{number}", nodename=f"h{number}"), weight)
        for number, weight in enumerate(weights, 1)
    ]


def best_host_names(*weights, subset=1, most=10):
    step = InstanceStep.of(weighed_hosts(*weights), subset, most)
    return sorted(name.host for name in step.best)


@pytest.mark.parametrize(
    ("weights", "subset"),
    [((2.0, 2.0, 1.0), 1), ((0.1 + 0.2, 0.3, 0.2), 1), ((3.0, 2.0, 1.0), 2), ((2.0, 3.0, 1.0), 2)],
    ids=["equal", "rounding errors", "host_subset_size", "chosen host has a lower weight"],
)
def test_best_hosts_have_the_highest_weight_or_are_in_the_subset(weights, subset):
    assert best_host_names(*weights, subset=subset) == ["h1", "h2"]


def test_recorded_hosts_are_limited_and_the_rest_are_counted():
    step = InstanceStep.of(weighed_hosts(1.0, 1.0, 1.0), 1, 2)
    assert (len(step.best), step.more) == (2, 1)


def test_step_without_hosts_has_no_choice():
    assert InstanceStep.of([], 1, 10) == InstanceStep(None)


@pytest.mark.parametrize(
    "record",
    [
        EvaluationRecord(),
        evaluation_record(
            instance_step("a", "b", more=2),
            instance_step(),
            passed={"a": 1.5},
            refused={"c": HostRejection("filters", "ComputeFilter", "down")},
            late=frozenset({"i"}),
            obstacle="why",
        ),
    ],
)
def test_evaluation_record_survives_serialization(record):
    assert EvaluationRecord.read(record.as_json()) == record


def test_node_with_another_name_is_shown_with_its_host():
    assert str(host_name("cn1")) == "cn1"
    assert str(HostName("ironic", "node-1")) == "ironic (node-1)"
