# SPDX-License-Identifier: Apache-2.0
"""The placement client of plugins reads in the process."""

import pytest

from placement_sched.scheduler.nova_shim.report_client import SchedulerReportClient
from tests.conftest import make_settings
from tests.support.scheduling import make_report, make_spec, make_uuid


@pytest.fixture
def report_client(make_app, sqlite_url):
    app = make_app(make_settings(sqlite_url, filter_scheduler__nova_shim=True))
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")])
    app.post_json("/scheduler/v1/select_destinations", {"request_spec": make_spec(make_uuid(1))})
    return SchedulerReportClient()


def test_report_client_get_returns_the_response_of_the_placement_api(report_client):
    response = report_client.get("/resource_providers?name=cn1", version="1.14")
    assert response
    assert response.status_code == 200
    (provider,) = response.json()["resource_providers"]
    assert provider["uuid"] == make_report("cn1")["uuid"]
    assert "root_provider_uuid" in response.text
    missing = report_client.get("/resource_providers/none/usages")
    assert not missing
    assert missing.status_code == 404


def test_report_client_reads_allocations_and_provider_trees(report_client):
    uuid = make_report("cn1")["uuid"]
    allocations = report_client.get_allocations_for_consumer(None, make_uuid(1))
    assert allocations[uuid]["resources"]["VCPU"] == 1
    assert report_client.get_allocs_for_consumer(None, make_uuid(1))["project_id"] == "p1"
    assert [provider["name"] for provider in report_client.get_providers_in_tree(None, uuid)] == [
        "cn1"
    ]


@pytest.mark.parametrize("name", ["put", "set_inventory_for_provider", "_ensure_resource_provider"])
def test_report_client_rejects_write_methods(report_client, name):
    with pytest.raises(AttributeError, match="plugins can only read placement"):
        getattr(report_client, name)
