"""A host's report: what it may hold, and what applies where it leaves something out.

The keys are nova's ComputeNode fields; ``reserved`` and ``inventories`` are ours. The structured
parts may have any of the forms in which nova keeps them.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import orjson

from placement_sched.limits import MAX_JSON_DEPTH
from placement_sched.model import names
from placement_sched.model.compute_node import RATIOS, REPORTED_TOTALS, ComputeNode
from placement_sched.model.document import Json, is_deeper
from placement_sched.model.hardware.numa import ReportedTopology
from placement_sched.model.provider import MAX_FLOAT, MAX_INT
from placement_sched.schemas import parts
from placement_sched.schemas.formats import DocumentError, located, read
from placement_sched.schemas.parts import AMOUNT, a_list, a_mapping, an_object, or_null
from placement_sched.schemas.reader import Conversion, Reader

#: Where a serialised nova object keeps its fields (oslo.versionedobjects).
_NOVA_DATA = "nova_object.data"
#: Metrics are kept in 64 bits: a CPU time is in nanoseconds.
_MAX_METRIC = 2**63 - 1
#: A whole number of more digits is out of any range here.
_DIGITS = re.compile("[0-9]{1,19}")
#: A provider is named as the hypervisor, and placement's column has room for so much.
_MAX_PROVIDER_NAME = 200
#: Statistics that host states count with.
_COUNTED = ("num_instances", "io_workload", "failed_builds")
#: What may be given as the JSON string that nova stores.
_STRINGS = ("metrics", "numa_topology")


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What applies where a report is silent: the time now (naive UTC) and allocation ratios."""

    now: datetime
    cpu_allocation_ratio: float = 4.0
    ram_allocation_ratio: float = 1.0
    disk_allocation_ratio: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """One report: the node it describes (version 0), and whether its inventories are to follow."""

    node: ComputeNode
    inventories: bool


def _nova_object(inner: Json) -> Json:
    """Return the schema of a plain object, or of the nova object that holds its fields."""
    wrapped = {"type": "object", "required": [_NOVA_DATA]}
    within = {"properties": {_NOVA_DATA: inner}}
    return {"if": wrapped, "then": within, "else": inner, "x-nova": inner}


def _unwrapped(inner: Json, conversion: Callable[[Json | None], Conversion | None]) -> Conversion:
    convert = conversion(inner) or (lambda value: value)

    def unwrap(value: Any) -> Any:
        if not isinstance(value, dict) or _NOVA_DATA not in value:
            return convert(value)
        with located(_NOVA_DATA):
            return convert(value[_NOVA_DATA])

    return unwrap


_LABEL = {**parts.TEXT, "minLength": 1}
_LABELLED: Json = {**parts.TEXT, "type": ["string", "number", "boolean"], "maxLength": 65535}
_HOST = {**parts.NAME, "format": "name"}
_SIGNED: Json = or_null({"type": "integer", "minimum": -MAX_INT, "maximum": MAX_INT})
_RATIO: Json = or_null({"type": "number", "minimum": 0.0, "maximum": MAX_FLOAT})
_CPUS = a_list({"type": "integer", "minimum": 0, "maximum": 65535})
_METRIC_VALUE: Json = {"type": "integer", "minimum": -_MAX_METRIC, "maximum": _MAX_METRIC}
_METRIC = an_object(
    {
        "name": {"type": "string", "format": "monitor-metric"},
        # Read apart: what it may be depends on the name.
        "value": {"type": ["integer", "number"]},
        "numa_membw_values": or_null(a_mapping(_LABEL, _METRIC_VALUE)),
        "source": or_null(parts.TEXT),
        "timestamp": {"type": ["string", "null"], "format": "moment"},
    },
    "name",
)
_POOL: Json = {
    "type": "object",
    "properties": {
        "vendor_id": _HOST,
        "product_id": _HOST,
        "numa_node": or_null(AMOUNT),
        "count": AMOUNT,
        "tags": or_null(a_mapping(_LABEL, or_null(_LABELLED))),
    },
    "required": ["vendor_id", "product_id", "count"],
    "additionalProperties": or_null(_LABELLED),
}
_PAGES = an_object(
    {"size_kb": {**AMOUNT, "minimum": 1}, **dict.fromkeys(("total", "used", "reserved"), AMOUNT)},
    "size_kb",
    "total",
)
_NETWORK = an_object({"physnets": a_list(parts.TEXT), "tunneled": parts.BOOLEAN})
_CELL = an_object(
    {
        **dict.fromkeys(("id", "memory", "cpu_usage", "memory_usage"), AMOUNT),
        **dict.fromkeys(("cpuset", "pcpuset", "pinned_cpus"), _CPUS),
        "siblings": a_list(_CPUS),
        "mempages": a_list(_nova_object(_PAGES)),
        "network_metadata": _nova_object(or_null(_NETWORK)),
        "socket": or_null(AMOUNT),
    },
    *("id", "cpuset", "memory"),
)
_TOPOLOGY = _nova_object(or_null(an_object({"cells": a_list(_nova_object(_CELL))}, "cells")))
_HV_FORMATS = ("architecture", "hypervisor-type", "vm-mode")
_HV_SPEC: Json = {
    "type": "array",
    "prefixItems": [{"type": "string", "format": form} for form in _HV_FORMATS],
    **dict.fromkeys(("minItems", "maxItems"), 3),
}

