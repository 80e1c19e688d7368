# SPDX-License-Identifier: Apache-2.0
"""FewInstancesWeigher: prefer hosts with few instances."""

from collections.abc import Sequence

from oslo_config import cfg

from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights import BaseHostWeigher


class FewInstancesWeigher(BaseHostWeigher):
    """Prefers the host with the fewest instances, so that a failed host affects few."""

    multiplier_option = ("filter_scheduler", "few_instances_weight_multiplier")
    options = (
        (
            "filter_scheduler",
            cfg.FloatOpt(
                "few_instances_weight_multiplier",
                default=1.0,
                help="Multiplier of FewInstances; negative prefers hosts with many.",
            ),
        ),
    )

    def weigh_hosts(self, hosts: Sequence[HostState], spec_obj: RequestSpec) -> Sequence[float]:
        """Return the number of instances on each host, negative."""
        return [-host.num_instances for host in hosts]
