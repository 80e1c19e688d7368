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

PROXIES = pytest.mark.parametrize("proxy", [haproxy, nginx], ids=["haproxy", "nginx"])
WRITES = ("PUT", "DELETE", "POST")


class CountingServer(ThreadingHTTPServer):
    """A server that counts requests, and sends no response if it ``dies``."""

    daemon_threads = True

    def __init__(self, done: Counter[str], *, dies: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.done, self.dies = done, dies
        self.reached: set[str] = set()

    def handle_error(self, *_arguments: Any) -> None:
        """Ignore clients that close their connection early."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: CountingServer

    def _do(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "/healthz" in self.path:
            self.close_connection = True
        else:
            self.server.done[f"{self.command} {self.path}"] += 1
            self.server.reached.add(self.command)
            if self.server.dies:
                self.close_connection = True
                return
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_PUT = do_DELETE = do_POST = _do  # noqa: N815 - names of http.server

    def log_message(self, *_arguments: Any) -> None:
        """Log nothing."""


@contextmanager
def run_server(done: Counter[str], *, dies: bool = False) -> Iterator[CountingServer]:
    with CountingServer(done, dies=dies) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(timeout=60)


@contextmanager
def send_through_proxy(proxy: ModuleType, folder: Path, ports: list[int]) -> Iterator[Any]:
    """Yield a function that sends a request through the proxy and returns the status."""
    # A failure takes no server out of rotation.
    with proxy.start_proxy(folder, ports, always_tried=True) as (url, signed):

        def send(method: str, path: str) -> int:
            with requests.Session() as session:
                session.trust_env = False
                sent = session.request(
                    method, url + path, data=b"{}", verify=str(signed), timeout=60
                )
            return sent.status_code

        yield send


@PROXIES
@pytest.mark.parametrize("method", WRITES)
def test_possibly_completed_write_is_not_repeated(proxy, method, tmp_path):
    done: Counter[str] = Counter()
    with ExitStack() as stack:
        dying = stack.enter_context(run_server(done, dies=True))
        healthy = stack.enter_context(run_server(done))
        ports = [dying.server_port, healthy.server_port]
        send = stack.enter_context(send_through_proxy(proxy, tmp_path, ports))
        statuses = Counter(send(method, f"/p{number}") for number in range(10))
    assert dying.reached == healthy.reached == {method}
    assert set(done.values()) == {1}
    assert len(done) == 10
    assert set(statuses) == {200, 502}


@PROXIES
def test_failed_read_is_repeated(proxy, tmp_path):
    done: Counter[str] = Counter()
    with ExitStack() as stack:
        dying = stack.enter_context(run_server(done, dies=True))
        healthy = stack.enter_context(run_server(done))
        ports = [dying.server_port, healthy.server_port]
        send = stack.enter_context(send_through_proxy(proxy, tmp_path, ports))
        statuses = {send("GET", f"/p{number}") for number in range(10)}
    assert dying.reached == {"GET"}
    assert statuses == {200}


@PROXIES
@pytest.mark.parametrize("method", [*WRITES, "GET"])
def test_unaccepted_request_goes_to_the_other_server(proxy, method, tmp_path):
    done: Counter[str] = Counter()
    with ExitStack() as stack:
        closed = stack.enter_context(reserve_port()).getsockname()[1]
        healthy = stack.enter_context(run_server(done))
        ports = [closed, healthy.server_port]
        send = stack.enter_context(send_through_proxy(proxy, tmp_path, ports))
        statuses = [send(method, f"/p{number}") for number in range(10)]
    assert statuses == [200] * 10
    assert set(done.values()) == {1}


@PROXIES
def test_write_is_502_or_503_without_a_server(proxy, tmp_path):
    done: Counter[str] = Counter()
    with ExitStack() as stack:
        healthy = stack.enter_context(run_server(done))
        closed = stack.enter_context(reserve_port()).getsockname()[1]
        ports = [closed, healthy.server_port]
        send = stack.enter_context(send_through_proxy(proxy, tmp_path, ports))
        healthy.shutdown()
        healthy.server_close()
        assert {send(method, "/p") for method in WRITES} <= {502, 503}
    assert not done
