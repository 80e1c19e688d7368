# SPDX-License-Identifier: Apache-2.0
"""Reports of compute nodes: their forms, defaults and faults."""

import json
import math
from datetime import datetime

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.errors import Invalid
from placement_sched.model.compute_node import ComputeNode, select_stored_fields
from placement_sched.model.names import MONITOR_METRICS
from placement_sched.model.provider import MAX_INT
from placement_sched.schemas.node_report import parse
from tests.support.nova_clouds import build_nova_object
from tests.support.reports import (
    NOW,
    NUMA_CELL,
    REPORT_DEFAULTS,
    build_report,
    node_uuid,
    parse_node_report,
    remove_keys,
)


def test_missing_fields_of_a_report_have_defaults():
    shortest = parse(remove_keys(build_report(), "local_gb"), REPORT_DEFAULTS)
    assert shortest.inventories is True
    assert shortest.node == ComputeNode(
        uuid=node_uuid(1),
        host="cn1",
        hypervisor_hostname="cn1",
        cell_uuid=None,
        version=0,
        last_seen_up=NOW,
        hypervisor_type="",
        hypervisor_version=0,
        host_ip=None,
        cpu_info="{}",
        supported_hv_specs=(),
        vcpus=8,
        vcpus_used=0,
        memory_mb=16384,
        memory_mb_used=0,
        free_ram_mb=16384,
        local_gb=0,
        local_gb_used=0,
        free_disk_gb=0,
        disk_available_least=None,
        cpu_allocation_ratio=4.0,
        ram_allocation_ratio=1.0,
        disk_allocation_ratio=1.0,
        stats={},
        metrics=(),
        pci_device_pools=(),
        numa_topology=None,
        reserved={},
    )


def test_null_in_a_nullable_field_of_a_report_is_read_as_the_default():
    nullable = (
        *("cell_uuid", "host_ip", "cpu_info", "supported_hv_specs", "disk_available_least"),
        *("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"),
        *("stats", "metrics", "pci_device_pools", "numa_topology", "reserved", "last_seen_up"),
    )
    assert parse_node_report(**dict.fromkeys(nullable)) == parse_node_report()


def test_allocation_ratio_reported_as_zero_or_null_is_the_default():
    ratios = ("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio")
    for nothing in (0, 0.0, None):
        assert parse_node_report(**dict.fromkeys(ratios, nothing)) == parse_node_report()


def test_reported_allocation_ratio_overrides_the_default():
    assert parse_node_report(cpu_allocation_ratio=16).cpu_allocation_ratio == 16.0


def test_free_ram_and_disk_are_totals_minus_used_amounts():
    used = parse_node_report(memory_mb_used=384, local_gb_used=30)
    assert (used.free_ram_mb, used.free_disk_gb) == (16000, 70)


def test_reported_free_ram_and_disk_may_be_null_or_negative():
    assert parse_node_report(free_disk_gb=None).free_disk_gb is None
    assert parse_node_report(free_ram_mb=None).free_ram_mb is None
    assert parse_node_report(free_ram_mb=-5, free_disk_gb=7).free_ram_mb == -5
    assert parse_node_report(disk_available_least=-3).disk_available_least == -3


def test_cpu_info_is_stored_as_a_json_string():
    info = {"arch": "x86_64", "features": ["aes", "vmx"], "topology": {"cores": 4}}
    assert json.loads(parse_node_report(cpu_info=info).cpu_info) == info
    assert parse_node_report(cpu_info='{"arch":  "x86_64"}').cpu_info == '{"arch":  "x86_64"}'
    assert parse_node_report(cpu_info="").cpu_info == "{}"


def test_hypervisor_specs_have_the_canonical_names_of_nova():
    specs = [["AMD64", "KVM", "hv"], ["i386", "xapi", "PV"], ["s390x", "qemu", "hvm"]]
    assert parse_node_report(supported_hv_specs=specs).supported_hv_specs == (
        ("x86_64", "kvm", "hvm"),
        ("i686", "xen", "xen"),
        ("s390x", "qemu", "hvm"),
    )


