# SPDX-License-Identifier: Apache-2.0
"""Policy selection by scheduler hint."""

from placement_sched.model.aggregates import DEFAULT_POLICY, HostAggregate
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters.aggregate_scheduler_policy_configuration_filter import (
    find_policy_hint,
)
from placement_sched.scheduler.policies.selectors import BasePolicySelector


class HintSelector(BasePolicySelector):
    """Selector of aggregates with the policy in the hint ``sched_policy``.

    Use it with AggregateSchedulerPolicyConfigurationFilter. The API policy rule
    ``scheduler:policies:hint`` controls the use of the hint.
    """

    name = "hint"
    aliases = ("HintBasedSchedulerPolicyConfigurationSelection",)

    def find_requested_value(self, spec_obj: RequestSpec) -> str | None:
        return find_policy_hint(spec_obj)

    def matches(self, spec_obj: RequestSpec, aggregate: HostAggregate) -> bool:
        return aggregate.policy == find_policy_hint(spec_obj)

    def requests_default(self, spec_obj: RequestSpec) -> bool:
        return find_policy_hint(spec_obj) == DEFAULT_POLICY
