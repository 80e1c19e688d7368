# SPDX-License-Identifier: Apache-2.0
"""IoOpsWeigher: weigher by disk-intensive operations."""

from oslo_config import cfg

from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights


class IoOpsWeigher(BaseHostWeigher):
    """Weigher that prefers the host with the fewest disk-intensive operations.

    Instances count while they are built, resized, rescued, migrated, snapshotted or unshelved, as
    the host reports them (``io_workload`` of its ``stats``). Earlier instances of the same request
    count too. The multiplier ``[filter_scheduler] io_ops_weight_multiplier`` is negative. With a
    positive value the busiest host wins.
    """

    minval = 0
    by_host = True
    weight_option = cfg.FloatOpt(
        "io_ops_weight_multiplier", default=-1.0, deprecated_group="DEFAULT"
    )
    weight_help = (
        "Multiplier of IoOpsWeigher. A positive value prefers hosts with many instances being "
        "built, resized, rescued, migrated, snapshotted or unshelved, a negative value avoids them."
    )

    def weigh_hosts(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        return [host.num_io_ops for host in hosts]
