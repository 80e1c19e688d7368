# SPDX-License-Identifier: Apache-2.0
"""openstacksdk's image proxy against a running server."""

import pytest
from openstack import exceptions

from tests.openstack_client.conftest import connect_sdk
from tests.support.servers import Server

# The client warns of its own deprecations.
pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")]


@pytest.fixture(scope="module")
def sdk_image(server_for_unique_names: Server):
    with connect_sdk(server_for_unique_names) as connection:
        yield connection.image


@pytest.fixture
def new_image(sdk_image, unique_name):
    return sdk_image.create_image(
        unique_name, allow_duplicates=True, **{"trait:CUSTOM_X": "required"}
    )


def test_image_can_be_created_found_shown_and_deleted(sdk_image, new_image, unique_name):
    assert (new_image.name, new_image.status, new_image.visibility) == (
        unique_name,
        "queued",
        "shared",
    )
    assert new_image.properties["trait:CUSTOM_X"] == "required"
    assert new_image.properties["owner_specified.openstack.object"] == f"images/{unique_name}"
    assert sdk_image.find_image(unique_name, ignore_missing=False).id == new_image.id
    assert sdk_image.get_image(new_image.id).properties == new_image.properties
    sdk_image.delete_image(new_image)
    with pytest.raises(exceptions.NotFoundException, match="No image found"):
        sdk_image.get_image(new_image.id)
    sdk_image.delete_image(new_image, ignore_missing=True)


def test_image_can_be_updated(sdk_image, new_image):
    changed = sdk_image.update_image(
        new_image.id,
        name="renamed",
        min_ram=64,
        is_protected=True,
        os_distro="windows",
        **{"with/slash~tilde.dot": "x"},
    )
    assert (changed.name, changed.min_ram, changed.is_protected) == ("renamed", 64, True)
    assert changed.os_distro == "windows"
    fetched = sdk_image.get_image(new_image.id)
    assert fetched.properties["with/slash~tilde.dot"] == "x"
    with pytest.raises(exceptions.ForbiddenException, match="is protected"):
        sdk_image.delete_image(new_image.id, ignore_missing=False)
    kept = {key: value for key, value in fetched.properties.items() if "slash" not in key}
    assert sdk_image.update_image(fetched, is_protected=False, properties=kept).properties == kept
    sdk_image.update_image_properties(sdk_image.get_image(new_image.id), os_version="11")
    assert sdk_image.get_image(new_image.id).os_version == "11"


def test_images_are_listed_over_pages(sdk_image, unique_name):
    uuids = {
        sdk_image.create_image(
            f"{unique_name}-{number}", allow_duplicates=True, tags=[unique_name]
        ).id
        for number in range(5)
    }
    assert {each.id for each in sdk_image.images(tag=unique_name, limit=2)} == uuids
    names = [each.name for each in sdk_image.images(tag=unique_name, sort="name:asc", limit=3)]
    assert names == sorted(names)
    assert [each.name for each in sdk_image.images(name=f"{unique_name}-1")] == [f"{unique_name}-1"]
    assert list(sdk_image.images(tag=unique_name, status="active")) == []
    assert list(sdk_image.images(tag=unique_name, is_hidden=True)) == []
    with pytest.raises(exceptions.BadRequestException, match="size_min"):
        list(sdk_image.images(tag=unique_name, size_min=1))


def test_tags_of_an_image_can_be_added_and_removed(sdk_image, new_image):
    sdk_image.add_tag(new_image, "one")
    sdk_image.add_tag(new_image, "two")
    assert sdk_image.get_image(new_image.id).tags == ["one", "two"]
    sdk_image.remove_tag(new_image, "one")
    assert sdk_image.get_image(new_image.id).tags == ["two"]


def test_schemas_are_shown(sdk_image):
    assert "visibility" in sdk_image.get_image_schema().properties
    assert "images" in sdk_image.get_images_schema().properties
