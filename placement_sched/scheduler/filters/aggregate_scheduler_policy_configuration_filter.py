# SPDX-License-Identifier: Apache-2.0
"""AggregateSchedulerPolicyConfigurationFilter: filter by requested policy."""

from placement_sched.model.aggregates import DEFAULT_POLICY, POLICY_KEY
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostCheck,
    HostState,
    Rejection,
    SuggestedChanges,
    drop_hint,
)


def find_policy_hint(spec_obj: RequestSpec) -> str | None:
    """Return the policy in the request's hint ``sched_policy``, or None."""
    values = spec_obj.scheduler_hints.get(POLICY_KEY)
    return values[0].strip().lower() if values else None


class AggregateSchedulerPolicyConfigurationFilter(BaseHostFilter):
    """Filter for hosts whose aggregates have the requested scheduling policy.

    The scheduler hint ``sched_policy`` requests a policy. The policy of an aggregate is the value
    of its metadata key ``sched_policy``. The policy ``default`` selects hosts whose aggregates have
    no policy. Without the hint every host passes. Use the filter if ``[scheduler]
    policy_selection`` has ``hint``.
    """

    run_filter_once_per_request = True

    def prepare(self, spec_obj: RequestSpec) -> HostCheck | None:
        requested = find_policy_hint(spec_obj)
        if requested is None:
            return None

        def check_host(host_state: HostState) -> Rejection | None:
            names = {aggregate.policy for aggregate in host_state.aggregates if aggregate.policy}
            policies = sorted(names) or [DEFAULT_POLICY]
            if requested in policies:
                return None
            return Rejection(kind="scheduling_policy", requested=requested, actual=policies)

        return check_host

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        yield drop_hint(spec_obj, POLICY_KEY)
