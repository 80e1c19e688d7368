# SPDX-License-Identifier: Apache-2.0
"""openstacksdk's compute proxy against running servers."""

import pytest
from openstack import exceptions

from tests.client.conftest import connect_sdk
from tests.client.reporting import read_traits, record_instance, report_host

# The client warns of its own deprecations.
pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")]


@pytest.fixture(scope="module")
def compute(each_server):
    with connect_sdk(each_server) as connection:
        yield connection.compute


def test_service_can_be_found_disabled_forced_down_and_deleted(compute, each_server):
    provider = report_host(each_server, "sdk-s1")
    (found,) = compute.services(host="sdk-s1", binary="nova-compute")
    assert (found.status, found.state, found.availability_zone) == ("enabled", "up", "nova")
    assert compute.find_service("nova-compute", host="sdk-s1").id == found.id
    changed = compute.disable_service(found, "sdk-s1", "nova-compute", "fan")
    assert (changed.status, changed.disabled_reason) == ("disabled", "fan")
    assert read_traits(each_server, provider) == {"COMPUTE_STATUS_DISABLED"}
    assert compute.enable_service(found, "sdk-s1", "nova-compute").status == "enabled"
    assert compute.update_service_forced_down(found, forced=True).is_forced_down
    assert compute.update_service(found, forced_down=False).state == "up"
    compute.delete_service(found, ignore_missing=False)
    with pytest.raises(exceptions.NotFoundException):
        compute.delete_service(found.id, ignore_missing=False)


def test_hypervisor_can_be_found_listed_and_shown_with_its_instances(compute, each_server):
    uuid = report_host(each_server, "sdk-h1", stats={"uptime": "up 9 days"})
    address = record_instance(each_server, "sdk-h1", "web")
    found = compute.find_hypervisor("sdk-h1")
    assert (found.id, found.hypervisor_type, found.uptime) == (uuid, "QEMU", "up 9 days")
    assert uuid in {each.id for each in compute.hypervisors(limit=1)}
    (matching,) = compute.hypervisors(hypervisor_hostname_pattern="sdk-h1", with_servers=True)
    assert [each["name"] for each in matching.servers] == ["web"]
    assert compute.get_hypervisor(uuid).service_details["host"] == "sdk-h1"
    with pytest.raises(exceptions.NotFoundException):
        compute.find_hypervisor("sdk-nope", ignore_missing=False)
    each_server.request_json("DELETE", address)


def test_aggregate_can_be_created_tagged_given_hosts_and_deleted(compute, each_server):
    report_host(each_server, "sdk-a1")
    aggregate = compute.create_aggregate(name="sdk-aggregate", availability_zone="sdk-zone")
    compute.set_aggregate_metadata(aggregate, {"trait:CUSTOM_X": "required", "ssd": "true"})
    compute.set_aggregate_metadata(aggregate, {"ssd": None})
    assert compute.add_host_to_aggregate(aggregate, "sdk-a1").hosts == ["sdk-a1"]
    found = compute.find_aggregate("sdk-aggregate")
    tags = {"availability_zone": "sdk-zone", "trait:CUSTOM_X": "required"}
    assert (found.uuid, found.metadata) == (aggregate.uuid, tags)
    with pytest.raises(exceptions.BadRequestException):
        compute.delete_aggregate(aggregate)
    compute.aggregate_precache_images(aggregate, ["70a599e0-31e7-49b7-b260-868f441e862b"])
    compute.remove_host_from_aggregate(aggregate, "sdk-a1")
    compute.delete_aggregate(aggregate, ignore_missing=False)


def test_server_group_can_be_created_found_listed_and_deleted(compute):
    rules = {"max_server_per_host": 3}
    group = compute.create_server_group(name="sdk.apart", policy="anti-affinity", rules=rules)
    assert (group.name, group.policy, group.rules) == ("sdk.apart", "anti-affinity", rules)
    assert compute.get_server_group(group.id).member_ids == []
    assert compute.find_server_group("sdk.apart", ignore_missing=False).id == group.id
    assert group.id in {each.id for each in compute.server_groups(all_projects=True)}
    compute.delete_server_group(group, ignore_missing=False)
    with pytest.raises(exceptions.NotFoundException):
        compute.get_server_group(group.id)


@pytest.fixture
def flavor(compute):
    flavor = compute.create_flavor(
        name="sdk.small", id="sdk1", ram=512, vcpus=1, disk=1, is_public=False
    )
    yield flavor
    compute.delete_flavor(flavor, ignore_missing=True)


def test_flavor_can_be_created_found_described_and_deleted(compute, flavor):
    assert (flavor.id, flavor.name, flavor.ram, flavor.swap) == ("sdk1", "sdk.small", 512, 0)
    assert compute.get_flavor("sdk1").is_public is False
    assert compute.find_flavor("sdk.small", get_extra_specs=True).id == "sdk1"
    assert compute.update_flavor(flavor, description="Changed.").description == "Changed."
    compute.delete_flavor(flavor, ignore_missing=False)
    with pytest.raises(exceptions.NotFoundException):
        compute.get_flavor("sdk1")
    with pytest.raises(exceptions.NotFoundException):
        compute.delete_flavor("sdk1", ignore_missing=False)


def test_extra_specs_can_be_created_read_changed_and_deleted(compute, flavor):
    created = compute.create_flavor_extra_specs(flavor, {"hw:cpu_sockets": "2", "acme:x": "1"})
    assert created.extra_specs == {"hw:cpu_sockets": "2", "acme:x": "1"}
    assert compute.get_flavor_extra_specs_property(flavor, "acme:x") == "1"
    assert compute.update_flavor_extra_specs_property(flavor, "acme:x", "2") == "2"
    compute.delete_flavor_extra_specs_property(flavor, "hw:cpu_sockets")
    assert compute.fetch_flavor_extra_specs(flavor).extra_specs == {"acme:x": "2"}
    assert compute.get_flavor("sdk1").extra_specs == {"acme:x": "2"}
