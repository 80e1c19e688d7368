# SPDX-License-Identifier: Apache-2.0
"""The placement client of plugins reads in the process."""

import pytest

from placement_sched.extensions.nova_plugins import exception
from placement_sched.extensions.nova_plugins.provider_tree import ProviderData, ProviderTree
from placement_sched.extensions.nova_plugins.report_client import SchedulerReportClient
from placement_sched.scheduler.filters import BaseHostFilter
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


@pytest.mark.parametrize(
    "name",
    ["_get_sharing_providers", "put", "set_inventory_for_provider", "_ensure_resource_provider"],
)
def test_report_client_lacks_methods_that_write_and_says_what_it_has(report_client, name):
    with pytest.raises(
        AttributeError, match="only read placement, by methods that the guide lists"
    ):
        getattr(report_client, name)


def test_report_client_reads_providers_by_uuid_and_name(report_client):
    uuid = make_report("cn1")["uuid"]
    assert report_client._get_resource_provider(None, uuid)["name"] == "cn1"
    assert report_client._get_resource_provider(None, make_uuid(99)) is None
    assert report_client.get_resource_provider_name(None, uuid) == "cn1"
    assert report_client.get_provider_by_name(None, "cn1")["uuid"] == uuid
    for read, name in (
        (report_client.get_resource_provider_name, make_uuid(99)),
        (report_client.get_provider_by_name, "cn 9&x"),
    ):
        with pytest.raises(exception.ResourceProviderNotFound):
            read(None, name)


def test_report_client_reads_the_allocations_of_a_provider(report_client):
    uuid = make_report("cn1")["uuid"]
    info = report_client.get_allocations_for_resource_provider(None, uuid)
    assert list(info.allocations) == [make_uuid(1)]
    with pytest.raises(exception.ResourceProviderAllocationRetrievalFailed):
        report_client.get_allocations_for_resource_provider(None, make_uuid(99))


class ProviderTreeReadingFilter(BaseHostFilter):
    """Passes hosts whose provider tree has the data of their providers."""

    def host_passes(self, host_state, spec_obj):
        tree = SchedulerReportClient().get_provider_tree_and_ensure_root(None, host_state.uuid)
        root = tree.data(host_state.nodename)
        return (
            tree.get_provider_uuids_in_tree(root.name) == [root.uuid] == [host_state.uuid]
            and root.inventory["VCPU"]["total"] == 16
            and not root.traits
            and not root.aggregates
            and not tree.exists("none")
        )


def test_report_client_returns_the_provider_tree_of_a_host(make_app, sqlite_url):
    options = {
        "nova_shim": True,
        "available_filters": [f"{__name__}.ProviderTreeReadingFilter"],
        "enabled_filters": ["ProviderTreeReadingFilter"],
    }
    names = {f"filter_scheduler__{name}": value for name, value in options.items()}
    app = make_app(make_settings(sqlite_url, **names))
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    response = app.post_json("/scheduler/v1/explain", {"request_spec": make_spec()}).json
    assert len(response["hosts"]) == 2


def test_provider_tree_lists_descendants_after_their_parents():
    data = [ProviderData("c", "grandchild", 0, "b"), ProviderData("b", "child", 0, "a")]
    tree = ProviderTree([*data, ProviderData("a", "root"), ProviderData("z", "other")])
    assert tree.get_provider_uuids() == ["a", "z", "b", "c"]
    assert tree.get_provider_uuids("child") == ["b", "c"]
    assert tree.get_provider_uuids_in_tree("grandchild") == ["a", "b", "c"]
    with pytest.raises(ValueError, match="No such provider none"):
        tree.data("none")
    with pytest.raises(AttributeError, match=r"ProviderTree\.new_root is not provided here"):
        tree.new_root("x", "y")
