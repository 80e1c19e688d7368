"""The answer of ``select_destinations`` as Selection objects, and as it was before they were."""

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

from placement_sched.model.document import Document, Json
from placement_sched.nova.objects import primitive_of

#: The microversion at which nova sends an allocation request to placement. It must not be newer:
#: from 1.38 on placement demands a consumer type, which nova does not send.
ALLOCATION_REQUEST_VERSION = "1.36"
_RATIOS = ("cpu_allocation_ratio", "ram_allocation_ratio")
_AMOUNTS = ("vcpu", "memory_mb", "disk_gb")


def primitives_of(answer: Document) -> list[list[Json]]:
    """Return a list of Selection primitives for each instance: the chosen host, then alternates.

    ``answer`` is that of :meth:`Scheduler.select_destinations` (contract §4).
    """
    return [[_selection(one) for one in some] for some in answer["selections"]]


def dictionaries_of(answer: Document) -> list[Json]:
    """Return the chosen host of each instance as callers know it that ask for no objects."""
    return [_dictionary(best) for best, *_ in answer["selections"]]


def _selection(one: Document) -> Json:
    request = one["allocation_request"]
    data = {
        "compute_node_uuid": one["compute_node_uuid"],
        "service_host": one["service_host"],
        "nodename": one["nodename"],
        "limits": _limits(one["limits"]),
        "allocation_request": json.dumps(request),
        "allocation_request_version": None if request is None else ALLOCATION_REQUEST_VERSION,
        "availability_zone": one["availability_zone"],
    }
    # Nova has no Selection whose cell is null; what is not set it takes from its host mappings.
    return primitive_of("Selection", _with(data, cell_uuid=one["cell_uuid"]))


def _with(data: Json, **more: Any) -> Json:
    return data | {name: value for name, value in more.items() if value is not None}


def _limits(limits: Document) -> Json:
    """Return SchedulerLimits, which have no field for the limits that filters of others set."""
    amounts = {name: _whole(limits.get(name)) for name in _AMOUNTS}
    numa = _numa_limits(limits.get("numa_topology"))
    return primitive_of("SchedulerLimits", {**amounts, "numa_topology": numa})


def _whole(limit: Any) -> int | None:
    return int(limit) if isinstance(limit, int | float) and isfinite(limit) else None


def _numa_limits(limits: Any) -> Json | None:
    if not isinstance(limits, Mapping):
        return None
    network = limits.get("network_metadata")
    ratios = {name: float(limits[name]) for name in _RATIOS}
    made = None if network is None else primitive_of("NetworkMetadata", dict(network))
    return primitive_of("NUMATopologyLimits", _with(ratios, network_metadata=made))


def _dictionary(one: Document) -> Json:
    limits = one["limits"]
    amounts = {name: _whole(limits.get(name)) for name in _AMOUNTS}
    numa = _numa_limits(limits.get("numa_topology"))
    return {
        "host": one["service_host"],
        "nodename": one["nodename"],
        "limits": _with({}, **amounts, numa_topology=numa),
    }
