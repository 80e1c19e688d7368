# SPDX-License-Identifier: Apache-2.0
"""Deletion of services: which objects are deleted, and which prevent the deletion."""

from uuid import uuid4

import pytest

from tests.api.compute.client import get_error_message
from tests.api.compute.hosts import SERVICES_PATH
from tests.support.allocation_bodies import build_body
from tests.support.hosts import add_service
from tests.support.reports import node_uuid
from tests.support.statements import record_statements
from tests.support.versions import LATEST, LATEST_HEADERS

PROVIDERS_PATH = "/placement/resource_providers"


def create_child_provider(host_api, parent=1):
    """Create a child provider of a host's provider and return its uuid."""
    uuid = str(uuid4())
    body = {"uuid": uuid, "name": uuid, "parent_provider_uuid": node_uuid(parent)}
    host_api.app.post_json(PROVIDERS_PATH, body, headers=LATEST_HEADERS)
    inventory = {"resource_class": "VGPU", "total": 4}
    host_api.app.post_json(
        f"{PROVIDERS_PATH}/{uuid}/inventories", inventory, headers=LATEST_HEADERS
    )
    return uuid


def allocate_and_get_allocation_path(host_api, provider, resource_class):
    """Allocate to a consumer without an instance record and return the path of the claim."""
    address = f"/placement/allocations/{uuid4()}"
    claim = build_body(LATEST, {provider: {resource_class: 1}}, kind="MIGRATION")
    host_api.app.put_json(address, claim, headers=LATEST_HEADERS)
    return address


def list_provider_uuids(host_api):
    providers = host_api.app.get(PROVIDERS_PATH, headers=LATEST_HEADERS).json["resource_providers"]
    return {provider["uuid"] for provider in providers}


@pytest.mark.all_databases
def test_service_is_deleted_with_nodes_and_providers(host_api, aggregate_api):
    host_api.report_host(1, host="rack")
    host_api.report_host(2, host="rack")
    host_api.report_host(3)
    create_child_provider(host_api)
    number = aggregate_api.create_and_get_id("a", "zone")
    for host in ("rack", "cn3"):
        aggregate_api.add_host(number, host)
    host_api.delete_service("rack", status=204)
    assert [service["host"] for service in host_api.list_services()] == ["cn3"]
    assert [hypervisor["hypervisor_hostname"] for hypervisor in host_api.list_hypervisors()] == [
        "cn3"
    ]
    assert list_provider_uuids(host_api) == {node_uuid(3)}
    assert aggregate_api.show(number).json["aggregate"]["hosts"] == ["cn3"]
    host_api.report_host(1, host="rack")
    assert host_api.read_service("rack")["status"] == "enabled"
    assert aggregate_api.show(number).json["aggregate"]["hosts"] == ["cn3"]


def test_host_with_instances_is_not_deleted(host_api, aggregate_api):
    host_api.report_host(1)
    number = aggregate_api.create_and_get_id("a")
    aggregate_api.add_host(number, "cn1")
    instance = str(uuid4())
    host_api.record_instance(instance, "cn1", "cn1")
    response = get_error_message(host_api.delete_service(status=409))
    assert "Unable to delete compute service that is hosting instances" in response
    assert host_api.show_hypervisor()["state"] == "up"
    assert list_provider_uuids(host_api) == {node_uuid(1)}
    assert aggregate_api.show(number).json["aggregate"]["hosts"] == ["cn1"]
    host_api.app.delete(f"/scheduler/v1/instances/{instance}")
    host_api.delete_service(status=204)


