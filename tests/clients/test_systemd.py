# SPDX-License-Identifier: Apache-2.0
"""Messages to systemd's notification socket."""

import os
import socket
import threading
from contextlib import suppress

import pytest

from placement_sched.clients.systemd import Notifier


@pytest.fixture
def notify_socket(tmp_path, monkeypatch):
    """The socket of systemd's notifications."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield receiver


def receive_systemd_messages(systemd):
    """Yield the messages until none arrives in time."""
    with suppress(TimeoutError):
        while True:
            yield systemd.recv(100)


def test_systemd_gets_ready_when_the_service_is_ready(notify_socket):
    ready = threading.Event()
    notifier = Notifier()
    notifier.start(ready.is_set)
    notify_socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        notify_socket.recv(100)
    notify_socket.settimeout(20)
    ready.set()
    assert notify_socket.recv(100) == b"READY=1"
    notifier.stop()
    assert notify_socket.recv(100) == b"STOPPING=1"


def test_systemd_variables_are_not_passed_to_child_processes(notify_socket, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    Notifier()
    assert {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} & set(os.environ) == set()


def test_systemd_watchdog_gets_messages_while_the_service_is_alive(notify_socket, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "40000")
    is_alive = [True]
    Notifier().start(is_alive=lambda: is_alive[0])
    messages = [notify_socket.recv(100) for _ in range(3)]
    assert messages == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]
    is_alive[0] = False
    notify_socket.settimeout(0.5)
    assert (
        len(list(zip(range(5), receive_systemd_messages(notify_socket), strict=False))) <= 1
    )  # on its way


def test_systemd_watchdog_of_another_process_gets_no_messages(notify_socket, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    Notifier().start()
    assert notify_socket.recv(100) == b"READY=1"
    notify_socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        notify_socket.recv(100)


def test_systemd_messages_are_sent_to_an_abstract_socket(monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        name = f"placement-sched-test-{os.getpid()}"
        receiver.bind(f"\0{name}")
        receiver.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        Notifier().stop()
        assert receiver.recv(100) == b"STOPPING=1"


def test_systemd_messages_are_not_sent_without_notify_socket(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    threads = threading.active_count()
    Notifier().start()
    Notifier().stop()
    assert threading.active_count() == threads


def test_deleted_systemd_socket_is_ignored(notify_socket, tmp_path):
    notifier = Notifier()
    (tmp_path / "notify").unlink()
    notifier.stop()
