# SPDX-License-Identifier: Apache-2.0
"""AllHostsFilter: filter that passes every host."""

from placement_sched.scheduler.filters import BaseHostFilter, HostState, Rejection, RequestSpec


class AllHostsFilter(BaseHostFilter):
    """Filter that passes every host.

    An explicit "no filters", for clouds that rely on the candidates query alone.
    """

    run_filter_once_per_request = True

    def rejection(self, host_state: HostState, spec_obj: RequestSpec) -> Rejection | None:
        return None
