# SPDX-License-Identifier: Apache-2.0
"""BuildFailureWeigher: weigher that avoids hosts with failed builds."""

from oslo_config import cfg

from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights


class BuildFailureWeigher(BaseHostWeigher):
    """Weigher that avoids the host with the most recent build failures.

    Hosts report the number of failures since the last successful build (``failed_builds`` of their
    ``stats``). The multiplier ``[filter_scheduler] build_failure_weight_multiplier`` is negated,
    and reports show it with its sign. Its default outweighs all other weighers.
    """

    is_penalty = True
    by_host = True
    weight_option = cfg.FloatOpt("build_failure_weight_multiplier", default=1_000_000.0)
    weight_help = (
        "Multiplier of BuildFailureWeigher, which avoids hosts with failed builds. 0 disables it."
    )

    def weigh_hosts(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        return [host.failed_builds for host in hosts]
