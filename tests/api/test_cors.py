# SPDX-License-Identifier: Apache-2.0
"""``[cors]``: browsers of the configured origins may read responses, on every API."""

from collections import Counter

import pytest
from prometheus_client.parser import text_string_to_metric_families

ALLOWED_ORIGIN = "https://horizon.example.com"
CORS_CONFIG = f"[cors]\nallowed_origin = {ALLOWED_ORIGIN}\n"
ADMIN_TOKEN = {"X-Auth-Token": "admin"}
API_PATHS = [
    "/placement/resource_providers",
    "/compute/v2.1/os-aggregates",
    "/image/v2",
    "/identity/v3",
    "/scheduler/v1/compute_nodes",
    "/healthz",
]


@pytest.fixture
def cors_app(make_configured_app):
    return make_configured_app(CORS_CONFIG)


def send_preflight_request(app, path, method="PUT", **headers):
    request_headers = {"Origin": ALLOWED_ORIGIN, "Access-Control-Request-Method": method, **headers}
    return app.options(path, headers=request_headers)


def read_request_counts_by_status(app, method):
    """Return the number of counted requests of a method by status."""
    counts = Counter()
    for family in text_string_to_metric_families(app.get("/metrics").text):
        for sample in family.samples:
            if sample.name.endswith("requests_total") and sample.labels["method"] == method:
                counts[sample.labels["status"]] += int(sample.value)
    return counts


def test_preflight_request_needs_no_token(cors_app):
    for path in API_PATHS:
        response = send_preflight_request(cors_app, path)
        assert response.status_int == 200, path
        assert response.headers["Access-Control-Allow-Origin"] == ALLOWED_ORIGIN, path
        assert response.headers["Access-Control-Allow-Methods"] == "PUT", path
        assert response.headers["Access-Control-Allow-Credentials"] == "true", path
        assert response.headers["X-Openstack-Request-Id"].startswith("req-"), path


def test_preflight_response_allows_the_headers_of_openstack(cors_app):
    names = "X-Auth-Token, OpenStack-API-Version, X-OpenStack-Nova-API-Version, Content-Type"
    response = send_preflight_request(
        cors_app, API_PATHS[0], **{"Access-Control-Request-Headers": names}
    )
    assert response.headers["Access-Control-Allow-Headers"].split(",") == names.split(", ")


def test_preflight_response_for_a_forbidden_origin_method_or_header_allows_no_origin(cors_app):
    for wrong in [
        {"Origin": "https://evil.example.com"},
        {"Access-Control-Request-Method": "TRACE"},
        {"Access-Control-Request-Headers": "X-Colour"},
    ]:
        response = send_preflight_request(cors_app, API_PATHS[0], **wrong)
        assert "Access-Control-Allow-Origin" not in response.headers, wrong


def test_allowed_origin_can_read_responses_and_errors(cors_app):
    for path in API_PATHS:
        response = cors_app.get(path, headers={**ADMIN_TOKEN, "Origin": ALLOWED_ORIGIN})
        assert response.headers["Access-Control-Allow-Origin"] == ALLOWED_ORIGIN, path
        assert "Origin" in response.headers["Vary"], path
    exposed = cors_app.get(API_PATHS[0], headers={**ADMIN_TOKEN, "Origin": ALLOWED_ORIGIN}).headers
    names = exposed["Access-Control-Expose-Headers"].split(",")
    assert {"OpenStack-API-Version", "X-Openstack-Request-Id"} <= set(names)
    assert "openstack-api-version" in exposed["Vary"]
    error = cors_app.get(API_PATHS[0], headers={"Origin": ALLOWED_ORIGIN}, status=401)
    assert error.headers["Access-Control-Allow-Origin"] == ALLOWED_ORIGIN
    other = cors_app.get(
        API_PATHS[0], headers={**ADMIN_TOKEN, "Origin": "https://evil.example.com"}
    )
    assert "Access-Control-Allow-Origin" not in other.headers


def test_metrics_count_preflight_and_rejected_requests(cors_app):
    for headers, path in (
        ({}, API_PATHS[0]),
        (ADMIN_TOKEN, API_PATHS[0]),
        ({}, "/compute/v2.1/os-aggregates"),
    ):
        send_preflight_request(cors_app, path, **headers)
        cors_app.options(path, headers=headers, status=200)
    assert read_request_counts_by_status(cors_app, "OPTIONS") == {"200": 6}
    cors_app.get(API_PATHS[0], headers={"Origin": ALLOWED_ORIGIN}, status=401)
    cors_app.get(API_PATHS[0], headers={**ADMIN_TOKEN, "Origin": ALLOWED_ORIGIN})
    assert read_request_counts_by_status(cors_app, "GET") == {"401": 1, "200": 1}


def test_health_and_metrics_responses_have_a_request_id_with_and_without_cors(cors_app, sqlite_app):
    for path in ["/healthz", "/metrics"]:
        for served in (cors_app, sqlite_app):
            assert served.get(path).headers["X-Openstack-Request-Id"].startswith("req-"), path


def test_cors_headers_have_the_configured_values(make_configured_app):
    app = make_configured_app(
        f"{CORS_CONFIG}allow_credentials = false\nmax_age = 7\nallow_methods = GET\n"
        "allow_headers = X-Colour\nexpose_headers = X-Colour\n"
    )
    assert "Access-Control-Allow-Origin" not in send_preflight_request(app, API_PATHS[0]).headers
    allowed = send_preflight_request(
        app, API_PATHS[0], "GET", **{"Access-Control-Request-Headers": "X-Colour"}
    )
    assert allowed.headers["Access-Control-Max-Age"] == "7"
    assert "Access-Control-Allow-Credentials" not in allowed.headers
    read = app.get(API_PATHS[0], headers={**ADMIN_TOKEN, "Origin": ALLOWED_ORIGIN})
    assert read.headers["Access-Control-Expose-Headers"] == "X-Colour"


def test_options_method_is_405_without_cors(sqlite_app):
    headers = {"Origin": ALLOWED_ORIGIN, "Access-Control-Request-Method": "GET"}
    response = sqlite_app.options(API_PATHS[0], headers=headers, status=405)
    assert "Access-Control-Allow-Origin" not in response.headers
