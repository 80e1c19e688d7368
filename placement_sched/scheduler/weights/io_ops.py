"""IoOpsWeigher: prefer hosts that are not busy with disks."""

from oslo_config import cfg

from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights


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
    by_host = True
    weight_option = cfg.FloatOpt(
        "io_ops_weight_multiplier", default=-1.0, deprecated_group="DEFAULT"
    )
    weight_help = (
        "Multiplier of IoOpsWeigher; positive prefers hosts on which many instances are being "
        "built, resized, rescued, migrated, snapshotted or unshelved, negative avoids them."
    )

    def column(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        """Return how many instances are busy with disks on each host."""
        return [host.num_io_ops for host in hosts]
