# SPDX-License-Identifier: Apache-2.0
"""Policy selection by project."""

import pytest

from tests.scheduler.policies.conftest import DENSE, ROOMY, find_policy
from tests.support.states import build_spec


@pytest.mark.parametrize(
    ("project", "policy", "confined"),
    [("acme", DENSE, [1]), ("acme2", ROOMY, [3]), ("nobody", "default", [])],
)
def test_policy_is_that_of_the_aggregates_of_the_project(policies, project, policy, confined):
    assert find_policy(policies, build_spec(project_id=project), "tenant") == (policy, confined)
