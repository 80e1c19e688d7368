# SPDX-License-Identifier: Apache-2.0
"""HypervisorVersionWeigher: weigher by the version of the hypervisor."""

from oslo_config import cfg

from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights


class HypervisorVersionWeigher(BaseHostWeigher):
    """Weigher that prefers the host with the newest hypervisor version.

    Versions are comparable only if all hosts have the same type of hypervisor. Otherwise set
    ``[filter_scheduler] hypervisor_version_weight_multiplier`` to 0. A negative value prefers the
    oldest.
    """

    by_host = True
    weight_option = cfg.FloatOpt("hypervisor_version_weight_multiplier", default=1.0)
    weight_help = (
        "Multiplier of HypervisorVersionWeigher. A positive value prefers new hypervisors, a "
        "negative value old hypervisors. 0 ignores versions, which suits hypervisors of several "
        "types."
    )

    def weigh_hosts(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        # An empty host state has no version.
        return [host.hypervisor_version or 0 for host in hosts]