#: A report, its JSON strings decoded.
REPORT: Json = an_object(
    {
        "uuid": parts.UUID,
        "host": _HOST,
        "hypervisor_hostname": {**_HOST, "maxLength": _MAX_PROVIDER_NAME},
        "cell_uuid": parts.NULLABLE_UUID,
        "hypervisor_type": parts.TEXT,
        "hypervisor_version": AMOUNT,
        "host_ip": {"type": ["string", "null"], "format": "ip-address"},
        "cpu_info": {"type": ["object", "string", "null"]},
        "supported_hv_specs": or_null(a_list(_HV_SPEC)),
        **dict.fromkeys(("vcpus", "memory_mb", "local_gb"), AMOUNT),
        **dict.fromkeys(("vcpus_used", "memory_mb_used", "local_gb_used"), AMOUNT),
        **dict.fromkeys(("free_ram_mb", "free_disk_gb", "disk_available_least"), _SIGNED),
        **dict.fromkeys(RATIOS.values(), _RATIO),
        "stats": or_null(
            {**a_mapping(_LABEL, _LABELLED), "properties": dict.fromkeys(_COUNTED, AMOUNT)}
        ),
        "metrics": or_null(a_list(_METRIC)),
        "pci_device_pools": or_null(a_list(_POOL)),
        "numa_topology": _TOPOLOGY,
        "reserved": or_null(a_mapping({"enum": list(RATIOS)}, AMOUNT)),
        "last_seen_up": {"type": ["string", "null"], "format": "moment"},
        "inventories": parts.BOOLEAN,
    },
    *("uuid", "host", "hypervisor_hostname", "vcpus", "memory_mb"),
)

_report = Reader(REPORT, {"x-nova": _unwrapped})
_metric_value = Reader(_METRIC_VALUE)
_topology = Reader(_TOPOLOGY, {"x-nova": _unwrapped})

_LEFT_OUT: Json = {
    **dict.fromkeys(("cell_uuid", "host_ip", "disk_available_least")),
    **dict.fromkeys(("hypervisor_version", "vcpus_used", "memory_mb_used"), 0),
    **dict.fromkeys(("local_gb", "local_gb_used"), 0),
    "hypervisor_type": "",
}


def parse(document: Any, defaults: Defaults, at: str = "$") -> NodeReport:
    """Return the report that ``document``, decoded JSON at the JSON path ``at``, makes.

    Raises :class:`Invalid` with the JSON path of what is unknown, of a wrong type or out of range.
    """
    return read(partial(read_report, defaults=defaults), document, at)


def read_report(document: Any, defaults: Defaults) -> NodeReport:
    """Return the report that a document makes; raises :class:`DocumentError`."""
    given = _report(_decoded(document))
    inventories: bool = given.pop("inventories", True)
    local_gb = given.get("local_gb", 0)
    fields = {
        **_LEFT_OUT,
        "version": 0,
        "free_ram_mb": given["memory_mb"] - given.get("memory_mb_used", 0),
        # A null is kept: the host does not know, which is not that all is free.
        "free_disk_gb": local_gb - given.get("local_gb_used", 0),
        **given,
        "last_seen_up": given.get("last_seen_up") or defaults.now,
        "cpu_info": _cpu_info(given.get("cpu_info")),
        "supported_hv_specs": tuple(map(tuple, given.get("supported_hv_specs") or ())),
        "stats": {key: str(value) for key, value in (given.get("stats") or {}).items()},
        "reserved": given.get("reserved") or {},
        "metrics": _every(_metric, given, "metrics"),
        "pci_device_pools": _every(_pool, given, "pci_device_pools"),
        "numa_topology": _numa_topology(given.get("numa_topology")),
    }
    for ratio in RATIOS.values():
        fields[ratio] = given.get(ratio) or getattr(defaults, ratio)
    for name, total in REPORTED_TOTALS.items():
        reserved = fields["reserved"].get(name, 0)
        if reserved > fields[total]:
            what = f"{reserved} is more than {total} has ({fields[total]})"
            raise DocumentError(what, "reserved", name)
    return NodeReport(node=ComputeNode(**fields), inventories=inventories)


