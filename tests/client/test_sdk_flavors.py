# SPDX-License-Identifier: Apache-2.0
"""openstacksdk's compute proxy against a running server: flavors."""

import openstack
import pytest
from openstack import exceptions

# The client warns of its own deprecations.
pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")]


@pytest.fixture(scope="module")
def compute(busy_server):
    """The compute proxy of a connection like that of the ``clouds.yaml`` in the documentation."""
    with openstack.connect(
        load_yaml_config=False,
        load_envvars=False,
        auth_type="admin_token",
        auth={"endpoint": f"{busy_server.url}/placement", "token": "admin"},
        compute_endpoint_override=f"{busy_server.url}/compute/v2.1",
        identity_endpoint_override=f"{busy_server.url}/identity",
    ) as connection:
        yield connection.compute


@pytest.fixture
def flavor(compute):
    flavor = compute.create_flavor(
        name="sdk.small", id="sdk1", ram=512, vcpus=1, disk=1, is_public=False
    )
    yield flavor
    compute.delete_flavor(flavor, ignore_missing=True)


def test_flavor_is_created_found_described_and_deleted(compute, flavor):
    assert (flavor.id, flavor.name, flavor.ram, flavor.swap) == ("sdk1", "sdk.small", 512, 0)
    assert compute.get_flavor("sdk1").is_public is False
    assert compute.find_flavor("sdk.small", get_extra_specs=True).id == "sdk1"
    assert compute.update_flavor(flavor, description="Changed.").description == "Changed."
    compute.delete_flavor(flavor, ignore_missing=False)
    with pytest.raises(exceptions.NotFoundException):
        compute.get_flavor("sdk1")
    with pytest.raises(exceptions.NotFoundException):
        compute.delete_flavor("sdk1", ignore_missing=False)


def test_flavors_are_listed_over_pages(compute, flavor):
    others = [
        compute.create_flavor(name=f"sdk.{number}", id=f"sdk{number}", ram=2048, vcpus=1, disk=1)
        for number in (2, 3)
    ]
    listed = [each.id for each in compute.flavors(is_public="None", limit=1)]
    assert [each for each in listed if each.startswith("sdk")] == ["sdk1", "sdk2", "sdk3"]
    large = compute.flavors(details=False, min_ram=1024, sort_key="name", sort_dir="desc")
    assert [each.id for each in large if each.id.startswith("sdk")] == ["sdk3", "sdk2"]
    for each in others:
        compute.delete_flavor(each)


def test_extra_specs_are_created_read_changed_and_deleted(compute, flavor):
    created = compute.create_flavor_extra_specs(flavor, {"hw:cpu_sockets": "2", "acme:x": "1"})
    assert created.extra_specs == {"hw:cpu_sockets": "2", "acme:x": "1"}
    assert compute.get_flavor_extra_specs_property(flavor, "acme:x") == "1"
    assert compute.update_flavor_extra_specs_property(flavor, "acme:x", "2") == "2"
    compute.delete_flavor_extra_specs_property(flavor, "hw:cpu_sockets")
    assert compute.fetch_flavor_extra_specs(flavor).extra_specs == {"acme:x": "2"}
    assert compute.get_flavor("sdk1").extra_specs == {"acme:x": "2"}


def test_project_access_is_granted_and_revoked(compute, flavor):
    compute.flavor_add_tenant_access(flavor, "shop")
    assert compute.get_flavor_access(flavor) == [{"flavor_id": "sdk1", "tenant_id": "shop"}]
    with pytest.raises(exceptions.ConflictException):
        compute.flavor_add_tenant_access(flavor, "shop")
    compute.flavor_remove_tenant_access(flavor, "shop")
    assert compute.get_flavor_access(flavor) == []
