"""NumInstancesWeigher: prefer hosts with many instances, or with few."""

from collections.abc import Sequence

from oslo_config import cfg

from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights import BaseHostWeigher


class NumInstancesWeigher(BaseHostWeigher):
    """Prefers the host with the most instances, or, with a negative multiplier, with the fewest.

    By default it does not count: ``[filter_scheduler] num_instances_weight_multiplier`` is 0.
    Instances are counted as the host reports them (``num_instances`` of its ``stats``); earlier
    ones of the same request count as well. Aggregate metadata ``num_instances_weight_multiplier``
    override the multiplier for the hosts in the aggregate; of several the smallest counts.
    """

    multiplier_option = ("filter_scheduler", "num_instances_weight_multiplier")
    options = (
        (
            "filter_scheduler",
            cfg.FloatOpt(
                "num_instances_weight_multiplier",
                default=0.0,
                help="How much it counts that a host has many instances; negative prefers hosts "
                "with few of them.",
            ),
        ),
    )

    def column(self, hosts: Sequence[HostState], spec_obj: RequestSpec) -> Sequence[float]:
        """Return how many instances each host has."""
        return [host.num_instances for host in hosts]
