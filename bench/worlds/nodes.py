# SPDX-License-Identifier: Apache-2.0
"""The compute nodes that the scheduler knows hosts by, as they reported themselves."""

from datetime import datetime

import orjson

from placement_sched.db import tables
from placement_sched.model.compute_node import COMPUTE_BINARY, stored_fields
from placement_sched.schemas.node_report import Defaults, parse
from worlds.hardware import Hardware
from worlds.rows import Book, uuid_of

#: When hosts were last heard of that are up for as long as any run lasts.
ALWAYS_UP = datetime(2100, 1, 1)  # noqa: DTZ001 - the tables keep UTC without a zone


def add_node(book: Book, number: int, name: str, hardware: Hardware, seen: datetime) -> None:
    """Add what host ``number`` reported of itself when it was last heard of, and its service."""
    document = {
        "uuid": uuid_of("host", number),
        "host": name,
        "hypervisor_hostname": name,
        "hypervisor_type": "QEMU",
        "hypervisor_version": 8_002_000,
        "supported_hv_specs": [["x86_64", "kvm", "hvm"]],
        "vcpus": hardware.vcpus,
        "memory_mb": hardware.memory_mb,
        "local_gb": hardware.disk_gb,
        "cpu_allocation_ratio": hardware.vcpu_ratio,
        "reserved": {"MEMORY_MB": 4096, "DISK_GB": 20},
    }
    node = parse(document, Defaults(now=seen)).node
    report = orjson.dumps(stored_fields(node)).decode()
    book.write(tables.compute_nodes, (node.uuid, name, name, None, report, 1, seen))
    service = (uuid_of("service", number), name, COMPUTE_BINARY, 0, 0, seen)
    book.write(tables.services, service)
