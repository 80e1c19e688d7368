# SPDX-License-Identifier: Apache-2.0
"""Inventories and stored fields of compute nodes."""

from datetime import datetime

import orjson
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.model.compute_node import build_inventories, build_node, select_stored_fields
from placement_sched.model.provider import MAX_INT, Inventory
from placement_sched.schemas.node_report import parse
from tests.support.reports import NUMA_CELL, REPORT_DEFAULTS, parse_node_report


def test_inventories_of_a_node_have_reported_totals_and_ratios():
    inventories = build_inventories(
        parse_node_report(
            reserved={"MEMORY_MB": 512}, cpu_allocation_ratio=2, disk_allocation_ratio=1.5
        )
    )
    assert inventories == (
        Inventory(resource_class="VCPU", total=8, max_unit=8, allocation_ratio=2.0),
        Inventory(resource_class="MEMORY_MB", total=16384, reserved=512, max_unit=16384),
        Inventory(resource_class="DISK_GB", total=100, max_unit=100, allocation_ratio=1.5),
    )


def test_resource_class_with_a_total_of_zero_has_no_inventory():
    names = [
        inventory.resource_class for inventory in build_inventories(parse_node_report(local_gb=0))
    ]
    assert names == ["VCPU", "MEMORY_MB"]
    assert build_inventories(parse_node_report(vcpus=0, memory_mb=0, local_gb=0)) == ()


RANDOM_RESOURCE_AMOUNTS = st.integers(0, MAX_INT)
RANDOM_NODE_REPORTS = st.fixed_dictionaries(
    {
        "uuid": st.uuids().map(str),
        "host": st.from_regex(r"[a-z][a-z0-9.-]{0,30}", fullmatch=True),
        "hypervisor_hostname": st.from_regex(r"[a-z][a-z0-9.-]{0,30}", fullmatch=True),
        "vcpus": RANDOM_RESOURCE_AMOUNTS,
        "memory_mb": RANDOM_RESOURCE_AMOUNTS,
    },
    optional={
        "local_gb": RANDOM_RESOURCE_AMOUNTS,
        "memory_mb_used": RANDOM_RESOURCE_AMOUNTS,
        "free_disk_gb": st.none() | st.integers(-MAX_INT, MAX_INT),
        "cpu_allocation_ratio": st.none() | st.floats(0, 1000),
        "cpu_info": st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
        "stats": st.dictionaries(
            st.from_regex(r"x[a-z_]{1,8}", fullmatch=True), st.integers() | st.booleans()
        ),
        "supported_hv_specs": st.lists(st.just(["x86_64", "kvm", "hvm"]), max_size=2),
        "pci_device_pools": st.lists(
            st.fixed_dictionaries(
                {
                    "vendor_id": st.just("8086"),
                    "product_id": st.just("1572"),
                    "count": st.integers(0, 64),
                    "tags": st.dictionaries(st.sampled_from("abc"), st.none() | st.just("t")),
                }
            ),
            max_size=2,
        ),
        "numa_topology": st.none() | st.just({"cells": [NUMA_CELL]}),
        "last_seen_up": st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)).map(
            datetime.isoformat
        ),
    },
)


STORED_NAME_COLUMNS = ("uuid", "host", "hypervisor_hostname", "cell_uuid", "version")
STORED_TIME_COLUMNS = ("last_seen_up", "created_at", "updated_at")


@given(RANDOM_NODE_REPORTS)
def test_stored_compute_node_is_restored_from_its_document(document):
    parsed = parse(document, REPORT_DEFAULTS).node
    fields = orjson.loads(orjson.dumps(select_stored_fields(parsed)))
    columns = {key: getattr(parsed, key) for key in STORED_NAME_COLUMNS + STORED_TIME_COLUMNS}
    assert build_node(fields, **columns) == parsed
