# SPDX-License-Identifier: Apache-2.0
"""The image API's version documents."""

from webtest import TestApp


def test_versions_are_shown_without_a_token(sqlite_app):
    for path, status in [
        ("/image", 300),
        ("/image/", 300),
        ("/image/versions", 200),
        ("/image/versions/", 200),
        ("/image/v2", 200),
        ("/image/v2/", 200),
    ]:
        versions = TestApp(sqlite_app.app).get(path, status=status).json["versions"]
        assert [version["status"] for version in versions[:2]] == ["CURRENT", "SUPPORTED"], path
        assert versions[-1]["id"] == "v2.0", path
        assert versions[0]["links"] == [{"rel": "self", "href": "http://localhost/image/v2/"}], path


def test_image_paths_other_than_versions_require_a_token(sqlite_app):
    answer = TestApp(sqlite_app.app).get("/image/v2/nothing", status=401)
    assert answer.json["code"] == "401 Unauthorized"
