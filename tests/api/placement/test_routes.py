# SPDX-License-Identifier: Apache-2.0
"""Errors are JSON for clients that accept it, else HTML or plain text.

The OpenAPI document of the Placement API at each microversion.
"""

import re

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from webtest import TestApp

from placement_sched.api import openapi
from placement_sched.api.placement.microversions import VERSIONING
from placement_sched.api.placement.routes import API, describe_openapi
from tests.api.openapi_documents import (
    MICROVERSIONS,
    build_openapi_document,
    index_operations_by_path,
)
from tests.support.versions import LATEST_HEADERS

UNKNOWN_PROVIDER_UUID = "deaddead-0000-4000-8000-000000000001"
JSON_TYPE, HTML_TYPE, TEXT_TYPE = "application/json", "text/html", "text/plain"

RESPONSE_TYPES_BY_ACCEPT_HEADER = [
    (None, JSON_TYPE),
    ("", JSON_TYPE),
    ("*/*", JSON_TYPE),
    ("application/*", JSON_TYPE),
    ("application/json;q=0.1", JSON_TYPE),
    ("text/html, application/json;q=0.1", JSON_TYPE),
    ("application/json, text/plain, */*", JSON_TYPE),
    ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", JSON_TYPE),
    ("garbage", JSON_TYPE),
    ("text/html", HTML_TYPE),
    ("TEXT/HTML", HTML_TYPE),
    ("text/html;q=0.5", HTML_TYPE),
    ("text/*", HTML_TYPE),
    ("text/plain, text/html;q=0.5", HTML_TYPE),
    ("application/json;q=0, */*", HTML_TYPE),
    ("text/plain", TEXT_TYPE),
    ("image/png", TEXT_TYPE),
    ("application/json;q=0", TEXT_TYPE),
    ("text/html;q=0, text/*", TEXT_TYPE),
]
#: Method, path, headers, body and status of requests that fail at different stages.
FAILING_REQUESTS = [
    ("GET", "/", {"OpenStack-API-Version": "placement 0.5"}, None, 406),
    ("GET", "/", {"OpenStack-API-Version": "placement x"}, None, 400),
    ("GET", "/traits", {**LATEST_HEADERS, "X-Auth-Token": ""}, None, 401),
    ("PUT", "/traits/CUSTOM_A", {**LATEST_HEADERS, "X-Auth-Token": "joe"}, None, 403),
    ("GET", f"/{UNKNOWN_PROVIDER_UUID}", LATEST_HEADERS, None, 404),
    ("GET", "/allocation_candidates", {}, None, 404),
    ("DELETE", "/traits", LATEST_HEADERS, None, 405),
    ("DELETE", f"/resource_providers/{UNKNOWN_PROVIDER_UUID}", LATEST_HEADERS, None, 404),
    ("POST", "/resource_providers", LATEST_HEADERS, b"{", 400),
    ("POST", "/resource_providers", LATEST_HEADERS, b'{"name": 1}', 400),
    ("POST", "/resource_classes", LATEST_HEADERS, b'{"name": "CUSTOM_A"}', 409),
    ("POST", "/resource_classes", {**LATEST_HEADERS, "Content-Type": "text/xml"}, b"<a/>", 415),
]


@pytest.fixture
def app_with_provider(sqlite_app):
    sqlite_app.put("/placement/resource_classes/CUSTOM_A", headers=LATEST_HEADERS, status=201)
    return sqlite_app


def send_failing_request(app, error, accept):
    method, path, headers, body, status = error
    headers = {"Content-Type": JSON_TYPE, **headers} if body is not None else dict(headers)
    if accept is not None:
        headers["Accept"] = accept
    options = {} if body is None else {"body": body}
    return app.request(
        f"/placement{path}", method=method, headers=headers, status=status, **options
    )


