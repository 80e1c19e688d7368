# SPDX-License-Identifier: Apache-2.0
"""Policy selection by project."""

import pytest

from tests.scheduler.policies.test_selection import AGGREGATES, DENSE, ROOMY, chosen
from tests.scheduler.policies.test_selection import policies as policies  # noqa: PLC0414
from tests.support.states import a_spec


@pytest.mark.parametrize(
    ("spec", "policy", "confined"),
    [
        (a_spec(project_id="acme"), DENSE, [1]),
        (a_spec(project_id="acme2"), ROOMY, [3]),
        (a_spec(project_id="nobody"), "default", []),
        (a_spec(), "default", []),
    ],
)
def test_selector_goes_by_what_its_filter_goes_by(policies, spec, policy, confined):
    found = chosen(policies, spec, "tenant")
    assert found.policy.name == policy
    assert found.confined == tuple(AGGREGATES[number - 1].uuid for number in confined)
