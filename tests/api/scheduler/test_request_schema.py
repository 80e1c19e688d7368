# SPDX-License-Identifier: Apache-2.0
"""Schemas of select and explain requests, and the paths of their errors."""

import pytest

from placement_sched.api.scheduler.request_schema import EXPLAIN, SELECT
from placement_sched.api.versions import Version
from placement_sched.errors import Invalid
from tests.support.reports import node_uuid

FLAVOR = {"vcpus": 1, "memory_mb": 512}
ANY = Version(1, 0)

EVERYTHING = {
    "project_id": "p",
    "user_id": "u",
    "num_instances": 2,
    "instance_uuids": [node_uuid(1), node_uuid(2)],
    "flavor": {
        **FLAVOR,
        "name": "m1",
        "root_gb": 1,
        "ephemeral_gb": 0,
        "swap": 512,
        "extra_specs": {"hw:numa_nodes": "1", "resources:VGPU": "1"},
    },
    "image": {
        "id": "i",
        "disk_format": "qcow2",
        "container_format": "bare",
        "min_ram": 0,
        "min_disk": 0,
        "properties": {"hw_architecture": "x86_64", "trait:X": "required", "os_secure_boot": True},
    },
    "is_bfv": False,
    "availability_zone": "az1,az2",
    "ignore_hosts": ["a"],
    "force_hosts": ["a"],
    "force_nodes": ["a"],
    "requested_destination": {
        "host": "a",
        "node": "a",
        "cell": None,
        "aggregates": [f"{node_uuid(1)},{node_uuid(2)}", node_uuid(3)],
        "forbidden_aggregates": [node_uuid(4)],
        "allow_cross_cell_move": True,
    },
    "retry": {"num_attempts": 1, "hosts": [["a", "b"], ["a", None]]},
    "limits": {"vcpu": 4.0},
    "instance_group": {
        "policy": "anti-affinity",
        "rules": {"max_server_per_host": 2},
        "hosts": ["a"],
        "members": [node_uuid(5)],
    },
    "scheduler_hints": {"same_host": [node_uuid(1)], "query": '[">=", "$free_ram_mb", 1024]'},
    "requested_resources": [
        {
            "requester_id": node_uuid(1),
            "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1000},
            "required_traits": ["CUSTOM_A"],
            "forbidden_traits": ["CUSTOM_B"],
            "aggregates": [node_uuid(1)],
            "forbidden_aggregates": [node_uuid(2)],
            "in_tree": node_uuid(3),
            "use_same_provider": True,
        }
    ],
    "request_level_params": {
        "root_required": ["CUSTOM_A"],
        "root_forbidden": ["CUSTOM_B"],
        "same_subtree": [["_A", "_B"]],
    },
    "network_metadata": {"physnets": ["net-a"], "tunneled": True},
    "requested_networks": [
        {
            "network_id": node_uuid(1),
            "address": "192.0.2.7",
            "port_id": node_uuid(2),
            "pci_request_id": node_uuid(3),
            "tag": "nic0",
            "arq_uuid": node_uuid(4),
            "device_profile": "gpu",
            "vnic_type": "normal",
            "binding:vnic_type": "normal",
            "fixed_ips": [{"subnet_id": node_uuid(5), "ip_address": "192.0.2.7"}],
            "segments": [node_uuid(6)],
        },
        {"network_id": "auto"},
        dict.fromkeys(("network_id", "port_id", "vnic_type", "fixed_ips", "segments")),
    ],
    "numa_topology": {
        "cells": [
            {
                "id": 0,
                "cpuset": [0, 1],
                "pcpuset": [2],
                "memory": 512,
                "pagesize": -1,
                "cpu_policy": "mixed",
                "cpu_thread_policy": "prefer",
            }
        ],
        "emulator_threads_policy": "share",
    },
    "pci_requests": {
        "requests": [
            {
                "count": 1,
                "spec": [{"vendor_id": "8086"}],
                "alias_name": "gpu",
                "request_id": node_uuid(1),
                "requester_id": None,
                "numa_policy": "preferred",
            }
        ]
    },
}


def check_document(schemas, document):
    schemas.at(ANY).check(document, "JSON does not validate")


