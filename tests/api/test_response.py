# SPDX-License-Identifier: Apache-2.0
"""Headers and bodies of responses."""

from datetime import datetime

from werkzeug.test import create_environ, run_wsgi_app

from placement_sched.api.request import Response
from placement_sched.api.routing import ApiResponse


def send_response(answer, method="GET", **version_headers):
    """Return status line, headers and body of an answer."""
    body, status, headers = run_wsgi_app(
        Response(answer, version_headers), create_environ(method=method)
    )
    assert len(headers) == len(dict(headers))
    return status, dict(headers), b"".join(body)


def test_document_is_sent_as_json_with_content_length():
    assert send_response(ApiResponse(body={"a": [1]})) == (
        "200 OK",
        {"Content-Type": "application/json", "Content-Length": "9"},
        b'{"a":[1]}',
    )


def test_bytes_are_sent_unchanged_with_their_content_type():
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


def test_empty_body_has_content_length_zero_and_no_content_type():
    assert send_response(ApiResponse(status=201)) == ("201 Created", {"Content-Length": "0"}, b"")


def test_response_to_head_has_a_content_length_and_no_body():
    _, headers, body = send_response(ApiResponse(body=[1, 2]), "HEAD")
    assert (headers["Content-Length"], body) == ("5", b"")


def test_last_modified_is_in_seconds_and_not_cacheable():
    _, headers, _ = send_response(
        ApiResponse(body=[], last_modified=datetime(2026, 1, 2, 3, 4, 5, 600_000))
    )
    assert headers["Last-Modified"] == "Fri, 02 Jan 2026 03:04:05 GMT"
    assert headers["Cache-Control"] == "no-cache"


def test_location_is_escaped():
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
