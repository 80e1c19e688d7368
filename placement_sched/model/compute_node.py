"""A compute node as reported, its service, and the hypervisor that the compute API shows."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple, Self

from placement_sched.model.document import NovaObject
from placement_sched.model.hardware.numa import ReportedTopology
from placement_sched.model.hardware.pci_devices import ReportedPools
from placement_sched.model.provider import Inventory


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric(NovaObject):
    """Name (of nova's enumeration), value, source and time, as nova's MonitorMetric has them.

    A metric that has a value for each NUMA node has ``numa_membw_values``, by the node's number
    as text, and commonly no ``value``.
    """

    name: str
    value: int | None = None
    numa_membw_values: Mapping[str, int] | None = None
    source: str | None = None
    timestamp: Any = None


class _Derived:
    """Room for what is derived from a report once, beside the slots of its fields."""


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

    def seen_at(self, moment: datetime) -> Self:
        """Return the node with this heartbeat, and with all that was derived from its report."""
        if moment == self.last_seen_up:
            return self
        found = replace(self, last_seen_up=moment)
        vars(found).update(vars(self))
        return found

    @cached_property
    def derived(self) -> dict[str, Any]:
        """What others derive from the report and keep with it, each under a name of its own."""
        return {}

    @cached_property
    def reported_pools(self) -> ReportedPools:
        """The pools of PCI devices as host states share them."""
        return ReportedPools(self.pci_device_pools, self.numa_topology)

    @cached_property
    def reported_metrics(self) -> tuple[Metric, ...]:
        """The metrics as host states share them."""
        return tuple(Metric(**metric) for metric in self.metrics)


#: The fields of a report that give each resource class its total and its allocation ratio.
REPORTED_TOTALS = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "local_gb"}
RATIOS = {
    "VCPU": "cpu_allocation_ratio",
    "MEMORY_MB": "ram_allocation_ratio",
    "DISK_GB": "disk_allocation_ratio",
}
#: The resource classes of which a report makes inventories.
REPORTED_CLASSES = tuple(RATIOS)

_ROW = frozenset({"version", "created_at", "updated_at"})
#: The keys that a report may have.
REPORT_KEYS = tuple(field.name for field in fields(ComputeNode) if field.name not in _ROW)
#: The fields that have no column of their own make up the kept report.
_COLUMNS = _ROW | {"uuid", "host", "hypervisor_hostname", "cell_uuid", "last_seen_up"}
_KEPT = tuple(field.name for field in fields(ComputeNode) if field.name not in _COLUMNS)


def inventories_of(node: ComputeNode) -> tuple[Inventory, ...]:
    """Return the inventories that a node's report makes; a class with a total of 0 gets none."""
    return tuple(
        Inventory(
            resource_class=name,
            total=total,
            reserved=node.reserved.get(name, 0),
            max_unit=total,
            allocation_ratio=getattr(node, RATIOS[name]),
        )
        for name, key in REPORTED_TOTALS.items()
        if (total := getattr(node, key))
    )


def kept_part(node: ComputeNode) -> dict[str, Any]:
    """Return, as JSON values, all of a node that has no column of its own."""
    return {key: getattr(node, key) for key in _KEPT}


def node_of(kept: Mapping[str, Any], **columns: Any) -> ComputeNode:
    """Return the node that :func:`kept_part` and the columns describe."""
    values = {**kept, **columns}
    for key in ("supported_hv_specs", "metrics", "pci_device_pools"):
        values[key] = tuple(values[key])
    values["supported_hv_specs"] = tuple(tuple(spec) for spec in values["supported_hv_specs"])
    if values["numa_topology"] is not None:
        values["numa_topology"] = ReportedTopology(values["numa_topology"])
    return ComputeNode(**values)


#: The service that makes a host able to take instances.
COMPUTE_BINARY = "nova-compute"


class Service(NamedTuple):
    """One service of one host, as nova's os-services shows it."""

    id: int
    uuid: str
    host: str
    binary: str
    disabled: bool = False
    disabled_reason: str | None = None
    forced_down: bool = False
    last_seen_up: datetime | None = None
    updated_at: datetime | None = None

    @property
    def is_compute(self) -> bool:
        """Return whether it is what makes its host able to take instances."""
        return self.binary == COMPUTE_BINARY

    def is_up(self, now: datetime, down_time: int) -> bool:
        """Return whether it reported within ``down_time`` seconds and is not forced down."""
        return seen_lately(self.last_seen_up, self.forced_down, now, down_time)


def seen_lately(
    last_seen_up: datetime | None, forced_down: bool, now: datetime, down_time: int
) -> bool:
    """Return whether a service that was last seen then counts as up: THE rule of up and down."""
    if forced_down or last_seen_up is None:
        return False
    return now - last_seen_up <= timedelta(seconds=down_time)


def why_disabled(disabled_reason: str | None) -> str:
    """Return why a disabled service rejects requests, with the operator's reason if given."""
    return f"disabled: {disabled_reason}" if disabled_reason else "disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypervisor:
    """What names a hypervisor, and the compute service of its host: its state is that one's."""

    id: int
    uuid: str
    name: str
    service: Service


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeHypervisor(Hypervisor):
    """A hypervisor with all that its host reported last."""

    node: ComputeNode
