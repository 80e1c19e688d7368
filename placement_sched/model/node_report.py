"""A host's report: what may stand in it, and what holds for what is left out.

The keys are nova's ComputeNode fields; ``reserved`` and ``inventories`` are ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from typing import Any

from placement_sched.model import report_forms, shape
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.host_numa import ReportedTopology
from placement_sched.model.inventory import MAX_INT, Inventory
from placement_sched.model.shape import Misfit, Shape, integer, list_of, nullable, text

#: The largest number that a single precision column keeps.
_MAX_RATIO = 3.40282e38
#: A provider is named as the hypervisor, and placement's column has room for so much.
_MAX_PROVIDER_NAME = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What holds where a report is silent: the time now (naive UTC) and the allocation ratios."""

    now: datetime
    cpu_allocation_ratio: float = 4.0
    ram_allocation_ratio: float = 1.0
    disk_allocation_ratio: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """One report: the node it describes (version 0), and whether its inventories are to follow."""

    node: ComputeNode
    inventories: bool


@dataclass(frozen=True, slots=True)
class _Reported:
    """A resource class that is made from a report, and the fields it is made from."""

    resource_class: str
    total: str
    ratio: str


_CLASSES = (
    _Reported("VCPU", "vcpus", "cpu_allocation_ratio"),
    _Reported("MEMORY_MB", "memory_mb", "ram_allocation_ratio"),
    _Reported("DISK_GB", "local_gb", "disk_allocation_ratio"),
)
#: The ratios of a node that inventories are made with, by resource class.
RATIOS = {one.resource_class: one.ratio for one in _CLASSES}
#: The resource classes of which a report makes inventories.
REPORTED_CLASSES = tuple(one.resource_class for one in _CLASSES)


def address(value: Any) -> str:
    """Return an IP address in its usual form."""
    try:
        return str(ip_address(value if isinstance(value, str) else ""))
    except ValueError:
        raise Misfit(f"{value!r} is not an IP address") from None


def _class_name(value: Any) -> str:
    if value not in REPORTED_CLASSES:
        raise Misfit(f"a report makes inventories of {', '.join(REPORTED_CLASSES)} only")
    return str(value)


_amount = integer()
_signed = integer(-MAX_INT, MAX_INT)
_ratio = nullable(shape.number(0.0, _MAX_RATIO))

_REPORT = shape.record(
    {
        "uuid": shape.uuid,
        "host": shape.name(),
        "hypervisor_hostname": shape.name(_MAX_PROVIDER_NAME),
        "cell_uuid": nullable(shape.uuid),
        "hypervisor_type": text(),
        "hypervisor_version": integer(),
        "host_ip": nullable(address),
        "cpu_info": report_forms.cpu_info,
        "supported_hv_specs": nullable(list_of(report_forms.hv_spec)),
        "vcpus": _amount,
        "vcpus_used": _amount,
        "memory_mb": _amount,
        "memory_mb_used": _amount,
        "free_ram_mb": nullable(_signed),
        "local_gb": _amount,
        "local_gb_used": _amount,
        "free_disk_gb": nullable(_signed),
        "disk_available_least": nullable(_signed),
        "cpu_allocation_ratio": _ratio,
        "ram_allocation_ratio": _ratio,
        "disk_allocation_ratio": _ratio,
        "stats": nullable(report_forms.stats),
        "metrics": report_forms.metrics,
        "pci_device_pools": nullable(list_of(report_forms.pci_device_pool)),
        "numa_topology": report_forms.numa_topology,
        "reserved": nullable(shape.mapping_of(_class_name, _amount)),
        "last_seen_up": nullable(shape.moment),
        "inventories": shape.boolean,
    },
    required=("uuid", "host", "hypervisor_hostname", "vcpus", "memory_mb"),
)

#: The keys that a report may have.
REPORT_KEYS = frozenset(ComputeNode.__slots__) - {"version", "created_at", "updated_at"}

