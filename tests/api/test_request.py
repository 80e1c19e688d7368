# SPDX-License-Identifier: Apache-2.0
"""The parts of a request: limits of bodies and queries, and the address that clients use.

Headers and bodies of responses.
"""

import json
from datetime import datetime

import pytest
from flask import Flask
from werkzeug.test import create_environ, run_wsgi_app

from placement_sched.api import request as module
from placement_sched.api.compute.routes import API as COMPUTE
from placement_sched.api.image import API as IMAGE
from placement_sched.api.placement.routes import API as PLACEMENT
from placement_sched.api.request import Response, build_origin
from placement_sched.api.routing import ApiResponse
from placement_sched.api.scheduler.routes import API as SCHEDULER
from placement_sched.limits import MAX_JSON_BYTES, MAX_JSON_DEPTH, MAX_JSON_VALUES
from placement_sched.model.document import is_deeper, is_larger
from placement_sched.schemas.formats import DocumentError
from placement_sched.schemas.validation import Reader
from tests.support.clouds import uuid_of
from tests.support.versions import LATEST_HEADERS

#: Routes that accept bodies of any length.
LARGE_BODY_ROUTES = {("POST", "/reshaper"), ("POST", "/v1/compute_nodes")}
JSON_ADMIN_HEADERS = {
    **LATEST_HEADERS,
    "X-Roles": "admin,service",
    "Content-Type": "application/json",
}


@pytest.fixture
def lengths_of_parsed_json(monkeypatch):
    """The lengths of the JSON texts that were parsed."""
    lengths = []
    loads = module.OrjsonProvider.loads

    def record_length(provider, text, **options):
        lengths.append(len(text))
        return loads(provider, text, **options)

    monkeypatch.setattr(module.OrjsonProvider, "loads", record_length)
    return lengths


def test_too_long_body_is_413_and_not_parsed(sqlite_app, lengths_of_parsed_json):
    for method, path in [
        ("POST", "/image/v2/images"),
        ("POST", "/placement/allocations"),
        ("PUT", f"/placement/allocations/{uuid_of('one')}"),
        ("POST", "/compute/v2.1/flavors"),
        ("POST", "/compute/v2.1/os-aggregates/1/action"),
        ("POST", "/scheduler/v1/select_destinations"),
        ("PUT", f"/scheduler/v1/compute_nodes/{uuid_of('one')}"),
    ]:
        text = json.dumps({"a": "x" * MAX_JSON_BYTES}).encode()
        response = sqlite_app.request(
            path, method=method, body=text, headers=JSON_ADMIN_HEADERS, status=413
        )
        assert f"at most {MAX_JSON_BYTES}" in response.text, (method, path)
        assert lengths_of_parsed_json == [], (method, path)


def test_bulk_routes_accept_longer_bodies(sqlite_app, lengths_of_parsed_json):
    text = json.dumps({"a": "x" * MAX_JSON_BYTES}).encode()
    for path in ("/placement/reshaper", "/scheduler/v1/compute_nodes"):
        sqlite_app.request(path, method="POST", body=text, headers=JSON_ADMIN_HEADERS, status=400)
    assert lengths_of_parsed_json == [len(text)] * 2


def test_only_bulk_routes_accept_longer_bodies():
    routes = [route for api in (PLACEMENT, COMPUTE, IMAGE, SCHEDULER) for route in api.routes]
    assert {(route.method, route.path) for route in routes if route.takes_many} == LARGE_BODY_ROUTES


def test_body_with_too_many_values_is_413_and_not_parsed(sqlite_app):
    for many in ["[],", "{},", "1,"]:
        text = "[" + many * (MAX_JSON_VALUES + 1) + "1]"
        path = "/placement/reshaper"
        response = sqlite_app.request(
            path, method="POST", body=text.encode(), headers=JSON_ADMIN_HEADERS, status=413
        )
        assert f"at most {MAX_JSON_VALUES}" in response.text, many


