"""A compute node as its last report described it, normalised (nova's ComputeNode fields)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from placement_sched.model.host_numa import ReportedTopology
from placement_sched.model.metric import Metric
from placement_sched.model.pci_pools import ReportedPools


class _Derived:
    """Room beside the fields of a report for what is made of them once."""

    __slots__ = ("_reported_metrics", "_reported_pools")

    _reported_metrics: tuple[Metric, ...]
    _reported_pools: ReportedPools


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeNode(_Derived):
    """One hypervisor node; sizes in MB and GB as nova has them, times naive UTC.

    ``cpu_info`` is the JSON string that nova keeps, ``stats`` has string values, ratios are never
    0. ``version`` rises when the report changes in anything but its heartbeat, so that what is
    derived from a report may be kept by ``(uuid, version)``.
    """

    uuid: str
    host: str
    hypervisor_hostname: str
    cell_uuid: str | None
    version: int
    last_seen_up: datetime
    hypervisor_type: str
    hypervisor_version: int
    host_ip: str | None
    cpu_info: str
    supported_hv_specs: tuple[tuple[str, str, str], ...]
    vcpus: int
    vcpus_used: int
    memory_mb: int
    memory_mb_used: int
    free_ram_mb: int | None
    local_gb: int
    local_gb_used: int
    free_disk_gb: int | None
    disk_available_least: int | None
    cpu_allocation_ratio: float
    ram_allocation_ratio: float
    disk_allocation_ratio: float
    stats: Mapping[str, str]
    metrics: tuple[Mapping[str, Any], ...]
    pci_device_pools: tuple[Mapping[str, Any], ...]
    numa_topology: ReportedTopology | None
    reserved: Mapping[str, int]
    created_at: datetime | None = None
    updated_at: datetime | None = None

    @property
    def reported_pools(self) -> ReportedPools:
        """Return the pools of PCI devices as host states share them, the same each time."""
        try:
            return self._reported_pools
        except AttributeError:
            pools = ReportedPools(self.pci_device_pools, self.numa_topology)
            # The report is frozen; what is made of it is no part of it.
            object.__setattr__(self, "_reported_pools", pools)
            return pools

    @property
    def reported_metrics(self) -> tuple[Metric, ...]:
        """Return the metrics as host states share them, the same each time."""
        try:
            return self._reported_metrics
        except AttributeError:
            metrics = tuple(Metric(**metric) for metric in self.metrics)
            object.__setattr__(self, "_reported_metrics", metrics)  # as above
            return metrics
