"""PciPassthroughFilter: only hosts that have the PCI devices which are asked for."""

from collections.abc import Mapping, Sequence
from typing import Any

from placement_sched.model.pci_pools import PciPools
from placement_sched.model.pci_request import InstancePCIRequest
from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter, CandidateFilterMixin, Question
from placement_sched.scheduler.host_state import HostState


class PciPassthroughFilter(CandidateFilterMixin, BaseHostFilter):
    """Lets hosts pass that have every PCI device free which the request asks for.

    Devices are asked for by the flavor's extra spec ``pci_passthrough:alias`` and ``[pci] alias``,
    or by ports; hosts report theirs as ``pci_device_pools``. Physical functions, vdpa devices and
    remote managed ones go only to requests that say so. With ``[filter_scheduler]
    pci_in_placement`` the devices must be those of an allocation candidate of the host, and
    candidates whose devices are gone are dropped. Instances of one request are not promised the
    same device. How near devices are to NUMA nodes (``numa_policy`` of the alias,
    ``hw:pci_numa_affinity_policy``) is not looked at here, but by NUMATopologyFilter.
    """

    def for_request(self, spec_obj: RequestSpec) -> Question | None:
        """Return what tells which devices are asked for, and what a host has of them."""
        asked = spec_obj.pci_requests
        if asked is None or not asked.requests:
            return None
        requests = asked.requests

        def refusal(host_state: HostState) -> Refusal | None:
            pools = host_state.pci_stats
            if pools is None:
                wanted = sum(request.count for request in requests)
                return Refusal(f"{wanted} PCI devices asked, nothing known of the host's", wanted)
            before = list(host_state.allocation_candidates)

            def has_devices(candidate: Mapping[str, Any]) -> bool:
                return bool(pools.support_requests(requests, candidate["mappings"]))

            if self.filter_candidates(host_state, has_devices):
                return None
            return _told(pools, requests, before)

        return refusal


def _told(
    pools: PciPools,
    requests: Sequence[InstancePCIRequest],
    candidates: Sequence[Mapping[str, Any]],
) -> Refusal:
    """Return why none of these candidates will do, by the first."""
    if not candidates:
        return Refusal("no allocation candidate of the host is left")
    why = pools.why_not(requests, candidates[0]["mappings"])
    if why is None:  # it was refused just now
        raise AssertionError("the devices suffice")
    if len(candidates) == 1:
        return why
    reason = f"none of {len(candidates)} allocation candidates will do, the first: {why.reason}"
    return Refusal(reason, why.asked, why.has)