def test_every_error_response_has_the_content_type_that_the_client_accepts(app_with_provider):
    for error in FAILING_REQUESTS:
        as_json = send_failing_request(app_with_provider, error, None)
        assert as_json.content_type == JSON_TYPE, error
        for kind in [HTML_TYPE, TEXT_TYPE]:
            response = send_failing_request(app_with_provider, error, kind)
            assert response.headers["Content-Type"] == f"{kind}; charset=UTF-8", error
            (shown,) = as_json.json["errors"]
            titles = response.text.count(f"{shown['status']} {shown['title']}")
            assert titles == (2 if kind == HTML_TYPE else 1), error
            assert response.headers["X-Openstack-Request-Id"].startswith("req-"), error
            for name in ("Allow", "Vary", "OpenStack-API-Version"):
                assert response.headers.get(name) == as_json.headers.get(name), error


def test_json_error_is_preferred_to_html_and_text(app_with_provider):
    for accept, kind in RESPONSE_TYPES_BY_ACCEPT_HEADER:
        assert (
            send_failing_request(app_with_provider, FAILING_REQUESTS[0], accept).content_type
            == kind
        ), accept


def test_html_error_escapes_the_detail_and_text_error_does_not(sqlite_app):
    body = b'{"name": "a", "<script>alert(1)</script>": "&"}'
    error = ("POST", "/resource_providers", LATEST_HEADERS, body, 400)
    response = send_failing_request(sqlite_app, error, HTML_TYPE)
    assert "<script>" not in response.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in response.text
    assert "JSON does not validate" in response.text
    response = send_failing_request(sqlite_app, error, TEXT_TYPE)
    assert response.text.startswith("400 Bad Request\n\nJSON does not validate: ")
    assert "'<script>alert(1)</script>'" in response.text


def test_html_error_of_an_unknown_path_explains_404_only_once(sqlite_app):
    for path in (f"/{UNKNOWN_PROVIDER_UUID}", "/resource_providers/x"):
        error = ("DELETE", path, LATEST_HEADERS, None, 404)
        text = send_failing_request(sqlite_app, error, HTML_TYPE).text
        assert text.count("The resource could not be found.") == 1


def test_error_response_to_head_has_no_body(sqlite_app):
    response = send_failing_request(
        sqlite_app, ("HEAD", f"/{UNKNOWN_PROVIDER_UUID}", LATEST_HEADERS, None, 404), HTML_TYPE
    )
    assert response.content_type == HTML_TYPE
    assert response.body == b""


def test_errors_of_scheduler_and_compute_apis_are_json(sqlite_app):
    for path in ["/scheduler/v1/nope", "/compute/v2.1/nope"]:
        response = sqlite_app.get(path, headers={"Accept": HTML_TYPE}, status=404)
        assert response.content_type == JSON_TYPE, path


OPENAPI_PATH = "/placement/openapi.json"


@pytest.mark.system
@pytest.mark.parametrize("version", MICROVERSIONS, ids=str)
def test_openapi_document_is_valid(sqlite_app, version):
    request_headers = {"OpenStack-API-Version": f"placement {version}"}
    document = sqlite_app.get(OPENAPI_PATH, headers=request_headers).json
    OpenAPIV31SpecValidator(document).validate()
    assert document["info"]["version"] == str(version)


def test_openapi_document_has_exactly_the_routes_of_the_version():
    for version in MICROVERSIONS:
        served = [route for route in API.routes if route.serves(version)]
        addresses = [(route.method, re.sub(r"<(\w+)>", r"{\1}", route.path)) for route in served]
        assert sorted(addresses) == sorted(
            index_operations_by_path(build_openapi_document(version))
        )


def test_openapi_document_needs_no_token_and_defaults_to_the_newest_version(sqlite_app):
    response = TestApp(sqlite_app.app).get(OPENAPI_PATH)
    assert response.json == build_openapi_document(VERSIONING.newest)
    assert response.headers["Vary"] == "openstack-api-version"


def test_server_url_of_the_openapi_document_is_the_given_mount_path():
    assert openapi.build_document(describe_openapi(API.routes), VERSIONING.newest, "/")[
        "servers"
    ] == [{"url": "/"}]
