# SPDX-License-Identifier: Apache-2.0
"""Sentences about the reasons that keep hosts from a request."""

import pytest

from placement_sched.model.verdict import Rejection
from placement_sched.scheduler.explain.verdicts import describe_would_fit

SILENT = Rejection(
    "no heartbeat for 93 s",
    of_one="its nova-compute last reported 93 s ago",
    of_several="their nova-compute last reported over 60 s ago",
)
FULL = Rejection("9 instances, 9 allowed")


@pytest.mark.parametrize(
    ("terms", "rejections", "one_host", "several_hosts"),
    [
        (
            [],
            [("ComputeFilter", SILENT)],
            "would fit, but its nova-compute last reported 93 s ago",
            "would fit, but their nova-compute last reported over 60 s ago",
        ),
        (
            [],
            [("NumInstancesFilter", FULL)],
            "would fit, but NumInstancesFilter rejects it: 9 instances, 9 allowed",
            "would fit, but NumInstancesFilter rejects them",
        ),
        (
            [("resources", "VGPU:1"), ("resources", "VCPU:9"), ("required", "CUSTOM_A")],
            [("A", FULL), ("B", FULL), ("ComputeFilter", SILENT)],
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
            [("required", "in:CUSTOM_A,CUSTOM_B (group 1)"), ("required", "!CUSTOM_C")],
            [],
            "would fit without trait CUSTOM_A or CUSTOM_B (group 1) and forbidding trait CUSTOM_C",
            "would fit without trait CUSTOM_A or CUSTOM_B (group 1) and forbidding trait CUSTOM_C",
        ),
        (
            [("root_required", "!COMPUTE_STATUS_DISABLED")],
            [],
            "would fit, but its nova-compute is disabled",
            "would fit, but their nova-compute is disabled",
        ),
        (
            [("member_of", "in:u1,u2"), ("in_tree", "u3")],
            [],
            "would fit, but is not in az1 or u2 and the request names another host",
            "would fit, but are not in az1 or u2 and the request names another host",
        ),
        (
            [("member_of", "!in:u1 (group 2)"), ("group_policy", "isolate")],
            [],
            "would fit without group_policy=isolate, but is in az1 (group 2)",
            "would fit without group_policy=isolate, but are in az1 (group 2)",
        ),
    ],
)
def test_sentence_about_constraints_and_hosts(terms, rejections, one_host, several_hosts):
    names = {"u1": "az1"}
    text = [
        describe_would_fit(terms, rejections, lambda uuid: names.get(uuid, uuid), several=many)
        for many in (False, True)
    ]
    assert text == [one_host, several_hosts]
