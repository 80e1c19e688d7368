"""AllHostsFilter: rejects no host."""

from placement_sched.scheduler.filters import BaseHostFilter, HostState, Refusal, RequestSpec


class AllHostsFilter(BaseHostFilter):
    """Lets every host pass.

    For clouds in which the placement query alone decides, as an explicit "no filters".
    """

    run_filter_once_per_request = True

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return None."""
