# SPDX-License-Identifier: Apache-2.0
"""CPUWeigher: weigher by free virtual CPUs."""

from oslo_config import cfg

from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights


class CPUWeigher(BaseHostWeigher):
    """Weigher that prefers the host with the most free virtual CPUs.

    The free CPUs are the total times ``cpu_allocation_ratio``, less the used CPUs. With a negative
    ``[filter_scheduler] cpu_weight_multiplier`` the host with the fewest wins.
    """

    minval = 0
    by_host = True
    weight_option = cfg.FloatOpt("cpu_weight_multiplier", default=1.0)
    weight_help = "Multiplier of CPUWeigher. A negative value prefers hosts with few free CPUs."

    def weigh_hosts(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        # An empty host state has no ratio.
        return [
            host.vcpus_total * (host.cpu_allocation_ratio or 0.0) - host.vcpus_used
            for host in hosts
        ]