def numa_topology(value: Any) -> ReportedTopology | None:
    """Return ``{"cells": [...]}`` with every key of each cell, from any form nova gives it."""
    return _numa_topology(_topology(_from_json(value) if isinstance(value, str) else value))


def _decoded(document: Any) -> Any:
    if not isinstance(document, dict):
        return document
    found = dict(document)
    for key in _STRINGS:
        if isinstance(text := found.get(key), str):
            # An empty string stands for no metrics, as for nova.
            found[key] = None if key == "metrics" and not text else _from_json(text, key)
    if isinstance(stats := found.get("stats"), dict):
        # nova keeps numbers as strings of digits.
        found["stats"] = stats | {
            key: int(text)
            for key in _COUNTED
            if isinstance(text := stats.get(key), str) and _DIGITS.fullmatch(text)
        }
    return found


def _from_json(text: str, *keys: str) -> Any:
    """Return what a string of JSON says; Python's own reader accepts NaN as well."""
    try:
        found = orjson.loads(text)
    except ValueError:
        raise DocumentError("the string is not JSON", *keys) from None
    if is_deeper(found, MAX_JSON_DEPTH):
        raise DocumentError(f"the JSON is nested more than {MAX_JSON_DEPTH} deep", *keys)
    return found


def _cpu_info(value: Any) -> str:
    """Return the JSON string that nova keeps; an empty one stands for nothing known."""
    if value in (None, ""):
        return "{}"
    if isinstance(value, dict):
        return json.dumps(value)
    if not isinstance(_from_json(value, "cpu_info"), dict):
        raise DocumentError("the string is not the JSON of an object", "cpu_info")
    return str(value)


def _every(read: Callable[[Json], Json], given: Json, key: str) -> tuple[Json, ...]:
    found = []
    for index, item in enumerate(given.get(key) or ()):
        with located(key, index):
            found.append(read(item))
    return tuple(found)


def _metric(found: Json) -> Json:
    """Return a metric with a whole value, with values by NUMA node, or with both.

    nova-compute stores percentages as fractions, 1.0 for 100, and always writes their decimal
    point. nova cuts off what is left of the product (0.29 counts as 28), and so do we, to weigh
    hosts as it does.
    """
    found = dict(found)
    if found.get("timestamp") is not None:
        found["timestamp"] = found["timestamp"].isoformat()
    if "value" in found:
        value = found["value"]
        if isinstance(value, float) and found["name"] in names.PERCENT_METRICS:
            value = int(value * 100) if math.isfinite(value * 100) else value
        with located("value"):
            found["value"] = _metric_value(value)
    elif "numa_membw_values" not in found:
        raise DocumentError("'value' or 'numa_membw_values' is required")
    return found


def _pool(found: Json) -> Json:
    """Return a pool with its tags beside its own keys, given so or gathered under ``tags``."""
    pool = {"numa_node": None, **found}
    tags = pool.pop("tags", None) or {}
    if twice := sorted(tags.keys() & pool.keys()):
        raise DocumentError("the pool has this key already", "tags", twice[0])
    own = _POOL["properties"]
    others = {key: value for key, value in {**pool, **tags}.items() if key not in own}
    return pool | {key: None if value is None else str(value) for key, value in others.items()}


def _numa_topology(found: Json | None) -> ReportedTopology | None:
    if found is None:
        return None
    cells = [_whole_cell(cell) for cell in found["cells"]]
    if len({cell["id"] for cell in cells}) != len(cells):
        raise DocumentError("two cells have the same id", "numa_topology", "cells")
    return ReportedTopology({"cells": cells})


def _whole_cell(cell: Mapping[str, Any]) -> Json:
    network = cell.get("network_metadata") or {}
    return {
        "id": cell["id"],
        "cpuset": _cpu_list(cell["cpuset"]),
        "pcpuset": _cpu_list(cell.get("pcpuset", ())),
        "memory": cell["memory"],
        "cpu_usage": cell.get("cpu_usage", 0),
        "memory_usage": cell.get("memory_usage", 0),
        "pinned_cpus": _cpu_list(cell.get("pinned_cpus", ())),
        "siblings": [_cpu_list(group) for group in cell.get("siblings", ())],
        "mempages": [{"used": 0, "reserved": 0, **pages} for pages in cell.get("mempages", ())],
        "network_metadata": {
            "physnets": sorted(network.get("physnets", ())),
            "tunneled": network.get("tunneled", False),
        },
        "socket": cell.get("socket"),
    }


def _cpu_list(cpus: Any) -> list[int]:
    return sorted(set(cpus))
