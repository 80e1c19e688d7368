# SPDX-License-Identifier: Apache-2.0
"""Policy selection by the flavor's extra specs."""

import pytest

from tests.scheduler.policies.test_selection import AGGREGATES, DENSE, chosen
from tests.scheduler.policies.test_selection import policies as policies  # noqa: PLC0414
from tests.support.states import a_spec


@pytest.mark.parametrize(
    ("spec", "policy", "confined"),
    [
        (a_spec({"ssd": "true"}), DENSE, [1, 2]),
        (a_spec({"aggregate_instance_extra_specs:gpu": ">= 4"}), DENSE, [2]),
        (a_spec({"ssd": "true", "gpu": "4"}), "default", []),
        (a_spec({"ssd": "<or> false <or> true", "gpu": "8"}), DENSE, [2]),
        (a_spec({"hw:cpu_policy": "shared"}), "default", []),
        (a_spec(), "default", []),
    ],
)
def test_selector_goes_by_what_its_filter_goes_by(policies, spec, policy, confined):
    found = chosen(policies, spec, "extra_specs")
    assert found.policy.name == policy
    assert found.confined == tuple(AGGREGATES[number - 1].uuid for number in confined)
