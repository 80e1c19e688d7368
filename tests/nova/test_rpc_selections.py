# SPDX-License-Identifier: Apache-2.0
"""Responses as Selection primitives, and in the older format of dictionaries."""

import json

from placement_sched.nova.rpc import dictionaries_of, primitives_of
from tests.nova.wire.answers import CELL, NODES, REBUILD, WHOLE, build_answer, build_selection

DATA = "nova_object.data"


def test_selections_start_with_the_host_followed_by_alternates():
    hosts = [[each[DATA]["service_host"] for each in row] for row in primitives_of(WHOLE)]
    assert hosts == [["cn1", "cn2"], ["cn3"]]


def test_selection_has_all_fields_of_novas():
    ((first, _), _) = primitives_of(WHOLE)
    assert first["nova_object.name"] == "Selection"
    assert first["nova_object.version"] == "1.1"
    assert first["nova_object.changes"] == sorted(first[DATA])
    assert first[DATA] == {
        **first[DATA],
        "compute_node_uuid": NODES[0],
        "service_host": "cn1",
        "nodename": "node1",
        "cell_uuid": CELL,
        "availability_zone": "nova",
    }


def test_allocation_request_is_json_of_a_supported_version():
    ((first, _), _) = primitives_of(WHOLE)
    request = WHOLE["selections"][0][0]["allocation_request"]
    assert json.loads(first[DATA]["allocation_request"]) == request
    assert first[DATA]["allocation_request_version"] == "1.36"


def test_rebuild_has_a_null_allocation_request():
    ((selection,),) = primitives_of(REBUILD)
    assert selection[DATA]["allocation_request"] == "null"
    assert selection[DATA]["allocation_request_version"] is None


def test_limits_are_integers_and_objects():
    ((first, second), _) = primitives_of(WHOLE)
    limits = first[DATA]["limits"][DATA]
    assert {name: limits[name] for name in ("vcpu", "memory_mb", "disk_gb")} == {
        "vcpu": 8,
        "memory_mb": None,
        "disk_gb": None,
    }
    numa = limits["numa_topology"]
    assert (numa["nova_object.name"], numa[DATA]["ram_allocation_ratio"]) == (
        "NUMATopologyLimits",
        1.5,
    )
    assert numa[DATA]["network_metadata"][DATA] == {"physnets": ["physnet0"], "tunneled": True}
    assert second[DATA]["limits"][DATA]["disk_gb"] == 10


def test_infinite_or_text_limit_is_omitted():
    limits = {"vcpu": float("inf"), "memory_mb": "much", "disk_gb": 1}
    ((selection,),) = primitives_of(build_answer([build_selection(0, limits=limits)]))
    sent_limits = selection[DATA]["limits"][DATA]
    assert [sent_limits[name] for name in ("vcpu", "memory_mb", "disk_gb")] == [None, None, 1]


def test_unknown_cell_is_unset():
    ((selection,),) = primitives_of(build_answer([build_selection(0, cell_uuid=None)]))
    assert "cell_uuid" not in selection[DATA]


def test_callers_without_return_objects_get_one_host_per_instance():
    first, third = dictionaries_of(WHOLE)
    assert (first["host"], first["nodename"], third["host"]) == ("cn1", "node1", "cn3")
    assert first["limits"].keys() == {"vcpu", "numa_topology"}
    assert dictionaries_of(REBUILD) == [{"host": "cn1", "nodename": "node1", "limits": {}}]


def test_selection_answer_is_json():
    for answer in (primitives_of(WHOLE), dictionaries_of(WHOLE)):
        assert json.loads(json.dumps(answer)) == answer
