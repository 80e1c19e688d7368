# SPDX-License-Identifier: Apache-2.0
"""ComputeFilter: filter for hosts whose compute service is enabled and up."""

from placement_sched.model.compute_node import is_recently_seen
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostCheck,
    HostState,
    Rejection,
    SuggestedChange,
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
        steps = {}
        if service["disabled"]:
            steps["enable_service"] = "enable its compute service"
        if service.get("forced_down"):
            steps["unset_forced_down"] = "unset forced_down of its compute service"
        if not is_recently_seen(service.get("last_seen_up"), False, now, down_time):
            steps["report_in"] = "make it report again"
        after = {**service, "disabled": False, "forced_down": False, "last_seen_up": now}
        words = " and ".join(steps.values())
        yield SuggestedChange(
            next(iter(steps)), words, {"steps": list(steps)}, host={"service": after}
        )
