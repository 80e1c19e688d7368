# SPDX-License-Identifier: Apache-2.0
"""Sentences about hosts that would fit."""

import pytest

from placement_sched.candidates.constraints import iterate_constraints
from placement_sched.explain.phrases import build_reason, describe_would_fit
from placement_sched.model.candidates_query import AggregateTerms, RequestGroup, TraitTerms
from placement_sched.model.constraint import ISOLATE, NOT_DISABLED
from placement_sched.model.rejection import Rejection
from tests.support.scheduling import make_uuid

UUID = make_uuid(1)
NO_HEARTBEAT_REJECTION = Rejection(kind="down", actual=93, values={"service_down_time": 60})
TOO_MANY_INSTANCES_REJECTION = Rejection("9 instances, 9 allowed")


def build_constraints(suffix="", **group):
    return list(iterate_constraints(RequestGroup(suffix=suffix, **group)))


def build_traits(*required, forbidden=()):
    return TraitTerms(tuple(map(frozenset, required)), frozenset(forbidden))


@pytest.mark.parametrize(
    ("constraints", "rejections", "one_host", "several_hosts"),
    [
        (
            [],
            [("ComputeFilter", NO_HEARTBEAT_REJECTION)],
            "would fit, but its nova-compute last reported 93 s ago",
            "would fit, but their nova-compute last reported over 60 s ago",
        ),
        (
            [],
            [("NumInstancesFilter", TOO_MANY_INSTANCES_REJECTION)],
            "would fit, but NumInstancesFilter rejects it: 9 instances, 9 allowed",
            "would fit, but NumInstancesFilter rejects them",
        ),
        (
            build_constraints(
                resources=(("VGPU", 1), ("VCPU", 9)), traits=build_traits(["CUSTOM_A"])
            ),
            [
                ("A", TOO_MANY_INSTANCES_REJECTION),
                ("B", TOO_MANY_INSTANCES_REJECTION),
                ("ComputeFilter", NO_HEARTBEAT_REJECTION),
            ],
            (
                "would fit without VGPU:1, VCPU:9 and trait CUSTOM_A, but A rejects it: 9 "
                "instances, 9 allowed, B rejects it: 9 instances, 9 allowed and its nova-compute "
                "last reported 93 s ago"
            ),
            (
                "would fit without VGPU:1, VCPU:9 and trait CUSTOM_A, but A rejects them, "
                "B rejects them and their nova-compute last reported over 60 s ago"
            ),
        ),
        (
            [
                *build_constraints("1", traits=build_traits(["CUSTOM_A", "CUSTOM_B"])),
                *build_constraints(traits=build_traits(forbidden=["CUSTOM_C"])),
            ],
            [],
            "would fit without trait CUSTOM_A or CUSTOM_B (group 1) and forbidding trait CUSTOM_C",
            "would fit without trait CUSTOM_A or CUSTOM_B (group 1) and forbidding trait CUSTOM_C",
        ),
        (
            [NOT_DISABLED],
            [],
            "would fit, but its nova-compute is disabled",
            "would fit, but their nova-compute is disabled",
        ),
        (
            build_constraints(aggregates=AggregateTerms((frozenset({UUID, "u2"}),)), in_tree="u3"),
            [],
            "would fit, but is not in az1 or u2 and the request names another host",
            "would fit, but are not in az1 or u2 and the request names another host",
        ),
        (
            [*build_constraints("2", aggregates=AggregateTerms((), frozenset({UUID}))), ISOLATE],
            [],
            "would fit without group_policy=isolate, but is in az1 (group 2)",
            "would fit without group_policy=isolate, but are in az1 (group 2)",
        ),
    ],
)
def test_would_fit_sentence_names_constraints_and_hosts(
    constraints, rejections, one_host, several_hosts
):
    keys = [each.as_json() for each in constraints]
    reasons = [(name, build_reason(each)) for name, each in rejections]
    text = [
        describe_would_fit(keys, reasons, {UUID: "az1"}, several=many) for many in (False, True)
    ]
    assert text == [one_host, several_hosts]
