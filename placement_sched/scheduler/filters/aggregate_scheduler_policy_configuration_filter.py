"""AggregateSchedulerPolicyConfigurationFilter: requests that name a policy stay on its hosts."""

from collections.abc import Iterable

from placement_sched.model.aggregates import DEFAULT_POLICY, POLICY_KEY
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import BaseHostFilter, HostState, Question, Refusal, Remedy
from placement_sched.scheduler.filters.changed_requests import without_hint
from placement_sched.scheduler.policies.selectors.hint import policy_hint


class AggregateSchedulerPolicyConfigurationFilter(BaseHostFilter):
    """Lets only hosts pass whose aggregates have the policy that the request's hint names.

    The scheduler hint is ``sched_policy``, as is the key in an aggregate's metadata; ``default``
    lets hosts pass whose aggregates have no policy. A request without the hint passes everywhere.
    Goes with the selection of policies by hint.
    """

    run_filter_once_per_request = True

    def for_request(self, spec_obj: RequestSpec) -> Question | None:
        """Return what compares the policies that a host is under with the hint's."""
        asked = policy_hint(spec_obj)
        if asked is None:
            return None

        def refusal(host_state: HostState) -> Refusal | None:
            has = sorted({each.policy for each in host_state.aggregates if each.policy})
            if asked in (has or [DEFAULT_POLICY]):
                return None
            found = ", ".join(has) or DEFAULT_POLICY
            return Refusal(f"policy {asked} requested, the host has {found}", asked, has)

        return refusal

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return the hint that keeps the request away."""
        yield without_hint(spec_obj, POLICY_KEY)
