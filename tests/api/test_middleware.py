# SPDX-License-Identifier: Apache-2.0
"""The line of the access log: common format, request id, and no forged fields.

Errors have the ids of the request, of this service and of the caller.
"""

import json
import logging
import re
from io import BytesIO

import pytest
from oslo_context import context
from webtest import TestApp
from werkzeug.test import run_wsgi_app

from placement_sched.api.middleware import find_context, log_requests, set_request_context
from placement_sched.api.serving import BodyReader

JSON_RESPONSE_HEADERS = [("Content-Type", "application/json"), ("Content-Length", "2")]


def json_application(environ, start_response):
    start_response("200 OK", [*JSON_RESPONSE_HEADERS])
    return [b"{}"]


def build_authenticating_application(inner, user):
    """An application behind a middleware that has authenticated ``user``."""

    def confirm_user_and_call_application(environ, start_response):
        find_context(environ).confirm({"X-User-Id": user, "X-Project-Id": "p1"})
        return inner(environ, start_response)

    return confirm_user_and_call_application


@pytest.fixture
def read_log_line_of_request(caplog):
    """Return a function that sends a request and returns the logged line."""
    caplog.set_level(logging.INFO)

    def request_and_read_log_line(path: str, confirmed: str = "", **environ: str) -> str:
        served = set_request_context(
            build_authenticating_application(json_application, confirmed)
            if confirmed
            else json_application
        )
        TestApp(log_requests(served)).get(path, extra_environ=environ)
        (record,) = caplog.records
        caplog.clear()
        return record.getMessage()

    return request_and_read_log_line


def test_access_log_line_has_common_format_with_request_id_and_duration(read_log_line_of_request):
    assert re.fullmatch(
        r"192\.0\.2\.7 - - \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "
        r'"GET /placement/traits\?name=in:A HTTP/1\.0" 200 2 req-[0-9a-f-]{36} \d+\.\d ms',
        read_log_line_of_request("/placement/traits?name=in:A", REMOTE_ADDR="192.0.2.7"),
    )


def test_logged_user_is_the_authenticated_user(read_log_line_of_request):
    assert " - u_1 [" in read_log_line_of_request("/", confirmed="u 1")


def test_user_id_in_headers_of_the_client_is_not_logged(read_log_line_of_request):
    """Without keystonemiddleware nothing removes its headers from a client's request."""
    forged = {"HTTP_X_IDENTITY_STATUS": "Confirmed", "HTTP_X_USER_ID": "forged"}
    assert " - - [" in read_log_line_of_request("/", **forged, HTTP_X_AUTH_TOKEN="secret")


def test_noauth2_user_is_not_logged(sqlite_app, caplog):
    """The client chooses the user of a noauth2 token, which may be a real token by mistake."""
    caplog.set_level(logging.INFO)
    forged = {"X-Identity-Status": "Confirmed", "X-User-Id": "forged", "X-Auth-Token": "secret"}
    paths = ("/placement/traits", "/healthz", "/metrics", "/", "/nothing")
    for path in paths:
        TestApp(log_requests(sqlite_app.app)).get(path, headers=forged, expect_errors=True)
    lines = [message for message in caplog.messages if "HTTP/1" in message]
    assert len(lines) == len(paths)
    assert all(" - - [" in line and "secret" not in line for line in lines)


def test_request_path_is_escaped_in_the_access_log(read_log_line_of_request):
    for path in ["/a%0d%0aGET%20/b", "/a%22%20200", "/a%1b[2J", "/a%5c"]:
        logged = read_log_line_of_request(path)
        assert logged.count('"') == 2, path
        assert logged.isprintable(), path


def test_client_address_in_the_access_log_is_a_single_word(read_log_line_of_request):
    for client in ["1 - root [", "a\x1b[2J", 'a" 200', "a\x85b"]:
        logged = read_log_line_of_request("/", REMOTE_ADDR=client)
        assert logged.isprintable(), client
        assert logged.count('"') == 2, client
        assert re.match(r"\S+ - - \[\d", logged), client


def test_token_is_never_logged(read_log_line_of_request):
    assert "secret" not in read_log_line_of_request("/", HTTP_X_AUTH_TOKEN="secret")


def test_requests_are_not_logged_if_the_log_level_is_above_info(caplog):
    caplog.set_level(logging.WARNING)
    assert TestApp(log_requests(json_application)).get("/").json == {}
    assert caplog.records == []


GLOBAL_REQUEST_ID = "req-0b6c1e52-93d7-4f0a-8f21-5a7d3c9e6b40"
PATHS_WITH_ERRORS = [
    "/placement/traits/CUSTOM_NOT_THERE",
    "/scheduler/v1/instances/deaddead-0000-4000-8000-000000000001",
    "/nothing",
]


def test_error_has_its_request_id_and_the_global_id_that_the_client_sent(sqlite_app):
    for path in PATHS_WITH_ERRORS:
        response = sqlite_app.get(
            path, headers={"X-Openstack-Request-Id": GLOBAL_REQUEST_ID}, status=404
        )
        (error,) = response.json["errors"]
        assert error["global_request_id"] == GLOBAL_REQUEST_ID, path
        assert (
            error["request_id"] == response.headers["X-Openstack-Request-Id"] != GLOBAL_REQUEST_ID
        ), path
        for headers in ({}, {"X-Openstack-Request-Id": "nonsense"}):
            (error,) = sqlite_app.get(path, headers=headers, status=404).json["errors"]
            assert "global_request_id" not in error, path


def test_request_id_is_cleared_after_the_request(sqlite_app):
    sqlite_app.get("/nothing", status=404)
    assert not context.get_current()


def test_error_of_an_unread_request_body_has_local_and_global_request_id():
    environ = {
        "wsgi.input": BytesIO(b"short"),
        "REQUEST_METHOD": "PUT",
        "CONTENT_LENGTH": "100",
        "HTTP_X_OPENSTACK_REQUEST_ID": GLOBAL_REQUEST_ID,
    }
    application = set_request_context(BodyReader(lambda *_: [], 1000))
    content, status, headers = run_wsgi_app(application, environ)
    (error,) = json.loads(b"".join(content))["errors"]
    assert status.startswith("400")
    assert error["request_id"] == headers["X-Openstack-Request-Id"]
    assert error["global_request_id"] == GLOBAL_REQUEST_ID
