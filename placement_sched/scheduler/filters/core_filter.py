"""CoreFilter and AggregateCoreFilter: only hosts with enough virtual CPUs left."""

from collections.abc import Iterable
from dataclasses import replace

from oslo_log import log

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

LOG = log.getLogger(__name__)


class CoreFilter(BaseHostFilter):
    """Lets hosts pass that have enough virtual CPUs left for the flavor.

    A host may give away its CPUs times the ``cpu_allocation_ratio`` that it reports, or, where it
    reports none, that of ``[DEFAULT] cpu_allocation_ratio`` or ``initial_cpu_allocation_ratio``.
    One instance never gets more CPUs than the host really has. A host that does not report how many
    it has passes, with a warning in the log. The limit, in virtual CPUs, is handed on as ``vcpu``
    in the selection's ``limits``.

    Placement counts VCPU by the same ratio before any filter runs; this filter is for hosts whose
    inventories are not made of their reports. nova had it until Stein.
    """

    def allocation_ratio(self, host_state: HostState) -> float:
        """Return how many virtual CPUs the host may give away for each that it has."""
        return reported_ratio(host_state, "cpu_allocation_ratio", self.settings)

    def for_request(self, spec_obj: RequestSpec) -> Question:
        """Return what compares the virtual CPUs that are asked for with those that are free."""

        def verdict(host_state: HostState) -> Verdict:
            if not host_state.vcpus_total:
                LOG.warning("host %s does not report how many CPUs it has", host_state.host)
                return None
            room = self._room(host_state)
            limits = {"vcpu": room.limit} if room.limit > 0 else {}
            return room.refusal(spec_obj.vcpus, "VCPU") or Passed(limits)

        return verdict

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return how much may be requested."""
        if most := self._room(host_state).most:
            smaller = replace(spec_obj.flavor, vcpus=most)
            yield with_flavor(spec_obj, smaller, "vcpus", "VCPU")

    def _room(self, host_state: HostState) -> HostRoom:
        ratio = self.allocation_ratio(host_state)
        return HostRoom(host_state.vcpus_total, host_state.vcpus_used, ratio)


class AggregateCoreFilter(CoreFilter):
    """Lets hosts pass that have enough virtual CPUs left by the ratio of their aggregates.

    The ratio is ``cpu_allocation_ratio`` in the metadata of an aggregate; of several the smallest
    counts. Where none of the host's aggregates has one, or one is not a number, which is logged, it
    is the ratio that CoreFilter goes by. All else is as there.

    The ratio can only narrow: what a host's inventory does not have, placement does not offer. So
    give hosts the largest ratio that is meant, and aggregates the smaller ones. nova had this
    filter until Ussuri.
    """

    def allocation_ratio(self, host_state: HostState) -> float:
        """Return the smallest ratio of the aggregates, or the host's own."""
        own = super().allocation_ratio(host_state)
        return aggregate_ratio(host_state, "cpu_allocation_ratio", own)
