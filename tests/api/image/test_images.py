# SPDX-License-Identifier: Apache-2.0
"""Images: create, show, delete, deactivate."""

import re

import pytest

from placement_sched.limits import MAX_IMAGE_PROPERTY_CHARACTERS
from tests.api.image.conftest import BANK_MEMBER, IMAGES_URL, SHOP_MEMBER, ImageApi

CREATION_TIME = "2026-01-01T00:00:00Z"
IMAGE_UUID = "70a599e0-31e7-49b7-b260-868f441e862b"
CORE_IMAGE_ATTRIBUTES = {
    *("id", "name", "status", "visibility", "owner", "protected"),
    *("os_hidden", "disk_format", "container_format", "min_ram", "min_disk", "size"),
    *("virtual_size", "checksum", "os_hash_algo", "os_hash_value", "tags", "created_at"),
    *("updated_at", "self", "file", "schema"),
}


def test_minimal_image_has_every_attribute(image_api):
    response = image_api.create_image({})
    image = response.json
    assert set(image) == CORE_IMAGE_ATTRIBUTES
    assert (image["status"], image["visibility"], image["owner"]) == ("queued", "shared", "admin")
    assert (image["protected"], image["os_hidden"]) == (False, False)
    assert (image["min_ram"], image["min_disk"], image["tags"]) == (0, 0, [])
    nulls = {"name", "disk_format", "container_format", "size", "virtual_size", "checksum"}
    assert all(image[name] is None for name in nulls)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", image["created_at"])
    assert response.headers["Location"] == f"http://localhost{IMAGES_URL}/{image['id']}"
    path = f"/v2/images/{image['id']}"
    assert (image["self"], image["file"]) == (path, f"{path}/file")
    assert image["schema"] == "/v2/schemas/image"


@pytest.mark.all_databases
def test_image_is_shown_as_it_was_created(image_api):
    fields = {
        "id": IMAGE_UUID,
        "name": "Windows",
        "visibility": "private",
        "owner": "shop",
        "protected": True,
        "os_hidden": True,
        "disk_format": "qcow2",
        "container_format": "bare",
        "min_ram": 2048,
        "min_disk": 2**31 - 1,
        "tags": ["b", "a", "a"],
        "trait:CUSTOM_LICENSED": "required",
        "hw:a.dotted.name": "",
        "Os_Distro": "Win",
        "os_distro": "win",
        "ütf 💿": "\t\n'\"\\",
    }
    image = image_api.create_image(fields).json
    assert image == {**image, **fields, "tags": ["a", "b"]}
    assert image_api.show_image(IMAGE_UUID).json == image
    assert image_api.show_image(IMAGE_UUID.upper()).json == image


def test_duplicate_image_id_is_409(image_api):
    image_api.create_image({"id": IMAGE_UUID})
    response = image_api.create_image({"id": IMAGE_UUID.upper(), "x": "y"}, status=409).json
    assert response["title"] == "Conflict"
    assert IMAGE_UUID in response["message"]
    assert "x" not in image_api.show_image(IMAGE_UUID).json
    image_api.delete_image(IMAGE_UUID)
    assert image_api.create_image({"id": IMAGE_UUID}).json["id"] == IMAGE_UUID


def test_invalid_image_attribute_is_rejected_with_its_path(sqlite_image_api):
    for attributes, expected in [
        ({"id": "x"}, "$.id"),
        ({"name": "n" * 256}, "$.name"),
        ({"visibility": "secret"}, "$.visibility"),
        ({"protected": "yes"}, "$.protected"),
        ({"os_hidden": None}, "$.os_hidden"),
        ({"disk_format": "floppy"}, "$.disk_format"),
        ({"container_format": 1}, "$.container_format"),
        ({"min_ram": -1}, "$.min_ram"),
        ({"min_disk": 2**31}, "$.min_disk"),
        ({"tags": ["a" * 256]}, "$.tags[0]"),
        ({"tags": [" a"]}, "$.tags[0]"),
        ({"os_distro": 1}, "$.os_distro"),
        ({"architecture": None}, "$.architecture"),
        ({"any": None}, "$.any"),
        ({"p" * 256: "x"}, "ppp"),
        ({"blank ": "x"}, "blank "),
        ({"kernel_id": "x"}, "$.kernel_id"),
    ]:
        response = sqlite_image_api.create_image(attributes, status=400).json
        assert response["code"] == "400 Bad Request", attributes
        assert expected in response["message"], attributes
        assert sqlite_image_api.list_image_names() == [], attributes


