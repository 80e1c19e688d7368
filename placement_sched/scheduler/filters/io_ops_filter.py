# SPDX-License-Identifier: Apache-2.0
"""IoOpsFilter and AggregateIoOpsFilter: filters by disk-intensive operations."""

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


class IoOpsFilter(BaseHostFilter):
    """Filter for hosts below a maximum of instances with disk-intensive operations.

    Instances count while they are built, resized, rescued, migrated, snapshotted or unshelved, as
    the host reports them (``io_workload`` of its ``stats``). Earlier instances of the same request
    count too. The maximum is ``[filter_scheduler] max_io_ops_per_host``. A host at the maximum is
    rejected.
    """

    options = options_in_group(
        "filter_scheduler",
        cfg.IntOpt("max_io_ops_per_host", default=8, min=0, deprecated_group="DEFAULT"),
        "Maximum number of instances that are built, resized, rescued, migrated, snapshotted or "
        "unshelved at once on a host, for IoOpsFilter and AggregateIoOpsFilter.",
    )

    def maximum(self, host_state: HostState) -> int:
        """Return the maximum number of busy instances on a host."""
        return int(self.settings.filter_scheduler.max_io_ops_per_host)

    def rejection(self, host_state: HostState, spec_obj: RequestSpec) -> Rejection | None:
        """Return the reason why the host is too busy, or None if it is not.

        The reason contains the number of busy instances and the maximum.
        """
        busy, maximum = host_state.num_io_ops, self.maximum(host_state)
        if busy < maximum:
            return None
        return Rejection(
            f"{busy} instances busy with disks, the maximum is {maximum}", maximum, busy
        )

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        """Suggest fewer busy instances on the host, and a larger maximum."""
        busy, maximum = host_state.num_io_ops, self.maximum(host_state)
        if maximum:
            surplus = busy - maximum + 1
            words = f"wait for or move away {surplus} of the instances that are busy with disks"
            after = {"num_io_ops": maximum - 1}
            yield SuggestedChange("remove_instances", words, {"instances": surplus}, host=after)
        yield self.raised_maximum(host_state, busy + 1)

    def raised_maximum(self, host_state: HostState, value: int) -> SuggestedChange:
        """Suggest a larger maximum."""
        words = f"raise max_io_ops_per_host to {value}"
        return SuggestedChange(
            "raise_option", words, {"option": "max_io_ops_per_host", "value": value}
        )


class AggregateIoOpsFilter(IoOpsFilter):
    """Filter as IoOpsFilter, with the maximum of the host's aggregates.

    The maximum is ``max_io_ops_per_host`` in the metadata of an aggregate. Of several values, the
    smallest applies. If no aggregate of the host has a value, or a value is not an integer (which
    is logged), ``[filter_scheduler] max_io_ops_per_host`` applies.
    """

    def maximum(self, host_state: HostState) -> int:
        """Return the smallest maximum of the host's aggregates, or the option."""
        configured = super().maximum(host_state)
        return smallest_of_aggregates(host_state, "max_io_ops_per_host", int, configured)

    def raised_maximum(self, host_state: HostState, value: int) -> SuggestedChange:
        """Suggest a larger maximum in the aggregates if they set it, else by the option."""
        change = raised_in_aggregates(host_state, "max_io_ops_per_host", value)
        return change or super().raised_maximum(host_state, value)
