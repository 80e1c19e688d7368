"""DiskFilter and AggregateDiskFilter: only hosts with enough disk left."""

from collections.abc import Iterable
from dataclasses import replace

from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostState,
    Passed,
    Question,
    Remedy,
    Verdict,
)
from placement_sched.scheduler.filters.changed_requests import with_flavor
from placement_sched.scheduler.filters.room import HostRoom, aggregate_ratio, reported_ratio


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

    def for_request(self, spec_obj: RequestSpec) -> Question:
        """Return a check that compares requested with free disk, in MB."""
        # Swap is in MB already.
        asked = (spec_obj.root_gb + spec_obj.ephemeral_gb) * 1024 + spec_obj.swap

        def verdict(host_state: HostState) -> Verdict:
            room = self._room(host_state)
            return room.refusal(asked, "MB of disk") or Passed({"disk_gb": room.limit / 1024})

        return verdict

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return how large the root disk may be."""
        others = spec_obj.ephemeral_gb * 1024 + spec_obj.swap
        most = (self._room(host_state).most - others) // 1024
        if most >= 0:
            smaller = replace(spec_obj.flavor, root_gb=most)
            yield with_flavor(spec_obj, smaller, "root_gb", "GB of root disk")

    def _room(self, host_state: HostState) -> HostRoom:
        total, ratio = host_state.total_usable_disk_gb * 1024, self.allocation_ratio(host_state)
        return HostRoom(total, total - host_state.free_disk_mb, ratio)


class AggregateDiskFilter(DiskFilter):
    """Lets hosts pass that have enough disk left by the ratio of their aggregates.

    The ratio is ``disk_allocation_ratio`` in the metadata of an aggregate; of several the smallest
    counts. Where none of the host's aggregates has one, or one is not a number, which is logged, it
    is the ratio that DiskFilter goes by. All else is as there.

    The ratio can only narrow: what a host's inventory does not have, placement does not offer. So
    give hosts the largest ratio that is meant, and aggregates the smaller ones. nova had this
    filter from Juno until Ussuri.
    """

    def allocation_ratio(self, host_state: HostState) -> float:
        """Return the smallest ratio of the aggregates, or the host's own."""
        own = super().allocation_ratio(host_state)
        return aggregate_ratio(host_state, "disk_allocation_ratio", own)
