# SPDX-License-Identifier: Apache-2.0
"""Schemas of select and explain requests, and the paths of their errors."""

import json
import re

import pytest

from placement_sched.api.scheduler.request_schema import EXPLAIN, SELECT
from placement_sched.api.versions import Version
from placement_sched.errors import Invalid
from tests.support.reports import node_uuid

MINIMAL_FLAVOR = {"vcpus": 1, "memory_mb": 512}
VERSION_1_0 = Version(1, 0)

#: A request with every field. ``UUID1`` and so on are uuids.
REQUEST_WITH_EVERY_FIELD = json.loads(
    re.sub(
        r"UUID(\d)",
        lambda match: node_uuid(int(match[1])),
        r"""{"project_id": "p",
"user_id": "u",
"num_instances": 2,
"instance_uuids": ["UUID1", "UUID2"],
"flavor": {"vcpus": 1, "memory_mb": 512, "name": "m1", "root_gb": 1, "ephemeral_gb": 0,
    "swap": 512, "extra_specs": {"hw:numa_nodes": "1", "resources:VGPU": "1"}},
"image": {"id": "i", "disk_format": "qcow2", "container_format": "bare", "min_ram": 0,
    "min_disk": 0, "properties": {"hw_architecture": "x86_64", "trait:X": "required",
    "os_secure_boot": true}},
"is_bfv": false,
"availability_zone": "az1,az2",
"ignore_hosts": ["a"],
"force_hosts": ["a"],
"force_nodes": ["a"],
"requested_destination": {"host": "a", "node": "a", "cell": null, "aggregates": ["UUID1,UUID2",
    "UUID3"], "forbidden_aggregates": ["UUID4"], "allow_cross_cell_move": true},
"retry": {"num_attempts": 1, "hosts": [["a", "b"], ["a", null]]},
"limits": {"vcpu": 4.0},
"instance_group": {"policy": "anti-affinity", "rules": {"max_server_per_host": 2},
    "hosts": ["a"], "members": ["UUID5"]},
"scheduler_hints": {"same_host": ["UUID1"], "query": "[\">=\", \"$free_ram_mb\", 1024]"},
"requested_resources": [{"requester_id": "UUID1",
    "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1000}, "required_traits": ["CUSTOM_A"],
    "forbidden_traits": ["CUSTOM_B"], "aggregates": ["UUID1"],
    "forbidden_aggregates": ["UUID2"], "in_tree": "UUID3", "use_same_provider": true}],
"request_level_params": {"root_required": ["CUSTOM_A"], "root_forbidden": ["CUSTOM_B"],
    "same_subtree": [["_A", "_B"]]},
"network_metadata": {"physnets": ["net-a"], "tunneled": true},
"requested_networks": [{"network_id": "UUID1", "address": "192.0.2.7", "port_id": "UUID2",
    "pci_request_id": "UUID3", "tag": "nic0", "arq_uuid": "UUID4", "device_profile": "gpu",
    "vnic_type": "normal", "binding:vnic_type": "normal", "fixed_ips": [{"subnet_id": "UUID5",
    "ip_address": "192.0.2.7"}], "segments": ["UUID6"]}, {"network_id": "auto"},
    {"network_id": null, "port_id": null, "vnic_type": null, "fixed_ips": null,
    "segments": null}],
"numa_topology": {"cells": [{"id": 0, "cpuset": [0, 1], "pcpuset": [2], "memory": 512,
    "pagesize": -1, "cpu_policy": "mixed", "cpu_thread_policy": "prefer"}],
    "emulator_threads_policy": "share"},
"pci_requests": {"requests": [{"count": 1, "spec": [{"vendor_id": "8086"}], "alias_name": "gpu",
    "request_id": "UUID1", "requester_id": null, "numa_policy": "preferred"}]}}""",
    )
)


def validate_document(schemas, document):
    schemas.find_schema(VERSION_1_0).check(document, "JSON does not validate")


def test_valid_request_is_accepted_by_the_schema():
    overrides = {
        "filter_scheduler.enabled_filters": ["ComputeFilter"],
        "filter_scheduler.ram_weight_multiplier": -1.0,
        "metrics.required": False,
    }
    more = {"overrides": overrides, "hosts": ["cn7"], "max_rejected": 0}
    for spec in (
        REQUEST_WITH_EVERY_FIELD,
        {"flavor": MINIMAL_FLAVOR},
        {"flavor": "m1.small"},
        {"flavor": MINIMAL_FLAVOR, "image": "cirros", "instance_group": node_uuid(1)},
        {"flavor": {**MINIMAL_FLAVOR, "swap": ""}},
        {
            "flavor": MINIMAL_FLAVOR,
            **dict.fromkeys(set(REQUEST_WITH_EVERY_FIELD) - {"flavor", "num_instances"}),
        },
    ):
        validate_document(SELECT, {"request_spec": spec, "claim": False})
        validate_document(EXPLAIN, {"request_spec": spec, **more})