def test_image_body_that_is_no_object_is_rejected(sqlite_app):
    for body in [[], "x", 5, None]:
        sqlite_app.post_json(IMAGES_URL, body, status=400)
    sqlite_app.post(IMAGES_URL, b"{}", content_type="text/plain", status=415)


def test_image_creation_with_read_only_attributes_is_403(sqlite_image_api):
    read_only = [
        *("status", "size", "virtual_size", "checksum", "os_hash_algo", "os_hash_value"),
        *("created_at", "updated_at", "self", "file", "schema", "direct_url"),
    ]
    uuid = sqlite_image_api.create_and_get_uuid()
    for name in [*read_only, "location", "deleted", "os_glance_importing"]:
        word = "read-only" if name in read_only else "reserved"
        value = {"status": "active", "created_at": CREATION_TIME, "updated_at": CREATION_TIME}.get(
            name
        )
        value = value or (5 if name in {"size", "virtual_size"} else "x")
        response = sqlite_image_api.create_image({name: value}, status=403).json
        assert response["message"] == f"Attribute '{name}' is {word}.", name
        for operation in ("add", "replace", "remove"):
            change = {"op": operation, "path": f"/{name}", "value": value}
            rejection = sqlite_image_api.patch_image(uuid, change, status=403).json
            assert rejection["message"] == response["message"], name


def test_null_kernel_id_is_omitted_from_the_image(image_api):
    image = image_api.create_image({"kernel_id": None, "ramdisk_id": IMAGE_UUID}).json
    assert "kernel_id" not in image
    assert image["ramdisk_id"] == IMAGE_UUID


def test_image_has_at_most_128_properties_and_tags(image_api):
    many = {f"p{number}": "x" for number in range(128)}
    uuid = image_api.create_and_get_uuid("full", many)
    assert "properties" in image_api.create_image({**many, "more": "x"}, status=413).json["message"]
    more = {"op": "add", "path": "/more", "value": "x"}
    assert (
        image_api.patch_image(uuid, more, status=413).json["code"] == "413 Request Entity Too Large"
    )
    image_api.patch_image(uuid, {"op": "remove", "path": "/p0"}, more)
    tags = [f"t{number}" for number in range(128)]
    image_api.patch_image(uuid, {"op": "replace", "path": "/tags", "value": tags})
    assert "tags" in image_api.send_request("PUT", f"{uuid}/tags/more", status=413).json["message"]
    image_api.send_request("PUT", f"{uuid}/tags/t0", status=204)


def test_image_with_too_many_property_characters_is_413(image_api):
    half = MAX_IMAGE_PROPERTY_CHARACTERS // 2 - 2
    uuid = image_api.create_and_get_uuid("large", {"p1": "x" * half, "p2": "\u00e9" * half})
    last = {"op": "replace", "path": "/p2", "value": "x" * (half + 1)}
    assert "property characters" in image_api.patch_image(uuid, last, status=413).json["message"]
    wide = {"p1": "x" * half, "p2": "x" * half, "p3": ""}
    assert "property characters" in image_api.create_image(wide, status=413).json["message"]


def test_deleted_image_is_removed_with_its_properties(image_api):
    uuid = image_api.create_and_get_uuid("gone", {"a": "b", "tags": ["t"]})
    image_api.delete_image(uuid)
    response = image_api.show_image(uuid, status=404).json
    assert response == {
        "message": f"No image found with ID {uuid}",
        "code": "404 Not Found",
        "title": "Not Found",
    }
    image_api.delete_image(uuid, status=404)
    assert image_api.list_image_names() == []


def test_protected_image_cannot_be_deleted(image_api):
    uuid = image_api.create_and_get_uuid("kept", {"protected": True})
    assert "is protected" in image_api.delete_image(uuid, status=403).json["message"]
    image_api.patch_image(uuid, {"op": "replace", "path": "/protected", "value": False})
    image_api.delete_image(uuid)


def test_queued_image_cannot_be_deactivated(image_api):
    uuid = image_api.create_and_get_uuid()
    for action in ["deactivate", "reactivate"]:
        response = image_api.send_request("POST", f"{uuid}/actions/{action}", status=403).json
        assert response["message"] == f"Not allowed to {action} image in status 'queued'"
        image_api.send_request("POST", f"{IMAGE_UUID}/actions/{action}", status=404)


