# SPDX-License-Identifier: Apache-2.0
"""Host filter by the policy of the hint."""

import pytest

from placement_sched.explain.phrases import describe_rejection
from placement_sched.scheduler.filters.aggregate_scheduler_policy_configuration_filter import (
    AggregateSchedulerPolicyConfigurationFilter,
)
from tests.support.states import build_aggregates, build_host_state, build_spec

DENSE_POLICY_METADATA = {"sched_policy": "high_cpu_density"}
SPARSE_POLICY_METADATA = {"sched_policy": "low_cpu_density"}


@pytest.mark.parametrize(
    ("hint", "metadata", "reason"),
    [
        (None, [], None),
        (None, [DENSE_POLICY_METADATA], None),
        ("high_cpu_density", [DENSE_POLICY_METADATA], None),
        ("High_CPU_Density", [DENSE_POLICY_METADATA], None),
        ("high_cpu_density", [{"ssd": "true"}, DENSE_POLICY_METADATA], None),
        (
            "high_cpu_density",
            [SPARSE_POLICY_METADATA],
            "policy high_cpu_density requested, the host has low_cpu_density",
        ),
        ("high_cpu_density", [], "policy high_cpu_density requested, the host has default"),
        (
            "high_cpu_density",
            [{"ssd": "true"}],
            "policy high_cpu_density requested, the host has default",
        ),
        ("default", [], None),
        (
            "default",
            [DENSE_POLICY_METADATA],
            "policy default requested, the host has high_cpu_density",
        ),
    ],
)
def test_hosts_of_other_policies_are_rejected(hint, metadata, reason):
    host = build_host_state(aggregates=build_aggregates(*metadata))
    spec = build_spec(scheduler_hints={} if hint is None else {"sched_policy": hint})
    plugin = AggregateSchedulerPolicyConfigurationFilter()
    rejection = plugin.rejection(host, spec)
    assert (rejection and describe_rejection(rejection)) == reason
    assert plugin.host_passes(host, spec) == (reason is None)
