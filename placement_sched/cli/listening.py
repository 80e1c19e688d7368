"""What a server listens on: an address of its own, or the socket that systemd hands it."""

import os
import resource
import socket

from placement_sched.errors import Error

#: Connections that a worker holds at once; further ones wait to be accepted.
CONNECTIONS = 1024
#: Files that a worker opens beside its connections, at most: the database's, logs, metrics.
OTHER_FILES = 256
#: The first descriptor that systemd passes on (sd_listen_fds(3)).
_FIRST = 3


def inherited_socket() -> socket.socket | None:
    """Return the listening socket that systemd has passed to this process, or None.

    The protocol is that of sd_listen_fds(3): ``LISTEN_PID`` is the process that is meant, and
    ``LISTEN_FDS`` the number of sockets. Raises :class:`Error` for more than one, and for one that
    is not a listening TCP socket.
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return None
    passed = os.environ.get("LISTEN_FDS", "0")
    for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):  # they are not for the workers
        os.environ.pop(name, None)
    if passed == "0":
        return None
    if passed != "1":
        raise Error(f"systemd passed {passed} sockets, and one is served: use one ListenStream=")
    found = socket.socket(fileno=_FIRST)
    listening = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if found.family not in {socket.AF_INET, socket.AF_INET6} or not listening:
        raise Error("the socket that systemd passed does not listen on a TCP port")
    return found


def connections() -> int:
    """Return how many connections a worker may hold, and raise the limit of open files for them.

    They must not take the files that a worker needs to answer, such as the database's.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return CONNECTIONS
    soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(OTHER_FILES // 4, soft - OTHER_FILES)


def free_port(host: str, port: int) -> int:
    """Return ``port``, or a free one for 0; raise :class:`Error` where it cannot be listened on.

    The workers share the port by SO_REUSEPORT, under which a second server would go unnoticed and
    take half of the requests; so it is tried first without.
    """
    address = resolve(host)[0]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((address, port))
        except OSError as failure:
            raise Error(f"cannot listen on {host}:{port}: {failure.strerror}") from None
        return int(trial.getsockname()[1])


def resolve(host: str) -> list[str]:
    """Return the addresses of ``host``; raise :class:`Error` where it has none."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as failure:
        raise Error(f"cannot listen on {host}: {failure.strerror or failure}") from None
    return [str(entry[4][0]) for entry in found]
