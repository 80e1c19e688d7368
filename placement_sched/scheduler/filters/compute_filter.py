"""ComputeFilter: only hosts whose compute service is enabled and up."""

from datetime import datetime

from placement_sched.model.service import seen_lately, why_disabled
from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.host_state import HostState


class ComputeFilter(BaseHostFilter):
    """Lets hosts pass whose compute service is enabled and up.

    A service is disabled by ``openstack compute service set --disable``. It is up while its last
    report is no older than ``[DEFAULT] service_down_time`` seconds, unless it is forced down.
    """

    run_filter_once_per_request = True

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return whether the service is disabled, forced down or silent, and for how long."""
        service = host_state.service
        if service["disabled"]:
            return Refusal(why_disabled(service.get("disabled_reason")))
        last_seen_up = service.get("last_seen_up")
        forced_down = bool(service.get("forced_down"))
        now = self.now()
        down_time = self.settings.DEFAULT.service_down_time
        if seen_lately(last_seen_up, forced_down, now, down_time):
            return None
        if forced_down:
            return Refusal("forced down")
        return _silent(last_seen_up, now, down_time)


def _silent(last_seen_up: datetime | None, now: datetime, down_time: int) -> Refusal:
    if last_seen_up is None:
        return Refusal("no heartbeat ever")
    seconds = int((now - last_seen_up).total_seconds())
    return Refusal(f"no heartbeat for {seconds} s", asked=down_time, has=seconds)
