# SPDX-License-Identifier: Apache-2.0
"""Compute nodes of the scheduler API."""

import pytest

from placement_sched.limits import MAX_REPORTS
from tests.api.scheduler.responses import get_single_error
from tests.support.allocation_bodies import build_body
from tests.support.reports import build_report, node_uuid, remove_keys
from tests.support.versions import LATEST, LATEST_HEADERS

NODES_PATH = "/scheduler/v1/compute_nodes"


def put_node_report(app, number=1, status=200, **changes):
    body = remove_keys(build_report(number, **changes), "uuid")
    return app.put_json(f"{NODES_PATH}/{node_uuid(number)}", body, status=status)


def read_provider(app, number=1, status=200):
    return app.get(f"/placement/resource_providers/{node_uuid(number)}", status=status)


def read_provider_generation(app, number=1):
    return read_provider(app, number).json["generation"]


def test_report_of_a_node_returns_the_node(app):
    node = put_node_report(app, cpu_info={"arch": "x86_64"}, stats={"num_instances": 2}).json
    assert node["uuid"] == node_uuid(1)
    assert (node["vcpus"], node["cpu_allocation_ratio"], node["free_disk_gb"]) == (8, 4.0, 100)
    assert node["cpu_info"] == {"arch": "x86_64"}
    assert node["stats"] == {"num_instances": "2"}
    assert app.get(f"{NODES_PATH}/{node_uuid(1)}").json == node


def test_node_as_returned_is_a_valid_report(app):
    node = put_node_report(
        app,
        cpu_info={"arch": "x86_64"},
        numa_topology={"cells": [{"id": 0, "cpuset": [0, 1], "memory": 1024}]},
        pci_device_pools=[{"vendor_id": "1", "product_id": "2", "count": 3, "tags": {"a": "b"}}],
        supported_hv_specs=[["x86_64", "kvm", "hvm"]],
        metrics=[{"name": "cpu.frequency", "value": 2400}],
        free_disk_gb=None,
    ).json
    before = read_provider_generation(app)
    assert app.put_json(f"{NODES_PATH}/{node_uuid(1)}", node).json == node
    assert app.post_json(NODES_PATH, [node]).json == {"created": 0, "changed": 0, "unchanged": 1}
    assert read_provider_generation(app) == before


