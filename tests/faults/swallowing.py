# SPDX-License-Identifier: Apache-2.0
"""A network of two machines on this one, which may swallow all packets; only root can make it."""

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

#: Addresses of networks for tests of devices (RFC 2544): here, and on the other machine.
HERE, THERE = "198.18.77.1", "198.18.77.2"
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET


@dataclass(frozen=True)
class Network:
    """The way to the other machine, and what listens there."""

    name: str
    listening: socket.socket

    def drop_packets(self) -> None:
        """Let no packet come back, and no error be said."""
        _ip("-n", self.name, "route", "replace", "blackhole", f"{HERE}/32")

    def pass_packets(self) -> None:
        """Let packets come back again."""
        _ip("-n", self.name, "route", "flush", "type", "blackhole")


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, timeout=60, capture_output=True)


@contextmanager
def lossy_network() -> Iterator[Network]:
    """Give a network to a namespace of its own; skip the test where none may be made."""
    if shutil.which("ip") is None:
        pytest.skip("iproute2 is not installed")
    name = f"ps{uuid4().hex[:10]}"
    with ExitStack() as stack:
        try:
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "delete", name)
            _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            stack.callback(_ip, "link", "delete", name)
        except subprocess.CalledProcessError as failure:
            pytest.skip(f"no network can be made here: {failure.stderr.decode()}")
        _ip("address", "add", f"{HERE}/30", "dev", name)
        _ip("link", "set", name, "up")
        _ip("-n", name, "address", "add", f"{THERE}/30", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        listening = stack.enter_context(_listen_in_namespace(name))
        yield Network(name, listening)


def _listen_in_namespace(name: str) -> socket.socket:
    """Return a socket that listens there; a socket stays in the namespace it was made in."""
    made = []

    def listen() -> None:
        # Of this thread alone, which ends then.
        libc = ctypes.CDLL(None, use_errno=True)
        there = os.open(f"/run/netns/{name}", os.O_RDONLY)
        try:
            if libc.setns(there, _NEW_NETWORK):
                raise OSError(ctypes.get_errno(), "setns")
            made.append(socket.create_server((THERE, 0)))
        finally:
            os.close(there)

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join(timeout=60)
    return made[0]
