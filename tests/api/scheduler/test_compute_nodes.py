# SPDX-License-Identifier: Apache-2.0
"""Compute nodes of the scheduler API."""

import pytest

from placement_sched.limits import MAX_REPORTS
from tests.support.reports import build_report, node_uuid, remove_keys
from tests.support.versions import LATEST_HEADERS

NODES = "/scheduler/v1/compute_nodes"


def put_report(app, number=1, status=200, **changes):
    body = remove_keys(build_report(number, **changes), "uuid")
    return app.put_json(f"{NODES}/{node_uuid(number)}", body, status=status)


def error_of(answer):
    (error,) = answer.json["errors"]
    return error


def read_provider(app, number=1, status=200):
    return app.get(f"/placement/resource_providers/{node_uuid(number)}", status=status)


def provider_generation(app, number=1):
    return read_provider(app, number).json["generation"]


def test_report_returns_the_node(app):
    node = put_report(app, cpu_info={"arch": "x86_64"}, stats={"num_instances": 2}).json
    assert node["uuid"] == node_uuid(1)
    assert (node["vcpus"], node["cpu_allocation_ratio"], node["free_disk_gb"]) == (8, 4.0, 100)
    assert node["cpu_info"] == {"arch": "x86_64"}
    assert node["stats"] == {"num_instances": "2"}
    assert app.get(f"{NODES}/{node_uuid(1)}").json == node


def test_returned_node_can_be_sent_again_unchanged(app):
    node = put_report(
        app,
        cpu_info={"arch": "x86_64"},
        numa_topology={"cells": [{"id": 0, "cpuset": [0, 1], "memory": 1024}]},
        pci_device_pools=[{"vendor_id": "1", "product_id": "2", "count": 3, "tags": {"a": "b"}}],
        supported_hv_specs=[["x86_64", "kvm", "hvm"]],
        metrics=[{"name": "cpu.frequency", "value": 2400}],
        free_disk_gb=None,
    ).json
    before = provider_generation(app)
    assert app.put_json(f"{NODES}/{node_uuid(1)}", node).json == node
    assert app.post_json(NODES, [node]).json == {"created": 0, "changed": 0, "unchanged": 1}
    assert provider_generation(app) == before


STORED = [
    {
        "name": "cpu.percent",
        "timestamp": "2026-11-21T10:11:12.345678",
        "source": "libvirt.LibvirtDriver",
        "value": 0.25,
    },
    {
        "name": "numa.membw.current",
        "timestamp": "2026-11-21T10:11:12.345678",
        "source": "acme.monitor",
        "numa_membw_values": {"0": 10, "1": 43},
    },
]


def test_metrics_are_accepted_in_nova_computes_format(app):
    """Metrics are shown as percent, and a shown metric can be reported again."""
    node = put_report(app, metrics=STORED).json
    when = {"timestamp": "2026-11-21T10:11:12"}
    assert node["metrics"] == [{**STORED[0], "value": 25, **when}, {**STORED[1], **when}]
    assert app.put_json(f"{NODES}/{node_uuid(1)}", node).json == node
    assert app.post_json(NODES, [build_report(1, metrics=STORED)]).json["changed"] == 0
    assert app.post_json(NODES, [build_report(2, metrics=STORED)]).json["created"] == 1
    assert app.get(f"{NODES}/{node_uuid(2)}").json["metrics"] == node["metrics"]


def test_fractional_value_of_another_metric_is_rejected_with_its_path(sqlite_app):
    metrics = [*STORED, {"name": "cpu.frequency", "value": 2400.5}]
    error = error_of(put_report(sqlite_app, status=400, metrics=metrics))
    assert error["detail"] == "2400.5 is not an integer (at $.metrics[2].value)"


@pytest.mark.all_databases
def test_list_of_reports_creates_providers_with_inventories(app):
    answer = app.post_json(NODES, [build_report(number) for number in range(1, 4)]).json
    assert answer == {"created": 3, "changed": 0, "unchanged": 0}
    for number in range(1, 4):
        assert read_provider(app, number).json["name"] == f"cn{number}"
    inventories = app.get(f"/placement/resource_providers/{node_uuid(2)}/inventories").json
    common = {"reserved": 0, "min_unit": 1, "step_size": 1}
    assert inventories["inventories"] == {
        name: {"total": total, "max_unit": total, "allocation_ratio": ratio, **common}
        for name, total, ratio in (
            ("VCPU", 8, 4.0),
            ("MEMORY_MB", 16384, 1.0),
            ("DISK_GB", 100, 1.0),
        )
    }