@pytest.mark.parametrize(
    "spec",
    [
        EVERYTHING,
        {"flavor": FLAVOR},
        {"flavor": "m1.small"},
        {"flavor": FLAVOR, "image": "cirros", "instance_group": node_uuid(1)},
        {"flavor": {**FLAVOR, "swap": ""}},
        {"flavor": FLAVOR, **dict.fromkeys(set(EVERYTHING) - {"flavor", "num_instances"})},
    ],
    ids=["everything", "least", "stored flavor", "stored image and group", "no swap", "nulls"],
)
def test_valid_request_passes(spec):
    check_document(SELECT, {"request_spec": spec, "claim": False})
    check_document(
        EXPLAIN,
        {
            "request_spec": spec,
            "overrides": {
                "filter_scheduler.enabled_filters": ["ComputeFilter"],
                "filter_scheduler.ram_weight_multiplier": -1.0,
                "metrics.required": False,
            },
            "hosts": ["cn7"],
            "max_rejected": 0,
        },
    )


SPEC = [
    ("", {}),
    ("", {"flavor": FLAVOR, "bogus": 1}),
    (".flavor", {"flavor": None}),
    (".flavor", {"flavor": ""}),
    (".flavor", {"flavor": {"vcpus": 1}}),
    (".flavor", {"flavor": {**FLAVOR, "bogus": 1}}),
    (".flavor.vcpus", {"flavor": {**FLAVOR, "vcpus": -1}}),
    (".flavor.extra_specs.a", {"flavor": {**FLAVOR, "extra_specs": {"a": None}}}),
    (".flavor.extra_specs.a", {"flavor": {**FLAVOR, "extra_specs": {"a": "x" * 256}}}),
    (
        ".flavor.extra_specs",
        {"flavor": {**FLAVOR, "extra_specs": {f"a{number}": "x" for number in range(501)}}},
    ),
    *(
        (path, {"flavor": FLAVOR, **changes})
        for path, changes in [
            (".num_instances", {"num_instances": 0}),
            (".scheduler_hints.same_host[0]", {"scheduler_hints": {"same_host": [1]}}),
            (".scheduler_hints.different_host[0]", {"scheduler_hints": {"different_host": [[1]]}}),
            (".image.properties.a", {"image": {"properties": {"a": "x" * 65_536}}}),
            (".num_instances", {"num_instances": 10_001}),
            (".instance_uuids", {"instance_uuids": []}),
            (".instance_uuids[0]", {"instance_uuids": ["x"]}),
            (".instance_uuids", {"instance_uuids": [node_uuid(1), node_uuid(1)]}),
            (".image.min_disk", {"image": {"min_disk": "1"}}),
            (".is_bfv", {"is_bfv": "yes"}),
            (".ignore_hosts", {"ignore_hosts": "a"}),
            (".force_hosts[0]", {"force_hosts": [1]}),
            (".requested_destination", {"requested_destination": {"zone": "a"}}),
            (
                ".requested_destination.aggregates[0]",
                {"requested_destination": {"aggregates": ["a,b"]}},
            ),
            (
                ".requested_destination.forbidden_aggregates[0]",
                {"requested_destination": {"forbidden_aggregates": ["x"]}},
            ),
            (
                ".requested_destination.aggregates[0]",
                {"requested_destination": {"aggregates": ["-" * 36]}},
            ),
            (
                ".requested_destination.aggregates",
                {"requested_destination": {"aggregates": [node_uuid(1)] * 21}},
            ),
            (
                ".requested_destination.aggregates[0]",
                {"requested_destination": {"aggregates": [",".join([node_uuid(1)] * 251)]}},
            ),
            (
                ".requested_destination.forbidden_aggregates",
                {"requested_destination": {"forbidden_aggregates": [node_uuid(1)] * 5_001}},
            ),
            (".limits", {"limits": {"foo": 1}}),
            (".limits.vcpu", {"limits": {"vcpu": "x"}}),
            (".image.properties.a", {"image": {"properties": {"a": ["b"]}}}),
            (".image.properties.a", {"image": {"properties": {"a": {"b": 1}}}}),
            (".image.properties.mappings[0]", {"image": {"properties": {"mappings": ["a"]}}}),
            (".retry.hosts[0]", {"retry": {"hosts": [["a"]]}}),
            (".instance_group", {"instance_group": "x"}),
            (".instance_group", {"instance_group": {"hosts": []}}),
            (".instance_group.policy", {"instance_group": {"policy": "near"}}),
            (
                ".instance_group.rules.max_server_per_host",
                {"instance_group": {"policy": "affinity", "rules": {"max_server_per_host": 0}}},
            ),
            (".scheduler_hints.a", {"scheduler_hints": {"a": {}}}),
            (".scheduler_hints.a", {"scheduler_hints": {"a": 1}}),
            (
                ".requested_resources[0].resources.VCPU",
                {"requested_resources": [{"resources": {"VCPU": 0}}]},
            ),
            (
                ".requested_resources[0].required_traits[0]",
                {"requested_resources": [{"required_traits": ["lower"]}]},
            ),
            (
                ".request_level_params.same_subtree[0]",
                {"request_level_params": {"same_subtree": ["_A"]}},
            ),
            (".network_metadata.physnets", {"network_metadata": {"physnets": "a"}}),
            (".network_metadata.tunneled", {"network_metadata": {"tunneled": 1}}),
            (".network_metadata", {"network_metadata": {"cells": []}}),
            (".requested_networks", {"requested_networks": {}}),
            (".requested_networks", {"requested_networks": [{}] * 101}),
            (".requested_networks[0]", {"requested_networks": [node_uuid(1)]}),
            (".requested_networks[0]", {"requested_networks": [{"uuid": "x"}]}),
            *(
                (f".requested_networks[0]{path}", {"requested_networks": [network]})
                for path, network in [
                    (".network_id", {"network_id": 1}),
                    (".port_id", {"port_id": "x"}),
                    (".vnic_type", {"vnic_type": ["normal"]}),
                    ("['binding:vnic_type']", {"binding:vnic_type": 1}),
                    (".fixed_ips", {"fixed_ips": "192.0.2.7"}),
                    (".fixed_ips[0]", {"fixed_ips": [{"ip_address": "192.0.2.7"}]}),
                    (".fixed_ips[0].subnet_id", {"fixed_ips": [{"subnet_id": "x"}]}),
                    (".segments", {"segments": node_uuid(1)}),
                    (".segments[1]", {"segments": [node_uuid(1), "x"]}),
                ]
            ),
            (".numa_topology", {"numa_topology": {}}),
            (".numa_topology.cells", {"numa_topology": {"cells": []}}),
            (
                ".numa_topology.cells[0].cpu_policy",
                {"numa_topology": {"cells": [{"cpuset": [], "memory": 1, "cpu_policy": "x"}]}},
            ),
            (".pci_requests.requests[0]", {"pci_requests": {"requests": [{}]}}),
            (".pci_requests.requests[0].count", {"pci_requests": {"requests": [{"count": 0}]}}),
        ]
    ),
]


