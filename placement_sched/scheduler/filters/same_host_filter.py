"""SameHostFilter: where certain instances are."""

from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.filters.utils import hinted_instances_on
from placement_sched.scheduler.host_state import HostState


class SameHostFilter(BaseHostFilter):
    """Lets hosts pass that have at least one of the instances of the hint ``same_host``.

    The hint is the uuid of an instance or a list of them. A request without it may go anywhere.
    """

    run_filter_once_per_request = True

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return the instances that the request is to be with, none of which is on the host."""
        asked, found = hinted_instances_on(host_state, spec_obj, "same_host")
        if found or not asked:
            return None
        return Refusal(f"same_host: none of {', '.join(asked)} is here", asked, [])
