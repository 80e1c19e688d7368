# SPDX-License-Identifier: Apache-2.0
"""Requests to a WSGI application in this process."""

import pytest
import requests

from placement_sched.api.in_process import ApplicationTransport, call_application, make_adapter
from placement_sched.clients.session import RemoteService


def echo_application(environ, start_response):
    """Respond with the body, and with parts of the environ as headers."""
    keys = ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "CONTENT_TYPE", "SERVER_PORT")
    headers = [(f"X-{key}", environ.get(key, "")) for key in (*keys, "HTTP_X_AUTH_TOKEN")]
    start_response("201 Created", headers)
    return [environ["wsgi.input"].read()]


def test_call_passes_method_path_query_headers_and_body():
    headers = {"Content-Type": "application/json", "X-Auth-Token": "admin"}
    reply = call_application(
        echo_application, "PUT", "/h%C3%B6st%2F1?a=%20b", body=b"{}", headers=headers
    )
    assert (reply.status, reply.json()) == (201, {})
    assert [*reply.headers.values()] == [
        *("PUT", "/hÃ¶st/1", "a=%20b", "application/json", "80", "admin")
    ]


def test_call_shares_the_connection_of_the_outer_request():
    outer = {"SERVER_PORT": "8778", "HTTP_X_AUTH_TOKEN": "secret"}
    reply = call_application(echo_application, "GET", "/", headers={}, outer=outer)
    assert (reply.headers["X-SERVER_PORT"], reply.headers["X-HTTP_X_AUTH_TOKEN"]) == ("8778", "")


def test_transport_returns_the_response_of_the_application():
    session = requests.Session()
    session.mount("http://localhost", ApplicationTransport(echo_application))
    response = session.post("http://localhost/a%2Fb?c=d", json={"e": "ö"})
    assert (response.status_code, response.json()) == (201, {"e": "ö"})
    assert response.headers["x-path_info"] == "/a/b"


@pytest.mark.parametrize("failure", [ValueError("no value"), OSError("no file")], ids=str)
def test_defect_of_the_application_is_not_reported_as_a_failed_connection(failure):
    def fail(_environ, _start_response):
        raise failure

    with pytest.raises(RuntimeError, match=f"{type(failure).__name__}: {failure}"):
        RemoteService(make_adapter(fail), "scheduler").get_json("GET", "/")