@pytest.mark.all_databases
def test_active_image_is_deactivated_and_reactivated(image_api):
    formats = {"disk_format": "raw", "container_format": "bare"}
    uuid = image_api.create_and_get_uuid("active", {"visibility": "public", **formats})
    octets = "application/octet-stream"
    image_api.app.put(f"/image/v2/images/{uuid}/file", b"", content_type=octets, status=204)
    for _ in range(2):
        image_api.app.post(f"/image/v2/images/{uuid}/actions/deactivate", status=204)
        assert image_api.show_image(uuid).json["status"] == "deactivated"
    image_api.send_request("GET", f"{uuid}/file", status=403, **SHOP_MEMBER)
    image_api.send_request("POST", f"{uuid}/actions/deactivate", status=403, **SHOP_MEMBER)
    for _ in range(2):
        image_api.app.post(f"/image/v2/images/{uuid}/actions/reactivate", status=204)
        assert image_api.show_image(uuid).json["status"] == "active"


def test_invisible_image_of_another_project_is_404_and_change_of_a_visible_image_403(image_api):
    uuids = {
        visibility: image_api.create_and_get_uuid(
            visibility, {"visibility": visibility, "owner": "shop"}
        )
        for visibility in ("public", "community", "shared", "private")
    }
    change = {"op": "add", "path": "/a", "value": "b"}
    for visibility, uuid in uuids.items():
        seen = visibility in {"public", "community"}
        assert image_api.show_image(uuid, **SHOP_MEMBER).json["name"] == visibility
        image_api.show_image(uuid, status=200 if seen else 404, **BANK_MEMBER)
        rejected_status = 403 if seen else 404
        image_api.patch_image(uuid, change, status=rejected_status, **BANK_MEMBER)
        image_api.send_request("PUT", f"{uuid}/tags/t", status=rejected_status, **BANK_MEMBER)
        image_api.delete_image(uuid, status=rejected_status, **BANK_MEMBER)
        image_api.patch_image(uuid, change, **SHOP_MEMBER)
        image_api.delete_image(uuid, **SHOP_MEMBER)


def test_only_an_administrator_sets_another_owner_of_an_image(image_api):
    assert image_api.create_image({}, **SHOP_MEMBER).json["owner"] == "shop"
    assert image_api.create_image({"owner": "shop"}, **SHOP_MEMBER).json["owner"] == "shop"
    image_api.create_image({"owner": "bank"}, status=403, **SHOP_MEMBER)
    image_api.create_image({"owner": None}, status=403, **SHOP_MEMBER)
    assert image_api.create_image({"owner": "bank"}).json["owner"] == "bank"
    nobodys = image_api.create_image({"owner": None}).json
    assert nobodys["owner"] is None
    image_api.show_image(nobodys["id"], status=404, **SHOP_MEMBER)


def test_only_an_administrator_makes_an_image_public(image_api):
    response = image_api.create_image({"visibility": "public"}, status=403, **SHOP_MEMBER).json
    assert "public" in response["message"]
    uuid = image_api.create_and_get_uuid("mine", {"visibility": "community"}, **SHOP_MEMBER)
    publish = {"op": "replace", "path": "/visibility", "value": "public"}
    image_api.patch_image(uuid, publish, status=403, **SHOP_MEMBER)
    image_api.patch_image(uuid, publish)
    image_api.patch_image(
        uuid, {"op": "replace", "path": "/name", "value": "still mine"}, **SHOP_MEMBER
    )
    assert image_api.show_image(uuid).json["visibility"] == "public"


def test_policy_rule_of_glance_that_compares_owner_and_project_is_supported(
    make_app_with_policy_rules,
):
    """The rule is from glance's sample of policies."""
    check = "role:admin or (role:member and project_id:%(project_id)s and project_id:%(owner)s)"
    image_api = ImageApi(make_app_with_policy_rules({"add_image": check}))
    assert image_api.create_image({}, **SHOP_MEMBER).json["owner"] == "shop"


def test_policy_rules_of_public_images_and_of_images_of_all_projects_are_configurable(
    make_app_with_policy_rules,
):
    rules = {"publicize_image": "role:publisher", "context_is_admin": "role:auditor"}
    image_api = ImageApi(make_app_with_policy_rules(rules))
    image_api.create_image({"visibility": "public"}, status=403, **SHOP_MEMBER)
    image_api.create_image(
        {"visibility": "public"}, **{**SHOP_MEMBER, "X-Roles": "member,publisher"}
    )
    hidden = image_api.create_and_get_uuid("hidden", **SHOP_MEMBER)
    image_api.show_image(hidden, status=404, **BANK_MEMBER)
    image_api.show_image(hidden, **{**BANK_MEMBER, "X-Roles": "reader,auditor"})
