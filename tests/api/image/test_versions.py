# SPDX-License-Identifier: Apache-2.0
"""The image API's version documents."""

import pytest
from webtest import TestApp


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/image", 300),
        ("/image/", 300),
        ("/image/versions", 200),
        ("/image/versions/", 200),
        ("/image/v2", 200),
        ("/image/v2/", 200),
    ],
)
def test_versions_are_shown_without_a_token(sqlite_app, path, status):
    versions = TestApp(sqlite_app.app).get(path, status=status).json["versions"]
    assert [version["status"] for version in versions[:2]] == ["CURRENT", "SUPPORTED"]
    assert versions[-1]["id"] == "v2.0"
    assert versions[0]["links"] == [{"rel": "self", "href": "http://localhost/image/v2/"}]


def test_errors_have_glances_shape(sqlite_app):
    answer = sqlite_app.get("/image/v2/nothing", status=404)
    assert answer.json["code"] == "404 Not Found"
    assert answer.json["title"] == "Not Found"


def test_other_paths_require_a_token(sqlite_app):
    answer = TestApp(sqlite_app.app).get("/image/v2/nothing", status=401)
    assert answer.json["code"] == "401 Unauthorized"
