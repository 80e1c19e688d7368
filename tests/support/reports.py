# SPDX-License-Identifier: Apache-2.0
"""Reports of compute nodes, as hosts send them."""

from typing import Any
from uuid import UUID

from placement_sched.model.compute_node import ComputeNode
from placement_sched.schemas.node_report import Defaults, parse
from tests.support.clouds import NOW

REPORT_DEFAULTS = Defaults(now=NOW)
NUMA_CELL = {"id": 0, "cpuset": [3, 1, 2], "memory": 1024}


def node_uuid(number: int) -> str:
    return str(UUID(int=number))


def build_report(number: int = 1, **changes: Any) -> dict[str, Any]:
    """Return the report of a host ``cn<number>`` with 8 CPUs, 16 GB and 100 GB of disk."""
    report = {
        "uuid": node_uuid(number),
        "host": f"cn{number}",
        "hypervisor_hostname": f"cn{number}",
        "vcpus": 8,
        "memory_mb": 16384,
        "local_gb": 100,
    }
    return report | changes


def remove_keys(report: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in report.items() if key not in keys}


def parse_node_report(**changes) -> ComputeNode:
    return parse(build_report(**changes), REPORT_DEFAULTS).node
