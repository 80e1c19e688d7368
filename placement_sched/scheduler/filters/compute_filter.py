"""ComputeFilter: only hosts whose compute service is enabled and up."""

from datetime import datetime

from placement_sched.model.service import seen_lately, why_disabled
from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter, Question
from placement_sched.scheduler.host_state import HostState


class ComputeFilter(BaseHostFilter):
    """Lets hosts pass whose compute service is enabled and up.

    A service is disabled by ``openstack compute service set --disable``. It is up while its last
    report is no older than ``[DEFAULT] service_down_time`` seconds, unless it is forced down.
    """

    run_filter_once_per_request = True

    def for_request(self, spec_obj: RequestSpec) -> Question:
        """Return what tells of a service that is disabled, forced down or silent for how long."""
        now = self.now()
        down_time: int = self.settings.DEFAULT.service_down_time

        def refusal(host_state: HostState) -> Refusal | None:
            service = host_state.service
            if service["disabled"]:
                return Refusal(why_disabled(service.get("disabled_reason")))
            last_seen_up = service.get("last_seen_up")
            forced_down = bool(service.get("forced_down"))
            if seen_lately(last_seen_up, forced_down, now, down_time):
                return None
            return Refusal("forced down") if forced_down else _silent(last_seen_up, now, down_time)

        return refusal


def _silent(last_seen_up: datetime | None, now: datetime, down_time: int) -> Refusal:
    if last_seen_up is None:
        return Refusal("no heartbeat ever")
    seconds = int((now - last_seen_up).total_seconds())
    return Refusal(f"no heartbeat for {seconds} s", asked=down_time, has=seconds)
