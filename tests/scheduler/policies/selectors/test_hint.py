# SPDX-License-Identifier: Apache-2.0
"""Policy selection by scheduler hint."""

import pytest

from tests.scheduler.policies.test_selection import AGGREGATES, DENSE, ROOMY, choose_policy
from tests.scheduler.policies.test_selection import policies as policies  # noqa: PLC0414
from tests.support.states import build_spec


def spec_with_hint(policy):
    return build_spec(scheduler_hints={"sched_policy": policy})


@pytest.mark.parametrize(
    ("spec", "policy", "confined"),
    [
        (spec_with_hint(DENSE), DENSE, [1, 2]),
        (spec_with_hint(ROOMY.upper()), ROOMY, [3]),
        (spec_with_hint("default"), "default", []),
        (spec_with_hint("nowhere"), "default", []),
        (spec_with_hint("gone"), "default", []),
        (build_spec(), "default", []),
    ],
)
def test_policy_and_aggregates_of_the_hint(policies, spec, policy, confined):
    result = choose_policy(policies, spec, "hint")
    assert result.policy.name == policy
    assert result.confined == tuple(AGGREGATES[number - 1].uuid for number in confined)
