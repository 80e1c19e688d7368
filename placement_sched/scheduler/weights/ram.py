# SPDX-License-Identifier: Apache-2.0
"""RAMWeigher: weigher by free memory."""

from oslo_config import cfg

from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights


class RAMWeigher(BaseHostWeigher):
    """Weigher that prefers the host with the most free memory, in MB.

    With a negative ``[filter_scheduler] ram_weight_multiplier`` the host with the least wins, which
    fills host after host.
    """

    minval = 0
    by_host = True
    weight_option = cfg.FloatOpt("ram_weight_multiplier", default=1.0, deprecated_group="DEFAULT")
    weight_help = (
        "Multiplier of RAMWeigher. A negative value prefers hosts with little free memory."
    )

    def weigh_hosts(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        return [host.free_ram_mb for host in hosts]
