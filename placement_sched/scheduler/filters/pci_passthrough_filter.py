"""PciPassthroughFilter: only hosts that have the PCI devices which are asked for."""

from collections.abc import Iterable
from dataclasses import replace

from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    Passed,
    Question,
    Refusal,
    Remedy,
    Verdict,
)
from placement_sched.scheduler.host_state import HostState


class PciPassthroughFilter(BaseHostFilter):
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
        """Return a check that compares the requested devices with those of a host."""
        requests = spec_obj.pci_requests.requests if spec_obj.pci_requests else ()
        if not requests:
            return None

        def verdict(host_state: HostState) -> Verdict:
            pools = host_state.pci_stats
            if pools is None:
                wanted = sum(request.count for request in requests)
                return Refusal(f"{wanted} PCI devices requested, the host reports none", wanted)
            found = pools.candidates_for(requests, host_state.allocation_candidates)
            return found if isinstance(found, Refusal) else Passed(candidates=found)

        return verdict

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return that devices would have to be free, or none requested."""
        words = "free such PCI devices on it, or ask without them"
        yield Remedy("drop_pci_requests", words, spec=replace(spec_obj, pci_requests=None))
