# SPDX-License-Identifier: Apache-2.0
"""PciPassthroughFilter: filter for hosts with the requested PCI devices."""

from dataclasses import replace

from placement_sched.explain.advice import build_change
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    FilterResult,
    HostCheck,
    Passed,
    Rejection,
    SuggestedChanges,
)
from placement_sched.scheduler.host_state import HostState


class PciPassthroughFilter(BaseHostFilter):
    """Filter for hosts with enough free PCI devices for the request.

    Requests name devices by the flavor's extra spec ``pci_passthrough:alias`` and ``[pci] alias``,
    or by ports. Hosts report their devices as ``pci_device_pools``. Physical functions, vdpa
    devices and remote-managed devices serve only requests for their type. With ``[filter_scheduler]
    pci_in_placement`` the devices must belong to an allocation candidate of the host, and
    candidates without free devices are dropped. Instances of the same request may be offered the
    same device. NUMATopologyFilter checks the distance of devices to NUMA nodes (``numa_policy`` of
    the alias, ``hw:pci_numa_affinity_policy``).
    """

    def prepare(self, spec_obj: RequestSpec) -> HostCheck | None:
        """Return the check that rejects hosts with too few free devices.

        Returns None if no devices are requested.
        """
        requests = spec_obj.pci_requests.requests if spec_obj.pci_requests else ()
        if not requests:
            return None

        def check_host(host_state: HostState) -> FilterResult:
            pools = host_state.pci_stats
            if pools is None:
                count = sum(request.count for request in requests)
                values = {"cause": "no_report"}
                return Rejection(kind="pci_device", requested=count, actual=0, values=values)
            candidates = pools.select_candidates(requests, host_state.allocation_candidates)
            return (
                candidates if isinstance(candidates, Rejection) else Passed(candidates=candidates)
            )

        return check_host

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        """Suggest a request without PCI devices."""
        yield build_change("drop_pci_requests", spec=replace(spec_obj, pci_requests=None))
