# SPDX-License-Identifier: Apache-2.0
"""Instance records of the scheduler API."""

import pytest

from tests.api.scheduler.responses import get_single_error
from tests.support.allocation_bodies import build_body
from tests.support.reports import build_report, node_uuid
from tests.support.versions import LATEST, LATEST_HEADERS

INSTANCES_PATH = "/scheduler/v1/instances"
INSTANCE_PATH = f"{INSTANCES_PATH}/{node_uuid(500)}"

COMPLETE_INSTANCE_RECORD = {
    "host": "cn1",
    "node": "cn1",
    "project_id": "p1",
    "user_id": "u1",
    "display_name": "web-1",
    "vm_state": "active",
    "task_state": None,
    "flavor": {
        "name": "m1",
        "vcpus": 1,
        "memory_mb": 512,
        "root_gb": 1,
        "ephemeral_gb": 0,
        "swap": 0,
        "extra_specs": {"trait:HW_CPU_X86_AVX2": "required"},
    },
    "image": {"id": "i1", "disk_format": "qcow2", "min_ram": 0, "properties": {"os_type": "linux"}},
    "server_group": None,
    "request": {"availability_zone": "az1", "scheduler_hints": {}, "is_bfv": True},
}


@pytest.mark.parametrize("change_uuid_format", [str.upper, lambda uuid: uuid.replace("-", "")])
def test_instance_uuid_in_a_path_can_be_in_any_format(sqlite_app, change_uuid_format):
    path = f"{INSTANCES_PATH}/{change_uuid_format(node_uuid(500))}"
    assert sqlite_app.put_json(path, COMPLETE_INSTANCE_RECORD).json["uuid"] == node_uuid(500)
    assert sqlite_app.get(path).json["uuid"] == node_uuid(500)
    sqlite_app.delete(path, status=204)
    sqlite_app.get(path, status=404)


@pytest.mark.all_databases
def test_instance_record_is_stored_unchanged(app):
    recorded = app.put_json(INSTANCE_PATH, COMPLETE_INSTANCE_RECORD).json
    assert recorded == {"uuid": node_uuid(500), **COMPLETE_INSTANCE_RECORD}
    assert app.get(INSTANCE_PATH).json == recorded


def test_omitted_instance_fields_are_null_and_display_name_is_the_uuid(app):
    recorded = app.put_json(INSTANCE_PATH, {}).json
    assert recorded == dict.fromkeys(COMPLETE_INSTANCE_RECORD) | {
        "uuid": node_uuid(500),
        "display_name": node_uuid(500),
    }


def test_second_record_of_an_instance_replaces_the_first(app):
    app.put_json(INSTANCE_PATH, COMPLETE_INSTANCE_RECORD)
    recorded = app.put_json(INSTANCE_PATH, {"host": "cn2", "node": "cn2"}).json
    assert (recorded["host"], recorded["flavor"], recorded["vm_state"]) == ("cn2", None, None)
    assert len(app.get(INSTANCES_PATH).json["instances"]) == 1


def test_flavor_and_image_of_an_instance_record_can_be_ids(app):
    recorded = app.put_json(INSTANCE_PATH, {"flavor": "f1", "image": "i1"}).json
    assert (recorded["flavor"], recorded["image"]) == ({"id": "f1"}, {"id": "i1"})


def test_instances_are_filtered_and_paged(app):
    for number in range(4):
        body = {"host": f"cn{number % 2}", "node": "n", "project_id": f"p{number}"}
        app.put_json(f"{INSTANCES_PATH}/{node_uuid(500 + number)}", body)

    def list_instance_uuids(query):
        return [
            instance["uuid"] for instance in app.get(f"{INSTANCES_PATH}?{query}").json["instances"]
        ]

    assert list_instance_uuids("host=cn1") == [node_uuid(501), node_uuid(503)]
    assert list_instance_uuids("project_id=p2") == [node_uuid(502)]
    assert list_instance_uuids("node=n&limit=3") == [node_uuid(500 + number) for number in range(3)]
    assert list_instance_uuids(f"limit=3&marker={node_uuid(502)}") == [node_uuid(503)]
    assert list_instance_uuids("host=cn9") == []


