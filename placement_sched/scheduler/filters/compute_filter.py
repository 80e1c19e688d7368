"""ComputeFilter: only hosts whose compute service is enabled and up."""

from collections.abc import Iterable

from placement_sched.model.clock import shown_duration
from placement_sched.model.compute_node import seen_lately, why_disabled
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import BaseHostFilter, HostState, Question, Refusal, Remedy


class ComputeFilter(BaseHostFilter):
    """Lets hosts pass whose compute service is enabled and up.

    A service is disabled by ``openstack compute service set --disable``. It is up while its last
    report is not older than ``[DEFAULT] service_down_time`` seconds, unless it is forced down.
    """

    run_filter_once_per_request = True

    def for_request(self, spec_obj: RequestSpec) -> Question:
        """Return what rejects a service that is disabled, forced down or silent."""
        now = self.now()
        down_time: int = self.settings.DEFAULT.service_down_time

        def refusal(host_state: HostState) -> Refusal | None:
            service = host_state.service
            if service["disabled"]:
                return _refused(why_disabled(service.get("disabled_reason")), "is disabled")
            last, forced_down = service.get("last_seen_up"), bool(service.get("forced_down"))
            if seen_lately(last, forced_down, now, down_time):
                return None
            if forced_down:
                return _refused("forced down", "is forced down")
            if last is None:
                return _refused("no heartbeat ever", "has never reported")
            seconds = int((now - last).total_seconds())
            return Refusal(
                f"no heartbeat for {shown_duration(seconds)}",
                asked=down_time,
                has=seconds,
                of_one=f"its nova-compute last reported {shown_duration(seconds)} ago",
                of_several=f"their nova-compute last reported over {down_time} s ago",
            )

        return refusal

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return what has to happen to the service: all of it, in one change."""
        service, now = host_state.service, self.now()
        down_time: int = self.settings.DEFAULT.service_down_time
        steps = {}
        if service["disabled"]:
            steps["enable_service"] = "enable its compute service"
        if service.get("forced_down"):
            steps["unset_forced_down"] = "unset forced_down of its compute service"
        if not seen_lately(service.get("last_seen_up"), False, now, down_time):
            steps["report_in"] = "let it report again"
        after = {**service, "disabled": False, "forced_down": False, "last_seen_up": now}
        words = " and ".join(steps.values())
        yield Remedy(next(iter(steps)), words, {"steps": list(steps)}, host={"service": after})


def _refused(reason: str, state: str) -> Refusal:
    """Return a refusal for the state of a service, which several hosts may share."""
    words = f"nova-compute {state}"
    return Refusal(reason, of_one=f"its {words}", of_several=f"their {words}")
