# SPDX-License-Identifier: Apache-2.0
"""Compute node reports: their schema, defaults and parsing.

The keys are the fields of nova's ComputeNode, and ``reserved`` and ``inventories`` in addition.
Lists and objects are accepted in every form that nova stores.
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

from placement_sched.limits import MAX_HYPERVISOR_CHARACTERS, MAX_JSON_DEPTH
from placement_sched.model import names
from placement_sched.model.compute_node import RATIOS, REPORTED_TOTALS, UNKNOWN_FIELDS, ComputeNode
from placement_sched.model.document import Json, is_deeper
from placement_sched.model.hardware.numa import ReportedTopology
from placement_sched.model.provider import MAX_FLOAT, MAX_INT
from placement_sched.schemas import parts
from placement_sched.schemas.formats import DocumentError, prefix_errors, read
from placement_sched.schemas.parts import (
    AMOUNT,
    build_list_schema,
    build_map_schema,
    build_object_schema,
    make_nullable,
)
from placement_sched.schemas.validation import Conversion, Reader

#: The key that has the fields of a serialised nova object (oslo.versionedobjects).
_NOVA_DATA = "nova_object.data"
#: Keyword of a schema that also accepts serialised nova objects. Its value is the plain schema.
NOVA_OBJECT = "x-nova"
#: The largest metric. Metrics have 64 bits, because CPU times are in nanoseconds.
_MAX_METRIC = 2**63 - 1
#: Whole numbers. More digits are outside of every accepted range.
_DIGITS = re.compile("[0-9]{1,19}")
#: The keys of ``stats`` that host states use as numbers.
_COUNTED = ("num_instances", "io_workload", "failed_builds")
#: Keys whose values may also be JSON strings, as nova stores them.
_STRINGS = ("metrics", "numa_topology")


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """Values for missing keys: the time (naive UTC) and allocation ratios."""

    now: datetime
    cpu_allocation_ratio: float = 4.0
    ram_allocation_ratio: float = 1.0
    disk_allocation_ratio: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """A parsed report: node of version 0, and whether to update inventories."""

    node: ComputeNode
    inventories: bool


def _build_nova_object_schema(inner: Json) -> Json:
    wrapped = {"type": "object", "required": [_NOVA_DATA]}
    within = {"properties": {_NOVA_DATA: inner}}
    return {"if": wrapped, "then": within, "else": inner, NOVA_OBJECT: inner}


def _convert_nova_object(value: Any, inner: Json, convert: Conversion) -> Any:
    if not isinstance(value, dict) or _NOVA_DATA not in value:
        return convert(value, inner)
    with prefix_errors(_NOVA_DATA):
        return convert(value[_NOVA_DATA], inner)


_LABEL = {**parts.TEXT, "minLength": 1}
_LABELLED: Json = {**parts.TEXT, "type": ["string", "number", "boolean"], "maxLength": 65535}
_HOST = {**parts.NAME, "format": "name"}
_SIGNED: Json = make_nullable({"type": "integer", "minimum": -MAX_INT, "maximum": MAX_INT})
_RATIO: Json = make_nullable({"type": "number", "minimum": 0.0, "maximum": MAX_FLOAT})
_CPUS = build_list_schema({"type": "integer", "minimum": 0, "maximum": 65535})
_METRIC_VALUE: Json = {"type": "integer", "minimum": -_MAX_METRIC, "maximum": _MAX_METRIC}
_METRIC = build_object_schema(
    {
        "name": {"type": "string", "format": "monitor-metric"},
        # Checked by _read_metric, because the range depends on the name.
        "value": {"type": ["integer", "number"]},
        "numa_membw_values": make_nullable(build_map_schema(_LABEL, _METRIC_VALUE)),
        "source": make_nullable(parts.TEXT),
        "timestamp": {"type": ["string", "null"], "format": "moment"},
    },
    "name",
)
_POOL: Json = {
    "type": "object",
    "properties": {
        "vendor_id": _HOST,
        "product_id": _HOST,
        "numa_node": make_nullable(AMOUNT),
        "count": AMOUNT,
        "tags": make_nullable(build_map_schema(_LABEL, make_nullable(_LABELLED))),
    },
    "required": ["vendor_id", "product_id", "count"],
    "additionalProperties": make_nullable(_LABELLED),
}
_PAGES = build_object_schema(
    {"size_kb": {**AMOUNT, "minimum": 1}, **dict.fromkeys(("total", "used", "reserved"), AMOUNT)},
    "size_kb",
    "total",
)
_NETWORK = build_object_schema(
    {"physnets": build_list_schema(parts.TEXT), "tunneled": parts.BOOLEAN}
)
_CELL = build_object_schema(
    {
        **dict.fromkeys(("id", "memory", "cpu_usage", "memory_usage"), AMOUNT),
        **dict.fromkeys(("cpuset", "pcpuset", "pinned_cpus"), _CPUS),
        "siblings": build_list_schema(_CPUS),
        "mempages": build_list_schema(_build_nova_object_schema(_PAGES)),
        "network_metadata": _build_nova_object_schema(make_nullable(_NETWORK)),
        "socket": make_nullable(AMOUNT),
    },
    *("id", "cpuset", "memory"),
)
_TOPOLOGY = _build_nova_object_schema(
    make_nullable(
        build_object_schema({"cells": build_list_schema(_build_nova_object_schema(_CELL))}, "cells")
    )
)
_HV_FORMATS = ("architecture", "hypervisor-type", "vm-mode")
_HV_SPEC: Json = {
    "type": "array",
    "prefixItems": [{"type": "string", "format": form} for form in _HV_FORMATS],
    **dict.fromkeys(("minItems", "maxItems"), 3),
}

#: A report whose JSON strings are decoded.
REPORT: Json = build_object_schema(
    {
        "uuid": parts.UUID,
        "host": _HOST,
        "hypervisor_hostname": {**_HOST, "maxLength": MAX_HYPERVISOR_CHARACTERS},
        "cell_uuid": parts.NULLABLE_UUID,
        "hypervisor_type": parts.TEXT,
        "hypervisor_version": AMOUNT,
        "host_ip": {"type": ["string", "null"], "format": "ip-address"},
        "cpu_info": {"type": ["object", "string", "null"]},
        "supported_hv_specs": make_nullable(build_list_schema(_HV_SPEC)),
        **dict.fromkeys(("vcpus", "memory_mb", "local_gb"), AMOUNT),
        **dict.fromkeys(("vcpus_used", "memory_mb_used", "local_gb_used"), AMOUNT),
        **dict.fromkeys(("free_ram_mb", "free_disk_gb", "disk_available_least"), _SIGNED),
        **dict.fromkeys(RATIOS.values(), _RATIO),
        "stats": make_nullable(
            {**build_map_schema(_LABEL, _LABELLED), "properties": dict.fromkeys(_COUNTED, AMOUNT)}
        ),
        "metrics": make_nullable(build_list_schema(_METRIC)),
        "pci_device_pools": make_nullable(build_list_schema(_POOL)),
        "numa_topology": _TOPOLOGY,
        "reserved": make_nullable(build_map_schema({"enum": list(RATIOS)}, AMOUNT)),
        "last_seen_up": {"type": ["string", "null"], "format": "moment"},
        "inventories": parts.BOOLEAN,
    },
    *("uuid", "host", "hypervisor_hostname", "vcpus", "memory_mb"),
)

#: A report in a request: the uuid may be in the URL, values of the keys in ``_STRINGS`` may be JSON
#: strings, and numbers in ``stats`` may be text.
SENT_REPORT: Json = {
    **REPORT,
    "required": [name for name in REPORT["required"] if name != "uuid"],
    "properties": {
        **REPORT["properties"],
        **{key: {"anyOf": [{"type": "string"}, REPORT["properties"][key]]} for key in _STRINGS},
        "stats": make_nullable(build_map_schema(_LABEL, _LABELLED)),
    },
}

#: A report in a fleet file, which may lack facts that no API shows.
FILE_REPORT: Json = {
    **REPORT,
    "properties": {
        **REPORT["properties"],
        "unknown": {"type": "array", "items": {"enum": list(UNKNOWN_FIELDS)}, "uniqueItems": True},
    },
}

_report_reader = Reader(REPORT, {NOVA_OBJECT: _convert_nova_object})
_file_reader = Reader(FILE_REPORT, {NOVA_OBJECT: _convert_nova_object})
_metric_value_reader = Reader(_METRIC_VALUE)
_topology_reader = Reader(_TOPOLOGY, {NOVA_OBJECT: _convert_nova_object})

_DEFAULTS: Json = {
    **dict.fromkeys(("cell_uuid", "host_ip", "disk_available_least")),
    **dict.fromkeys(("hypervisor_version", "vcpus_used", "memory_mb_used"), 0),
    **dict.fromkeys(("local_gb", "local_gb_used"), 0),
    "hypervisor_type": "",
}


def parse(document: Any, defaults: Defaults, json_path: str = "$") -> NodeReport:
    """Parse a report from decoded JSON, or raise :class:`Invalid`."""
    return read(partial(read_report, defaults=defaults), document, json_path)


def read_report(document: Any, defaults: Defaults, *, in_file: bool = False) -> NodeReport:
    """Parse a report like :func:`parse`, but raise :class:`DocumentError`.

    A report ``in_file``, a fleet file, may have unknown fields.
    """
    body = (_file_reader if in_file else _report_reader)(_decode_strings(document))
    inventories: bool = body.pop("inventories", True)
    local_gb = body.get("local_gb", 0)
    cpu_info = body.get("cpu_info") or "{}"
    if isinstance(cpu_info, str) and not isinstance(_parse_json(cpu_info, "cpu_info"), dict):
        raise DocumentError("the string is not a JSON object", "cpu_info")
    cpu_info = cpu_info if isinstance(cpu_info, str) else json.dumps(cpu_info)
    fields = {
        **_DEFAULTS,
        "version": 0,
        "free_ram_mb": body["memory_mb"] - body.get("memory_mb_used", 0),
        # A null in the report remains None, because an unknown amount is not a free amount.
        "free_disk_gb": local_gb - body.get("local_gb_used", 0),
        **body,
        "last_seen_up": body.get("last_seen_up") or defaults.now,
        "cpu_info": cpu_info,
        "supported_hv_specs": tuple(map(tuple, body.get("supported_hv_specs") or ())),
        "stats": {key: str(value) for key, value in (body.get("stats") or {}).items()},
        "reserved": body.get("reserved") or {},
        "unknown": tuple(sorted(body.get("unknown", ()))),
        "metrics": _read_list(_read_metric, body, "metrics"),
        "pci_device_pools": _read_list(_read_pool, body, "pci_device_pools"),
        "numa_topology": _complete_topology(body.get("numa_topology")),
    }
    for ratio in RATIOS.values():
        fields[ratio] = body.get(ratio) or getattr(defaults, ratio)
    for name, total in REPORTED_TOTALS.items():
        reserved = fields["reserved"].get(name, 0)
        if reserved > fields[total]:
            problem = f"{reserved} is more than {total} ({fields[total]})"
            raise DocumentError(problem, "reserved", name)
    return NodeReport(node=ComputeNode(**fields), inventories=inventories)


def parse_numa_topology(value: Any) -> ReportedTopology | None:
    """Convert a NUMA topology from any form of nova to cells with all keys."""
    return _complete_topology(
        _topology_reader(_parse_json(value) if isinstance(value, str) else value)
    )


def _decode_strings(document: Any) -> Any:
    if not isinstance(document, dict):
        return document
    decoded = dict(document)
    for key in _STRINGS:
        if isinstance(text := decoded.get(key), str):
            # In nova, an empty string means no metrics.
            decoded[key] = None if key == "metrics" and not text else _parse_json(text, key)
    if isinstance(stats := decoded.get("stats"), dict):
        # nova stores numbers as strings of digits.
        decoded["stats"] = stats | {
            key: int(text)
            for key in _COUNTED
            if isinstance(text := stats.get(key), str) and _DIGITS.fullmatch(text)
        }
    return decoded


def _parse_json(text: str, *keys: str) -> Any:
    try:
        value = orjson.loads(text)
    except ValueError:
        raise DocumentError("the string is not JSON", *keys) from None
    if is_deeper(value, MAX_JSON_DEPTH):
        raise DocumentError(f"the JSON is nested more than {MAX_JSON_DEPTH} deep", *keys)
    return value


def _read_list(convert: Callable[[Json], Json], body: Json, key: str) -> tuple[Json, ...]:
    items = []
    for index, item in enumerate(body.get(key) or ()):
        with prefix_errors(key, index):
            items.append(convert(item))
    return tuple(items)


def _read_metric(metric: Json) -> Json:
    """Read a metric with a value, with values per NUMA node, or with both.

    nova-compute stores percentages as fractions: 1.0 is 100. The percentage is truncated (0.29
    becomes 28) as in nova, so that hosts have the same weights as in nova.
    """
    metric = dict(metric)
    if metric.get("timestamp") is not None:
        metric["timestamp"] = metric["timestamp"].isoformat()
    if "value" in metric:
        value = metric["value"]
        if isinstance(value, float) and metric["name"] in names.PERCENT_METRICS:
            value = int(value * 100) if math.isfinite(value * 100) else value
        with prefix_errors("value"):
            metric["value"] = _metric_value_reader(value)
    elif "numa_membw_values" not in metric:
        raise DocumentError("'value' or 'numa_membw_values' is required")
    return metric


def _read_pool(document: Json) -> Json:
    """Read a pool, and move its ``tags`` to the keys of the pool, as text."""
    pool = {"numa_node": None, **document}
    tags = pool.pop("tags", None) or {}
    if duplicates := sorted(tags.keys() & pool.keys()):
        raise DocumentError("the pool has this key already", "tags", duplicates[0])
    own = _POOL["properties"]
    tag_values = {key: value for key, value in {**pool, **tags}.items() if key not in own}
    return pool | {key: None if value is None else str(value) for key, value in tag_values.items()}


def _complete_topology(topology: Json | None) -> ReportedTopology | None:
    if topology is None:
        return None
    cells = [_complete_cell(cell) for cell in topology["cells"]]
    if len({cell["id"] for cell in cells}) != len(cells):
        raise DocumentError("two cells have the same id", "numa_topology", "cells")
    return ReportedTopology({"cells": cells})


def _complete_cell(cell: Mapping[str, Any]) -> Json:
    network = cell.get("network_metadata") or {}
    return {
        "id": cell["id"],
        "cpuset": _sort_cpus(cell["cpuset"]),
        "pcpuset": _sort_cpus(cell.get("pcpuset", ())),
        "memory": cell["memory"],
        "cpu_usage": cell.get("cpu_usage", 0),
        "memory_usage": cell.get("memory_usage", 0),
        "pinned_cpus": _sort_cpus(cell.get("pinned_cpus", ())),
        "siblings": [_sort_cpus(group) for group in cell.get("siblings", ())],
        "mempages": [{"used": 0, "reserved": 0, **pages} for pages in cell.get("mempages", ())],
        "network_metadata": {
            "physnets": sorted(network.get("physnets", ())),
            "tunneled": network.get("tunneled", False),
        },
        "socket": cell.get("socket"),
    }


def _sort_cpus(cpus: Any) -> list[int]:
    return sorted(set(cpus))
