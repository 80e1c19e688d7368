"""NumInstancesFilter: only hosts that do not have too many instances."""

from oslo_config import cfg

from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.host_state import HostState


class NumInstancesFilter(BaseHostFilter):
    """Lets hosts pass that have fewer instances than a maximum.

    What counts is what the host reports (``num_instances`` of its ``stats``), and earlier
    instances of the same request. The maximum is ``[filter_scheduler] max_instances_per_host``; a
    host that has reached it is refused.
    """

    options = (
        (
            "filter_scheduler",
            cfg.IntOpt(
                "max_instances_per_host",
                default=50,
                min=1,
                deprecated_group="DEFAULT",
                help="How many instances a host may have, for NumInstancesFilter and "
                "AggregateNumInstancesFilter.",
            ),
        ),
    )

    def maximum(self, host_state: HostState) -> int:
        """Return how many instances the host may have."""
        return int(self.settings.filter_scheduler.max_instances_per_host)

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return how many instances there are, and the maximum."""
        there, most = host_state.num_instances, self.maximum(host_state)
        if there < most:
            return None
        return Refusal(f"{there} instances there, the maximum is {most}", most, there)
