# SPDX-License-Identifier: Apache-2.0
"""Policy selection by project."""

import pytest

from tests.scheduler.policies.test_selection import AGGREGATES, DENSE, ROOMY, choose_policy
from tests.scheduler.policies.test_selection import policies as policies  # noqa: PLC0414
from tests.support.states import build_spec


@pytest.mark.parametrize(
    ("spec", "policy", "confined"),
    [
        (build_spec(project_id="acme"), DENSE, [1]),
        (build_spec(project_id="acme2"), ROOMY, [3]),
        (build_spec(project_id="nobody"), "default", []),
        (build_spec(), "default", []),
    ],
)
def test_policy_and_aggregates_of_the_project(policies, spec, policy, confined):
    result = choose_policy(policies, spec, "tenant")
    assert result.policy.name == policy
    assert result.confined == tuple(AGGREGATES[number - 1].uuid for number in confined)
