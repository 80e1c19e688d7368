"""The access log's line: the common format, the request id, and nothing that could forge it."""

import logging
import re

import pytest
from webtest import TestApp

from placement_sched.api.access_log import AccessLog

HEADERS = [
    ("Content-Type", "application/json"),
    ("Content-Length", "2"),
    ("X-Openstack-Request-Id", "req-1"),
]


def application(environ, start_response):
    start_response("200 OK", HEADERS)
    return [b"{}"]


@pytest.fixture
def line(caplog):
    """Ask once and return the line that was logged."""
    caplog.set_level(logging.INFO)

    def line(path: str, **environ: str) -> str:
        TestApp(AccessLog(application)).get(path, extra_environ=environ)
        (record,) = caplog.records
        caplog.clear()
        return record.getMessage()

    return line


def test_line_is_in_common_format_then_request_id_and_time(line):
    assert re.fullmatch(
        r"192\.0\.2\.7 - - \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "
        r'"GET /placement/traits\?name=in:A HTTP/1\.0" 200 2 req-1 \d+\.\d ms',
        line("/placement/traits?name=in:A", REMOTE_ADDR="192.0.2.7"),
    )


def test_user_is_the_one_keystone_confirmed(line):
    confirmed = {"HTTP_X_IDENTITY_STATUS": "Confirmed", "HTTP_X_USER_ID": "u1"}
    assert " - u1 [" in line("/", **confirmed)


def test_user_that_nobody_confirmed_is_not_logged(line):
    assert " - - [" in line("/", HTTP_X_USER_ID="u1", HTTP_X_AUTH_TOKEN="secret")


@pytest.mark.parametrize("path", ["/a%0d%0aGET%20/b", "/a%22%20200", "/a%1b[2J", "/a%5c"])
def test_path_cannot_forge_a_line_or_leave_its_quotes(line, path):
    logged = line(path)
    assert logged.count('"') == 2
    assert logged.isprintable()


def test_token_is_never_logged(line):
    assert "secret" not in line("/", HTTP_X_AUTH_TOKEN="secret")


def test_nothing_is_logged_below_the_level(caplog):
    caplog.set_level(logging.WARNING)
    assert TestApp(AccessLog(application)).get("/").json == {}
    assert caplog.records == []
