"""Errors name the request that they belong to, here and in the service that called."""

import pytest

NOVAS = "req-0b6c1e52-93d7-4f0a-8f21-5a7d3c9e6b40"
PATHS = [
    "/placement/traits/CUSTOM_NOT_THERE",
    "/scheduler/v1/instances/deaddead-0000-4000-8000-000000000001",
    "/nothing",
]


@pytest.mark.parametrize("path", PATHS)
def test_error_has_the_global_id_beside_its_own(sqlite_app, path):
    answer = sqlite_app.get(path, headers={"X-Openstack-Request-Id": NOVAS}, status=404)
    (error,) = answer.json["errors"]
    assert error["global_request_id"] == NOVAS
    assert error["request_id"] == answer.headers["X-Openstack-Request-Id"] != NOVAS


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("headers", [{}, {"X-Openstack-Request-Id": "nonsense"}])
def test_error_has_no_global_id_where_none_was_sent(sqlite_app, path, headers):
    (error,) = sqlite_app.get(path, headers=headers, status=404).json["errors"]
    assert "global_request_id" not in error