def test_record_of_an_instance_makes_no_allocations(app):
    app.post_json("/scheduler/v1/compute_nodes", [build_report(1)])
    before = app.get(f"/scheduler/v1/compute_nodes/{node_uuid(1)}").json
    app.put_json(INSTANCE_PATH, COMPLETE_INSTANCE_RECORD)
    assert app.get(f"/scheduler/v1/compute_nodes/{node_uuid(1)}").json == before
    usages = app.get(f"/placement/resource_providers/{node_uuid(1)}/usages").json["usages"]
    assert set(usages.values()) == {0}


def report_host_and_allocate_resources(app):
    """Report a host, allocate there for the instance and return the path of the allocations."""
    app.post_json("/scheduler/v1/compute_nodes", [build_report(1)])
    path = f"/placement/allocations/{node_uuid(500)}"
    body = build_body(LATEST, {node_uuid(1): {"VCPU": 2}})
    app.put_json(path, body, headers=LATEST_HEADERS, status=204)
    return path


def test_delete_of_an_instance_removes_its_allocations(app):
    app.put_json(INSTANCE_PATH, COMPLETE_INSTANCE_RECORD)
    consumer = report_host_and_allocate_resources(app)
    app.delete(INSTANCE_PATH, status=204)
    app.get(INSTANCE_PATH, status=404)
    assert app.get(consumer, headers=LATEST_HEADERS).json["allocations"] == {}
    usages = app.get(f"/placement/resource_providers/{node_uuid(1)}/usages").json["usages"]
    assert set(usages.values()) == {0}


def test_delete_of_an_unknown_instance_removes_nothing(app):
    consumer = report_host_and_allocate_resources(app)
    assert get_single_error(app.delete(INSTANCE_PATH, status=404))["code"] == "scheduler.not_found"
    assert app.get(consumer, headers=LATEST_HEADERS).json["allocations"]


def test_unknown_instance_is_404(app):
    for uuid in [node_uuid(500), "nonsense"]:
        assert (
            get_single_error(app.get(f"{INSTANCES_PATH}/{uuid}", status=404))["code"]
            == "scheduler.not_found"
        ), uuid


def test_malformed_instance_record_is_400_with_the_path_of_the_error(sqlite_app):
    sqlite_app.put_json(f"{INSTANCES_PATH}/web-1", {}, status=400)
    for path, body in [
        ("$", []),
        ("$", "x"),
        ("$", None),
        ("$", {"bogus": 1}),
        ("$", {"uuid": node_uuid(500)}),
        ("$", {"decision_uuid": node_uuid(500)}),
        ("$.host", {"host": 1}),
        ("$.host", {"host": ""}),
        ("$.host", {"host": "a\x01"}),
        ("$.node", {"node": "x" * 256}),
        ("$.project_id", {"project_id": {}}),
        ("$.display_name", {"display_name": ""}),
        ("$.vm_state", {"vm_state": 1}),
        ("$.server_group", {"server_group": "x"}),
        ("$.flavor", {"flavor": 1}),
        ("$.flavor", {"flavor": ""}),
        ("$.flavor", {"flavor": {"bogus": 1}}),
        ("$.flavor.vcpus", {"flavor": {"vcpus": "1"}}),
        ("$.flavor.memory_mb", {"flavor": {"memory_mb": -1}}),
        ("$.flavor.extra_specs['hw:x']", {"flavor": {"extra_specs": {"hw:x": []}}}),
        ("$.image", {"image": []}),
        ("$.image", {"image": {"bogus": 1}}),
        ("$.image.min_ram", {"image": {"min_ram": 2**31}}),
        ("$.image.properties", {"image": {"properties": []}}),
    ]:
        response = sqlite_app.put_json(INSTANCE_PATH, body, status=400)
        assert f"(at {path})" in get_single_error(response)["detail"], body
        assert sqlite_app.get(INSTANCES_PATH).json["instances"] == [], body
