# SPDX-License-Identifier: Apache-2.0
"""Answers of ``select_destinations``, as Selection objects or in their older form."""

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

from placement_sched.model.document import Document, Json
from placement_sched.nova.objects import primitive_of

#: The microversion of nova's allocation requests to placement. It must be below 1.38, which
#: requires a consumer type that nova does not send.
ALLOCATION_REQUEST_VERSION = "1.36"
_RATIOS = ("cpu_allocation_ratio", "ram_allocation_ratio")
_AMOUNTS = ("vcpu", "memory_mb", "disk_gb")


def primitives_of(answer: Document) -> list[list[Json]]:
    """Return the Selection primitives of each instance.

    The first is the chosen host, followed by alternates. ``answer`` is the result of
    :meth:`Scheduler.select_destinations`.
    """
    return [[_selection(selection) for selection in group] for group in answer["selections"]]


def dictionaries_of(answer: Document) -> list[Json]:
    """Return the chosen host of each instance as dictionaries, for callers without objects."""
    return [_dictionary(best) for best, *_ in answer["selections"]]


def _selection(selection: Document) -> Json:
    request = selection["allocation_request"]
    data = {
        "compute_node_uuid": selection["compute_node_uuid"],
        "service_host": selection["service_host"],
        "nodename": selection["nodename"],
        "limits": _limits(selection["limits"]),
        "allocation_request": json.dumps(request),
        "allocation_request_version": None if request is None else ALLOCATION_REQUEST_VERSION,
        "availability_zone": selection["availability_zone"],
    }
    # A Selection has no null cell. If it is unset, nova reads it from its host mappings.
    return primitive_of("Selection", _merge_set_values(data, cell_uuid=selection["cell_uuid"]))


def _merge_set_values(data: Json, **values: Any) -> Json:
    return data | {name: value for name, value in values.items() if value is not None}


def _limits(limits: Document) -> Json:
    """Return SchedulerLimits, which have no fields for limits of third-party filters."""
    amounts = {name: _int_or_none(limits.get(name)) for name in _AMOUNTS}
    numa = _numa_limits(limits.get("numa_topology"))
    return primitive_of("SchedulerLimits", {**amounts, "numa_topology": numa})


def _int_or_none(limit: Any) -> int | None:
    return int(limit) if isinstance(limit, int | float) and isfinite(limit) else None


def _numa_limits(limits: Any) -> Json | None:
    if not isinstance(limits, Mapping):
        return None
    network = limits.get("network_metadata")
    ratios = {name: float(limits[name]) for name in _RATIOS}
    metadata = None if network is None else primitive_of("NetworkMetadata", dict(network))
    return primitive_of("NUMATopologyLimits", _merge_set_values(ratios, network_metadata=metadata))


def _dictionary(selection: Document) -> Json:
    limits = selection["limits"]
    amounts = {name: _int_or_none(limits.get(name)) for name in _AMOUNTS}
    numa = _numa_limits(limits.get("numa_topology"))
    return {
        "host": selection["service_host"],
        "nodename": selection["nodename"],
        "limits": _merge_set_values({}, **amounts, numa_topology=numa),
    }