def test_too_deeply_nested_json_body_is_400(sqlite_app):
    for path in ("/placement/reshaper", "/image/v2/images", "/compute/v2.1/flavors"):
        for depth in (MAX_JSON_DEPTH + 1, 300, 1000):
            text = b'{"a":' * depth + b"1" + b"}" * depth
            response = sqlite_app.request(
                path, method="POST", body=text, headers=JSON_ADMIN_HEADERS, status=400
            )
            assert f"nested more than {MAX_JSON_DEPTH} deep" in response.text, path


def test_depth_of_json_is_counted_in_lists_and_objects():
    document = [1, {"a": [2]}, "text"]
    assert is_deeper(document, 2)
    assert not is_deeper(document, 3)
    assert not is_deeper("text", 0)


def test_error_of_a_large_array_quotes_its_first_invalid_item():
    read = Reader({"type": "object", "properties": {"a": {"items": {"type": "integer"}}}})
    with pytest.raises(DocumentError, match="'x' is not an integer"):
        read({"a": ["x"] * 10_000})


def test_json_values_are_counted_with_keys_at_every_depth():
    document = {"a": [1, {"b": None}], "c": "text"}
    assert is_larger(document, 7)
    assert not is_larger(document, 8)
    assert not is_larger("text", 0)


def test_counting_of_json_values_stops_at_the_limit():
    class EndlessList(list):
        def __iter__(self):
            raise AssertionError("it is looked at")

    assert is_larger([1, 2, 3, EndlessList([1])], 3)


def test_escaped_nul_character_in_json_is_detected_after_escaped_backslashes():
    loads = module.OrjsonProvider(Flask(__name__)).loads
    for count in range(1, 7):
        text = b'"' + b"\\" * count + b'u0000"'
        if count % 2:
            with pytest.raises(ValueError, match="NUL"):
                loads(text)
        else:
            assert loads(text).endswith("u0000")


def test_image_patch_operations_are_limited(sqlite_app):
    image = sqlite_app.post_json("/image/v2/images", {"name": "a"}).json["id"]
    headers = {"Content-Type": "application/openstack-images-v2.1-json-patch"}

    def patch_image(number, status):
        operations = [{"op": "add", "path": "/k", "value": "v"}] * number
        path = f"/image/v2/images/{image}"
        return sqlite_app.patch(path, json.dumps(operations), headers=headers, status=status)

    patch_image(1000, 200)
    assert "at most 1000 items" in patch_image(1001, 400).text


def test_non_text_query_is_rejected_with_the_reason(sqlite_app):
    for query, reason in [
        ("project_id=%FF", "not valid UTF-8"),
        ("project_id=\xff", "not valid UTF-8"),  # WSGI decodes bytes as latin-1
        ("project_id=a%00b", "NUL character"),
        ("\xff=1", "not valid UTF-8"),
    ]:
        request = sqlite_app.RequestClass.blank(
            "/placement/usages", {"QUERY_STRING": query}, headers=JSON_ADMIN_HEADERS
        )
        response = sqlite_app.do_request(request, status=400)
        assert reason in response.json["errors"][0]["detail"], (query, reason)


def test_limit_of_the_query_length_is_configurable_and_named_in_the_error(sqlite_app):
    response = sqlite_app.get(
        f"/placement/traits?name=in:{'A' * 70_000}", headers=JSON_ADMIN_HEADERS, status=400
    )
    assert "[api] max_query_string_size allows" in response.json["errors"][0]["detail"]


WSGI_SERVER_ENVIRON = {"SERVER_NAME": "127.0.0.1", "SERVER_PORT": "8778"}


def test_request_origin_is_the_requested_host():
    for scheme, host, origin in [
        ("http", "placement_backend", "http://placement_backend"),
        ("http", "Here:8778", "http://Here:8778"),
        ("http", "here:80", "http://here"),
        ("https", "here:443", "https://here"),
        ("https", "here:80", "https://here:80"),
        ("http", "[fe80::1%25eth0]:8778", "http://[fe80::1%25eth0]:8778"),
        ("http", "[::1]", "http://[::1]"),
        ("http", "a..b", "http://a..b"),
        ("http", "", "http://127.0.0.1:8778"),
        ("http", None, "http://127.0.0.1:8778"),
    ]:
        named = {} if host is None else {"HTTP_HOST": host}
        assert (
            build_origin({"wsgi.url_scheme": scheme, **WSGI_SERVER_ENVIRON, **named}) == origin
        ), (scheme, host, origin)


