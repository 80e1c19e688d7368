# SPDX-License-Identifier: Apache-2.0
"""The version document of the Placement API."""

import pytest
from webtest import TestApp

from placement_sched.api.placement.microversions import NEWEST


def test_version_document_needs_no_token(app):
    assert TestApp(app.app).get("/placement").status_code == 200


@pytest.mark.parametrize("path", ["/placement", "/placement/"])
def test_version_document_has_the_microversion_range(app, path):
    (version,) = app.get(path).json["versions"]
    assert (version["min_version"], version["max_version"]) == ("1.0", str(NEWEST))
    assert version["links"] == [{"rel": "self", "href": ""}]
