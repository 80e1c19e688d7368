# SPDX-License-Identifier: Apache-2.0
"""DiskFilter and AggregateDiskFilter: filters by free disk."""

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


class DiskFilter(RatioFilter):
    """Filter for hosts with enough free disk: root, ephemeral and swap.

    A host may allocate its disk times the ``disk_allocation_ratio`` that it reports. If it reports
    none, ``[DEFAULT] disk_allocation_ratio`` or ``initial_disk_allocation_ratio`` applies. An
    instance never gets more disk than the host's total. The selection's ``limits`` contain the
    limit as ``disk_gb``, in GB.

    Placement applies the same ratio to DISK_GB before any filter runs. This filter is for hosts
    whose inventories do not come from their reports. nova had this filter until Stein.
    """

    ratio = "disk_allocation_ratio"

    def prepare(self, spec_obj: RequestSpec) -> HostCheck:
        # Swap is already in MB.
        requested = (spec_obj.root_gb + spec_obj.ephemeral_gb) * 1024 + spec_obj.swap

        def check_host(host_state: HostState) -> FilterResult:
            capacity = self._build_host_capacity(host_state)
            return capacity.find_rejection(requested, "DISK_GB", "MB") or Passed(
                {"disk_gb": capacity.limit / 1024}
            )

        return check_host

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        fixed = spec_obj.ephemeral_gb * 1024 + spec_obj.swap
        maximum = (self._build_host_capacity(host_state).max_amount - fixed) // 1024
        if maximum >= 0:
            yield suggest_smaller(spec_obj, "root_gb", maximum)

    def _build_host_capacity(self, host_state: HostState) -> HostCapacity:
        total, ratio = host_state.total_usable_disk_gb * 1024, self.get_allocation_ratio(host_state)
        return HostCapacity(total, total - host_state.free_disk_mb, ratio)


class AggregateDiskFilter(DiskFilter):
    """Filter like DiskFilter, but with an allocation ratio from aggregates.

    The ratio is ``disk_allocation_ratio`` in the metadata of an aggregate, by the rules of
    AggregateCoreFilter. nova had this filter from Juno until Ussuri.
    """

    uses_aggregates = True
