# SPDX-License-Identifier: Apache-2.0
"""Responses of ``select_destinations`` in the format of the scheduler API."""

from typing import Any

from placement_sched.model.decision import SchedulingResult, Selection

NODE_UUIDS = (
    "50a5c1de-0000-4000-8000-000000000001",
    "50a5c1de-0000-4000-8000-000000000002",
    "50a5c1de-0000-4000-8000-000000000003",
)
CELL_UUID = "8eac3f00-0000-4000-8000-0000000000ce"
PORT_UUID = "90271c00-0000-4000-8000-000000000001"
NUMA_LIMITS = {
    "cpu_allocation_ratio": 4.0,
    "ram_allocation_ratio": 1.5,
    "network_metadata": {"physnets": ["physnet0"], "tunneled": True},
}


def build_selection(number: int, **changed: Any) -> dict[str, Any]:
    uuid = NODE_UUIDS[number]
    return {
        "service_host": f"cn{number + 1}",
        "nodename": f"node{number + 1}",
        "compute_node_uuid": uuid,
        "cell_uuid": CELL_UUID,
        "availability_zone": "nova",
        "limits": {},
        "weight": 1.0,
        "allocation_request": {
            "allocations": {uuid: {"resources": {"VCPU": 1, "MEMORY_MB": 512}}},
            "mappings": {"": [uuid], PORT_UUID: [uuid]},
        },
        "allocation_request_version": "1.39",
        **changed,
    }


def build_select_destinations_result(*selections: list[dict[str, Any]]) -> dict[str, Any]:
    return {"decision": NODE_UUIDS[0], "policy": "default", "selections": list(selections)}


def read_selections(result: dict[str, Any]) -> tuple[tuple[Selection, ...], ...]:
    return SchedulingResult.from_json(result).selections


RESULT_WITH_LIMITS = build_select_destinations_result(
    [
        build_selection(0, limits={"numa_topology": NUMA_LIMITS, "vcpu": 8.0, "of_the_house": "x"}),
        build_selection(1, limits={"memory_mb": 4096, "disk_gb": 10.5}),
    ],
    [build_selection(2, limits={"numa_topology": {**NUMA_LIMITS, "network_metadata": None}})],
)
REBUILD_RESULT = build_select_destinations_result(
    [build_selection(0, allocation_request=None, allocation_request_version=None)]
)
SELECTIONS_WITH_LIMITS = read_selections(RESULT_WITH_LIMITS)
REBUILD_SELECTIONS = read_selections(REBUILD_RESULT)