def test_error_in_request_spec_is_reported_with_its_path():
    for path, spec in SPEC:
        for schemas in (SELECT, EXPLAIN):
            with pytest.raises(Invalid, match="JSON does not validate") as fault:
                check_document(schemas, {"request_spec": spec})
            assert f" (at $.request_spec{path}). Failed validating " in fault.value.detail, path


def test_error_outside_request_spec_is_reported_with_its_path():
    for schemas, path, changes in [
        (SELECT, "$", {"bogus": 1}),
        (SELECT, "$", {"overrides": {}}),
        (SELECT, "$.claim", {"claim": "no"}),
        (SELECT, "$.return_alternates", {"return_alternates": 1}),
        (EXPLAIN, "$.overrides", {"overrides": []}),
        (EXPLAIN, "$.overrides['a.b']", {"overrides": {"a.b": {}}}),
        (EXPLAIN, "$.hosts[0]", {"hosts": [1]}),
        (EXPLAIN, "$.max_rejected", {"max_rejected": -1}),
    ]:
        with pytest.raises(Invalid) as fault:
            check_document(schemas, {"request_spec": {"flavor": FLAVOR}, **changes})
        assert f" (at {path}). Failed validating " in fault.value.detail, path


def test_request_spec_is_required():
    with pytest.raises(Invalid, match="request_spec"):
        check_document(SELECT, {})
