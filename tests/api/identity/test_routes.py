# SPDX-License-Identifier: Apache-2.0
"""Paths below the version document of the identity API: all are forbidden."""

import pytest
from webtest import TestApp


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["projects/abc", "auth/tokens", "projects"])
@pytest.mark.parametrize("token", [{}, {"X-Auth-Token": "admin"}])
def test_every_path_below_the_version_is_403(sqlite_app, method, path, token):
    answer = TestApp(sqlite_app.app).request(
        f"/identity/v3/{path}", method=method, headers=token, status=403
    )
    assert answer.json["error"]["code"] == 403
    assert answer.json["error"]["title"] == "Forbidden"


def test_head_below_the_version_is_403(sqlite_app):
    assert TestApp(sqlite_app.app).head("/identity/v3/projects/abc", status=403).body == b""
