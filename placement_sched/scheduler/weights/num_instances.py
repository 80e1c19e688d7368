# SPDX-License-Identifier: Apache-2.0
"""NumInstancesWeigher: weigher by number of instances."""

from oslo_config import cfg

from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights


class NumInstancesWeigher(BaseHostWeigher):
    """Weigher that prefers the host with the most instances.

    A negative multiplier prefers the fewest. The default of ``[filter_scheduler]
    num_instances_weight_multiplier``, 0, disables the weigher. Hosts report their number of
    instances (``num_instances`` of ``stats``), and earlier instances of the same request are added.
    """

    by_host = True
    weight_option = cfg.FloatOpt("num_instances_weight_multiplier", default=0.0)
    weight_help = (
        "Multiplier of NumInstancesWeigher. A positive value prefers hosts with many instances, "
        "a negative value hosts with few instances."
    )

    def weigh_hosts(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        return [host.num_instances for host in hosts]
