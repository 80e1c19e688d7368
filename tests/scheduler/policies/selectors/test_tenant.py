# SPDX-License-Identifier: Apache-2.0
"""Policy selection by project."""

import pytest

from tests.scheduler.policies.conftest import DENSE_POLICY, SPARSE_POLICY, find_policy
from tests.support.states import build_spec


@pytest.mark.parametrize(
    ("project", "policy", "confined"),
    [("acme", DENSE_POLICY, [1]), ("acme2", SPARSE_POLICY, [3]), ("nobody", "default", [])],
)
def test_project_selects_the_policy_of_its_aggregates(policies, project, policy, confined):
    assert find_policy(policies, build_spec(project_id=project), "tenant") == (policy, confined)
