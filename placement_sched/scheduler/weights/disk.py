"""DiskWeigher: prefer hosts with much free disk."""

from collections.abc import Sequence

from oslo_config import cfg

from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights import BaseHostWeigher


class DiskWeigher(BaseHostWeigher):
    """Prefers the host with the most free disk, in MB.

    With a negative ``[filter_scheduler] disk_weight_multiplier`` the host with the least wins.
    Aggregate metadata ``disk_weight_multiplier`` override it for the hosts in the aggregate; of
    several the smallest counts.
    """

    minval = 0
    multiplier_option = ("filter_scheduler", "disk_weight_multiplier")
    options = (
        (
            "filter_scheduler",
            cfg.FloatOpt(
                "disk_weight_multiplier",
                default=1.0,
                deprecated_group="DEFAULT",
                help="How much free disk counts; negative prefers hosts with little of it.",
            ),
        ),
    )

    def column(self, hosts: Sequence[HostState], spec_obj: RequestSpec) -> Sequence[float]:
        """Return the free disk of each host in MB."""
        return [host.free_disk_mb for host in hosts]
