# SPDX-License-Identifier: Apache-2.0
"""Policies, and aggregates that name them."""

import pytest

from placement_sched.scheduler.plugins import get_plugins
from placement_sched.scheduler.policies.registry import choose, get_policies
from tests.support.states import build_aggregate, read_settings_text

DENSE_POLICY, SPARSE_POLICY = "high_cpu_density", "low_cpu_density"
POLICY_AGGREGATES = (
    build_aggregate(
        1,
        sched_policy=DENSE_POLICY,
        availability_zone="az1",
        filter_tenant_id="acme, other",
        ssd="true",
    ),
    build_aggregate(2, sched_policy=DENSE_POLICY, availability_zone="az2", ssd="true", gpu="8"),
    build_aggregate(
        3, sched_policy=SPARSE_POLICY, availability_zone="az3", filter_tenant_id2="acme2"
    ),
    build_aggregate(4, sched_policy="gone", availability_zone="az4"),
)


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    text = (
        f"[scheduler]\npolicies = {DENSE_POLICY}, {SPARSE_POLICY}\n"
        f"[{DENSE_POLICY}]\nram_weight_multiplier = -1\n"
        f"[{SPARSE_POLICY}]\ncpu_allocation_ratio = 1.0\n"
    )
    return get_policies(read_settings_text(tmp_path_factory.mktemp("policies"), text))


def choose_policy(policies, spec, *names):
    settings = policies.default.settings
    if names:
        settings = settings.with_overrides({"scheduler.policy_selection": list(names)})
    return choose(spec, policies, get_plugins(settings).selectors, POLICY_AGGREGATES)


def find_policy(policies, spec, selector):
    """Return the name of the policy, and the numbers of its aggregates."""
    result = choose_policy(policies, spec, selector)
    numbers = {aggregate.uuid: aggregate.id for aggregate in POLICY_AGGREGATES}
    return result.policy.name, [numbers[uuid] for uuid in result.confined]
