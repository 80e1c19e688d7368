"""IoOpsFilter and AggregateIoOpsFilter: only hosts that are not busy with disks already."""

from collections.abc import Iterable

from oslo_config import cfg

from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostState,
    Refusal,
    Remedy,
    RequestSpec,
)
from placement_sched.scheduler.filters.room import smallest_of_aggregates
from placement_sched.scheduler.plugin import in_group


class IoOpsFilter(BaseHostFilter):
    """Lets hosts pass on which fewer instances than a maximum are busy with disks.

    Those are instances that are being built, resized, rescued, migrated, snapshotted or unshelved,
    as the host reports them (``io_workload`` of its ``stats``); earlier instances of the same
    request count as well. The maximum is ``[filter_scheduler] max_io_ops_per_host``; a host that
    has reached it is rejected.
    """

    options = in_group(
        "filter_scheduler",
        cfg.IntOpt("max_io_ops_per_host", default=8, min=0, deprecated_group="DEFAULT"),
        "How many instances may be built, resized, rescued, migrated, snapshotted or unshelved at "
        "once on a host, for IoOpsFilter and AggregateIoOpsFilter.",
    )

    def maximum(self, host_state: HostState) -> int:
        """Return how many instances may be busy with disks there."""
        return int(self.settings.filter_scheduler.max_io_ops_per_host)

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return how many instances are busy with disks, and the maximum."""
        busy, most = host_state.num_io_ops, self.maximum(host_state)
        if busy < most:
            return None
        return Refusal(f"{busy} instances busy with disks, the maximum is {most}", most, busy)

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return how many instances are too many, and what the maximum would have to be."""
        busy, most = host_state.num_io_ops, self.maximum(host_state)
        if most:
            fewer = busy - most + 1
            words = f"wait for, or move away, {fewer} of the instances that are busy with disks"
            after = {"num_io_ops": most - 1}
            yield Remedy("remove_instances", words, {"instances": fewer}, host=after)
        words = f"raise max_io_ops_per_host to {busy + 1}"
        yield Remedy("raise_option", words, {"option": "max_io_ops_per_host", "value": busy + 1})


class AggregateIoOpsFilter(IoOpsFilter):
    """Lets hosts pass on which fewer instances are busy with disks than their aggregates allow.

    The maximum is ``max_io_ops_per_host`` in the metadata of an aggregate; of several the smallest
    counts. Where none of the host's aggregates has one, or one is not a whole number, which is
    logged, it is ``[filter_scheduler] max_io_ops_per_host``. All else is as for IoOpsFilter.
    """

    def maximum(self, host_state: HostState) -> int:
        """Return the smallest maximum of the aggregates, or that of the options."""
        configured = super().maximum(host_state)
        return smallest_of_aggregates(host_state, "max_io_ops_per_host", int, configured)
