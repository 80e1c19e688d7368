"""DiskFilter: only hosts with enough disk left."""

from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.filters.room import Room, reported_ratio
from placement_sched.scheduler.host_state import HostState


class DiskFilter(BaseHostFilter):
    """Lets hosts pass that have enough disk left for the flavor: root, ephemeral and swap.

    A host may give away its disk times the ``disk_allocation_ratio`` that it reports, or, where it
    reports none, that of ``[DEFAULT] disk_allocation_ratio`` or ``initial_disk_allocation_ratio``.
    One instance never gets more disk than the host really has. The limit, in GB, is handed on as
    ``disk_gb`` in the selection's ``limits``.

    Placement counts DISK_GB by the same ratio before any filter runs; this filter is for hosts
    whose inventories are not made of their reports. nova had it until Stein.
    """

    def allocation_ratio(self, host_state: HostState) -> float:
        """Return how much disk the host may give away for each GB that it has."""
        return reported_ratio(host_state, "disk_allocation_ratio", self.settings)

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return how much disk is asked for and how much is free, in MB."""
        total = host_state.total_usable_disk_gb * 1024
        room = Room(total, total - host_state.free_disk_mb, self.allocation_ratio(host_state))
        # Swap is in MB already.
        asked = (spec_obj.root_gb + spec_obj.ephemeral_gb) * 1024 + spec_obj.swap
        refusal = room.refusal(asked, "MB of disk")
        if refusal is None:
            host_state.limits["disk_gb"] = room.limit / 1024
        return refusal
