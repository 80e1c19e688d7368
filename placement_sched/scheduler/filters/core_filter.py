# SPDX-License-Identifier: Apache-2.0
"""CoreFilter and AggregateCoreFilter: filters by free virtual CPUs."""

from oslo_log import log

from placement_sched.scheduler.filters import (
    FilterResult,
    HostCapacity,
    HostCheck,
    HostState,
    Passed,
    RatioFilter,
    RequestSpec,
    SuggestedChanges,
    suggest_smaller,
)

LOG = log.getLogger(__name__)


class CoreFilter(RatioFilter):
    """Filter for hosts with enough free virtual CPUs.

    A host may allocate its CPUs times the ``cpu_allocation_ratio`` that it reports. If it reports
    none, ``[DEFAULT] cpu_allocation_ratio`` or ``initial_cpu_allocation_ratio`` applies. An
    instance never gets more CPUs than the host's total. A host that does not report its number of
    CPUs passes, with a warning in the log. The selection's ``limits`` contain the limit as
    ``vcpu``, in virtual CPUs.

    Placement applies the same ratio to VCPU before any filter runs. This filter is for hosts whose
    inventories do not come from their reports. nova had this filter until Stein.
    """

    ratio = "cpu_allocation_ratio"

    def prepare(self, spec_obj: RequestSpec) -> HostCheck:
        def check_host(host_state: HostState) -> FilterResult:
            if not host_state.vcpus_total:
                LOG.warning("host %s does not report how many CPUs it has", host_state.host)
                return None
            capacity = self._build_host_capacity(host_state)
            limits = {"vcpu": capacity.limit} if capacity.limit > 0 else {}
            return capacity.find_rejection(spec_obj.vcpus, "VCPU", "VCPU") or Passed(limits)

        return check_host

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        if maximum := self._build_host_capacity(host_state).max_amount:
            yield suggest_smaller(spec_obj, "vcpus", maximum)

    def _build_host_capacity(self, host_state: HostState) -> HostCapacity:
        ratio = self.get_allocation_ratio(host_state)
        return HostCapacity(host_state.vcpus_total, host_state.vcpus_used, ratio)


class AggregateCoreFilter(CoreFilter):
    """Filter like CoreFilter, but with an allocation ratio from aggregates.

    The ratio is ``cpu_allocation_ratio`` in the metadata of an aggregate. Of several values, the
    smallest applies. If no aggregate of the host has a value, or a value is not a number (which is
    logged), the ratio of CoreFilter applies.

    Aggregates can only reduce the ratio, because placement offers no more than the inventory of a
    host. Give hosts the largest ratio, and aggregates smaller ratios. nova had this filter until
    Ussuri.
    """

    uses_aggregates = True
