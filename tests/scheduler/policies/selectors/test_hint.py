# SPDX-License-Identifier: Apache-2.0
"""Policy selection by scheduler hint."""

import pytest

from tests.scheduler.policies.conftest import DENSE_POLICY, SPARSE_POLICY, find_policy
from tests.support.states import build_spec


@pytest.mark.parametrize(
    ("hint", "policy", "confined"),
    [
        (DENSE_POLICY, DENSE_POLICY, [1, 2]),
        (SPARSE_POLICY.upper(), SPARSE_POLICY, [3]),
        *((name, "default", []) for name in ("default", "nowhere", "gone")),
    ],
)
def test_scheduler_hint_selects_the_policy_in_upper_or_lower_case(policies, hint, policy, confined):
    assert find_policy(policies, build_spec(scheduler_hints={"sched_policy": hint}), "hint") == (
        policy,
        confined,
    )
