"""RamFilter: only hosts with enough memory left."""

from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.filters.room import Room, reported_ratio
from placement_sched.scheduler.host_state import HostState


class RamFilter(BaseHostFilter):
    """Lets hosts pass that have enough memory left for the flavor, in MB.

    A host may give away its memory times the ``ram_allocation_ratio`` that it reports, or, where
    it reports none, that of ``[DEFAULT] ram_allocation_ratio`` or ``initial_ram_allocation_ratio``.
    One instance never gets more memory than the host really has. The limit, in MB, is handed on as
    ``memory_mb`` in the selection's ``limits``.

    Placement counts MEMORY_MB by the same ratio before any filter runs; this filter is for hosts
    whose inventories are not made of their reports. nova had it until Stein.
    """

    def allocation_ratio(self, host_state: HostState) -> float:
        """Return how much memory the host may give away for each MB that it has."""
        return reported_ratio(host_state, "ram_allocation_ratio", self.settings)

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return how much memory is asked for and how much is free."""
        total = host_state.total_usable_ram_mb
        room = Room(total, total - host_state.free_ram_mb, self.allocation_ratio(host_state))
        refusal = room.refusal(spec_obj.memory_mb, "MB")
        if refusal is None:
            host_state.limits["memory_mb"] = room.limit
        return refusal
