# SPDX-License-Identifier: Apache-2.0
"""Policy selection by availability zone."""

import pytest

from tests.scheduler.policies.conftest import DENSE, ROOMY, find_policy
from tests.support.states import build_spec


@pytest.mark.parametrize(
    ("zone", "policy", "confined"),
    [
        ("az1", DENSE, [1]),
        ("az2,az1", DENSE, [1, 2]),
        ("az3", ROOMY, [3]),
        ("az1,az3", "default", []),
        ("nova", "default", []),
    ],
)
def test_policy_is_that_of_all_aggregates_of_the_zones(policies, zone, policy, confined):
    assert find_policy(policies, build_spec(availability_zone=zone), "availability_zone") == (
        policy,
        confined,
    )
