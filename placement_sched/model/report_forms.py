"""The forms that the structured parts of a compute node report may have, made one.

They are those of nova's ComputeNode: cpu_info, supported_hv_specs, stats, metrics,
pci_device_pools and numa_topology.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import orjson

from placement_sched.model.host_numa import ReportedTopology
from placement_sched.model.hypervisor_names import (
    ARCHITECTURE_ALIASES,
    ARCHITECTURES,
    HYPERVISOR_TYPE_ALIASES,
    HYPERVISOR_TYPES,
    MONITOR_METRICS,
    PERCENT_METRICS,
    VM_MODE_ALIASES,
    VM_MODES,
)
from placement_sched.model.shape import (
    Misfit,
    Shape,
    boolean,
    integer,
    list_of,
    mapping_of,
    moment,
    name,
    nullable,
    one_of,
    record,
    text,
)

#: Where a serialised nova object keeps its fields (oslo.versionedobjects).
_NOVA_DATA = "nova_object.data"
#: Metrics are kept in 64 bits: a CPU time is in nanoseconds.
_MAX_METRIC = 2**63 - 1
#: A whole number of more digits is out of any range here.
_LONGEST = 19
_POOL_KEYS = ("vendor_id", "product_id", "numa_node", "count")

_HV_SPEC = (
    one_of(ARCHITECTURES, ARCHITECTURE_ALIASES),
    one_of(HYPERVISOR_TYPES, HYPERVISOR_TYPE_ALIASES),
    one_of(VM_MODES, VM_MODE_ALIASES),
)


def cpu_info(value: Any) -> str:
    """Return the JSON string that nova keeps; an empty one stands for nothing known."""
    if value in (None, ""):
        return "{}"
    if isinstance(value, dict):
        return json.dumps(value)
    if not isinstance(value, str):
        raise Misfit("it is neither an object nor the JSON string of one")
    if not isinstance(_decoded(value), dict):
        raise Misfit("the string is not the JSON of an object")
    return value


def _decoded(value: str) -> Any:
    """Return what a string of JSON says; Python's own reader takes NaN and its like as well."""
    try:
        return orjson.loads(value)
    except ValueError:
        raise Misfit("the string is not JSON") from None


def hv_spec(value: Any) -> tuple[str, str, str]:
    """Return ``(arch, hv_type, vm_mode)`` in nova's canonical names."""
    if not isinstance(value, list | tuple) or len(value) != len(_HV_SPEC):
        raise Misfit("it is not a list of architecture, hypervisor type and VM mode")
    found = []
    for index, (shape, item) in enumerate(zip(_HV_SPEC, value, strict=True)):
        try:
            found.append(shape(item))
        except Misfit as misfit:
            raise misfit.under(index) from None
    arch, hv_type, vm_mode = found
    return arch, hv_type, vm_mode


def _string_of(value: Any) -> str:
    """Return a string, or the string of a number or boolean, as nova's string fields do."""
    if isinstance(value, bool | int | float):
        return str(value)
    return _any_text(value)


_any_text = text(65535)
_any_stats = mapping_of(text(255, shortest=1), _string_of)
#: Statistics that host states count with.
_COUNTED = ("num_instances", "io_workload", "failed_builds")
_count = integer()


def stats(value: Any) -> dict[str, str]:
    """Return the statistics as strings; those that host states count with are whole numbers."""
    found = _any_stats(value)
    for key in _COUNTED:
        if key in found:
            try:
                found[key] = str(_count(_number_in(value[key])))
            except Misfit as misfit:
                raise misfit.under(key) from None
    return found


