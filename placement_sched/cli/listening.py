# SPDX-License-Identifier: Apache-2.0
"""Listening sockets of a server: of its own, or passed by systemd."""

import os
import resource
import socket

from placement_sched.errors import Error

#: Maximum number of concurrent connections of a worker; others wait to be accepted.
CONNECTIONS = 1024
#: Maximum number of other open files of a worker: database, logs, metrics.
OTHER_FILES = 256
#: First descriptor that systemd passes (sd_listen_fds(3)).
_FIRST = 3


def inherited_socket() -> socket.socket | None:
    """Return the listening socket that systemd passed to this process, or None.

    In the protocol of sd_listen_fds(3), ``LISTEN_PID`` is the receiving process and ``LISTEN_FDS``
    the number of sockets. Raises :class:`Error` for several sockets, and if the socket does not
    listen on a TCP port.
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    passed = os.environ.get("LISTEN_FDS", "0")
    for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):  # not for the workers
        os.environ.pop(name, None)
    if passed == "0":
        return None
    if passed != "1":
        raise Error(f"systemd passed {passed} sockets: use a single ListenStream=")
    listener = socket.socket(fileno=_FIRST)
    listening = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if listener.family not in {socket.AF_INET, socket.AF_INET6} or not listening:
        raise Error("the socket that systemd passed does not listen on a TCP port")
    return listener


def connections() -> int:
    """Raise the limit of open files, and return the maximum number of connections.

    ``OTHER_FILES`` descriptors remain for the database and other files.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    required = CONNECTIONS + OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= required:
        return CONNECTIONS
    soft = required if hard == resource.RLIM_INFINITY else min(hard, required)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(OTHER_FILES // 4, soft - OTHER_FILES)


def free_port(host: str, port: int) -> int:
    """Return ``port`` if it is free, or any free port for 0.

    Raises :class:`Error` if the port is in use. The workers share the port by SO_REUSEPORT, so that
    a second server on the port would get half of the requests unnoticed. Therefore this function
    binds the port without SO_REUSEPORT as a test.
    """
    address = resolve(host)[0]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as failure:
            raise Error(f"cannot listen on {host}:{port}: {failure.strerror}") from None
        return int(probe.getsockname()[1])


def resolve(host: str) -> list[str]:
    """Resolve ``host`` to addresses.

    Raises :class:`Error` if there are none.
    """
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as failure:
        raise Error(f"cannot listen on {host}: {failure.strerror or failure}") from None
    return [str(entry[4][0]) for entry in entries]
