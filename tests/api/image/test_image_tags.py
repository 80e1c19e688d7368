# SPDX-License-Identifier: Apache-2.0
"""Single tags of images."""

import pytest

from tests.api.image.conftest import SHOP


def test_tags_are_added_and_removed(api):
    uuid = api.make("image", {"tags": ["first"]})
    for tag in ("second", "first", "with%20blank", "Second", "%C3%BC"):
        answer = api.call("PUT", f"{uuid}/tags/{tag}", status=204)
        assert answer.body == b""
    assert api.show(uuid).json["tags"] == ["Second", "first", "second", "with blank", "ü"]
    api.call("DELETE", f"{uuid}/tags/second", status=204)
    assert api.show(uuid).json["tags"] == ["Second", "first", "with blank", "ü"]
    shown = api.call("DELETE", f"{uuid}/tags/second", status=404).json["message"]
    assert "second" in shown


def test_tag_of_an_unknown_image_is_404(sqlite_api):
    sqlite_api.call("PUT", "nothing/tags/x", status=404)
    sqlite_api.call("DELETE", "nothing/tags/x", status=404)


@pytest.mark.parametrize("tag", ["x" * 256, "x%20", "%0A"])
def test_invalid_tag_is_rejected(sqlite_api, tag):
    uuid = sqlite_api.make()
    assert "tag" in sqlite_api.call("PUT", f"{uuid}/tags/{tag}", status=400).json["message"]
    assert sqlite_api.show(uuid).json["tags"] == []


def test_longest_tag_is_accepted(api):
    uuid = api.make()
    api.call("PUT", f"{uuid}/tags/{'%C3%BC' * 255}", status=204)
    assert api.show(uuid).json["tags"] == ["ü" * 255]


def test_only_the_owner_changes_tags(api):
    uuid = api.make("public", {"visibility": "public"})
    api.call("PUT", f"{uuid}/tags/x", status=403, **SHOP)
    api.call("DELETE", f"{uuid}/tags/x", status=403, **SHOP)
