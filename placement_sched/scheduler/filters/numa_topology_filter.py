"""NUMATopologyFilter: only hosts whose NUMA nodes have room for those of the instance."""

from collections.abc import Mapping
from typing import Any

from oslo_config import cfg

from placement_sched.model.host_numa import NetworkMetadata, NUMATopologyLimits
from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.filters.room import reported_ratio
from placement_sched.scheduler.hardware.cpus import DEDICATED, REQUIRE
from placement_sched.scheduler.hardware.host_fit import Ways, ways_on
from placement_sched.scheduler.hardware.host_fit_devices import Devices, devices_of
from placement_sched.scheduler.hardware.host_fit_reasons import no_nodes
from placement_sched.scheduler.host_state import HostState


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

    The least used nodes are tried first; with ``[compute]
    packing_host_numa_cells_allocation_strategy`` the most used. Both ratios are handed on as
    ``numa_topology`` in the selection's ``limits``. Hosts report their nodes as
    ``numa_topology``; one that does not is refused where NUMA nodes are asked for.
    """

    options = (
        (
            "compute",
            cfg.BoolOpt(
                "packing_host_numa_cells_allocation_strategy",
                default=False,
                help="Whether NUMATopologyFilter takes the most used NUMA nodes of a host first, "
                "not the least used.",
            ),
        ),
    )

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return what is missing at each NUMA node of the host."""
        host, asked = host_state.numa_topology, spec_obj.numa_topology
        if _needs_threads(spec_obj) and host and not host.has_threads:
            return Refusal("thread policy require asked, no core of the host has several threads")
        if not asked:
            return None
        if not host:
            return no_nodes(asked)
        limits = self._limits(host_state, spec_obj)
        devices = devices_of(host_state.pci_stats, spec_obj.pci_requests, None)
        ways = ways_on(host, asked, limits, devices)
        refusal = ways if isinstance(ways, Refusal) else _refusal(host_state, ways, devices)
        if refusal is None:
            host_state.limits["numa_topology"] = limits
        return refusal

    def _limits(self, host_state: HostState, spec_obj: RequestSpec) -> NUMATopologyLimits:
        """Return what the nodes of a host may give away, and the networks that they must have."""
        return NUMATopologyLimits(
            cpu_allocation_ratio=reported_ratio(host_state, "cpu_allocation_ratio", self.settings),
            ram_allocation_ratio=reported_ratio(host_state, "ram_allocation_ratio", self.settings),
            network_metadata=_networks(spec_obj.network_metadata),
            packing=self.settings.compute.packing_host_numa_cells_allocation_strategy,
        )


def _needs_threads(spec_obj: RequestSpec) -> bool:
    """Return whether CPUs are pinned and must be siblings, whoever of flavor and image says so."""
    flavor, image = spec_obj.flavor.extra_specs, spec_obj.image.properties
    policies = (flavor.get("hw:cpu_policy"), image.get("hw_cpu_policy"))
    threads = (flavor.get("hw:cpu_thread_policy"), image.get("hw_cpu_thread_policy"))
    return DEDICATED in policies and REQUIRE in threads


def _networks(told: Any) -> NetworkMetadata | None:
    return NetworkMetadata.from_document(told) if isinstance(told, Mapping) else told


def _refusal(host_state: HostState, ways: Ways, devices: Devices | None) -> Refusal | None:
    """Return why no allocation candidate will do; those that will not are struck off the host.

    They differ by who provides PCI devices: without devices one answer serves all.
    """
    if devices is None or not devices.requests:
        found = ways.first(devices)
        return found if isinstance(found, Refusal) else None
    refusal, left = Refusal("no allocation candidate is left"), []
    for candidate in host_state.allocation_candidates:
        found = ways.first(devices.provided_by(candidate["mappings"]))
        if isinstance(found, Refusal):
            refusal = found
        else:
            left.append(candidate)
    host_state.allocation_candidates = left
    return None if left else refusal
