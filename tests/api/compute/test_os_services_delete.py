# SPDX-License-Identifier: Apache-2.0
"""Deletion of services: which objects are deleted, and which prevent the deletion."""

from uuid import uuid4

import pytest

from tests.api.compute.client import error_message
from tests.api.compute.hosts import SERVICES
from tests.support.allocation_bodies import build_body
from tests.support.hosts import add_service
from tests.support.reports import node_uuid
from tests.support.statements import record_statements
from tests.support.versions import LATEST, LATEST_HEADERS

RP = "/placement/resource_providers"


def make_child(hosts, parent=1):
    """Create a child provider of a host's provider and return its uuid."""
    uuid = str(uuid4())
    body = {"uuid": uuid, "name": uuid, "parent_provider_uuid": node_uuid(parent)}
    hosts.app.post_json(RP, body, headers=LATEST_HEADERS)
    inventory = {"resource_class": "VGPU", "total": 4}
    hosts.app.post_json(f"{RP}/{uuid}/inventories", inventory, headers=LATEST_HEADERS)
    return uuid


def allocate(hosts, provider, resource_class):
    """Allocate to a consumer without an instance record and return the path of the claim."""
    address = f"/placement/allocations/{uuid4()}"
    claim = build_body(LATEST, {provider: {resource_class: 1}}, kind="MIGRATION")
    hosts.app.put_json(address, claim, headers=LATEST_HEADERS)
    return address


def provider_uuids(hosts):
    providers = hosts.app.get(RP, headers=LATEST_HEADERS).json["resource_providers"]
    return {provider["uuid"] for provider in providers}


@pytest.mark.all_databases
def test_service_is_deleted_with_nodes_and_providers(hosts, api):
    hosts.report(1, host="rack")
    hosts.report(2, host="rack")
    hosts.report(3)
    make_child(hosts)
    number = api.make("a", "zone")
    for host in ("rack", "cn3"):
        api.add_host(number, host)
    hosts.delete_service("rack", status=204)
    assert [service["host"] for service in hosts.services()] == ["cn3"]
    assert [hypervisor["hypervisor_hostname"] for hypervisor in hosts.hypervisors()] == ["cn3"]
    assert provider_uuids(hosts) == {node_uuid(3)}
    assert api.show(number).json["aggregate"]["hosts"] == ["cn3"]
    hosts.report(1, host="rack")
    assert hosts.service("rack")["status"] == "enabled"
    assert api.show(number).json["aggregate"]["hosts"] == ["cn3"]


def test_host_with_instances_is_not_deleted(hosts, api):
    hosts.report(1)
    number = api.make("a")
    api.add_host(number, "cn1")
    instance = str(uuid4())
    hosts.record(instance, "cn1", "cn1")
    answer = error_message(hosts.delete_service(status=409))
    assert "Unable to delete compute service that is hosting instances" in answer
    assert hosts.hypervisor()["state"] == "up"
    assert provider_uuids(hosts) == {node_uuid(1)}
    assert api.show(number).json["aggregate"]["hosts"] == ["cn1"]
    hosts.app.delete(f"/scheduler/v1/instances/{instance}")
    hosts.delete_service(status=204)


def test_host_with_providers_in_use_is_not_deleted(hosts, api):
    hosts.report(1)
    number = api.make("a")
    api.add_host(number, "cn1")
    child = make_child(hosts)
    address = allocate(hosts, child, "VGPU")
    answer = error_message(hosts.delete_service(status=409))
    assert f"Unable to delete resource provider {child}" in answer
    assert address.rpartition("/")[2] in answer
    assert hosts.hypervisor()["state"] == "up"
    assert provider_uuids(hosts) == {node_uuid(1), child}
    assert api.show(number).json["aggregate"]["hosts"] == ["cn1"]
    hosts.app.delete(address)
    hosts.delete_service(status=204)
    assert provider_uuids(hosts) == set()


def test_error_names_consumers_and_how_to_free_the_host(sqlite_hosts):
    """After an evacuation the instance is on another host and has allocations here, too."""
    hosts = sqlite_hosts
    hosts.report(1)
    hosts.report(2)
    instance = str(uuid4())
    hosts.record(instance, "cn2", "cn2")
    claim = build_body(LATEST, {node_uuid(at): {"VCPU": 1} for at in (1, 2)})
    hosts.app.put_json(f"/placement/allocations/{instance}", claim, headers=LATEST_HEADERS)
    other = allocate(hosts, node_uuid(1), "VCPU").rpartition("/")[2]
    answer = error_message(hosts.delete_service(status=409))
    assert f"instance {instance} is on cn2 now" in answer
    assert f"consumer {other} is not a recorded instance" in answer
    assert "placement-sched placement audit --delete" in answer
    assert "openstack resource provider allocation unset" in answer


def test_service_is_deleted_by_number_before_2_53(sqlite_hosts):
    sqlite_hosts.report(1)
    number = sqlite_hosts.service(version="2.52")["id"]
    wrong = sqlite_hosts.request("DELETE", f"{SERVICES}/{number}", version="2.53", status=400)
    assert error_message(wrong) == f"Invalid uuid {number}"
    uuid = sqlite_hosts.service()["id"]
    sqlite_hosts.request("DELETE", f"{SERVICES}/{uuid}", version="2.52", status=400)
    for unknown in (number + 1, 0, -1, 2**31, 10**40):
        sqlite_hosts.request("DELETE", f"{SERVICES}/{unknown}", version="2.1", status=404)
    sqlite_hosts.request("DELETE", f"{SERVICES}/{number}", version="2.1", status=204)
    sqlite_hosts.request("DELETE", f"{SERVICES}/{uuid}", status=404)
    assert sqlite_hosts.services() == []


def test_uuid_can_have_any_spelling(sqlite_hosts):
    sqlite_hosts.report(1)
    uuid = sqlite_hosts.service()["id"].replace("-", "").upper()
    sqlite_hosts.request("DELETE", f"{SERVICES}/{uuid}", status=204)


def test_other_service_is_deleted_alone(sqlite_hosts, sqlite_database):
    sqlite_hosts.report(1)
    sqlite_hosts.record(str(uuid4()), "cn1")
    add_service(sqlite_database, "cn1", "nova-scheduler")
    _, scheduler = sqlite_hosts.services()
    sqlite_hosts.request("DELETE", f"{SERVICES}/{scheduler['id']}", status=204)
    assert [service["binary"] for service in sqlite_hosts.services()] == ["nova-compute"]
    assert provider_uuids(sqlite_hosts) == {node_uuid(1)}


def test_statement_count_is_independent_of_nodes_and_providers(hosts):
    counts = []
    for size in (2, 8):
        hosts.report_many(size, host="rack")
        for number in range(size):
            make_child(hosts, number)
        with record_statements(hosts.app.app.services.database) as seen:
            hosts.delete_service("rack", status=204)
        counts.append(len(seen))
    assert counts[0] == counts[1]
