# SPDX-License-Identifier: Apache-2.0
"""Notifications of ``placement-sched serve`` to systemd, and its logged stacks."""

import os
import re
import signal
import socket

import pytest

from placement_sched.cli.serve import HANGS_AFTER
from tests.support.servers import wait_until

pytestmark = pytest.mark.system


@pytest.fixture
def notify_socket(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(60)
        yield receiver


@pytest.fixture
def start_with_watchdog(serve, tmp_path):
    """Return a function that starts a server with a watchdog of two messages per second."""
    variables = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000000"}

    def serve_with_watchdog(*arguments, **options):
        return serve(*arguments, **variables, **options)

    return serve_with_watchdog


def test_systemd_is_notified_of_start_and_stop(start_with_watchdog, notify_socket):
    server = start_with_watchdog("--workers", "2", ready=None)
    assert notify_socket.recv(100) == b"READY=1"
    assert server.get("/healthz")[0] == 200
    assert notify_socket.recv(100) == notify_socket.recv(100) == b"WATCHDOG=1"
    assert server.stop() == 0
    messages = set()
    while b"STOPPING=1" not in messages:
        messages.add(notify_socket.recv(100))
    assert messages <= {b"WATCHDOG=1", b"STOPPING=1"}


def test_systemd_watchdog_is_not_notified_while_a_worker_hangs(start_with_watchdog, notify_socket):
    server = start_with_watchdog("--workers", "2")

    def find_request_in_log():
        return re.search(r" (\d+) INFO \S+middleware ", server.log.read_text())

    assert wait_until(find_request_in_log)
    hanging = int(
        find_request_in_log()[1]
    )  # another worker may still be starting, and does not count
    (killed,) = server.workers() - {hanging}
    os.kill(killed, signal.SIGKILL)
    assert wait_until(lambda: len(server.workers() - {killed}) == 2)
    os.kill(hanging, signal.SIGSTOP)
    try:
        notify_socket.settimeout(3)

        def has_no_notification_for_3_seconds():
            try:
                notify_socket.recv(100)
            except TimeoutError:
                return True
            return False

        assert wait_until(has_no_notification_for_3_seconds, HANGS_AFTER + 60)
    finally:
        os.kill(hanging, signal.SIGCONT)
    notify_socket.settimeout(60)
    assert notify_socket.recv(100) == b"WATCHDOG=1"  # the killed worker no longer counts


def test_sigusr2_logs_stacks_and_the_server_continues(serve):
    server = serve("--workers", "2")
    processes = {server.process.pid, *server.workers()}
    for process in processes:
        os.kill(process, signal.SIGUSR2)

    def find_processes_that_logged(text):
        lines = server.read_log_lines()
        return {int(line.split()[2]) for line in lines if text in line}

    for part in ("Current thread", "Thread 0x", "in main"):
        assert wait_until(lambda part=part: find_processes_that_logged(part) == processes), part
    # The main threads.
    assert wait_until(lambda: find_processes_that_logged("in _serve_loop") == {server.process.pid})
    assert find_processes_that_logged("granian/server/mp.py") >= server.workers()
    assert server.get("/placement/")[0] == 200
    assert server.workers() == processes - {server.process.pid}
