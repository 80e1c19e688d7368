"""FewInstancesWeigher: prefer hosts with few instances."""

from oslo_config import cfg

from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights import BaseHostWeigher


class FewInstancesWeigher(BaseHostWeigher):
    """Prefers the host with the fewest instances, so that a failing host takes few down."""

    multiplier_option = ("filter_scheduler", "few_instances_weight_multiplier")
    options = (
        (
            "filter_scheduler",
            cfg.FloatOpt(
                "few_instances_weight_multiplier",
                default=1.0,
                help="How much few instances count; negative prefers hosts with many.",
            ),
        ),
    )

    def _weigh_object(self, host_state: HostState, weight_properties: RequestSpec) -> float:
        return -host_state.num_instances