def _number_in(value: Any) -> Any:
    """Return the number that a string of digits shows, and anything else as it is."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _LONGEST:
        return int(value)
    return value


_metric_value = integer(-_MAX_METRIC, _MAX_METRIC)
_METRIC = record(
    {
        "name": one_of(MONITOR_METRICS),
        "value": lambda value: value,  # read below: what it may be depends on the name
        "numa_membw_values": nullable(mapping_of(text(255, shortest=1), _metric_value)),
        "source": nullable(text()),
        "timestamp": nullable(lambda value: moment(value).isoformat()),
    },
    required=("name",),
)


def metric(value: Any) -> dict[str, Any]:
    """Return a metric with a whole value, with values by NUMA node, or with both."""
    found = _METRIC(value)
    if "value" in found:
        shape = _percent if found["name"] in PERCENT_METRICS else _metric_value
        try:
            found["value"] = shape(found["value"])
        except Misfit as misfit:
            raise misfit.under("value") from None
    elif "numa_membw_values" not in found:
        raise Misfit("'value' or 'numa_membw_values' is required")
    return found


def metrics(value: Any) -> tuple[dict[str, Any], ...] | None:
    """Return a list of metrics, given so or as the string of JSON that nova-compute stores.

    An empty string stands for none, as for nova.
    """
    if isinstance(value, str):
        value = _decoded(value) if value else None
    return _metric_list(value)


def _percent(value: Any) -> int:
    """Return a percentage: a whole number as it is, a fraction times 100.

    nova-compute stores fractions, 1.0 for 100, and always writes their decimal point. nova cuts
    off what is left of the product (0.29 counts as 28), and so do we, to weigh hosts as it does.
    """
    if isinstance(value, float) and math.isfinite(value * 100):
        value = int(value * 100)
    return _metric_value(value)


_metric_list = nullable(list_of(metric))

_POOL_FIELDS: Mapping[str, Shape[Any]] = {
    "vendor_id": name(),
    "product_id": name(),
    "numa_node": nullable(integer()),
    "count": integer(),
}


def pci_device_pool(value: Any) -> dict[str, Any]:
    """Return a pool with its tags beside its own keys, given so or gathered under ``tags``."""
    if not isinstance(value, dict):
        raise Misfit("it is not an object")
    pool: dict[str, Any] = {"numa_node": None}
    for key, item in value.items():
        if key == "tags":
            continue
        try:
            pool[key] = _POOL_FIELDS.get(key, nullable(_string_of))(item)
        except Misfit as misfit:
            raise misfit.under(key) from None
    for key in _POOL_KEYS:
        if key not in pool:
            raise Misfit(f"{key!r} is required")
    return pool | _gathered_tags(value.get("tags"), pool)


def _gathered_tags(value: Any, pool: Mapping[str, Any]) -> dict[str, str | None]:
    try:
        tags = _TAGS(value) or {}
    except Misfit as misfit:
        raise misfit.under("tags") from None
    if twice := sorted(tags.keys() & pool.keys()):
        raise Misfit("the pool has this key already", "tags", twice[0])
    return tags


_TAGS = nullable(mapping_of(text(255, shortest=1), nullable(_string_of)))


def _unwrapped(inner: Shape[Any]) -> Shape[Any]:
    """Return the shape of a plain object, or of the nova object that holds its fields."""

    def shape(value: Any) -> Any:
        if isinstance(value, dict) and _NOVA_DATA in value:
            try:
                return inner(value[_NOVA_DATA])
            except Misfit as misfit:
                raise misfit.under(_NOVA_DATA) from None
        return inner(value)

    return shape


_cpus = integer(0, 65535)


def _cpu_set(value: Any) -> tuple[int, ...]:
    return tuple(sorted(set(list_of(_cpus)(value))))


_pages = _unwrapped(
    record(
        {
            "size_kb": integer(1),
            "total": integer(0),
            "used": integer(0),
            "reserved": integer(0),
        },
        required=("size_kb", "total"),
    )
)
_network_metadata = _unwrapped(record({"physnets": list_of(text()), "tunneled": boolean}))
_cell = _unwrapped(
    record(
        {
            "id": integer(),
            "cpuset": _cpu_set,
            "pcpuset": _cpu_set,
            "memory": integer(),
            "cpu_usage": integer(),
            "memory_usage": integer(),
            "pinned_cpus": _cpu_set,
            "siblings": list_of(_cpu_set),
            "mempages": list_of(_pages),
            "network_metadata": nullable(_network_metadata),
            "socket": nullable(integer()),
        },
        required=("id", "cpuset", "memory"),
    )
)
_cells = _unwrapped(record({"cells": list_of(_cell)}, required=("cells",)))


def numa_topology(value: Any) -> ReportedTopology | None:
    """Return ``{"cells": [...]}`` with every key of each cell, from any form nova gives it."""
    if isinstance(value, str):
        value = _decoded(value)
    if value is None:
        return None
    cells = [_whole_cell(cell) for cell in _cells(value)["cells"]]
    if len({cell["id"] for cell in cells}) != len(cells):
        raise Misfit("two cells have the same id", "cells")
    return ReportedTopology.of({"cells": cells})


def _whole_cell(cell: Mapping[str, Any]) -> dict[str, Any]:
    network = cell.get("network_metadata") or {}
    return {
        "id": cell["id"],
        "cpuset": list(cell["cpuset"]),
        "pcpuset": list(cell.get("pcpuset", ())),
        "memory": cell["memory"],
        "cpu_usage": cell.get("cpu_usage", 0),
        "memory_usage": cell.get("memory_usage", 0),
        "pinned_cpus": list(cell.get("pinned_cpus", ())),
        "siblings": [list(group) for group in cell.get("siblings", ())],
        "mempages": [{"used": 0, "reserved": 0, **pages} for pages in cell.get("mempages", ())],
        "network_metadata": {
            "physnets": sorted(network.get("physnets", ())),
            "tunneled": network.get("tunneled", False),
        },
        "socket": cell.get("socket"),
    }
