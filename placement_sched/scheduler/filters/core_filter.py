"""CoreFilter: only hosts with enough virtual CPUs left."""

from oslo_log import log

from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.filters.room import Room, reported_ratio
from placement_sched.scheduler.host_state import HostState

LOG = log.getLogger(__name__)


class CoreFilter(BaseHostFilter):
    """Lets hosts pass that have enough virtual CPUs left for the flavor.

    A host may give away its CPUs times the ``cpu_allocation_ratio`` that it reports, or, where it
    reports none, that of ``[DEFAULT] cpu_allocation_ratio`` or ``initial_cpu_allocation_ratio``.
    One instance never gets more CPUs than the host really has. A host that does not tell how many
    it has passes, with a warning in the log. The limit, in virtual CPUs, is handed on as ``vcpu``
    in the selection's ``limits``.

    Placement counts VCPU by the same ratio before any filter runs; this filter is for hosts whose
    inventories are not made of their reports. nova had it until Stein.
    """

    def allocation_ratio(self, host_state: HostState) -> float:
        """Return how many virtual CPUs the host may give away for each that it has."""
        return reported_ratio(host_state, "cpu_allocation_ratio", self.settings)

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return how many virtual CPUs are asked for and how many are free."""
        if not host_state.vcpus_total:
            LOG.warning("host %s does not tell how many CPUs it has", host_state.host)
            return None
        ratio = self.allocation_ratio(host_state)
        room = Room(host_state.vcpus_total, host_state.vcpus_used, ratio)
        if room.limit > 0:
            host_state.limits["vcpu"] = room.limit
        return room.refusal(spec_obj.vcpus, "VCPU")
