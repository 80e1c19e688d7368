# SPDX-License-Identifier: Apache-2.0
"""Single tags of images."""

import pytest

from tests.api.image.conftest import SHOP_MEMBER


@pytest.mark.all_databases
def test_image_tags_are_added_and_removed(image_api):
    uuid = image_api.create_and_get_uuid("image", {"tags": ["first"]})
    for tag in ("second", "first", "with%20blank", "Second", "%C3%BC" * 255):
        response = image_api.app.put(f"/image/v2/images/{uuid}/tags/{tag}", status=204)
        assert response.body == b""
    assert image_api.show_image(uuid).json["tags"] == [
        "Second",
        "first",
        "second",
        "with blank",
        "ü" * 255,
    ]
    image_api.app.delete(f"/image/v2/images/{uuid}/tags/second", status=204)
    assert image_api.show_image(uuid).json["tags"] == ["Second", "first", "with blank", "ü" * 255]
    shown = image_api.send_request("DELETE", f"{uuid}/tags/second", status=404).json["message"]
    assert "second" in shown


def test_tag_of_an_unknown_image_is_404(sqlite_image_api):
    sqlite_image_api.send_request("PUT", "nothing/tags/x", status=404)
    sqlite_image_api.send_request("DELETE", "nothing/tags/x", status=404)


def test_invalid_image_tag_is_rejected(sqlite_image_api):
    for tag in ["x" * 256, "x%20", "%0A"]:
        uuid = sqlite_image_api.create_and_get_uuid()
        assert (
            "tag"
            in sqlite_image_api.send_request("PUT", f"{uuid}/tags/{tag}", status=400).json[
                "message"
            ]
        ), tag
        assert sqlite_image_api.show_image(uuid).json["tags"] == [], tag


def test_only_the_owner_changes_tags_of_an_image(image_api):
    uuid = image_api.create_and_get_uuid("public", {"visibility": "public"})
    image_api.send_request("PUT", f"{uuid}/tags/x", status=403, **SHOP_MEMBER)
    image_api.send_request("DELETE", f"{uuid}/tags/x", status=403, **SHOP_MEMBER)
