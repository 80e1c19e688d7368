# SPDX-License-Identifier: Apache-2.0
"""Policy selection by the flavor's extra specs."""

import pytest

from tests.scheduler.policies.test_selection import AGGREGATES, DENSE, choose_policy
from tests.scheduler.policies.test_selection import policies as policies  # noqa: PLC0414
from tests.support.states import build_spec


@pytest.mark.parametrize(
    ("spec", "policy", "confined"),
    [
        (build_spec({"ssd": "true"}), DENSE, [1, 2]),
        (build_spec({"aggregate_instance_extra_specs:gpu": ">= 4"}), DENSE, [2]),
        (build_spec({"ssd": "true", "gpu": "4"}), "default", []),
        (build_spec({"ssd": "<or> false <or> true", "gpu": "8"}), DENSE, [2]),
        (build_spec({"hw:cpu_policy": "shared"}), "default", []),
        (build_spec(), "default", []),
    ],
)
def test_policy_and_aggregates_of_the_extra_specs(policies, spec, policy, confined):
    result = choose_policy(policies, spec, "extra_specs")
    assert result.policy.name == policy
    assert result.confined == tuple(AGGREGATES[number - 1].uuid for number in confined)
