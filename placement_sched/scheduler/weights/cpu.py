"""CPUWeigher: prefer hosts with many free virtual CPUs."""

from oslo_config import cfg

from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights import BaseHostWeigher


class CPUWeigher(BaseHostWeigher):
    """Prefers the host with the most free virtual CPUs, its allocation ratio counted in.

    With a negative ``[filter_scheduler] cpu_weight_multiplier`` the host with the least wins.
    Aggregate metadata ``cpu_weight_multiplier`` override it for the hosts in the aggregate; of
    several the smallest counts.
    """

    minval = 0
    multiplier_option = ("filter_scheduler", "cpu_weight_multiplier")
    options = (
        (
            "filter_scheduler",
            cfg.FloatOpt(
                "cpu_weight_multiplier",
                default=1.0,
                help="How much free CPUs count; negative prefers hosts with few of them.",
            ),
        ),
    )

    def _weigh_object(self, host_state: HostState, weight_properties: RequestSpec) -> float:
        # An empty host state has no ratio, and nothing to multiply by it.
        ratio = host_state.cpu_allocation_ratio or 0.0
        return host_state.vcpus_total * ratio - host_state.vcpus_used
