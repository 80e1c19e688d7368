# SPDX-License-Identifier: Apache-2.0
"""RamFilter and AggregateRamFilter: filters by free memory."""

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


class RamFilter(RatioFilter):
    """Filter for hosts with enough free memory, in MB.

    A host may allocate its memory times the ``ram_allocation_ratio`` that it reports. If it reports
    none, ``[DEFAULT] ram_allocation_ratio`` or ``initial_ram_allocation_ratio`` applies. An
    instance never gets more memory than the host's total. The selection's ``limits`` contain the
    limit as ``memory_mb``, in MB.

    Placement applies the same ratio to MEMORY_MB before any filter runs. This filter is for hosts
    whose inventories do not come from their reports. nova had this filter until Stein.
    """

    ratio = "ram_allocation_ratio"

    def prepare(self, spec_obj: RequestSpec) -> HostCheck:
        def check_host(host_state: HostState) -> FilterResult:
            capacity = self._build_host_capacity(host_state)
            return capacity.find_rejection(spec_obj.memory_mb, "MEMORY_MB", "MB") or Passed(
                {"memory_mb": capacity.limit}
            )

        return check_host

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        if maximum := self._build_host_capacity(host_state).max_amount:
            yield suggest_smaller(spec_obj, "memory_mb", maximum)

    def _build_host_capacity(self, host_state: HostState) -> HostCapacity:
        total, ratio = host_state.total_usable_ram_mb, self.get_allocation_ratio(host_state)
        return HostCapacity(total, total - host_state.free_ram_mb, ratio)


class AggregateRamFilter(RamFilter):
    """Filter like RamFilter, but with an allocation ratio from aggregates.

    The ratio is ``ram_allocation_ratio`` in the metadata of an aggregate, by the rules of
    AggregateCoreFilter. nova had this filter until Ussuri.
    """

    uses_aggregates = True