def test_stats_of_a_report_are_stored_as_strings():
    stats = {"num_instances": 3, "io_workload": "2", "a": 1.5, "b": True, "uptime": "1 day"}
    assert parse_node_report(stats=stats).stats == {
        "num_instances": "3",
        "io_workload": "2",
        "a": "1.5",
        "b": "True",
        "uptime": "1 day",
    }


def test_metrics_of_a_report_are_stored_as_integers_with_times_in_utc():
    metric = {
        "name": "cpu.user.percent",
        "value": 17,
        "source": "libvirt",
        "timestamp": "2026-01-01T13:00:00.5+01:00",
    }
    assert parse_node_report(metrics=[metric]).metrics == (
        metric | {"timestamp": "2026-01-01T12:00:00"},
    )


#: Fractions, and their values in nova 34's MonitorMetricList.from_json.
METRIC_PERCENT_VALUES = [
    (0.0, 0), (0.25, 25), (0.999, 99), (1.0, 100), (2.5, 250), (-0.25, -25),
    (0.29, 28), (0.57, 56), (0.58, 57), (0.3, 30), (17.0, 1700),
]  # fmt: skip


def test_fractions_of_percent_metrics_are_multiplied_by_100_as_in_nova():
    for name in (name for name in MONITOR_METRICS if "percent" in name):
        for fraction, percent in METRIC_PERCENT_VALUES:
            (metric,) = parse_node_report(metrics=[{"name": name, "value": fraction}]).metrics
            assert metric["value"] == percent
            assert type(metric["value"]) is int


def test_integer_percentages_are_stored_unchanged():
    for value in (0, 1, 25, 100):
        metric = {"name": "cpu.percent", "value": value}
        assert parse_node_report(metrics=[metric]).metrics == (metric,)


def test_metrics_in_the_format_of_the_nova_database_are_parsed():
    """The column of a compute node has them as nova's to_list returns them, encoded or not."""
    common = {"timestamp": "2026-11-21T10:11:12.345678", "source": "libvirt.LibvirtDriver"}
    stored = [
        {"name": "cpu.user.percent", "value": 0.25, **common},
        {"name": "cpu.frequency", "value": 2400, **common},
        {"name": "numa.membw.current", "numa_membw_values": {"0": 10, "1": 43}, **common},
    ]
    read = parse_node_report(metrics=stored)
    assert [metric["value"] for metric in read.metrics[:2]] == [25, 2400]
    by_node = read.reported_metrics[2]
    assert by_node.numa_membw_values == {"0": 10, "1": 43}
    assert not by_node.obj_attr_is_set("value")
    assert read.reported_metrics[0].obj_attr_is_set("value")
    assert {metric["timestamp"] for metric in read.metrics} == {"2026-11-21T10:11:12"}
    assert (
        parse_node_report(metrics=[dict(metric) for metric in read.metrics]).metrics == read.metrics
    )
    assert parse_node_report(metrics=json.dumps(stored)).metrics == read.metrics
    assert parse_node_report(metrics="").metrics == parse_node_report(metrics="[]").metrics == ()


def test_metric_can_have_a_value_and_values_by_numa_node():
    metric = {"name": "numa.membw.max", "value": 53, "numa_membw_values": {"0": 10, "1": 43}}
    assert parse_node_report(metrics=[metric]).metrics == (metric,)
    nothing = {"name": "numa.membw.max", "numa_membw_values": None}
    assert parse_node_report(metrics=[nothing]).metrics == (nothing,)


def test_every_metric_of_nova_is_accepted():
    metrics = [{"name": name, "value": 2**40} for name in sorted(MONITOR_METRICS)]
    assert len(parse_node_report(metrics=metrics).metrics) == 12


def test_tags_of_a_pci_pool_are_stored_next_to_its_other_keys():
    keys = {"vendor_id": "8086", "product_id": "1572", "count": 4}
    tags = {"dev_type": "type-PF", "physical_network": None, "rev": "3"}
    for pool in (
        {**tags, "rev": 3},
        {"tags": tags},
        {"dev_type": "type-PF", "tags": {"physical_network": None, "rev": 3}},
    ):
        pools = parse_node_report(pci_device_pools=[keys | pool]).pci_device_pools
        assert pools == ({**keys, "numa_node": None, **tags},)


