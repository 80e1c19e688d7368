"""NUMATopologyFilter: only hosts whose NUMA nodes have room for those of the instance."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from oslo_config import cfg

from placement_sched.model.hardware.numa import (
    Effort,
    NetworkMetadata,
    NUMATopology,
    NUMATopologyLimits,
)
from placement_sched.model.hardware.numa_fit import fit_candidates
from placement_sched.model.hardware.pci_devices import devices_of
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    Passed,
    Question,
    Refusal,
    Remedy,
    Verdict,
)
from placement_sched.scheduler.filters.room import reported_ratio
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugin import in_group


class NUMATopologyFilter(BaseHostFilter):
    """Lets hosts pass whose NUMA nodes have room for each NUMA node of the instance.

    Instances have NUMA nodes where flavor or image ask for some (``hw:numa_nodes``), for pinned
    CPUs (``hw:cpu_policy`` ``dedicated`` or ``mixed``) or for memory pages (``hw:mem_page_size``).
    Each needs a node of the host for itself, with:

    * memory: what the node has times the host's ``ram_allocation_ratio``, less what is used; of
      pages of a size, only what is free of them counts;
    * shared CPUs: what the node has times ``cpu_allocation_ratio``, less what is used;
    * dedicated CPUs that nothing is pinned to, on sibling threads or on cores without, as
      ``hw:cpu_thread_policy`` says, and one more on the first node for the emulator's threads with
      ``hw:emulator_threads_policy=isolate``.

    One instance never gets more of a node than it really has. The nodes chosen must be near enough
    to PCI devices that are asked for, and to the networks in ``network_metadata``.

    What the search for one instance may cost is bounded, on all hosts together. Beyond that only
    the first arrangements on a host are tried, and the reason says so where none will do. So is
    the number of allocation candidates tried: 1 000, and the first of each host.

    The least used nodes are tried first; with ``[compute]
    packing_host_numa_cells_allocation_strategy`` the most used. Both ratios are handed on as
    ``numa_topology`` in the selection's ``limits``. Hosts report their nodes as
    ``numa_topology``; one that does not is refused where NUMA nodes are asked for.
    """

    options = in_group(
        "compute",
        cfg.BoolOpt("packing_host_numa_cells_allocation_strategy", default=False),
        "Whether NUMATopologyFilter takes the most used NUMA nodes of a host first, not the least "
        "used.",
    )

    def for_request(self, spec_obj: RequestSpec) -> Question:
        """Return a check that looks for room at the NUMA nodes of a host."""
        needs_threads = spec_obj.hardware.cpus.needs_sibling_threads
        asked, effort = spec_obj.numa_topology, Effort()

        def verdict(host_state: HostState) -> Verdict:
            host = host_state.numa_topology
            if needs_threads and host and not host.has_threads:
                why = "thread policy require requested, no core of the host has several threads"
                return Refusal(why)
            if not asked:
                return None
            limits = self._limits(host_state, spec_obj)
            devices = devices_of(host_state.pci_stats, spec_obj.pci_requests, None)
            # Without devices one answer is that of all candidates.
            with_devices = devices is not None and devices.requests
            candidates = host_state.allocation_candidates if with_devices else None
            fit = fit_candidates(host or NUMATopology(), asked, limits, devices, candidates, effort)
            if isinstance(fit, Refusal):
                return fit
            return Passed({"numa_topology": limits}, fit)

        return verdict

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return that the instance would have to have no NUMA topology, or the nodes more free."""
        words = "ask without a NUMA topology, or free what its NUMA nodes lack"
        yield Remedy("drop_numa_topology", words, spec=replace(spec_obj, numa_topology=None))

    def _limits(self, host_state: HostState, spec_obj: RequestSpec) -> NUMATopologyLimits:
        """Return the limits of the host's NUMA nodes, and the networks that the instance needs."""
        networks, settings = spec_obj.network_metadata, self.settings
        if isinstance(networks, Mapping):
            networks = spec_obj.read_once(networks, NetworkMetadata.from_document)
        return NUMATopologyLimits(
            cpu_allocation_ratio=reported_ratio(host_state, "cpu_allocation_ratio", settings),
            ram_allocation_ratio=reported_ratio(host_state, "ram_allocation_ratio", settings),
            network_metadata=networks,
            packing=settings.compute.packing_host_numa_cells_allocation_strategy,
        )
