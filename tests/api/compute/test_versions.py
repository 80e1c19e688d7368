# SPDX-License-Identifier: Apache-2.0
"""The version documents of the compute API."""

from webtest import TestApp


def test_root_lists_the_major_version_without_a_token(sqlite_app):
    for path in ["/compute", "/compute/"]:
        (version,) = TestApp(sqlite_app.app).get(path).json["versions"]
        assert version["id"] == "v2.1", path
        assert version["links"] == [{"rel": "self", "href": "http://localhost/compute/v2.1/"}], path


def test_version_document_shows_the_range_without_a_token(sqlite_app):
    for path in ["/compute/v2.1", "/compute/v2.1/"]:
        version = TestApp(sqlite_app.app).get(path).json["version"]
        assert (version["min_version"], version["version"]) == ("2.1", "2.96"), path
        assert version["status"] == "CURRENT", path
