# SPDX-License-Identifier: Apache-2.0
"""ComputeFilter: filter for hosts whose compute service is enabled and up."""

from placement_sched.explain.advice import build_change
from placement_sched.model.compute_node import is_recently_seen
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostCheck,
    HostState,
    Rejection,
    SuggestedChanges,
)


class ComputeFilter(BaseHostFilter):
    """Filter for hosts whose compute service is enabled and up.

    ``openstack compute service set --disable`` disables a service. A service is up while its last
    report is at most ``[DEFAULT] service_down_time`` seconds old, unless it is forced down. If no
    service reads nova's databases any more, this age is the age at the last reading.
    """

    run_filter_once_per_request = True

    def prepare(self, spec_obj: RequestSpec) -> HostCheck:
        now = self.now()
        down_time: int = self.settings.DEFAULT.service_down_time

        def check_host(host_state: HostState) -> Rejection | None:
            service = host_state.service
            if service["disabled"]:
                values = {"disabled_reason": service.get("disabled_reason") or ""}
                return Rejection(kind="disabled", values=values)
            last, forced_down = service.get("last_seen_up"), bool(service.get("forced_down"))
            if is_recently_seen(last, forced_down, now, down_time):
                return None
            if forced_down:
                return Rejection(kind="forced_down")
            if last is None:
                return Rejection(kind="never_reported")
            seconds = int((now - last).total_seconds())
            return Rejection(kind="down", actual=seconds, values={"service_down_time": down_time})

        return check_host

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        service, now = host_state.service, self.now()
        down_time: int = self.settings.DEFAULT.service_down_time
        is_seen = is_recently_seen(service.get("last_seen_up"), False, now, down_time)
        needed = {
            "enable_service": service["disabled"],
            "unset_forced_down": service.get("forced_down"),
            "report_in": not is_seen,
        }
        steps = [step for step, is_needed in needed.items() if is_needed]
        after = {**service, "disabled": False, "forced_down": False, "last_seen_up": now}
        values = {"steps": steps}
        yield build_change(steps[0], values, host={"service": after})
