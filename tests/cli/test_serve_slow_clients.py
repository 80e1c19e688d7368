# SPDX-License-Identifier: Apache-2.0
"""Slow or silent clients of ``serve`` hold no more than their connection."""

import re
import resource
import socket
import time
from collections import Counter
from contextlib import ExitStack
from http.client import HTTPConnection

import psutil
import pytest

from placement_sched.limits import MAX_BODY_WAIT
from tests.chaos.run_length import TRIED_KEY
from tests.support.servers import wait_until
from tests.support.versions import LATEST, LATEST_HEADERS

pytestmark = pytest.mark.system

HALF_BODY_REQUEST = (
    b"POST /image/v2/images HTTP/1.1\r\nHost: a\r\nX-Auth-Token: bob:p\r\nX-Roles: member\r\n"
    b'Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"name":'
)
HALF_CHUNK_REQUEST = (
    b"PUT /placement/traits/CUSTOM_A HTTP/1.1\r\nHost: a\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n8\r\n{"
)
HALF_HEADER_REQUEST = b"GET /placement/traits HTTP/1.1\r\nHost: a\r\nX-Auth-Tok"
TWO_HUNDRED_PIPELINED_REQUESTS = (
    "GET /placement/traits HTTP/1.1\r\nHost: a\r\nX-Auth-Token: admin\r\n"
    f"OpenStack-API-Version: placement {LATEST}\r\n\r\n"
).encode() * 200
#: Timeout in seconds. The machine may be busy with other work.
TIMEOUT_SECONDS = 60


@pytest.fixture
def raise_open_files_limit():
    """Raise the file limit of this process and of the servers that it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def server(raise_open_files_limit, serve):
    server = serve()
    server.wait_for("/healthz/ready", 200)
    return server


@pytest.fixture
def open_connection(server):
    """Open a connection to the server and send some bytes."""
    port = int(server.url.rpartition(":")[2])
    with ExitStack() as stack:

        def connect(sent: bytes = b"", window: int | None = None) -> socket.socket:
            client = stack.enter_context(socket.socket())
            if window is not None:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
            client.settimeout(TIMEOUT_SECONDS)
            client.connect(("127.0.0.1", port))
            client.sendall(sent)
            return client

        yield connect


def measure_request_durations(server, rounds: int = 10) -> list[float]:
    """Return the seconds that each request of a normal client took."""
    seconds = []
    for number in range(rounds):
        for method, path in (
            ("GET", "/healthz"),
            ("GET", "/placement/resource_providers"),
            ("PUT", f"/placement/traits/CUSTOM_{number}"),
        ):
            began = time.perf_counter()
            client = HTTPConnection(server.url.removeprefix("http://"), timeout=TIMEOUT_SECONDS)
            headers = {"X-Auth-Token": "admin", **LATEST_HEADERS}
            client.request(method, path, headers=headers)
            assert client.getresponse().status in {200, 201}
            client.close()
            seconds.append(time.perf_counter() - began)
    return seconds


def receive_until_closed(client: socket.socket) -> bytes:
    """Return all bytes until the server closes the connection."""
    text = b""
    while data := client.recv(2**16):
        text += data
    return text


@pytest.mark.chaos
def test_slow_clients_do_not_delay_other_clients(server, open_connection, record_property):
    unread = [open_connection(TWO_HUNDRED_PIPELINED_REQUESTS, window=4096) for _ in range(30)]
    half = [open_connection(HALF_BODY_REQUEST) for _ in range(200)]
    silent = [open_connection(sent) for sent in (HALF_HEADER_REQUEST, b"") for _ in range(200)]
    seconds = measure_request_durations(server)
    assert max(seconds) < MAX_BODY_WAIT / 2  # they do not wait for the others to end
    for client in half:
        text = receive_until_closed(client)
        assert text.startswith(b"HTTP/1.1 408 ")
        assert b"connection: close" in text.lower()
    for client in silent:  # closed after 30 seconds
        assert receive_until_closed(client) == b""
    record_property(
        TRIED_KEY,
        f"{len(half)} half bodies, {len(silent)} silent clients, {len(unread)} that read nothing",
    )


def test_request_with_incomplete_chunked_body_is_408(open_connection):
    client = open_connection(HALF_CHUNK_REQUEST)
    assert receive_until_closed(client).startswith(b"HTTP/1.1 408 ")


def test_connections_closed_within_a_body_leave_no_file_descriptors(
    server, open_connection, record_property
):
    (worker,) = psutil.Process(server.process.pid).children()
    server.get("/healthz")
    open_files = worker.num_fds()
    closed_connections = 0
    for sent in (HALF_BODY_REQUEST, HALF_CHUNK_REQUEST, HALF_BODY_REQUEST + b"x" * 900):
        for client in [open_connection(sent) for _ in range(50)]:
            client.close()
            closed_connections += 1
    assert wait_until(lambda: worker.num_fds() <= open_files + 5)

    def count_logged_statuses():
        return Counter(re.findall(r'" (\d{3}) \d+ req-', server.log.read_text()))

    # A disconnect ends its request at once, not at the deadline (408). Its line follows.
    assert wait_until(lambda: count_logged_statuses()["400"] > closed_connections / 2)
    assert count_logged_statuses()["408"] == 0
    assert max(measure_request_durations(server, rounds=1)) < MAX_BODY_WAIT
    record_property(TRIED_KEY, f"{closed_connections} clients that vanish")


def test_request_with_expect_continue_gets_100_before_its_response(open_connection):
    head = HALF_BODY_REQUEST.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n").partition(
        b"{"
    )[0]
    client = open_connection(head)
    assert client.recv(2**16).startswith(b"HTTP/1.1 100 ")
    client.sendall(b"{" * 1000)
    assert client.recv(2**16).startswith(b"HTTP/1.1 400 ")


def test_expect_continue_for_a_too_large_body_is_413(open_connection):
    head = HALF_BODY_REQUEST.replace(b"Length: 1000", b"Length: 70000000\r\nExpect: 100-continue")
    client = open_connection(head.partition(b"{")[0])
    text = receive_until_closed(client)
    assert text.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in text.lower()