TOO_MANY_UUIDS = ",".join([node_uuid(1)] * 251)
INVALID_NUMA_CELL = {"cpuset": [], "memory": 1, "cpu_policy": "x"}

#: A field of a request spec, the rest of the path of its error, and its value.
INVALID_REQUEST_SPEC_FIELDS = [
    ("bogus", None, 1),
    *(("flavor", "", value) for value in (None, "", {"vcpus": 1}, {**MINIMAL_FLAVOR, "bogus": 1})),
    ("flavor", ".vcpus", {**MINIMAL_FLAVOR, "vcpus": -1}),
    ("flavor", ".extra_specs.a", {**MINIMAL_FLAVOR, "extra_specs": {"a": None}}),
    ("flavor", ".extra_specs.a", {**MINIMAL_FLAVOR, "extra_specs": {"a": "x" * 256}}),
    (
        "flavor",
        ".extra_specs",
        {**MINIMAL_FLAVOR, "extra_specs": {f"a{at}": "x" for at in range(501)}},
    ),
    *(("num_instances", "", value) for value in (0, 10_001)),
    ("scheduler_hints", ".same_host[0]", {"same_host": [1]}),
    ("scheduler_hints", ".different_host[0]", {"different_host": [[1]]}),
    *(("scheduler_hints", ".a", {"a": value}) for value in ({}, 1)),
    *(("image", ".properties.a", {"properties": {"a": a}}) for a in ("x" * 65_536, ["b"], {})),
    ("image", ".properties.mappings[0]", {"properties": {"mappings": ["a"]}}),
    ("image", ".min_disk", {"min_disk": "1"}),
    *(("instance_uuids", "", value) for value in ([], [node_uuid(1), node_uuid(1)])),
    ("instance_uuids", "[0]", ["x"]),
    ("is_bfv", "", "yes"),
    ("ignore_hosts", "", "a"),
    ("force_hosts", "[0]", [1]),
    ("requested_destination", "", {"zone": "a"}),
    *(
        ("requested_destination", ".aggregates[0]", {"aggregates": [text]})
        for text in ("a,b", "-" * 36, TOO_MANY_UUIDS)
    ),
    ("requested_destination", ".aggregates", {"aggregates": [node_uuid(1)] * 21}),
    (
        *("requested_destination", ".forbidden_aggregates"),
        {"forbidden_aggregates": [node_uuid(1)] * 5_001},
    ),
    ("requested_destination", ".forbidden_aggregates[0]", {"forbidden_aggregates": ["x"]}),
    ("limits", "", {"foo": 1}),
    ("limits", ".vcpu", {"vcpu": "x"}),
    ("retry", ".hosts[0]", {"hosts": [["a"]]}),
    *(("instance_group", "", value) for value in ("x", {"hosts": []})),
    ("instance_group", ".policy", {"policy": "near"}),
    (
        *("instance_group", ".rules.max_server_per_host"),
        {"policy": "affinity", "rules": {"max_server_per_host": 0}},
    ),
    ("requested_resources", "[0].resources.VCPU", [{"resources": {"VCPU": 0}}]),
    ("requested_resources", "[0].required_traits[0]", [{"required_traits": ["lower"]}]),
    ("request_level_params", ".same_subtree[0]", {"same_subtree": ["_A"]}),
    ("network_metadata", ".physnets", {"physnets": "a"}),
    ("network_metadata", ".tunneled", {"tunneled": 1}),
    ("network_metadata", "", {"cells": []}),
    *(("requested_networks", "", value) for value in ({}, [{}] * 101)),
    *(("requested_networks", "[0]", [value]) for value in (node_uuid(1), {"uuid": "x"})),
    *(
        ("requested_networks", f"[0]{path}", [network])
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
    ("numa_topology", "", {}),
    ("numa_topology", ".cells", {"cells": []}),
    ("numa_topology", ".cells[0].cpu_policy", {"cells": [INVALID_NUMA_CELL]}),
    ("pci_requests", ".requests[0]", {"requests": [{}]}),
    ("pci_requests", ".requests[0].count", {"requests": [{"count": 0}]}),
]


def test_error_in_request_spec_is_reported_with_its_path():
    for name, rest, value in INVALID_REQUEST_SPEC_FIELDS:
        path = "" if rest is None else f".{name}{rest}"
        for schemas in (SELECT, EXPLAIN):
            with pytest.raises(Invalid, match="JSON does not validate") as fault:
                validate_document(
                    schemas, {"request_spec": {"flavor": MINIMAL_FLAVOR, name: value}}
                )
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
            validate_document(schemas, {"request_spec": {"flavor": MINIMAL_FLAVOR}, **changes})
        assert f" (at {path}). Failed validating " in fault.value.detail, path


def test_request_spec_and_flavor_are_required():
    for document in ({}, {"request_spec": {}}):
        with pytest.raises(Invalid, match="request_spec"):
            validate_document(SELECT, document)
