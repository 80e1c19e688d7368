# SPDX-License-Identifier: Apache-2.0
"""A network namespace as a second machine, whose packets can be dropped. Needs root."""

import ctypes
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from uuid import uuid4

import pytest

#: Addresses for tests of devices (RFC 2544): of this machine and of the namespace.
LOCAL, REMOTE = "198.18.77.1", "198.18.77.2"
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET


@dataclass(frozen=True)
class Network:
    """A network to the namespace, and a socket that listens there."""

    name: str
    listening: socket.socket

    def drop_packets(self) -> None:
        """Drop all packets from the namespace without an error."""
        _run_ip("-n", self.name, "route", "replace", "blackhole", f"{LOCAL}/32")

    def pass_packets(self) -> None:
        """Pass packets from the namespace again."""
        _run_ip("-n", self.name, "route", "flush", "type", "blackhole")


def _run_ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, timeout=60, capture_output=True)


@contextmanager
def lossy_network() -> Iterator[Network]:
    """Create a namespace with a network to it, or skip the test if that is not possible."""
    if shutil.which("ip") is None:
        pytest.skip("iproute2 is not installed")
    name = f"ps{uuid4().hex[:10]}"
    with ExitStack() as stack:
        try:
            _run_ip("netns", "add", name)
            stack.callback(_run_ip, "netns", "delete", name)
            _run_ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            stack.callback(_run_ip, "link", "delete", name)
        except subprocess.CalledProcessError as failure:
            pytest.skip(f"no network namespace can be created: {failure.stderr.decode()}")
        _run_ip("address", "add", f"{LOCAL}/30", "dev", name)
        _run_ip("link", "set", name, "up")
        _run_ip("-n", name, "address", "add", f"{REMOTE}/30", "dev", "eth0")
        _run_ip("-n", name, "link", "set", "eth0", "up")
        listening = stack.enter_context(_listen_in_namespace(name))
        yield Network(name, listening)


def _listen_in_namespace(name: str) -> socket.socket:
    """Return a socket in the namespace. It stays there when the thread has ended."""
    sockets = []

    def listen() -> None:
        # setns applies to this thread only.
        libc = ctypes.CDLL(None, use_errno=True)
        namespace = os.open(f"/run/netns/{name}", os.O_RDONLY)
        try:
            if libc.setns(namespace, _NEW_NETWORK):
                raise OSError(ctypes.get_errno(), "setns")
            sockets.append(socket.create_server((REMOTE, 0)))
        finally:
            os.close(namespace)

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join(timeout=60)
    return sockets[0]
