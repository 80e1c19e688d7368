# SPDX-License-Identifier: Apache-2.0
"""Image tags, one by one."""

import pytest

from tests.api.image.conftest import SHOP


def test_tags_are_put_and_taken_away(api):
    uuid = api.make("image", {"tags": ["first"]})
    for tag in ("second", "first", "with%20blank", "Second", "%C3%BC"):
        answer = api.call("PUT", f"{uuid}/tags/{tag}", status=204)
        assert answer.body == b""
    assert api.show(uuid).json["tags"] == ["Second", "first", "second", "with blank", "ü"]
    api.call("DELETE", f"{uuid}/tags/second", status=204)
    assert api.show(uuid).json["tags"] == ["Second", "first", "with blank", "ü"]
    shown = api.call("DELETE", f"{uuid}/tags/second", status=404).json["message"]
    assert "second" in shown


def test_tag_of_an_image_that_is_not_there(sqlite_api):
    sqlite_api.call("PUT", "nothing/tags/x", status=404)
    sqlite_api.call("DELETE", "nothing/tags/x", status=404)


@pytest.mark.parametrize("tag", ["x" * 256, "x%20", "%0A"])
def test_tag_that_cannot_be_is_refused(sqlite_api, tag):
    uuid = sqlite_api.make()
    assert "tag" in sqlite_api.call("PUT", f"{uuid}/tags/{tag}", status=400).json["message"]
    assert sqlite_api.show(uuid).json["tags"] == []


def test_longest_tag_is_taken(api):
    uuid = api.make()
    api.call("PUT", f"{uuid}/tags/{'%C3%BC' * 255}", status=204)
    assert api.show(uuid).json["tags"] == ["ü" * 255]


def test_tags_are_the_owners(api):
    uuid = api.make("public", {"visibility": "public"})
    api.call("PUT", f"{uuid}/tags/x", status=403, **SHOP)
    api.call("DELETE", f"{uuid}/tags/x", status=403, **SHOP)
