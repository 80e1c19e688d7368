# SPDX-License-Identifier: Apache-2.0
"""The version document of the identity API."""

from webtest import TestApp


def test_version_document_is_shown_without_a_token(sqlite_app):
    for path in ["/identity/v3", "/identity/v3/"]:
        version = TestApp(sqlite_app.app).get(path).json["version"]
        assert (version["id"], version["status"]) == ("v3.14", "stable"), path
        assert version["links"] == [{"rel": "self", "href": "http://localhost/identity/v3/"}], path


def test_root_offers_the_version_with_300(sqlite_app):
    for path in ["/identity", "/identity/"]:
        answer = TestApp(sqlite_app.app).get(path, status=300)
        assert [value["id"] for value in answer.json["versions"]["values"]] == ["v3.14"], path
