# SPDX-License-Identifier: Apache-2.0
"""The HTTP server of ``placement-sched nova-scheduler``: metrics, health and addresses."""

import socket
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPResponse

import pytest

from placement_sched.errors import ConfigurationError, Error
from placement_sched.nova.monitoring import Monitor

pytestmark = pytest.mark.slow


@pytest.fixture
def start_monitor() -> Iterator[Callable[[str], Monitor]]:
    started: list[Monitor] = []

    def start_on_address(listen: str) -> Monitor:
        monitor = Monitor(listen, lambda accept: ("text/plain", f"for {accept}".encode()))
        started.append(monitor)
        monitor.start()
        return monitor

    yield start_on_address
    for one in started:
        one.close()


@pytest.fixture
def monitor(start_monitor: Callable[[str], Monitor]) -> Monitor:
    return start_monitor("127.0.0.1:0")


def send_monitor_request(
    monitor: Monitor, path: str, method: str = "GET"
) -> tuple[int, str, bytes]:
    if monitor.listens.startswith("/"):
        connection = HTTPConnection("localhost", timeout=60)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(60)
        connection.sock.connect(monitor.listens)
    else:
        connection = HTTPConnection(monitor.listens, timeout=60)
    connection.request(method, path, headers={"Accept": "anything"})
    reply: HTTPResponse = connection.getresponse()
    response = reply.status, reply.headers["Content-Type"], reply.read()
    connection.close()
    return response


@pytest.mark.parametrize(
    ("method", "path", "result"),
    [
        ("GET", "/metrics", (200, "text/plain", b"for anything")),
        ("HEAD", "/metrics", (200, "text/plain", b"")),
        ("GET", "/healthz", (200, "application/json", b'{"status":"ok"}')),
        ("GET", "/", (404, "application/json", b'{"status":"not found"}')),
    ],
)
def test_metrics_have_the_requested_format_and_other_paths_are_404(monitor, method, path, result):
    assert send_monitor_request(monitor, path, method) == result


def test_put_request_to_the_monitor_is_rejected(monitor):
    assert send_monitor_request(monitor, "/metrics", "PUT")[0] == 501


def test_monitored_service_is_live_before_it_is_ready(monitor):
    assert send_monitor_request(monitor, "/healthz/ready")[::2] == (503, b'{"status":"not ready"}')
    monitor.is_ready = lambda: True
    assert send_monitor_request(monitor, "/healthz/ready")[::2] == (200, b'{"status":"ready"}')


def test_unix_socket_is_created_and_removed(tmp_path, start_monitor):
    path = tmp_path / "metrics.sock"
    monitor = start_monitor(str(path))
    assert send_monitor_request(monitor, "/healthz")[0] == 200
    monitor.close()
    assert not path.exists()


def test_closed_monitor_leaves_no_thread(monitor):
    assert send_monitor_request(monitor, "/healthz")[0] == 200
    assert "monitor" in {thread.name for thread in threading.enumerate()}
    monitor.close()
    monitor.close()
    assert "monitor" not in {thread.name for thread in threading.enumerate()}


def test_monitor_reuses_a_stale_unix_socket(tmp_path, start_monitor):
    path = tmp_path / "metrics.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert send_monitor_request(start_monitor(str(path)), "/healthz")[0] == 200


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_monitor_address_in_use_is_an_error(tmp_path, start_monitor, kind):
    other = start_monitor(str(tmp_path / "metrics.sock") if kind == "unix" else "127.0.0.1:0")
    with pytest.raises(Error, match=r"\[scheduler\] metrics_listen: cannot listen on"):
        Monitor(other.listens, lambda _accept: ("", b""))


def test_monitor_keeps_a_regular_file_at_its_socket_path(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("kept")
    with pytest.raises(Error, match="cannot listen on"):
        Monitor(str(path), lambda _accept: ("", b""))
    assert path.read_text() == "kept"


@pytest.mark.parametrize("listen", ["9778", ":9778", "127.0.0.1", "127.0.0.1:many", "host:99999"])
def test_invalid_monitor_address_is_rejected(listen):
    with pytest.raises(ConfigurationError, match="neither ADDRESS:PORT nor the path of a socket"):
        Monitor(listen, lambda _accept: ("", b""))
