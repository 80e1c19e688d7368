"""The identity version document, and that nothing stands below it."""

import pytest
from webtest import TestApp


@pytest.mark.parametrize("path", ["/identity/v3", "/identity/v3/"])
def test_version_document_is_shown_without_a_token(sqlite_app, path):
    version = TestApp(sqlite_app.app).get(path).json["version"]
    assert (version["id"], version["status"]) == ("v3.14", "stable")
    assert version["links"] == [{"rel": "self", "href": "http://localhost/identity/v3/"}]


@pytest.mark.parametrize("path", ["/identity", "/identity/"])
def test_root_offers_the_version_with_300(sqlite_app, path):
    answer = TestApp(sqlite_app.app).get(path, status=300)
    assert [value["id"] for value in answer.json["versions"]["values"]] == ["v3.14"]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["projects/abc", "auth/tokens", "projects"])
@pytest.mark.parametrize("token", [{}, {"X-Auth-Token": "admin"}])
def test_everything_below_is_403(sqlite_app, method, path, token):
    answer = TestApp(sqlite_app.app).request(
        f"/identity/v3/{path}", method=method, headers=token, status=403
    )
    assert answer.json["error"]["code"] == 403
    assert answer.json["error"]["title"] == "Forbidden"


def test_head_below_is_403_too(sqlite_app):
    assert TestApp(sqlite_app.app).head("/identity/v3/projects/abc", status=403).body == b""
