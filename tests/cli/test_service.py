# SPDX-License-Identifier: Apache-2.0
"""``serve`` on a socket that systemd passes."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests

from tests.deploy import find_program
from tests.support.commands import run_captured
from tests.support.loopback import reserve_port
from tests.support.servers import PROGRAM, build_environment, wait_until

pytestmark = pytest.mark.system

#: Passes a socket as descriptor 3 like systemd. LISTEN_PID stays valid, because exec keeps the pid.
SOCKET_PASSING_PROGRAM = """
import os, socket, sys
kind, count = sys.argv[1:3]
listener = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
if kind == "tcp":
    listener.bind(("127.0.0.1", 0)); listener.listen()
os.dup2(listener.fileno(), 3); os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=count)
os.execv(sys.argv[3], sys.argv[3:])
"""


@pytest.fixture
def port():
    with reserve_port() as reserved_socket:
        yield reserved_socket.getsockname()[1]


@pytest.fixture
def socket_activated_server(tmp_path: Path, port: int):
    """A server that systemd starts with the first connection, and its log."""
    with ExitStack() as stack:
        output = stack.enter_context((tmp_path / "log").open("w"))
        process = subprocess.Popen(
            [
                *(
                    find_program("systemd-socket-activate", "systemd"),
                    "--listen",
                    f"127.0.0.1:{port}",
                ),
                *("-E", "OS_DEFAULT__LOG_FILE", PROGRAM, "serve", "--workers", "2"),
            ],
            cwd=tmp_path,
            env=build_environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        stack.callback(process.wait, timeout=120)
        stack.callback(process.send_signal, signal.SIGTERM)
        assert wait_until(lambda: "Listening on" in (tmp_path / "log").read_text())
        yield process


def test_first_connection_to_a_socket_unit_starts_the_server(
    socket_activated_server, port, tmp_path
):
    url = f"http://127.0.0.1:{port}/placement/"
    assert requests.get(url, timeout=240).status_code == 200
    log = (tmp_path / "log").read_text()
    assert f"placement-sched serves http://127.0.0.1:{port} on sqlite" in log
    children = (
        Path(f"/proc/{socket_activated_server.pid}/task/{socket_activated_server.pid}/children")
        .read_text()
        .split()
    )
    assert len(children) == 2


def test_connection_waits_while_a_socket_activated_server_restarts(tmp_path):
    """systemd keeps the socket open."""
    with ExitStack() as stack:
        listening = stack.enter_context(reserve_port())
        listening.listen()
        port = listening.getsockname()[1]
        statuses: list[int] = []
        client = threading.Thread(
            target=lambda: statuses.append(
                requests.get(f"http://127.0.0.1:{port}/healthz", timeout=240).status_code
            )
        )
        for turn in range(2):
            if turn == 1:
                client.start()  # while no server runs
            server = start_server_on_socket(listening, tmp_path)
            stack.callback(server.kill)
            url = f"http://127.0.0.1:{port}/healthz"
            assert requests.get(url, timeout=240).status_code == 200
            if turn == 1:
                client.join(timeout=240)
            server.terminate()
            assert server.wait(timeout=120) == 0
        assert statuses == [200]


def start_server_on_socket(listening, folder: Path) -> subprocess.Popen:
    program = (
        "import os, sys; os.dup2(int(sys.argv[1]), 3); os.set_inheritable(3, True);"
        "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1');"
        "os.execv(sys.argv[2], sys.argv[2:])"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, str(listening.fileno()), PROGRAM, "serve"],
        pass_fds=[listening.fileno()],
        cwd=folder,
        env=build_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def run_server_with_passed_socket(
    folder: Path, program: str, kind: str, count: str
) -> subprocess.CompletedProcess[str]:
    """Run the server with a socket from the program ``passing``, until the server ends."""
    return run_captured(
        [sys.executable, "-c", program, kind, count, PROGRAM, "serve"],
        cwd=folder,
        env=build_environment(),
    )


@pytest.mark.parametrize(
    ("kind", "count", "message"),
    [
        ("unix", "1", "the socket that systemd passed does not listen on a TCP port"),
        ("tcp", "2", "systemd passed 2 sockets: use a single ListenStream="),
    ],
)
def test_invalid_systemd_socket_is_reported_in_one_line(tmp_path, kind, count, message):
    done = run_server_with_passed_socket(tmp_path, SOCKET_PASSING_PROGRAM, kind, count)
    assert (done.returncode, done.stderr) == (1, f"placement-sched: {message}\n")


def test_systemd_socket_with_a_public_address_is_rejected_with_noauth2(tmp_path):
    """The socket's address is checked, not ``--host``."""
    program = SOCKET_PASSING_PROGRAM.replace('"127.0.0.1"', '"0.0.0.0"')
    done = run_server_with_passed_socket(tmp_path, program, "tcp", "1")
    assert "0.0.0.0 is not a loopback address" in done.stderr


def test_systemd_socket_for_another_process_is_ignored(monkeypatch):
    from placement_sched.cli.service import take_inherited_socket

    monkeypatch.setenv("LISTEN_PID", str(os.getpid() + 1))
    monkeypatch.setenv("LISTEN_FDS", "1")
    assert take_inherited_socket() is None