METRICS_AS_STORED = [
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
    node = put_node_report(app, metrics=METRICS_AS_STORED).json
    when = {"timestamp": "2026-11-21T10:11:12"}
    assert node["metrics"] == [
        {**METRICS_AS_STORED[0], "value": 25, **when},
        {**METRICS_AS_STORED[1], **when},
    ]
    assert app.put_json(f"{NODES_PATH}/{node_uuid(1)}", node).json == node
    assert (
        app.post_json(NODES_PATH, [build_report(1, metrics=METRICS_AS_STORED)]).json["changed"] == 0
    )
    assert (
        app.post_json(NODES_PATH, [build_report(2, metrics=METRICS_AS_STORED)]).json["created"] == 1
    )
    assert app.get(f"{NODES_PATH}/{node_uuid(2)}").json["metrics"] == node["metrics"]


def test_fractional_value_of_a_metric_that_is_no_percentage_is_rejected_with_its_path(sqlite_app):
    metrics = [*METRICS_AS_STORED, {"name": "cpu.frequency", "value": 2400.5}]
    error = get_single_error(put_node_report(sqlite_app, status=400, metrics=metrics))
    assert error["detail"] == "2400.5 is not an integer (at $.metrics[2].value)"


@pytest.mark.all_databases
def test_list_of_reports_creates_providers_with_inventories(app):
    response = app.post_json(NODES_PATH, [build_report(number) for number in range(1, 4)]).json
    assert response == {"created": 3, "changed": 0, "unchanged": 0}
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


@pytest.mark.slow
def test_one_request_can_have_two_thousand_node_reports(app):
    assert app.post_json(NODES_PATH, []).json == {"created": 0, "changed": 0, "unchanged": 0}
    reports = [build_report(number) for number in range(MAX_REPORTS)]
    assert app.post_json(NODES_PATH, reports).json["created"] == MAX_REPORTS
    listed = app.get(NODES_PATH).json
    assert len(listed["compute_nodes"]) == MAX_REPORTS
    assert listed["links"] == []


def test_list_of_nodes_is_filtered_by_host_and_name(app):
    app.post_json(NODES_PATH, [build_report(1), build_report(2, host="cn1"), build_report(3)])

    def list_node_uuids(query):
        return [node["uuid"] for node in app.get(f"{NODES_PATH}?{query}").json["compute_nodes"]]

    assert list_node_uuids("host=cn1") == [node_uuid(1), node_uuid(2)]
    assert list_node_uuids("hypervisor_hostname=cn2") == [node_uuid(2)]
    assert list_node_uuids("host=cn1&hypervisor_hostname=cn2") == [node_uuid(2)]
    assert list_node_uuids("host=CN1") == []


def test_page_links_lead_through_the_whole_list_of_nodes(app):
    app.post_json(NODES_PATH, [build_report(number, host="rack") for number in range(5)])
    seen, path, pages = [], f"{NODES_PATH}?host=rack&limit=2", 0
    while path:
        page = app.get(path).json
        seen += [node["uuid"] for node in page["compute_nodes"]]
        path = next((link["href"] for link in page["links"]), None)
        pages += 1
    assert seen == [node_uuid(number) for number in range(5)]
    assert pages == 3


@pytest.mark.all_databases
def test_deleted_node_is_removed_with_its_provider_and_service(app):
    put_node_report(app)
    app.delete(f"{NODES_PATH}/{node_uuid(1)}", status=204)
    app.get(f"{NODES_PATH}/{node_uuid(1)}", status=404)
    read_provider(app, status=404)


def test_delete_of_a_node_with_allocations_is_409(app):
    put_node_report(app)
    consumer = f"/placement/allocations/{node_uuid(99)}"
    claim = build_body(LATEST, {node_uuid(1): {"VCPU": 1}})
    app.put_json(consumer, claim, headers=LATEST_HEADERS, status=204)
    response = get_single_error(app.delete(f"{NODES_PATH}/{node_uuid(1)}", status=409))
    assert response["code"] == "scheduler.conflict"
    assert node_uuid(1) in response["detail"]
    app.get(f"{NODES_PATH}/{node_uuid(1)}")
    app.delete(consumer, status=204)
    app.delete(f"{NODES_PATH}/{node_uuid(1)}", status=204)


@pytest.mark.parametrize("change_uuid_format", [str.upper, lambda uuid: uuid.replace("-", "")])
def test_node_uuid_in_a_path_can_be_in_any_format(sqlite_app, change_uuid_format):
    path = f"{NODES_PATH}/{change_uuid_format(node_uuid(1))}"
    node = sqlite_app.put_json(path, build_report(1)).json
    assert node["uuid"] == node_uuid(1)
    assert sqlite_app.get(path).json == node
    sqlite_app.delete(path, status=204)
    sqlite_app.get(path, status=404)


def test_unknown_node_is_404(app):
    for uuid in [node_uuid(1), "nonsense", "%01"]:
        for response in (
            app.get(f"{NODES_PATH}/{uuid}", status=404),
            app.delete(f"{NODES_PATH}/{uuid}", status=404),
        ):
            assert get_single_error(response)["code"] == "scheduler.not_found", uuid


def test_reported_node_is_an_allocation_candidate(app):
    app.post_json(NODES_PATH, [build_report(1), build_report(2, memory_mb=1024)])
    response = app.get(
        "/placement/allocation_candidates?resources=MEMORY_MB:2048", headers=LATEST_HEADERS
    ).json
    (request,) = response["allocation_requests"]
    assert list(request["allocations"]) == [node_uuid(1)]


def test_invalid_report_in_a_list_of_node_reports_is_400_and_writes_nothing(sqlite_app):
    for name, value, path in [
        *(("vcpus", value, "vcpus") for value in ("8", -1, 2**31, 1.5, None, True, [], {})),
        *(("stats", {key: {}}, f"stats[{key!r}]") for key in ("1", "23")),
        ("pci_device_pools", [{"count": 1, "1": {}}], "pci_device_pools[0]"),
    ]:
        reports = [build_report(8), build_report(9), build_report(1, **{name: value})]
        error = get_single_error(sqlite_app.post_json(NODES_PATH, reports, status=400))
        assert f"(at $[2].{path}" in error["detail"], value
        error = get_single_error(
            sqlite_app.put_json(f"{NODES_PATH}/{node_uuid(1)}", reports[2], status=400)
        )
        assert f"(at $.{path}" in error["detail"], value
    assert sqlite_app.get(NODES_PATH).json["compute_nodes"] == []


def test_node_report_with_invalid_json_is_400(sqlite_app):
    for body in [
        b"",
        b"{",
        b"nonsense",
        b'{"host": NaN}',
        b'{"host": "\xff"}',
        b'{"a": "\\ud800"}',
    ]:
        for method, path in (("PUT", f"{NODES_PATH}/{node_uuid(1)}"), ("POST", NODES_PATH)):
            response = sqlite_app.request(
                path, method=method, body=body, content_type="application/json", status=400
            )
            assert "JSON" in get_single_error(response)["detail"], body


def test_json_body_that_is_no_node_report_is_400(sqlite_app):
    for document in [[], "x", 1, None, True]:
        get_single_error(sqlite_app.put_json(f"{NODES_PATH}/{node_uuid(1)}", document, status=400))
    for document in [{}, build_report(), "x", 1, None, [1], [[]], [None]]:
        get_single_error(sqlite_app.post_json(NODES_PATH, document, status=400))


def test_node_report_with_a_wrong_uuid_is_400(sqlite_app):
    body = remove_keys(build_report(), "uuid")
    response = sqlite_app.put_json(f"{NODES_PATH}/cn1", body, status=400)
    assert "not a uuid" in get_single_error(response)["detail"]
    for other in [node_uuid(2), "x", None, 1]:
        body = build_report(uuid=other)
        response = sqlite_app.put_json(f"{NODES_PATH}/{node_uuid(1)}", body, status=400)
        assert "(at $.uuid)" in get_single_error(response)["detail"], other


def test_repeated_node_in_a_list_of_reports_is_400(sqlite_app):
    reports = [build_report(1), build_report(2), build_report(1)]
    detail = get_single_error(sqlite_app.post_json(NODES_PATH, reports, status=400))["detail"]
    assert detail.endswith("(at $[2].uuid)")
    assert "$[0]" in detail


def test_malformed_query_of_nodes_is_400(sqlite_app):
    for query in [
        *("limit=0", "limit=-1", "limit=x", "limit=", "limit=1e3", "limit=99999999999999999999"),
        *("marker=x", "marker=", "host=", "host=%00", "host=" + "x" * 256, "unknown=1"),
        "limit=1&limit=x",
    ]:
        get_single_error(sqlite_app.get(f"{NODES_PATH}?{query}", status=400))


def test_unsupported_methods_of_compute_nodes_are_405(sqlite_app):
    for method in ["POST", "PATCH"]:
        response = sqlite_app.request(f"{NODES_PATH}/{node_uuid(1)}", method=method, status=405)
        assert "PUT" in response.headers["Allow"], method
