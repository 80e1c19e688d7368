# SPDX-License-Identifier: Apache-2.0
"""Changes of images with JSON patches."""

from datetime import datetime, timedelta
from functools import partial

import pytest

from tests.api.image.conftest import ImageApi
from tests.support.concurrency import run_concurrently


def build_op(kind, path, *value):
    """Return an operation of a JSON patch."""
    return {"op": kind, "path": path, **({"value": value[0]} if value else {})}


@pytest.fixture
def image_uuid(image_api):
    return image_api.create_and_get_uuid("image", {"a": "1", "b/c~d": "2", "tags": ["t"]})


@pytest.fixture
def sqlite_image_uuid(sqlite_image_api):
    return sqlite_image_api.create_and_get_uuid("image", {"a": "1"})


def test_properties_of_an_image_can_be_added_replaced_and_removed(image_api, image_uuid):
    response = image_api.patch_image(
        image_uuid,
        build_op("add", "/trait:CUSTOM_X", "required"),
        build_op("add", "/with.dots", ""),
        build_op("add", "/a", "over"),
        build_op("replace", "/b~1c~0d", "new"),
        build_op("add", "/short-lived", "x"),
        build_op("remove", "/short-lived"),
    )
    image = response.json
    assert (image["trait:CUSTOM_X"], image["with.dots"]) == ("required", "")
    assert (image["a"], image["b/c~d"]) == ("over", "new")
    assert "short-lived" not in image
    assert image_api.show_image(image_uuid).json == image
    image_api.patch_image(image_uuid, build_op("remove", "/b~1c~0d"), build_op("remove", "/a"))
    assert not {"a", "b/c~d"} & image_api.show_image(image_uuid).json.keys()


def test_escapes_in_the_path_of_an_image_patch_are_decoded_only_once(image_api, image_uuid):
    assert image_api.patch_image(image_uuid, build_op("add", "/~01", "x")).json["~1"] == "x"


def test_attributes_of_an_image_can_be_replaced(image_api, image_uuid):
    values = {
        "name": None,
        "visibility": "private",
        "owner": "shop",
        "protected": True,
        "os_hidden": True,
        "disk_format": "raw",
        "container_format": "ova",
        "min_ram": 1,
        "min_disk": 2,
        "tags": ["y", "x", "x"],
    }
    operations = [build_op("replace", f"/{name}", value) for name, value in values.items()]
    image = image_api.patch_image(image_uuid, *operations).json
    assert image == {**image, **values, "tags": ["x", "y"]}
    assert image_api.show_image(image_uuid).json == image
    assert (
        image_api.patch_image(image_uuid, build_op("add", "/name", "again")).json["name"] == "again"
    )


def test_image_patch_with_an_invalid_operation_changes_nothing(settings, make_app):
    now = datetime(2026, 1, 1)
    image_api = ImageApi(make_app(settings, clock=lambda: now))
    image_uuid = image_api.create_and_get_uuid("image", {"a": "1", "tags": ["t"]})
    before = image_api.show_image(image_uuid).json
    assert image_api.patch_image(image_uuid).json == before
    now += timedelta(hours=1)
    image_api.patch_image(
        image_uuid, build_op("replace", "/name", "new"), build_op("remove", "/nothing"), status=409
    )
    assert image_api.show_image(image_uuid).json == before


def test_replacing_or_removing_unknown_image_property_is_409(sqlite_image_api, sqlite_image_uuid):
    for operation in ["replace", "remove"]:
        response = sqlite_image_api.patch_image(
            sqlite_image_uuid, build_op(operation, "/nothing", "x"), status=409
        ).json
        assert response["message"] == "Property nothing does not exist.", operation


def test_core_attribute_of_an_image_cannot_be_removed_and_its_id_not_changed(
    sqlite_image_api, sqlite_image_uuid
):
    response = sqlite_image_api.patch_image(
        sqlite_image_uuid, build_op("remove", "/name"), status=403
    ).json
    assert response["message"] == "Property name may not be removed."
    image_uuid = "70a599e0-31e7-49b7-b260-868f441e862b"
    sqlite_image_api.patch_image(
        sqlite_image_uuid, build_op("replace", "/id", image_uuid), status=403
    )


def test_only_an_administrator_changes_the_owner_of_an_image(sqlite_image_api):
    shop = {"X-Auth-Token": "bob:shop", "X-Roles": "member"}
    image_uuid = sqlite_image_api.create_and_get_uuid("mine", **shop)
    sqlite_image_api.patch_image(
        image_uuid, build_op("replace", "/owner", "bank"), status=403, **shop
    )
    image = sqlite_image_api.patch_image(image_uuid, build_op("replace", "/owner", "bank")).json
    assert image["owner"] == "bank"
    sqlite_image_api.show_image(image_uuid, status=404, **shop)


def test_malformed_patch_operation_is_rejected_with_its_path(sqlite_image_api, sqlite_image_uuid):
    for operation, place in [
        ({}, "$[0]"),
        ({"op": "add"}, "path"),
        ({"path": "/a", "value": "x"}, "op"),
        ({"op": "move", "path": "/a", "from": "/b"}, "op"),
        ({"op": "add", "path": "/a"}, "value"),
        ({"op": "add", "path": "a", "value": "x"}, "JSON pointer"),
        ({"op": "add", "path": "/", "value": "x"}, "JSON pointer"),
        ({"op": "add", "path": "/a/b", "value": "x"}, "JSON pointer"),
        ({"op": "add", "path": "/tags/0", "value": "x"}, "JSON pointer"),
        ({"op": "add", "path": "/a~2", "value": "x"}, "JSON pointer"),
        ({"op": "add", "path": 5, "value": "x"}, "JSON pointer"),
        ({"op": "add", "path": "/a", "value": 5}, "Invalid value of a"),
        ({"op": "replace", "path": "/min_ram", "value": "5"}, "Invalid value of min_ram"),
        ({"op": "replace", "path": "/tags", "value": [" x"]}, "Invalid value of tags"),
        ({"op": "add", "path": "/x ", "value": "y"}, "Invalid value of x"),
    ]:
        response = sqlite_image_api.patch_image(sqlite_image_uuid, operation, status=400).json[
            "message"
        ]
        assert place in response, operation
        assert "[0]" in response, operation


def test_image_patch_that_is_no_list_of_objects_is_rejected(sqlite_image_api, sqlite_image_uuid):
    for body in [{}, "x", None, ["x"], [5]]:
        sqlite_image_api.app.patch_json(
            f"/image/v2/images/{sqlite_image_uuid}",
            body,
            content_type="application/openstack-images-v2.1-json-patch",
            status=400,
        )


def test_image_patch_with_another_media_type_is_415(sqlite_image_api, sqlite_image_uuid):
    for kind in [
        "application/json",
        "application/json-patch+json",
        "application/openstack-images-v2.0-json-patch",
        "text/plain",
    ]:
        response = sqlite_image_api.patch_image(
            sqlite_image_uuid, build_op("add", "/a", "x"), media_type=kind, status=415
        ).json
        assert "application/openstack-images-v2.1-json-patch" in response["message"], kind


@pytest.mark.all_databases
def test_concurrent_patches_of_an_image_are_all_applied(image_api, image_uuid):
    """Each patch applies to the result of the patch before it."""
    names = [f"p{number}" for number in range(4)]
    run_concurrently(
        *(
            partial(image_api.patch_image, image_uuid, build_op("add", f"/{name}", name))
            for name in names
        )
    )
    assert set(names) <= image_api.show_image(image_uuid).json.keys()
