# SPDX-License-Identifier: Apache-2.0
"""Policy selection by scheduler hint."""

import pytest

from tests.scheduler.policies.conftest import DENSE, ROOMY, find_policy
from tests.support.states import build_spec


@pytest.mark.parametrize(
    ("hint", "policy", "confined"),
    [
        (DENSE, DENSE, [1, 2]),
        (ROOMY.upper(), ROOMY, [3]),
        *((name, "default", []) for name in ("default", "nowhere", "gone")),
    ],
)
def test_hint_names_the_policy_in_any_case(policies, hint, policy, confined):
    assert find_policy(policies, build_spec(scheduler_hints={"sched_policy": hint}), "hint") == (
        policy,
        confined,
    )
