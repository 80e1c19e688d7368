# SPDX-License-Identifier: Apache-2.0
"""Connections stay usable after requests with any body, under every server."""

import os
import socket
import sys
from contextlib import ExitStack, closing

import pytest
import requests

from tests.cli.keep_alive import MAX_BODY_BYTES, read_response, send_mixed_requests
from tests.support.servers import PROGRAMS_FOLDER, build_environment, start_server, start_servers
from tests.support.versions import LATEST, LATEST_HEADERS

pytestmark = pytest.mark.system

#: ``make test-all`` sends 5000 to each server.
REQUEST_COUNT = int(os.environ.get("PLACEMENT_SCHED_TEST_KEPT_REQUESTS", "600"))
WSGI_MODULE = "placement_sched.wsgi:application"
UWSGI_ARGS = ("--module", WSGI_MODULE, "--master", "--threads", "4", "--die-on-term", "--need-app")
SERVER_COMMANDS = {
    "gunicorn": (
        *(sys.executable, "-m", "gunicorn", "--worker-class", "gthread", "--threads", "4"),
        *("--keep-alive", "30", "--no-control-socket", "--bind", "127.0.0.1:{port}", WSGI_MODULE),
    ),
    "uwsgi": (PROGRAMS_FOLDER / "uwsgi", "--http-socket", "127.0.0.1:{port}", *UWSGI_ARGS),
    "uwsgi, kept": (PROGRAMS_FOLDER / "uwsgi", "--http11-socket", "127.0.0.1:{port}", *UWSGI_ARGS),
    "uwsgi, routed": (
        PROGRAMS_FOLDER / "uwsgi",
        "--http",
        "127.0.0.1:{port}",
        "--http-keepalive",
        *UWSGI_ARGS,
    ),
}


@pytest.fixture(scope="module", params=["serve", *SERVER_COMMANDS])
def port(request, tmp_path_factory):
    """The port of a server that accepts bodies of up to ``LARGEST`` bytes."""
    folder = tmp_path_factory.mktemp("server")
    options = {
        "OS_API__MAX_REQUEST_BODY_SIZE": str(MAX_BODY_BYTES),
        "OS_API__AUTH_STRATEGY": "noauth2",
    }
    with ExitStack() as stack:
        if request.param == "serve":
            server = stack.enter_context(start_servers(folder))(**options)
        else:
            server = stack.enter_context(
                start_server(
                    command=SERVER_COMMANDS[request.param],
                    folder=folder,
                    ready="/healthz/ready",
                    variables=build_environment(**options),
                )
            )
        yield int(server.url.rpartition(":")[2])


def test_persistent_connection_stays_open_after_responses_of_any_status(port):
    outcome = send_mixed_requests(port, REQUEST_COUNT)
    assert not outcome.lost
    assert outcome.answered.total() == REQUEST_COUNT
    assert set(outcome.answered) >= {400, 401, 403, 404, 405, 406, 413, 415, 200, 204}


def test_request_body_far_above_the_limit_is_413(port):
    address = f"http://127.0.0.1:{port}/placement/resource_providers"
    headers = {"X-Auth-Token": "admin", **LATEST_HEADERS}
    with requests.Session() as session:
        body = b"{" * 70_000_000
        options = {"headers": {**headers, "Content-Type": "application/json"}, "timeout": 60}
        assert session.post(address, body, **options).status_code == 413
        assert session.get(address, headers=headers, timeout=60).status_code == 200


def test_request_body_sent_in_parts_far_above_the_limit_is_413(port):
    lines = (
        "POST /placement/resource_providers HTTP/1.1",
        *("Host: a", "X-Auth-Token: admin", "Content-Type: application/json"),
        "Content-Length: 70000000",
    )
    with closing(socket.create_connection(("127.0.0.1", port), timeout=60)) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        for _ in range(70):
            connection.sendall(b"{" * 1_000_000)
        assert read_response(connection)[0] == 413


def test_request_after_a_chunked_body_on_a_connection_succeeds(port):
    lines = (
        "PUT /placement/traits/CUSTOM_A HTTP/1.1",
        *("Host: a", "X-Auth-Token: admin", f"OpenStack-API-Version: placement {LATEST}"),
        *("Content-Type: application/json", "Transfer-Encoding: chunked"),
    )
    request = b"".join(("\r\n".join([*lines, "", ""]).encode(), b"2\r\n{}\r\n0\r\n\r\n"))
    with closing(socket.create_connection(("127.0.0.1", port), timeout=60)) as connection:
        connection.sendall(request)
        status, closes = read_response(connection)
        assert status in {201, 204, 411}  # uwsgi rejects chunked bodies
        assert closes or send_request_and_read_status(connection, request) == 204


def send_request_and_read_status(connection: socket.socket, request: bytes) -> int:
    connection.sendall(request)
    return read_response(connection)[0]
