# SPDX-License-Identifier: Apache-2.0
"""An HTTP client that costs next to nothing.

The clients of a race run on the cores of the servers. ``http.client`` takes half a millisecond of
them for each request, about what the quickest requests take of the server: that would be
measured, and of both servers alike.
"""

import select
import socket

#: The newest version of openstack-placement 16: both services are asked the same, whatever ours
#: adds later. This module imports nothing of the package, which may be of another commit.
PEER_LATEST = "1.39"
_TIMEOUT = 600.0
_NO_BODY = {204, 304}


class Broken(Exception):
    """What came back is not a whole HTTP answer."""


class Client:
    """Asks one server of this machine, on one connection as long as the server leaves it open.

    That is what the sessions of nova, neutron and the ``openstack`` client do. A server that
    closes after each answer, as uwsgi does without saying so, is known by what became of the first
    connection, and from then on gets one for each request.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: socket.socket | None = None
        self._keeps: bool | None = None

    def message(self, head: str, body: bytes = b"") -> bytes:
        """Return what is sent for a request.

        ``head`` is the request line and the headers, but for those that follow from here.
        """
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        return f"{head}\r\nHost: 127.0.0.1:{self._port}\r\n{length}\r\n".encode() + body

    def ask(self, message: bytes) -> tuple[int, bytes]:
        """Send a request; return status and body. Raises :class:`Broken`."""
        connection, again = self._take()
        try:
            answer = _ask(connection, message)
        except (Broken, ConnectionError):
            connection.close()
            if not again or self._keeps:
                raise
            # It was closing while it was taken for open.
            self._keeps, again = False, False
            connection = self._connect()
            answer = _ask(connection, message)
        except BaseException:
            connection.close()
            raise
        if again:
            self._keeps = True
        if self._keeps is False:
            connection.close()
        else:
            self._connection = connection
        return answer

    def close(self) -> None:
        """Close the connection, if there is one; the next request makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _take(self) -> tuple[socket.socket, bool]:
        """Return a connection, and whether it is the one that was left open before."""
        connection, self._connection = self._connection, None
        if connection is not None:
            if not _is_readable(connection):
                return connection, True
            connection.close()
            if self._keeps is None:
                self._keeps = False
        return self._connect(), False

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self._port), timeout=_TIMEOUT)
        # A small request goes out at once, as those of every HTTP library do.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def _ask(connection: socket.socket, message: bytes) -> tuple[int, bytes]:
    connection.sendall(message)
    return _read(connection)


def _is_readable(connection: socket.socket) -> bool:
    """Return whether there is anything to read; between two requests that is the end."""
    return bool(select.select([connection], [], [], 0)[0])


def _read(connection: socket.socket) -> tuple[int, bytes]:
    head = bytearray()
    while (end := head.find(b"\r\n\r\n")) < 0:
        head += _more(connection, head)
    if not head.startswith(b"HTTP/1."):
        raise Broken(repr(bytes(head[:500])))
    line, *headers = bytes(head[:end]).split(b"\r\n")
    shown = dict(header.lower().split(b": ", 1) for header in headers)
    status = int(line.split()[1])
    if b"transfer-encoding" in shown or (b"content-length" not in shown and status not in _NO_BODY):
        raise Broken(f"in a form that is not read here: {bytes(head)!r}")
    body = bytearray(int(shown.get(b"content-length", 0)))
    begun = head[end + 4 :]
    if len(begun) > len(body):
        raise Broken(f"{len(begun) - len(body)} bytes too many after {bytes(head[:end])!r}")
    body[: len(begun)] = begun
    rest = memoryview(body)[len(begun) :]
    while rest:
        # A part that is read where it belongs is neither kept nor joined.
        number = connection.recv_into(rest)
        if not number:
            raise Broken(f"ended after {bytes(head[:end])!r}, {len(rest)} bytes of it missing")
        rest = rest[number:]
    return status, bytes(body)


def _more(connection: socket.socket, head: bytearray) -> bytes:
    part = connection.recv(1 << 14)
    if not part:
        raise Broken(f"ended in or after {bytes(head[:500])!r}")
    return part
