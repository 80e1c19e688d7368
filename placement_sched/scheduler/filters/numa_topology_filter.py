# SPDX-License-Identifier: Apache-2.0
"""NUMATopologyFilter: filter for hosts with fitting NUMA nodes."""

from collections.abc import Mapping
from dataclasses import replace

from oslo_config import cfg

from placement_sched.explain.advice import build_change
from placement_sched.model.hardware.numa import (
    FitBudget,
    NetworkMetadata,
    NUMATopology,
    NUMATopologyLimits,
)
from placement_sched.model.hardware.numa_fit import select_fitting_candidates
from placement_sched.model.hardware.pci_devices import build_devices
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    FilterResult,
    HostCheck,
    Passed,
    Rejection,
    SuggestedChanges,
    get_reported_ratio,
)
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugin import build_group_options


class NUMATopologyFilter(BaseHostFilter):
    """Filter for hosts whose NUMA nodes fit each NUMA node of the instance.

    An instance has NUMA nodes if its flavor or image sets ``hw:numa_nodes``, pinned CPUs
    (``hw:cpu_policy`` ``dedicated`` or ``mixed``) or memory pages (``hw:mem_page_size``). Each NUMA
    node of the instance needs a host node of its own, with:

    * enough memory: the node's total times the host's ``ram_allocation_ratio``, less the used
      memory. With a page size, the free pages of this size count.
    * enough shared CPUs: the node's total times ``cpu_allocation_ratio``, less the used CPUs.
    * enough dedicated CPUs without pinned instances. ``hw:cpu_thread_policy`` decides whether they
      are on sibling threads. With ``hw:emulator_threads_policy=isolate``, the first node needs a
      further CPU for the emulator's threads.

    An instance never gets more of a node than the node's total. The chosen nodes must satisfy the
    NUMA policies of the requested PCI devices, and be near the networks in ``network_metadata``.

    The cost of the search for an instance is bounded for all hosts together. Beyond the bound only
    the first arrangements on a host are tried, and the reason of a rejection mentions this. At most
    1 000 allocation candidates are tried per request, and always the first candidate of each host.

    The least used nodes are tried first, or the most used with ``[compute]
    packing_host_numa_cells_allocation_strategy``. The selection's ``limits`` contain both ratios as
    ``numa_topology``. Hosts report their nodes as ``numa_topology``: a host without the report is
    rejected if the instance has NUMA nodes.
    """

    options = build_group_options(
        "compute",
        cfg.BoolOpt("packing_host_numa_cells_allocation_strategy", default=False),
        "Whether NUMATopologyFilter uses the most used NUMA nodes of a host first, not the least "
        "used.",
    )

    def prepare(self, spec_obj: RequestSpec) -> HostCheck:
        """Return the check that rejects hosts without suitable NUMA nodes."""
        needs_threads = spec_obj.hardware.cpus.needs_sibling_threads
        requested, budget = spec_obj.numa_topology, FitBudget()

        def check_host(host_state: HostState) -> FilterResult:
            topology = host_state.numa_topology
            if needs_threads and topology and not topology.has_threads:
                return Rejection(kind="numa_topology", values={"cause": "threads"})
            if not requested:
                return None
            limits = self._build_limits(host_state, spec_obj)
            devices = build_devices(host_state.pci_stats, spec_obj.pci_requests, None)
            # Without devices all candidates of the host give the same result.
            with_devices = devices is not None and devices.requests
            candidates = host_state.allocation_candidates if with_devices else None
            fit = select_fitting_candidates(
                topology or NUMATopology(), requested, limits, devices, candidates, budget
            )
            if isinstance(fit, Rejection):
                return fit
            return Passed({"numa_topology": limits}, fit)

        return check_host

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        """Suggest a request without a NUMA topology."""
        yield build_change("drop_numa_topology", spec=replace(spec_obj, numa_topology=None))

    def _build_limits(self, host_state: HostState, spec_obj: RequestSpec) -> NUMATopologyLimits:
        networks, settings = spec_obj.network_metadata, self.settings
        if isinstance(networks, Mapping):
            networks = spec_obj.read_once(networks, NetworkMetadata.from_document)
        return NUMATopologyLimits(
            cpu_allocation_ratio=get_reported_ratio(host_state, "cpu_allocation_ratio", settings),
            ram_allocation_ratio=get_reported_ratio(host_state, "ram_allocation_ratio", settings),
            network_metadata=networks,
            packing=settings.compute.packing_host_numa_cells_allocation_strategy,
        )