def test_location_of_a_created_object_repeats_even_an_invalid_host_header(sqlite_app):
    for host in ("a..b", "placement_backend", f"{'x' * 64}.example.com", "h,h2"):
        headers = {**JSON_ADMIN_HEADERS, "Host": host}
        response = sqlite_app.put("/placement/traits/CUSTOM_X", headers=headers)
        assert response.headers["Location"] == f"http://{host}/placement/traits/CUSTOM_X"
        body, path = {"name": host}, "/placement/resource_providers"
        provider = sqlite_app.post_json(path, body, headers=headers)
        assert provider.headers["Location"] == f"http://{host}{path}/{provider.json['uuid']}"


def test_version_document_links_include_the_prefix(sqlite_app):
    (version,) = sqlite_app.get("/placement/").json["versions"]
    assert version["links"] == [{"rel": "self", "href": ""}]


def send_response(response, method="GET", **version_headers):
    """Return status line, headers and body of a response."""
    body, status, headers = run_wsgi_app(
        Response(response, version_headers), create_environ(method=method)
    )
    assert len(headers) == len(dict(headers))
    return status, dict(headers), b"".join(body)


def test_response_document_is_sent_as_json_with_content_length():
    assert send_response(ApiResponse(body={"a": [1]})) == (
        "200 OK",
        {"Content-Type": "application/json", "Content-Length": "9"},
        b'{"a":[1]}',
    )


def test_response_bytes_are_sent_unchanged_with_their_content_type():
    _, headers, body = send_response(
        ApiResponse(body=b"<p>", headers={"Content-Type": "text/html"})
    )
    assert (headers["Content-Type"], body) == ("text/html", b"<p>")


def test_response_204_has_no_content_type_or_length():
    assert send_response(ApiResponse(status=204), Vary="x") == (
        "204 No Content",
        {"Vary": "x"},
        b"",
    )


def test_empty_response_has_content_length_zero_and_no_content_type():
    assert send_response(ApiResponse(status=201)) == ("201 Created", {"Content-Length": "0"}, b"")


def test_response_to_head_has_a_content_length_and_no_body():
    _, headers, body = send_response(ApiResponse(body=[1, 2]), "HEAD")
    assert (headers["Content-Length"], body) == ("5", b"")


def test_last_modified_header_is_in_seconds_and_not_cacheable():
    _, headers, _ = send_response(
        ApiResponse(body=[], last_modified=datetime(2026, 1, 2, 3, 4, 5, 600_000))
    )
    assert headers["Last-Modified"] == "Fri, 02 Jan 2026 03:04:05 GMT"
    assert headers["Cache-Control"] == "no-cache"


def test_location_header_is_escaped():
    for path, escaped in [
        ("/placement/traits/CUSTOM_A", "/placement/traits/CUSTOM_A"),
        ("http://h:1/a b/\u00e9", "http://h:1/a%20b/%C3%A9"),
        ("/a\r\nSet-Cookie: b", "/a%0D%0ASet-Cookie:%20b"),
        ("http://a..b/c%20d", "http://a..b/c%20d"),
        (f"http://{'x' * 64}.org/", f"http://{'x' * 64}.org/"),
        ("http://here_and_there:8778/a", "http://here_and_there:8778/a"),
    ]:
        _, headers, _ = send_response(ApiResponse(status=201, headers={"Location": path}))
        assert headers["Location"] == escaped, (path, escaped)


@pytest.mark.parametrize(
    "status_line",
    [
        "413 Request Entity Too Large",
        "414 Request-URI Too Long",
        "416 Requested Range Not Satisfiable",
        "422 Unprocessable Entity",
    ],
)
def test_phrase_of_a_status_does_not_depend_on_the_interpreter(status_line):
    """Python 3.13 has other phrases for these statuses."""
    assert send_response(ApiResponse(status=int(status_line[:3])))[0] == status_line
