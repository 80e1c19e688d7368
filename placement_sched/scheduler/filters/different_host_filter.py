"""DifferentHostFilter: away from certain instances."""

from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.filters.utils import hinted_instances_on
from placement_sched.scheduler.host_state import HostState


class DifferentHostFilter(BaseHostFilter):
    """Lets hosts pass that have none of the instances of the hint ``different_host``.

    The hint is the uuid of an instance or a list of them. A request without it may go anywhere.
    """

    run_filter_once_per_request = True

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return the instances that are on the host and the request is to keep away from."""
        asked, found = hinted_instances_on(host_state, spec_obj, "different_host")
        if not found:
            return None
        return Refusal(f"different_host: {', '.join(found)} is here", asked, found)
