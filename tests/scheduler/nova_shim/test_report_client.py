# SPDX-License-Identifier: Apache-2.0
"""The placement client of plugins reads in the process."""

import pytest

from placement_sched.scheduler.nova_shim.report_client import SchedulerReportClient
from tests.conftest import make_settings
from tests.support.scheduling import instance, report, spec


@pytest.fixture
def client(make_app, sqlite_url):
    app = make_app(make_settings(sqlite_url, filter_scheduler__nova_shim=True))
    app.post_json("/scheduler/v1/compute_nodes", [report("cn1")])
    app.post_json("/scheduler/v1/select_destinations", {"request_spec": spec(instance(1))})
    return SchedulerReportClient()


def test_get_returns_the_response_of_the_placement_api(client):
    response = client.get("/resource_providers?name=cn1", version="1.14")
    assert response
    assert response.status_code == 200
    (provider,) = response.json()["resource_providers"]
    assert provider["uuid"] == report("cn1")["uuid"]
    assert "root_provider_uuid" in response.text
    missing = client.get("/resource_providers/none/usages")
    assert not missing
    assert missing.status_code == 404


def test_allocations_and_trees_are_read(client):
    uuid = report("cn1")["uuid"]
    allocations = client.get_allocations_for_consumer(None, instance(1))
    assert allocations[uuid]["resources"]["VCPU"] == 1
    assert client.get_allocs_for_consumer(None, instance(1))["project_id"] == "p1"
    assert [provider["name"] for provider in client.get_providers_in_tree(None, uuid)] == ["cn1"]


@pytest.mark.parametrize("name", ["put", "set_inventory_for_provider", "_ensure_resource_provider"])
def test_write_methods_are_rejected(client, name):
    with pytest.raises(AttributeError, match="plugins can only read placement"):
        getattr(client, name)
