# SPDX-License-Identifier: Apache-2.0
"""openstacksdk's compute proxy against running servers."""

import pytest
from openstack import exceptions

from tests.openstack_client.conftest import connect_sdk
from tests.openstack_client.reporting import read_traits, record_instance, report_host

# The client warns of its own deprecations.
pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")]


@pytest.fixture(scope="module")
def sdk_compute(api_server):
    with connect_sdk(api_server) as connection:
        yield connection.compute


def test_service_can_be_found_disabled_forced_down_and_deleted(sdk_compute, api_server):
    provider = report_host(api_server, "sdk-s1")
    (service,) = sdk_compute.services(host="sdk-s1", binary="nova-compute")
    assert (service.status, service.state, service.availability_zone) == ("enabled", "up", "nova")
    assert sdk_compute.find_service("nova-compute", host="sdk-s1").id == service.id
    changed = sdk_compute.disable_service(service, "sdk-s1", "nova-compute", "fan")
    assert (changed.status, changed.disabled_reason) == ("disabled", "fan")
    assert read_traits(api_server, provider) == {"COMPUTE_STATUS_DISABLED"}
    assert sdk_compute.enable_service(service, "sdk-s1", "nova-compute").status == "enabled"
    assert sdk_compute.update_service_forced_down(service, forced=True).is_forced_down
    assert sdk_compute.update_service(service, forced_down=False).state == "up"
    sdk_compute.delete_service(service, ignore_missing=False)
    with pytest.raises(exceptions.NotFoundException):
        sdk_compute.delete_service(service.id, ignore_missing=False)


def test_hypervisor_can_be_found_listed_and_shown_with_its_instances(sdk_compute, api_server):
    uuid = report_host(api_server, "sdk-h1", stats={"uptime": "up 9 days"})
    address = record_instance(api_server, "sdk-h1", "web")
    hypervisor = sdk_compute.find_hypervisor("sdk-h1")
    assert (hypervisor.id, hypervisor.hypervisor_type, hypervisor.uptime) == (
        uuid,
        "QEMU",
        "up 9 days",
    )
    assert uuid in {each.id for each in sdk_compute.hypervisors(limit=1)}
    (matching,) = sdk_compute.hypervisors(hypervisor_hostname_pattern="sdk-h1", with_servers=True)
    assert [each["name"] for each in matching.servers] == ["web"]
    assert sdk_compute.get_hypervisor(uuid).service_details["host"] == "sdk-h1"
    with pytest.raises(exceptions.NotFoundException):
        sdk_compute.find_hypervisor("sdk-nope", ignore_missing=False)
    api_server.request_json("DELETE", address)


def test_aggregate_can_be_created_tagged_given_hosts_and_deleted(sdk_compute, api_server):
    report_host(api_server, "sdk-a1")
    aggregate = sdk_compute.create_aggregate(name="sdk-aggregate", availability_zone="sdk-zone")
    sdk_compute.set_aggregate_metadata(aggregate, {"trait:CUSTOM_X": "required", "ssd": "true"})
    sdk_compute.set_aggregate_metadata(aggregate, {"ssd": None})
    assert sdk_compute.add_host_to_aggregate(aggregate, "sdk-a1").hosts == ["sdk-a1"]
    aggregate_found = sdk_compute.find_aggregate("sdk-aggregate")
    tags = {"availability_zone": "sdk-zone", "trait:CUSTOM_X": "required"}
    assert (aggregate_found.uuid, aggregate_found.metadata) == (aggregate.uuid, tags)
    with pytest.raises(exceptions.BadRequestException):
        sdk_compute.delete_aggregate(aggregate)
    sdk_compute.aggregate_precache_images(aggregate, ["70a599e0-31e7-49b7-b260-868f441e862b"])
    sdk_compute.remove_host_from_aggregate(aggregate, "sdk-a1")
    sdk_compute.delete_aggregate(aggregate, ignore_missing=False)


def test_server_group_can_be_created_found_listed_and_deleted(sdk_compute):
    rules = {"max_server_per_host": 3}
    group = sdk_compute.create_server_group(name="sdk.apart", policy="anti-affinity", rules=rules)
    assert (group.name, group.policy, group.rules) == ("sdk.apart", "anti-affinity", rules)
    assert sdk_compute.get_server_group(group.id).member_ids == []
    assert sdk_compute.find_server_group("sdk.apart", ignore_missing=False).id == group.id
    assert group.id in {each.id for each in sdk_compute.server_groups(all_projects=True)}
    sdk_compute.delete_server_group(group, ignore_missing=False)
    with pytest.raises(exceptions.NotFoundException):
        sdk_compute.get_server_group(group.id)


@pytest.fixture
def flavor(sdk_compute):
    flavor = sdk_compute.create_flavor(
        name="sdk.small", id="sdk1", ram=512, vcpus=1, disk=1, is_public=False
    )
    yield flavor
    sdk_compute.delete_flavor(flavor, ignore_missing=True)


def test_flavor_can_be_created_found_described_and_deleted(sdk_compute, flavor):
    assert (flavor.id, flavor.name, flavor.ram, flavor.swap) == ("sdk1", "sdk.small", 512, 0)
    assert sdk_compute.get_flavor("sdk1").is_public is False
    assert sdk_compute.find_flavor("sdk.small", get_extra_specs=True).id == "sdk1"
    assert sdk_compute.update_flavor(flavor, description="Changed.").description == "Changed."
    sdk_compute.delete_flavor(flavor, ignore_missing=False)
    with pytest.raises(exceptions.NotFoundException):
        sdk_compute.get_flavor("sdk1")
    with pytest.raises(exceptions.NotFoundException):
        sdk_compute.delete_flavor("sdk1", ignore_missing=False)


def test_extra_specs_can_be_created_read_changed_and_deleted(sdk_compute, flavor):
    created = sdk_compute.create_flavor_extra_specs(flavor, {"hw:cpu_sockets": "2", "acme:x": "1"})
    assert created.extra_specs == {"hw:cpu_sockets": "2", "acme:x": "1"}
    assert sdk_compute.get_flavor_extra_specs_property(flavor, "acme:x") == "1"
    assert sdk_compute.update_flavor_extra_specs_property(flavor, "acme:x", "2") == "2"
    sdk_compute.delete_flavor_extra_specs_property(flavor, "hw:cpu_sockets")
    assert sdk_compute.fetch_flavor_extra_specs(flavor).extra_specs == {"acme:x": "2"}
    assert sdk_compute.get_flavor("sdk1").extra_specs == {"acme:x": "2"}