def build_object_with_changes(name: str, **data) -> dict:
    return {**build_nova_object(name, "1.0", data), "nova_object.changes": sorted(data)}


STORED_NUMA_TOPOLOGY = {
    "cells": [
        {
            "id": 0,
            "cpuset": [1, 2, 3],
            "pcpuset": [4, 5],
            "memory": 1024,
            "cpu_usage": 1,
            "memory_usage": 512,
            "pinned_cpus": [4],
            "siblings": [[1, 2], [4, 5]],
            "mempages": [{"size_kb": 4, "total": 100, "used": 5, "reserved": 0}],
            "network_metadata": {"physnets": ["a", "b"], "tunneled": True},
            "socket": 0,
        }
    ]
}
STORED_NUMA_CELL = STORED_NUMA_TOPOLOGY["cells"][0]
NOVA_NUMA_TOPOLOGY = build_object_with_changes(
    "NUMATopology",
    cells=[
        build_object_with_changes(
            "NUMACell",
            **{
                **STORED_NUMA_CELL,
                "mempages": [
                    build_object_with_changes(
                        "NUMAPagesTopology", **STORED_NUMA_CELL["mempages"][0]
                    )
                ],
                "network_metadata": build_object_with_changes(
                    "NetworkMetadata", **STORED_NUMA_CELL["network_metadata"]
                ),
            },
        )
    ],
)


def test_every_format_of_a_numa_topology_is_stored_as_plain_json():
    for form in (STORED_NUMA_TOPOLOGY, NOVA_NUMA_TOPOLOGY):
        assert parse_node_report(numa_topology=form).numa_topology == STORED_NUMA_TOPOLOGY
        assert (
            parse_node_report(numa_topology=json.dumps(form)).numa_topology == STORED_NUMA_TOPOLOGY
        )
    for nothing in (None, "null"):
        assert parse_node_report(numa_topology=nothing).numa_topology is None


def test_missing_fields_of_a_numa_cell_have_defaults():
    cell = NUMA_CELL | {"mempages": [{"size_kb": 4, "total": 9}]}
    assert parse_node_report(numa_topology={"cells": [cell]}).numa_topology == {
        "cells": [
            {
                "id": 0,
                "cpuset": [1, 2, 3],
                "pcpuset": [],
                "memory": 1024,
                "cpu_usage": 0,
                "memory_usage": 0,
                "pinned_cpus": [],
                "siblings": [],
                "mempages": [{"size_kb": 4, "total": 9, "used": 0, "reserved": 0}],
                "network_metadata": {"physnets": [], "tunneled": False},
                "socket": None,
            }
        ]
    }


def test_uuids_and_ip_addresses_of_a_report_are_normalized():
    found = parse_node_report(
        uuid=node_uuid(10).upper(), cell_uuid=node_uuid(11).replace("-", ""), host_ip="FE80::0:1"
    )
    assert (found.uuid, found.cell_uuid, found.host_ip) == (node_uuid(10), node_uuid(11), "fe80::1")


def test_last_seen_up_of_a_node_is_the_reported_time():
    assert parse_node_report(last_seen_up="2025-12-31T23:00:00Z").last_seen_up == datetime(
        2025, 12, 31, 23
    )


PCI_POOL = {"vendor_id": "1", "product_id": "2", "count": 3}
METRIC = {"name": "cpu.percent", "value": 1}
BELOW_MINIMUM, ABOVE_MAXIMUM = "than the minimum of 0", "than the maximum of "

