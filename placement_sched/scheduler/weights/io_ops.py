"""IoOpsWeigher: prefer hosts that are not busy with disks."""

from collections.abc import Sequence

from oslo_config import cfg

from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights import BaseHostWeigher


class IoOpsWeigher(BaseHostWeigher):
    """Prefers the host with the fewest instances that are busy with disks.

    Those are instances that are being built, resized, rescued, migrated, snapshotted or unshelved,
    as the host reports them (``io_workload`` of its ``stats``); earlier instances of the same
    request count as well. The multiplier ``[filter_scheduler] io_ops_weight_multiplier`` is
    negative; with a positive one the busiest host wins. Aggregate metadata
    ``io_ops_weight_multiplier`` override it for the hosts in the aggregate; of several the smallest
    counts.
    """

    minval = 0
    multiplier_option = ("filter_scheduler", "io_ops_weight_multiplier")
    options = (
        (
            "filter_scheduler",
            cfg.FloatOpt(
                "io_ops_weight_multiplier",
                default=-1.0,
                deprecated_group="DEFAULT",
                help="How much it counts that instances are being built, resized, rescued, "
                "migrated, snapshotted or unshelved on a host; positive prefers busy hosts.",
            ),
        ),
    )

    def column(self, hosts: Sequence[HostState], spec_obj: RequestSpec) -> Sequence[float]:
        """Return how many instances are busy with disks on each host."""
        return [host.num_io_ops for host in hosts]
