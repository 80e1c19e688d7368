# SPDX-License-Identifier: Apache-2.0
"""Proxies never repeat a write whose response they did not receive."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import requests

from tests.deploy import haproxy, nginx
from tests.support.loopback import reserve_port

pytestmark = pytest.mark.system

for_each_proxy = pytest.mark.parametrize("proxy", [haproxy, nginx], ids=["haproxy", "nginx"])
WRITE_METHODS = ("PUT", "DELETE", "POST")


class CountingServer(ThreadingHTTPServer):
    """A server that counts requests, and sends no response if it ``dies``."""

    daemon_threads = True

    def __init__(self, counts: Counter[str], *, is_silent: bool) -> None:
        super().__init__(("127.0.0.1", 0), _CountingHandler)
        self.counts, self.is_silent = counts, is_silent
        self.methods: set[str] = set()

    def handle_error(self, *_arguments: Any) -> None:
        """Ignore clients that close their connection early."""


class _CountingHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: CountingServer

    def _count_and_respond(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "/healthz" in self.path:
            self.close_connection = True
        else:
            self.server.counts[f"{self.command} {self.path}"] += 1
            self.server.methods.add(self.command)
            if self.server.is_silent:
                self.close_connection = True
                return
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_PUT = do_DELETE = do_POST = _count_and_respond  # noqa: N815 - names of http.server

    def log_message(self, *_arguments: Any) -> None:
        """Log nothing."""


@contextmanager
def run_counting_server(
    counts: Counter[str], *, is_silent: bool = False
) -> Iterator[CountingServer]:
    with CountingServer(counts, is_silent=is_silent) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(timeout=60)


@contextmanager
def run_proxy_of_two_servers(
    proxy: ModuleType, folder: Path, counts: Counter[str], *, is_closed: bool
) -> Iterator:
    """Run a proxy for two servers. Only the second server responds.

    The port of the first is closed, or it sends no response. Yield both servers, and a function
    that sends a request and returns the status.
    """
    with ExitStack() as stack:
        responding, silent = stack.enter_context(run_counting_server(counts)), None
        if is_closed:
            port = stack.enter_context(reserve_port()).getsockname()[1]
        else:
            silent = stack.enter_context(run_counting_server(counts, is_silent=True))
            port = silent.server_port
        # A failure takes no server out of rotation.
        ports = [port, responding.server_port]
        url, signed = stack.enter_context(proxy.start_proxy(folder, ports, always_tried=True))
        session = stack.enter_context(requests.Session())
        session.trust_env = False

        def send(method: str, path: str) -> int:
            response = session.request(
                method, url + path, data=b"{}", verify=str(signed), timeout=60
            )
            session.close()  # each request has its own connection
            return response.status_code

        yield silent, responding, send


@for_each_proxy
def test_proxy_does_not_repeat_a_write_without_a_response(proxy, tmp_path):
    counts: Counter[str] = Counter()
    with run_proxy_of_two_servers(proxy, tmp_path, counts, is_closed=False) as (
        silent,
        responding,
        send,
    ):
        for method in WRITE_METHODS:
            assert {send(method, f"/p{number}") for number in range(10)} == {200, 502}
    assert silent.methods == responding.methods == set(WRITE_METHODS)
    assert set(counts.values()) == {1}
    assert len(counts) == 10 * len(WRITE_METHODS)


@for_each_proxy
def test_proxy_repeats_a_read_without_a_response(proxy, tmp_path):
    with run_proxy_of_two_servers(proxy, tmp_path, Counter(), is_closed=False) as (silent, _, send):
        assert {send("GET", f"/p{number}") for number in range(10)} == {200}
    assert silent.methods == {"GET"}


@for_each_proxy
def test_proxy_sends_a_request_to_the_server_that_accepts_connections(proxy, tmp_path):
    counts: Counter[str] = Counter()
    with run_proxy_of_two_servers(proxy, tmp_path, counts, is_closed=True) as (_, _, send):
        for method in (*WRITE_METHODS, "GET"):
            assert {send(method, f"/p{number}") for number in range(10)} == {200}, method
    assert set(counts.values()) == {1}


@for_each_proxy
def test_write_through_a_proxy_without_servers_is_502_or_503(proxy, tmp_path):
    counts: Counter[str] = Counter()
    with run_proxy_of_two_servers(proxy, tmp_path, counts, is_closed=True) as (_, responding, send):
        responding.shutdown()
        responding.server_close()
        assert {send(method, "/p") for method in WRITE_METHODS} <= {502, 503}
    assert not counts