def test_two_thousand_reports_in_one_request(app):
    assert app.post_json(NODES, []).json == {"created": 0, "changed": 0, "unchanged": 0}
    reports = [build_report(number) for number in range(MAX_REPORTS)]
    assert app.post_json(NODES, reports).json["created"] == MAX_REPORTS
    listed = app.get(NODES).json
    assert len(listed["compute_nodes"]) == MAX_REPORTS
    assert listed["links"] == []


def test_list_is_filtered_by_host_and_name(app):
    app.post_json(NODES, [build_report(1), build_report(2, host="cn1"), build_report(3)])

    def list_uuids(query):
        return [node["uuid"] for node in app.get(f"{NODES}?{query}").json["compute_nodes"]]

    assert list_uuids("host=cn1") == [node_uuid(1), node_uuid(2)]
    assert list_uuids("hypervisor_hostname=cn2") == [node_uuid(2)]
    assert list_uuids("host=cn1&hypervisor_hostname=cn2") == [node_uuid(2)]
    assert list_uuids("host=CN1") == []


def test_page_links_lead_to_the_end(app):
    app.post_json(NODES, [build_report(number, host="rack") for number in range(5)])
    seen, path, pages = [], f"{NODES}?host=rack&limit=2", 0
    while path:
        page = app.get(path).json
        seen += [node["uuid"] for node in page["compute_nodes"]]
        path = next((link["href"] for link in page["links"]), None)
        pages += 1
    assert seen == [node_uuid(number) for number in range(5)]
    assert pages == 3


@pytest.mark.all_databases
def test_delete_removes_node_provider_and_service(app):
    put_report(app)
    app.delete(f"{NODES}/{node_uuid(1)}", status=204)
    app.get(f"{NODES}/{node_uuid(1)}", status=404)
    read_provider(app, status=404)


def test_delete_of_a_node_with_allocations_is_409(app):
    put_report(app)
    consumer = f"/placement/allocations/{node_uuid(99)}"
    version = LATEST_HEADERS
    allocations = {
        "allocations": {node_uuid(1): {"resources": {"VCPU": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    app.put_json(consumer, allocations, headers=version, status=204)
    answer = error_of(app.delete(f"{NODES}/{node_uuid(1)}", status=409))
    assert answer["code"] == "scheduler.conflict"
    assert node_uuid(1) in answer["detail"]
    app.get(f"{NODES}/{node_uuid(1)}")
    app.delete(consumer, status=204)
    app.delete(f"{NODES}/{node_uuid(1)}", status=204)


@pytest.mark.parametrize("spelt", [str.upper, lambda uuid: uuid.replace("-", "")])
def test_uuid_in_a_path_can_have_any_spelling(sqlite_app, spelt):
    path = f"{NODES}/{spelt(node_uuid(1))}"
    node = sqlite_app.put_json(path, build_report(1)).json
    assert node["uuid"] == node_uuid(1)
    assert sqlite_app.get(path).json == node
    sqlite_app.delete(path, status=204)
    sqlite_app.get(path, status=404)


def test_unknown_node_is_404(app):
    for uuid in [node_uuid(1), "nonsense", "%01"]:
        for answer in (
            app.get(f"{NODES}/{uuid}", status=404),
            app.delete(f"{NODES}/{uuid}", status=404),
        ):
            assert error_of(answer)["code"] == "scheduler.not_found", uuid


def test_report_with_the_name_of_another_node_is_409_naming_both(app):
    put_report(app, 1)
    answer = error_of(put_report(app, 2, status=409, host="cn1", hypervisor_hostname="cn1"))
    assert (answer["status"], answer["code"]) == (409, "scheduler.duplicate")
    assert node_uuid(1) in answer["detail"]
    assert node_uuid(2) in answer["detail"]
    app.get(f"{NODES}/{node_uuid(2)}", status=404)


def test_reported_node_is_an_allocation_candidate(app):
    app.post_json(NODES, [build_report(1), build_report(2, memory_mb=1024)])
    answer = app.get(
        "/placement/allocation_candidates?resources=MEMORY_MB:2048", headers=LATEST_HEADERS
    ).json
    (request,) = answer["allocation_requests"]
    assert list(request["allocations"]) == [node_uuid(1)]
