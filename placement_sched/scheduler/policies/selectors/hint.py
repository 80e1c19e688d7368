"""Selects by a scheduler hint."""

from placement_sched.model.aggregates import DEFAULT_POLICY, POLICY_KEY, HostAggregate
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.policies.selectors import BasePolicySelector


def policy_hint(spec_obj: RequestSpec) -> str | None:
    """Return the policy that a request's hint ``sched_policy`` names, or None."""
    values = spec_obj.scheduler_hints.get(POLICY_KEY)
    return values[0].strip().lower() if values else None


class HintSelector(BasePolicySelector):
    """Selects the aggregates of the policy that the scheduler hint ``sched_policy`` names.

    Goes with AggregateSchedulerPolicyConfigurationFilter. Who may use the hint is decided by the
    policy rule ``scheduler:policies:hint``.
    """

    name = "hint"
    aliases = ("HintBasedSchedulerPolicyConfigurationSelection",)

    def asked(self, spec_obj: RequestSpec) -> str | None:
        """Return the policy that the hint names."""
        return policy_hint(spec_obj)

    def matches(self, spec_obj: RequestSpec, aggregate: HostAggregate) -> bool:
        """Return whether the aggregate is of that policy."""
        return aggregate.policy == policy_hint(spec_obj)

    def asks_for_default(self, spec_obj: RequestSpec) -> bool:
        """Return whether the hint names the default policy."""
        return policy_hint(spec_obj) == DEFAULT_POLICY
