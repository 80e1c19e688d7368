"""IoOpsFilter: only hosts that are not busy with disks already."""

from oslo_config import cfg

from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.host_state import HostState


class IoOpsFilter(BaseHostFilter):
    """Lets hosts pass on which fewer instances than a maximum are busy with disks.

    Those are instances that are being built, resized, rescued, migrated, snapshotted or unshelved,
    as the host reports them (``io_workload`` of its ``stats``); earlier instances of the same
    request count as well. The maximum is ``[filter_scheduler] max_io_ops_per_host``; a host that
    has reached it is refused.
    """

    options = (
        (
            "filter_scheduler",
            cfg.IntOpt(
                "max_io_ops_per_host",
                default=8,
                min=0,
                deprecated_group="DEFAULT",
                help="How many instances may be built, resized, rescued, migrated, snapshotted or "
                "unshelved at once on a host, for IoOpsFilter and AggregateIoOpsFilter.",
            ),
        ),
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
