# SPDX-License-Identifier: Apache-2.0
"""Policy selection by availability zone."""

import pytest

from tests.scheduler.policies.conftest import DENSE_POLICY, SPARSE_POLICY, find_policy
from tests.support.states import build_spec


@pytest.mark.parametrize(
    ("zone", "policy", "confined"),
    [
        ("az1", DENSE_POLICY, [1]),
        ("az2,az1", DENSE_POLICY, [1, 2]),
        ("az3", SPARSE_POLICY, [3]),
        ("az1,az3", "default", []),
        ("nova", "default", []),
    ],
)
def test_availability_zone_selects_the_policy_of_all_its_aggregates(
    policies, zone, policy, confined
):
    assert find_policy(policies, build_spec(availability_zone=zone), "availability_zone") == (
        policy,
        confined,
    )