#: The fields that stand in columns of their own; all others make up the kept report.
_COLUMNS = frozenset(
    {"uuid", "host", "hypervisor_hostname", "cell_uuid", "last_seen_up", "version"}
    | {"created_at", "updated_at"}
)


def parse(document: Any, defaults: Defaults, at: str = "$") -> NodeReport:
    """Return the report that ``document``, decoded JSON at the JSON path ``at``, makes.

    Raises :class:`Invalid` that tells the JSON path of what is unknown, of a wrong type or out
    of range.
    """
    return shape.read(report_shape(defaults), document, at)


def report_shape(defaults: Defaults) -> Shape[NodeReport]:
    """Return the shape of a report, for who reads one as a part of something else."""
    return lambda document: _parse(document, defaults)


def _parse(document: Any, defaults: Defaults) -> NodeReport:
    given = _REPORT(document)
    inventories: bool = given.pop("inventories", True)
    fields = _whole(given, defaults)
    for one in _CLASSES:
        reserved = fields["reserved"].get(one.resource_class, 0)
        if reserved > fields[one.total]:
            raise Misfit(
                f"{reserved} is more than {one.total} has ({fields[one.total]})",
                "reserved",
                one.resource_class,
            )
    return NodeReport(node=ComputeNode(**fields), inventories=inventories)


def _whole(given: Mapping[str, Any], defaults: Defaults) -> dict[str, Any]:
    """Return every field of a node: as given, else nova's default."""
    local_gb = given.get("local_gb", 0)
    fields = {
        "version": 0,
        "cell_uuid": None,
        "hypervisor_type": "",
        "hypervisor_version": 0,
        "host_ip": None,
        "vcpus_used": 0,
        "memory_mb_used": 0,
        "free_ram_mb": given["memory_mb"] - given.get("memory_mb_used", 0),
        "local_gb": 0,
        "local_gb_used": 0,
        # A null is kept: it tells that the host does not know, which is not that all is free.
        "free_disk_gb": local_gb - given.get("local_gb_used", 0),
        "disk_available_least": None,
        "numa_topology": None,
        **given,
        "last_seen_up": given.get("last_seen_up") or defaults.now,
        "cpu_info": given.get("cpu_info", "{}"),
    }
    for one in _CLASSES:
        fields[one.ratio] = given.get(one.ratio) or getattr(defaults, one.ratio)
    for key in ("supported_hv_specs", "metrics", "pci_device_pools"):
        fields[key] = given.get(key) or ()
    for key in ("stats", "reserved"):
        fields[key] = given.get(key) or {}
    return fields


def inventories_of(node: ComputeNode) -> tuple[Inventory, ...]:
    """Return the inventories that a node's report makes; a class of which it has none gets none."""
    return tuple(
        Inventory(
            resource_class=one.resource_class,
            total=total,
            reserved=node.reserved.get(one.resource_class, 0),
            max_unit=total,
            allocation_ratio=getattr(node, one.ratio),
        )
        for one in _CLASSES
        if (total := getattr(node, one.total))
    )


def kept_part(node: ComputeNode) -> dict[str, Any]:
    """Return, as JSON values, all of a node that has no column of its own."""
    return {key: getattr(node, key) for key in _KEPT}


_KEPT = tuple(key for key in ComputeNode.__slots__ if key not in _COLUMNS)


def node_of(kept: Mapping[str, Any], **columns: Any) -> ComputeNode:
    """Return the node that :func:`kept_part` and the columns describe."""
    fields = {**kept, **columns}
    for key in ("supported_hv_specs", "metrics", "pci_device_pools"):
        fields[key] = tuple(fields[key])
    fields["supported_hv_specs"] = tuple(tuple(spec) for spec in fields["supported_hv_specs"])
    if fields["numa_topology"] is not None:
        fields["numa_topology"] = ReportedTopology.of(fields["numa_topology"])
    return ComputeNode(**fields)
