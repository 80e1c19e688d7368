# SPDX-License-Identifier: Apache-2.0
"""Policy selection by availability zone."""

import pytest

from tests.scheduler.policies.test_selection import AGGREGATES, DENSE, ROOMY, choose_policy
from tests.scheduler.policies.test_selection import policies as policies  # noqa: PLC0414
from tests.support.states import build_spec


@pytest.mark.parametrize(
    ("spec", "policy", "confined"),
    [
        (build_spec(availability_zone="az1"), DENSE, [1]),
        (build_spec(availability_zone="az2,az1"), DENSE, [1, 2]),
        (build_spec(availability_zone="az3"), ROOMY, [3]),
        (build_spec(availability_zone="az1,az3"), "default", []),
        (build_spec(availability_zone="nova"), "default", []),
        (build_spec(), "default", []),
    ],
)
def test_policy_and_aggregates_of_the_zone(policies, spec, policy, confined):
    result = choose_policy(policies, spec, "availability_zone")
    assert result.policy.name == policy
    assert result.confined == tuple(AGGREGATES[number - 1].uuid for number in confined)
