# SPDX-License-Identifier: Apache-2.0
"""NumInstancesFilter and AggregateNumInstancesFilter: filters by number of instances."""

from oslo_config import cfg

from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostState,
    Rejection,
    RequestSpec,
    SuggestedChange,
    SuggestedChanges,
)
from placement_sched.scheduler.filters.host_capacity import (
    raised_in_aggregates,
    smallest_of_aggregates,
)
from placement_sched.scheduler.plugin import options_in_group


class NumInstancesFilter(BaseHostFilter):
    """Filter for hosts below a maximum of instances.

    The host reports its number of instances (``num_instances`` of its ``stats``), and earlier
    instances of the same request are added. The maximum is ``[filter_scheduler]
    max_instances_per_host``. A host at the maximum is rejected.
    """

    options = options_in_group(
        "filter_scheduler",
        cfg.IntOpt("max_instances_per_host", default=50, min=1, deprecated_group="DEFAULT"),
        "Maximum number of instances on a host, for NumInstancesFilter and "
        "AggregateNumInstancesFilter.",
    )

    def maximum(self, host_state: HostState) -> int:
        """Return the maximum number of instances on a host."""
        return int(self.settings.filter_scheduler.max_instances_per_host)

    def rejection(self, host_state: HostState, spec_obj: RequestSpec) -> Rejection | None:
        """Return the reason why the host is full, or None if it is not.

        The reason contains the number of instances and the maximum.
        """
        count, maximum = host_state.num_instances, self.maximum(host_state)
        if count < maximum:
            return None
        return Rejection(f"{count} instances there, the maximum is {maximum}", maximum, count)

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        """Suggest fewer instances on the host, and a larger maximum."""
        count, maximum = host_state.num_instances, self.maximum(host_state)
        if maximum:
            surplus = count - maximum + 1
            words = f"wait for or move away {surplus} of the instances"
            after = {"num_instances": maximum - 1}
            yield SuggestedChange("remove_instances", words, {"instances": surplus}, host=after)
        yield self.raised_maximum(host_state, count + 1)

    def raised_maximum(self, host_state: HostState, value: int) -> SuggestedChange:
        """Suggest a larger maximum."""
        words = f"raise max_instances_per_host to {value}"
        return SuggestedChange(
            "raise_option", words, {"option": "max_instances_per_host", "value": value}
        )


class AggregateNumInstancesFilter(NumInstancesFilter):
    """Filter as NumInstancesFilter, with the maximum of the host's aggregates.

    The maximum is ``max_instances_per_host`` in the metadata of an aggregate. Of several values,
    the smallest applies. If no aggregate of the host has a value, or a value is not an integer
    (which is logged), ``[filter_scheduler] max_instances_per_host`` applies.
    """

    def maximum(self, host_state: HostState) -> int:
        """Return the smallest maximum of the host's aggregates, or the option."""
        configured = super().maximum(host_state)
        return smallest_of_aggregates(host_state, "max_instances_per_host", int, configured)

    def raised_maximum(self, host_state: HostState, value: int) -> SuggestedChange:
        """Suggest a larger maximum in the aggregates if they set it, else by the option."""
        change = raised_in_aggregates(host_state, "max_instances_per_host", value)
        return change or super().raised_maximum(host_state, value)
