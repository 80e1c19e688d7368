# SPDX-License-Identifier: Apache-2.0
"""Compute nodes as their hosts report them, services and hypervisors."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple, Self

from placement_sched.model.document import NovaObject, NovaObjectDictCompat, PluginValue
from placement_sched.model.hardware.numa import ReportedTopology
from placement_sched.model.hardware.pci_devices import ReportedPools
from placement_sched.model.names import PERCENT_METRICS
from placement_sched.model.provider import Inventory

#: States of hosts. ``disabled`` hosts may be up or down.
HOST_STATES = ("up", "down", "disabled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric(NovaObject):
    """A metric under the attribute names of nova's MonitorMetric.

    ``name`` is a value of nova's enumeration. A metric with a value per NUMA node usually has no
    ``value``. Its ``numa_membw_values`` has the values by the id of the NUMA node as text.
    """

    name: str
    value: int | None = None
    numa_membw_values: Mapping[str, int] | None = None
    source: str | None = None
    timestamp: Any = None


class MetricList(tuple[Metric, ...], PluginValue):
    """The metrics of a node, with the attributes of nova's MonitorMetricList."""

    __slots__ = ()

    def to_list(self) -> list[dict[str, Any]]:
        """Return each metric as a dict, with percentages as fractions."""
        names = ("name", "timestamp", "source", "value", "numa_membw_values")
        metrics = [
            {name: getattr(metric, name) for name in names if getattr(metric, name) is not None}
            for metric in self
        ]
        for metric in metrics:
            if metric["name"] in PERCENT_METRICS and "value" in metric:
                metric["value"] /= 100
        return metrics


class _Derived(NovaObjectDictCompat):
    """Base class without slots, since cached properties need a ``__dict__``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeNode(_Derived):
    """A compute node, as its host reports it.

    Sizes are in MB and GB as in nova, and times are naive UTC. ``cpu_info`` is nova's JSON string,
    ``stats`` has string values, and ratios are never 0. Each change, except of ``last_seen_up``,
    increments ``version``, so that values can be cached by ``(uuid, version)``. ``unknown`` names
    the fields of a fleet file whose values are unknown (:data:`UNKNOWN_FIELDS`).
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
    unknown: tuple[str, ...] = ()

    def with_heartbeat(self, moment: datetime) -> Self:
        """Return a copy with a new heartbeat and the cached values of this node."""
        if moment == self.last_seen_up:
            return self
        node = replace(self, last_seen_up=moment)
        vars(node).update(vars(self))
        return node

    @cached_property
    def derived(self) -> dict[str, Any]:
        """Return the cache of values that other modules derive from the report."""
        return {}

    @cached_property
    def reported_pools(self) -> ReportedPools:
        """Return the PCI pools, shared by all host states of the node."""
        return ReportedPools(self.pci_device_pools, self.numa_topology)

    @cached_property
    def reported_metrics(self) -> "MetricList":
        """Return the metrics, shared by all host states of the node."""
        return MetricList(Metric(**metric) for metric in self.metrics)


#: The fields of a report that have the total and the allocation ratio of a resource class.
REPORTED_TOTALS = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "local_gb"}
RATIOS = {
    "VCPU": "cpu_allocation_ratio",
    "MEMORY_MB": "ram_allocation_ratio",
    "DISK_GB": "disk_allocation_ratio",
}
#: The resource classes of the inventories that a report creates.
REPORTED_CLASSES = tuple(RATIOS)

#: The fields of a report that no API shows and a fleet file may declare as unknown, with their
#: names in messages. The number of instances in ``stats`` stays valid.
UNKNOWN_FIELDS: Mapping[str, str] = {
    "metrics": "host metrics",
    "numa_topology": "host NUMA cells",
    "pci_device_pools": "PCI devices outside placement",
    "stats": "host I/O load and failed builds",
    "supported_hv_specs": "supported architectures and VM modes",
}

_ROW_FIELDS = frozenset({"version", "created_at", "updated_at"})
REPORT_KEYS = tuple(field.name for field in fields(ComputeNode) if field.name not in _ROW_FIELDS)
#: Fields with a database column of their own. The other fields are stored together as JSON.
_COLUMNS = _ROW_FIELDS | {"uuid", "host", "hypervisor_hostname", "cell_uuid", "last_seen_up"}
_STORED_FIELDS = tuple(
    field.name for field in fields(ComputeNode) if field.name not in {*_COLUMNS, "unknown"}
)


def build_inventories(node: ComputeNode) -> tuple[Inventory, ...]:
    """Build inventories from a report, omitting classes with a total of 0."""
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


def select_stored_fields(node: ComputeNode) -> dict[str, Any]:
    """Return the fields that are stored together as JSON."""
    stored = {key: getattr(node, key) for key in _STORED_FIELDS}
    return {**stored, "unknown": node.unknown} if node.unknown else stored


def build_node(stored: Mapping[str, Any], **columns: Any) -> ComputeNode:
    """Build a node from the fields stored as JSON and the other columns."""
    values = {**stored, **columns}
    for key in ("supported_hv_specs", "metrics", "pci_device_pools", "unknown"):
        values[key] = tuple(values.get(key, ()))
    values["supported_hv_specs"] = tuple(tuple(spec) for spec in values["supported_hv_specs"])
    if values["numa_topology"] is not None:
        values["numa_topology"] = ReportedTopology(values["numa_topology"])
    return ComputeNode(**values)


#: The message if no host is recorded.
NO_HOSTS = "no host is recorded yet: placement-sched nova adopt records the hosts of a nova"
#: The binary of the service that runs instances on a host.
COMPUTE_BINARY = "nova-compute"


class Service(NamedTuple):
    """A service of a host, as in nova's os-services.

    ``version`` is nova's service version, or None if the service is not read from nova.
    """

    id: int
    uuid: str
    host: str
    binary: str
    disabled: bool = False
    disabled_reason: str | None = None
    forced_down: bool = False
    last_seen_up: datetime | None = None
    updated_at: datetime | None = None
    version: int | None = None
    created_at: datetime | None = None

    @property
    def is_compute(self) -> bool:
        """Return whether this is the service that runs instances."""
        return self.binary == COMPUTE_BINARY

    def is_up(self, now: datetime, down_time: int) -> bool:
        """Return whether the service is up, for ``down_time`` in seconds."""
        return is_recently_seen(self.last_seen_up, self.forced_down, now, down_time)


def is_recently_seen(
    last_seen_up: datetime | None, forced_down: bool, now: datetime, down_time: int
) -> bool:
    """Return whether a service is up: seen recently, and not forced down.

    ``down_time`` is in seconds.
    """
    if forced_down or last_seen_up is None:
        return False
    return now - last_seen_up <= timedelta(seconds=down_time)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypervisor:
    """A hypervisor of the compute API, and the compute service of its host."""

    id: int
    uuid: str
    name: str
    service: Service


@dataclass(frozen=True, slots=True, kw_only=True)
class HypervisorDetails(Hypervisor):
    """A hypervisor with the last report of its host."""

    node: ComputeNode