#: Path, changed fields of a valid report, and words of the message.
INVALID_REPORT_FIELDS = [
    ("vpcus", {"vpcus": 8}, "unknown"),
    ("version", {"version": 8}, "unknown"),
    ("uuid", {"uuid": "x"}, "not a uuid"),
    ("host", {"host": ""}, "should be non-empty"),
    ("host", {"host": None}, "not a string"),
    ("host", {"host": "a\x01"}, "control"),
    ("host", {"host": "cn1 "}, "blank"),
    ("host", {"host": "x" * 256}, "at most 255 characters"),
    ("hypervisor_hostname", {"hypervisor_hostname": "x" * 201}, "at most 200 characters"),
    ("cell_uuid", {"cell_uuid": "cell1"}, "not a uuid"),
    ("hypervisor_type", {"hypervisor_type": 1}, "not a string"),
    ("hypervisor_version", {"hypervisor_version": "2.0"}, "not an integer"),
    ("host_ip", {"host_ip": "10.0.0.256"}, "not an IP address"),
    ("host_ip", {"host_ip": 167772161}, "not a string"),
    *(("vcpus", {"vcpus": value}, "not an integer") for value in ("8", True, None)),
    ("vcpus", {"vcpus": -1}, BELOW_MINIMUM),
    ("vcpus", {"vcpus": MAX_INT + 1}, ABOVE_MAXIMUM),
    ("memory_mb", {"memory_mb": 1.5}, "not an integer"),
    ("local_gb_used", {"local_gb_used": -1}, BELOW_MINIMUM),
    ("free_ram_mb", {"free_ram_mb": "many"}, "not an integer"),
    ("cpu_allocation_ratio", {"cpu_allocation_ratio": -1.0}, BELOW_MINIMUM),
    ("cpu_allocation_ratio", {"cpu_allocation_ratio": "4"}, "not a number"),
    ("cpu_allocation_ratio", {"cpu_allocation_ratio": True}, "not a number"),
    ("ram_allocation_ratio", {"ram_allocation_ratio": 1e39}, ABOVE_MAXIMUM),
    *(("cpu_info", {"cpu_info": text}, "not JSON") for text in ("?", '{"a": NaN}', '{"a": 1e999}')),
    ("cpu_info", {"cpu_info": "[]"}, "not a JSON object"),
    ("cpu_info", {"cpu_info": ["x"]}, "not an object or a string"),
    ("supported_hv_specs", {"supported_hv_specs": "kvm"}, "not a list"),
    ("supported_hv_specs[0]", {"supported_hv_specs": [["x86_64", "kvm"]]}, "at least 3 items"),
    ("supported_hv_specs[0][0]", {"supported_hv_specs": [["z80", "kvm", "hvm"]]}, "not one of"),
    ("stats", {"stats": []}, "not an object"),
    ("stats.a", {"stats": {"a": {}}}, "not a string"),
    ("stats.a", {"stats": {"a": None}}, "not a string"),
    ("stats.num_instances", {"stats": {"num_instances": "some"}}, "not an integer"),
    ("stats.io_workload", {"stats": {"io_workload": "9" * 20}}, "not an integer"),
    ("stats.failed_builds", {"stats": {"failed_builds": -1}}, BELOW_MINIMUM),
    ("metrics[0].name", {"metrics": [{"name": "heat", "value": 1}]}, "not one of"),
    ("metrics", {"metrics": "cpu.percent"}, "not JSON"),
    ("metrics", {"metrics": "{}"}, "not a list"),
    (
        "metrics[0]",
        {"metrics": [{"name": "cpu.percent"}]},
        "'value' or 'numa_membw_values' is required",
    ),
    ("metrics[0].value", {"metrics": [{"name": "cpu.frequency", "value": 0.17}]}, "not an integer"),
    *(
        ("metrics[0].value", {"metrics": [METRIC | {"value": value}]}, "not an integer")
        for value in ("0.17", True, None, math.nan, math.inf)
    ),
    ("metrics[0].value", {"metrics": [METRIC | {"value": 1e20}]}, ABOVE_MAXIMUM),
    ("metrics[0].numa_membw_values", {"metrics": [METRIC | {"numa_membw_values": [1]}]}, "object"),
    (
        "metrics[0].numa_membw_values['0']",
        {"metrics": [METRIC | {"numa_membw_values": {"0": 1.5}}]},
        "not an integer",
    ),
    ("metrics[0].timestamp", {"metrics": [METRIC | {"timestamp": "noon"}]}, "not an ISO 8601 time"),
    ("metrics[0].unit", {"metrics": [METRIC | {"unit": "%"}]}, "unknown"),
    ("pci_device_pools[0]", {"pci_device_pools": ["gpu"]}, "not an object"),
    ("pci_device_pools[0]", {"pci_device_pools": [{"vendor_id": "1"}]}, "is required"),
    (
        "pci_device_pools[0].count",
        {"pci_device_pools": [PCI_POOL | {"count": "3"}]},
        "not an integer",
    ),
    ("pci_device_pools[0].a", {"pci_device_pools": [PCI_POOL | {"a": []}]}, "not a string"),
    (
        "pci_device_pools[0].tags.count",
        {"pci_device_pools": [PCI_POOL | {"tags": {"count": "3"}}]},
        "already",
    ),
    ("numa_topology", {"numa_topology": "{"}, "not JSON"),
    ("numa_topology", {"numa_topology": {}}, "'cells' is required"),
    ("numa_topology.cells[0]", {"numa_topology": {"cells": [{"id": 0}]}}, "required"),
    (
        "numa_topology.cells[0].cpuset[1]",
        {"numa_topology": {"cells": [NUMA_CELL | {"cpuset": [1, -1]}]}},
        BELOW_MINIMUM,
    ),
    (
        "numa_topology.cells[0].mempages[0].size_kb",
        {"numa_topology": {"cells": [NUMA_CELL | {"mempages": [{"size_kb": 0, "total": 1}]}]}},
        "than the minimum of 1",
    ),
    ("numa_topology.cells", {"numa_topology": {"cells": [NUMA_CELL, NUMA_CELL]}}, "same id"),
    (
        "numa_topology['nova_object.data'].cells[0].memory",
        {
            "numa_topology": build_object_with_changes(
                "NUMATopology", cells=[NUMA_CELL | {"memory": "x"}]
            )
        },
        "not an integer",
    ),
    ("reserved.PCPU", {"reserved": {"PCPU": 1}}, "not one of VCPU, MEMORY_MB, DISK_GB"),
    ("reserved.VCPU", {"reserved": {"VCPU": -1}}, BELOW_MINIMUM),
    ("reserved.VCPU", {"reserved": {"VCPU": 9}}, "more than vcpus"),
    ("last_seen_up", {"last_seen_up": "now"}, "ISO 8601"),
    ("last_seen_up", {"last_seen_up": 1767225600}, "not a string"),
    ("inventories", {"inventories": "no"}, "not a boolean"),
]


