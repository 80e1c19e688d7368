# SPDX-License-Identifier: Apache-2.0
"""Paths below the version document of the identity API: all are forbidden."""

from webtest import TestApp


def test_every_path_below_the_version_is_403(sqlite_app):
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
