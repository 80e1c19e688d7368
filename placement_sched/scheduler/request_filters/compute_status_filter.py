"""compute_status_filter: leave out hosts whose compute service is disabled."""

import os_traits

from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.request_filters import (
    BaseRequestFilter,
    Outcome,
    World,
    forbidding,
)


class ComputeStatusFilter(BaseRequestFilter):
    """Leaves out hosts whose compute service is disabled, before candidates are counted.

    To disable a service puts the trait COMPUTE_STATUS_DISABLED on the root providers of its host,
    to enable it takes the trait off; here the root must not have it. ComputeFilter would refuse
    those hosts, too, but only after the limit on candidates. Always on.
    """

    name = "compute_status_filter"

    def apply(self, spec: RequestSpec, world: World) -> Outcome:
        """Return the request for hosts that are not disabled."""
        return forbidding(spec, os_traits.COMPUTE_STATUS_DISABLED)
