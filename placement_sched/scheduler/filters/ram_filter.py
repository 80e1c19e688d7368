"""RamFilter and AggregateRamFilter: only hosts with enough memory left."""

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

    def for_request(self, spec_obj: RequestSpec) -> Question:
        """Return a check that compares requested with free memory."""

        def verdict(host_state: HostState) -> Verdict:
            room = self._room(host_state)
            return room.refusal(spec_obj.memory_mb, "MB") or Passed({"memory_mb": room.limit})

        return verdict

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return how much may be requested."""
        if most := self._room(host_state).most:
            smaller = replace(spec_obj.flavor, memory_mb=most)
            yield with_flavor(spec_obj, smaller, "memory_mb", "MB of memory")

    def _room(self, host_state: HostState) -> HostRoom:
        total, ratio = host_state.total_usable_ram_mb, self.allocation_ratio(host_state)
        return HostRoom(total, total - host_state.free_ram_mb, ratio)


class AggregateRamFilter(RamFilter):
    """Lets hosts pass that have enough memory left by the ratio of their aggregates.

    The ratio is ``ram_allocation_ratio`` in the metadata of an aggregate; of several the smallest
    counts. Where none of the host's aggregates has one, or one is not a number, which is logged, it
    is the ratio that RamFilter goes by. All else is as there.

    The ratio can only narrow: what a host's inventory does not have, placement does not offer. So
    give hosts the largest ratio that is meant, and aggregates the smaller ones. nova had this
    filter until Ussuri.
    """

    def allocation_ratio(self, host_state: HostState) -> float:
        """Return the smallest ratio of the aggregates, or the host's own."""
        own = super().allocation_ratio(host_state)
        return aggregate_ratio(host_state, "ram_allocation_ratio", own)
