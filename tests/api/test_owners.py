# SPDX-License-Identifier: Apache-2.0
"""The caller becomes the owner of new objects, on every database."""

import pytest

pytestmark = pytest.mark.all_databases

SERVER_GROUP_BODY = {"server_group": {"name": "g", "policies": ["affinity"]}}


def build_owner_headers(project: str, user: str = "bob") -> dict[str, str]:
    return {
        "X-Auth-Token": f"{user}:{project}",
        "X-Roles": "member,reader",
        "OpenStack-API-Version": "compute 2.13",
    }


def test_project_or_user_id_of_an_owner_can_have_255_characters(app):
    project, user = "p" * 255, "u" * 255
    headers = build_owner_headers(project, user)
    group = app.post_json("/compute/v2.1/os-server-groups", SERVER_GROUP_BODY, headers=headers).json
    assert group["server_group"]["project_id"] == project
    assert group["server_group"]["user_id"] == user
    image = app.post_json("/image/v2/images", {"name": "i"}, headers=headers).json
    assert image["owner"] == project


def test_project_or_user_id_of_an_owner_with_256_characters_is_400(app):
    groups, images = "/compute/v2.1/os-server-groups", "/image/v2/images"
    for noun, path, headers in (
        ("project", groups, build_owner_headers("p" * 256)),
        ("user", groups, build_owner_headers("shop", "u" * 256)),
        ("project", images, build_owner_headers("p" * 256)),
    ):
        body = SERVER_GROUP_BODY if path == groups else {"name": "i"}
        response = app.post_json(path, body, headers=headers, status=400)
        assert f"{noun} id has 256 characters" in response.text
        listed = app.get(path, headers=headers).json
        assert not listed["server_groups" if path == groups else "images"]


def test_image_is_owned_by_the_project_with_any_user_id(app):
    headers = build_owner_headers("shop", "u" * 256)
    assert app.post_json("/image/v2/images", {}, headers=headers).json["owner"] == "shop"


def test_image_with_another_owner_is_created_even_if_the_id_of_the_caller_is_too_long(sqlite_app):
    headers = build_owner_headers("p" * 256) | {"X-Roles": "admin"}
    body = {"name": "i", "owner": "shop"}
    assert sqlite_app.post_json("/image/v2/images", body, headers=headers).json["owner"] == "shop"
