"""The version document and what every placement request must get right first."""

import pytest
from webtest import TestApp

from placement_sched.api.placement.microversions import NEWEST


def test_version_document_needs_no_token(app):
    assert TestApp(app.app).get("/placement").status_code == 200


@pytest.mark.parametrize("path", ["/placement", "/placement/"])
def test_version_document_tells_the_range(app, path):
    (version,) = app.get(path).json["versions"]
    assert (version["min_version"], version["max_version"]) == ("1.0", str(NEWEST))
    assert version["links"] == [{"rel": "self", "href": ""}]


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("1.0", 200),
        (str(NEWEST), 200),
        ("latest", 200),
        (f"1.{NEWEST.minor + 1}", 406),
        ("0.9", 406),
        ("x", 400),
    ],
)
def test_microversion_is_negotiated(app, asked, status):
    headers = {"OpenStack-API-Version": f"placement {asked}"}
    answer = app.get("/placement/", headers=headers, status=status)
    assert answer.headers["X-Openstack-Request-Id"].startswith("req-")