def test_host_with_providers_in_use_is_not_deleted(host_api, aggregate_api):
    host_api.report_host(1)
    number = aggregate_api.create_and_get_id("a")
    aggregate_api.add_host(number, "cn1")
    child = create_child_provider(host_api)
    address = allocate_and_get_allocation_path(host_api, child, "VGPU")
    response = get_error_message(host_api.delete_service(status=409))
    assert f"Unable to delete resource provider {child}" in response
    assert address.rpartition("/")[2] in response
    assert host_api.show_hypervisor()["state"] == "up"
    assert list_provider_uuids(host_api) == {node_uuid(1), child}
    assert aggregate_api.show(number).json["aggregate"]["hosts"] == ["cn1"]
    host_api.app.delete(address)
    host_api.delete_service(status=204)
    assert list_provider_uuids(host_api) == set()


def test_error_for_a_host_in_use_names_consumers_and_how_to_free_the_host(sqlite_host_api):
    """After an evacuation the instance is on another host and has allocations here, too."""
    host_api = sqlite_host_api
    host_api.report_host(1)
    host_api.report_host(2)
    instance = str(uuid4())
    host_api.record_instance(instance, "cn2", "cn2")
    claim = build_body(LATEST, {node_uuid(at): {"VCPU": 1} for at in (1, 2)})
    host_api.app.put_json(f"/placement/allocations/{instance}", claim, headers=LATEST_HEADERS)
    other = allocate_and_get_allocation_path(host_api, node_uuid(1), "VCPU").rpartition("/")[2]
    response = get_error_message(host_api.delete_service(status=409))
    assert f"instance {instance} is on cn2 now" in response
    assert f"consumer {other} is not a recorded instance" in response
    assert "placement-sched placement audit --delete" in response
    assert "openstack resource provider allocation unset" in response


def test_service_is_deleted_by_integer_id_before_2_53(sqlite_host_api):
    sqlite_host_api.report_host(1)
    number = sqlite_host_api.read_service(version="2.52")["id"]
    wrong = sqlite_host_api.request(
        "DELETE", f"{SERVICES_PATH}/{number}", version="2.53", status=400
    )
    assert get_error_message(wrong) == f"Invalid uuid {number}"
    uuid = sqlite_host_api.read_service()["id"]
    sqlite_host_api.request("DELETE", f"{SERVICES_PATH}/{uuid}", version="2.52", status=400)
    for unknown in (number + 1, 0, -1, 2**31, 10**40):
        sqlite_host_api.request("DELETE", f"{SERVICES_PATH}/{unknown}", version="2.1", status=404)
    sqlite_host_api.request("DELETE", f"{SERVICES_PATH}/{number}", version="2.1", status=204)
    sqlite_host_api.request("DELETE", f"{SERVICES_PATH}/{uuid}", status=404)
    assert sqlite_host_api.list_services() == []


def test_service_can_be_deleted_by_a_uuid_in_any_format(sqlite_host_api):
    sqlite_host_api.report_host(1)
    uuid = sqlite_host_api.read_service()["id"].replace("-", "").upper()
    sqlite_host_api.request("DELETE", f"{SERVICES_PATH}/{uuid}", status=204)


def test_deleting_a_scheduler_service_keeps_the_compute_service_of_the_host(
    sqlite_host_api, sqlite_database
):
    sqlite_host_api.report_host(1)
    sqlite_host_api.record_instance(str(uuid4()), "cn1")
    add_service(sqlite_database, "cn1", "nova-scheduler")
    _, scheduler = sqlite_host_api.list_services()
    sqlite_host_api.request("DELETE", f"{SERVICES_PATH}/{scheduler['id']}", status=204)
    assert [service["binary"] for service in sqlite_host_api.list_services()] == ["nova-compute"]
    assert list_provider_uuids(sqlite_host_api) == {node_uuid(1)}


def test_sql_statement_count_does_not_grow_with_nodes_or_providers(host_api):
    counts = []
    for size in (2, 8):
        host_api.report_hosts(size, host="rack")
        for number in range(size):
            create_child_provider(host_api, number)
        with record_statements(host_api.app.app.services.database) as seen:
            host_api.delete_service("rack", status=204)
        counts.append(len(seen))
    assert counts[0] == counts[1]
