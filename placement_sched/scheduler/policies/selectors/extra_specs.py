# SPDX-License-Identifier: Apache-2.0
"""Policy selection by the flavor's extra specs."""

from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters.aggregate_instance_extra_specs import (
    has_match,
    iterate_extra_specs,
)
from placement_sched.scheduler.policies.selectors import BasePolicySelector


class ExtraSpecsSelector(BasePolicySelector):
    """Selector of aggregates whose metadata satisfy the flavor's extra specs.

    Use the selector with AggregateInstanceExtraSpecsFilter. Both compare the same keys, with the
    scope ``aggregate_instance_extra_specs:`` or without a scope, by the same operators. A single
    aggregate must satisfy all compared extra specs.
    """

    name = "extra_specs"
    aliases = (
        "FlavorExtraSpecsBasedSchedulerPolicyConfigurationSelection",
        "ExtraSpecsBasedSchedulerPolicyConfigurationSelection",
    )

    def find_requested_value(self, spec_obj: RequestSpec) -> str | None:
        extra_specs = [
            f"{key}={requirement}" for key, _, requirement in iterate_extra_specs(spec_obj)
        ]
        return ", ".join(extra_specs) or None

    def matches(self, spec_obj: RequestSpec, aggregate: HostAggregate) -> bool:
        return all(
            _is_satisfied(aggregate.metadata.get(name), requirement)
            for _, name, requirement in iterate_extra_specs(spec_obj)
        )


def _is_satisfied(value: str | None, requirement: str) -> bool:
    if value is None:
        return False
    try:
        return has_match([part.strip() for part in value.split(",")], requirement)
    except ValueError:  # a value that the operator cannot compare does not match
        return False
