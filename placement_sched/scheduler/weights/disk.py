# SPDX-License-Identifier: Apache-2.0
"""DiskWeigher: weigher by free disk."""

from oslo_config import cfg

from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights


class DiskWeigher(BaseHostWeigher):
    """Weigher that prefers the host with the most free disk, in MB.

    With a negative ``[filter_scheduler] disk_weight_multiplier`` the host with the least wins.
    """

    minval = 0
    by_host = True
    weight_option = cfg.FloatOpt("disk_weight_multiplier", default=1.0, deprecated_group="DEFAULT")
    weight_help = "Multiplier of DiskWeigher. A negative value prefers hosts with little free disk."

    def weigh_hosts(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        return [host.free_disk_mb for host in hosts]
