# SPDX-License-Identifier: Apache-2.0
"""The identity API: its version document, and 403 below it."""

from webtest import TestApp


def test_identity_version_document_is_shown_without_a_token(sqlite_app):
    for path in ["/identity/v3", "/identity/v3/"]:
        version = TestApp(sqlite_app.app).get(path).json["version"]
        assert (version["id"], version["status"]) == ("v3.14", "stable"), path
        assert version["links"] == [{"rel": "self", "href": "http://localhost/identity/v3/"}], path


def test_identity_root_is_300_with_the_version_document(sqlite_app):
    for path in ["/identity", "/identity/"]:
        response = TestApp(sqlite_app.app).get(path, status=300)
        assert [value["id"] for value in response.json["versions"]["values"]] == ["v3.14"], path


def test_every_path_below_the_identity_version_is_403(sqlite_app):
    client = TestApp(sqlite_app.app)
    for method, path in (
        *(("GET", "/identity/v3/projects"), ("POST", "/identity/v3/auth/tokens")),
        *(("PUT", "/identity/v3/projects/abc"), ("PATCH", "/identity/v3/projects/abc")),
        ("DELETE", "/identity/v3/projects/abc"),
    ):
        for token in ({}, {"X-Auth-Token": "admin"}):
            error = client.request(path, method=method, headers=token, status=403).json["error"]
            assert (error["code"], error["title"]) == (403, "Forbidden"), method
    assert client.head("/identity/v3/projects/abc", status=403).body == b""