def read_error_of_invalid_report(document):
    with pytest.raises(Invalid) as fault:
        parse(document, REPORT_DEFAULTS)
    assert fault.value.code == "scheduler.bad_value"
    return fault.value.detail


def test_invalid_report_is_rejected_with_the_path_of_the_error():
    for path, changes, words in INVALID_REPORT_FIELDS:
        detail = read_error_of_invalid_report(build_report(**changes))
        assert detail.endswith(f"(at $.{path})"), changes
        assert words in detail, changes
    assert read_error_of_invalid_report(build_report(**{"free ram": 8})).endswith(
        "(at $['free ram'])"
    )
    assert read_error_of_invalid_report([]) == "[] is not an object (at $)"
    for name in ("uuid", "host", "hypervisor_hostname", "vcpus", "memory_mb"):
        document = remove_keys(build_report(), name)
        assert read_error_of_invalid_report(document) == f"'{name}' is required (at $)"


def test_path_of_an_error_begins_with_the_path_of_the_report():
    with pytest.raises(Invalid, match=r"\(at \$\[3\]\.vcpus\)"):
        parse(build_report(vcpus="x"), REPORT_DEFAULTS, "$[3]")


RANDOM_JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
NODE_REPORT_KEYS = sorted(
    {
        "inventories",
        *build_report(),
        *select_stored_fields(parse_node_report()),
        "cell_uuid",
        "last_seen_up",
    }
)


@given(st.sampled_from(NODE_REPORT_KEYS), RANDOM_JSON_VALUES)
def test_report_with_a_random_field_value_is_stored_or_rejected_with_its_path(key, value):
    try:
        stored = select_stored_fields(parse(build_report(**{key: value}), REPORT_DEFAULTS).node)
    except Invalid as rejection:
        fault = rejection.detail
    else:
        fault = ""
        assert orjson.dumps(stored)
    assert not fault or f"(at $.{key}" in fault
