# SPDX-License-Identifier: Apache-2.0
"""The version documents of the compute API."""

import pytest
from webtest import TestApp


@pytest.mark.parametrize("path", ["/compute", "/compute/"])
def test_root_lists_the_major_version_without_a_token(sqlite_app, path):
    (version,) = TestApp(sqlite_app.app).get(path).json["versions"]
    assert version["id"] == "v2.1"
    assert version["links"] == [{"rel": "self", "href": "http://localhost/compute/v2.1/"}]


@pytest.mark.parametrize("path", ["/compute/v2.1", "/compute/v2.1/"])
def test_version_document_shows_the_range_without_a_token(sqlite_app, path):
    version = TestApp(sqlite_app.app).get(path).json["version"]
    assert (version["min_version"], version["version"]) == ("2.1", "2.96")
    assert version["status"] == "CURRENT"


def test_version_documents_show_the_microversion_range(sqlite_app):
    for path in ("/compute", "/compute/v2.1", "/compute/v2.1/"):
        for version in ("2.1", "2.72", "2.79", "latest"):
            headers = {"OpenStack-API-Version": f"compute {version}"}
            answer = sqlite_app.get(path, headers=headers).json
            (document,) = answer.get("versions", [answer.get("version")])
            assert (document["min_version"], document["version"]) == ("2.1", "2.96")
