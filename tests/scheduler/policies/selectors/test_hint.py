# SPDX-License-Identifier: Apache-2.0
"""Policy selection by scheduler hint."""

import pytest

from tests.scheduler.policies.test_selection import AGGREGATES, DENSE, ROOMY, chosen
from tests.scheduler.policies.test_selection import policies as policies  # noqa: PLC0414
from tests.support.states import a_spec


def hinting(policy):
    return a_spec(scheduler_hints={"sched_policy": policy})


@pytest.mark.parametrize(
    ("spec", "policy", "confined"),
    [
        (hinting(DENSE), DENSE, [1, 2]),
        (hinting(ROOMY.upper()), ROOMY, [3]),
        (hinting("default"), "default", []),
        (hinting("nowhere"), "default", []),
        (hinting("gone"), "default", []),
        (a_spec(), "default", []),
    ],
)
def test_selector_goes_by_what_its_filter_goes_by(policies, spec, policy, confined):
    found = chosen(policies, spec, "hint")
    assert found.policy.name == policy
    assert found.confined == tuple(AGGREGATES[number - 1].uuid for number in confined)
