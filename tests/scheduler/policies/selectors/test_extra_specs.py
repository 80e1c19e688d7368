# SPDX-License-Identifier: Apache-2.0
"""Policy selection by the flavor's extra specs."""

import pytest

from tests.scheduler.policies.conftest import DENSE_POLICY, find_policy
from tests.support.states import build_spec


@pytest.mark.parametrize(
    ("extra_specs", "policy", "confined"),
    [
        ({"ssd": "true"}, DENSE_POLICY, [1, 2]),
        ({"aggregate_instance_extra_specs:gpu": ">= 4"}, DENSE_POLICY, [2]),
        ({"ssd": "true", "gpu": "4"}, "default", []),
        ({"ssd": "<or> no <or> true", "gpu": "8"}, DENSE_POLICY, [2]),
        ({"hw:cpu_policy": "shared"}, "default", []),
    ],
)
def test_extra_specs_select_the_policy_of_aggregates_that_satisfy_them(
    policies, extra_specs, policy, confined
):
    assert find_policy(policies, build_spec(extra_specs), "extra_specs") == (policy, confined)
