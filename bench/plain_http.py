# SPDX-License-Identifier: Apache-2.0
"""HTTP client with little overhead.

The clients run on the cores of the servers. ``http.client`` needs half a millisecond of CPU for
each request, about as much as the server needs for a short request.
"""

import select
import socket

_TIMEOUT = 600.0
_NO_BODY = {204, 304}


class Broken(Exception):
    """The server did not send a complete HTTP response."""


class Client:
    """Sends requests to a local server.

    It reuses its connection, as the sessions of nova and the ``openstack`` client do. uwsgi closes
    connections after each response, so ``reuse`` is false for it.
    """

    def __init__(self, port: int, *, reuse: bool = True) -> None:
        self._port, self._reuse = port, reuse
        self._connection: socket.socket | None = None

    def message(self, head: str, body: bytes = b"") -> bytes:
        """Return the bytes of a request. ``head`` is the request line and headers."""
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        return f"{head}\r\nHost: 127.0.0.1:{self._port}\r\n{length}\r\n".encode() + body

    def get_response(self, message: bytes) -> tuple[int, bytes]:
        """Send a request, and return status and body."""
        if self._connection is None or _is_closed(self._connection):
            self.close()
            self._connection = socket.create_connection(("127.0.0.1", self._port), _TIMEOUT)
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            response = _send(self._connection, message)
        except BaseException:
            self.close()
            raise
        if not self._reuse:
            self.close()
        return response

    def close(self) -> None:
        """Close the connection. The next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _is_closed(connection: socket.socket) -> bool:
    """Return whether there is anything to read, which is the end between two requests."""
    return bool(select.select([connection], [], [], 0)[0])


def _send(connection: socket.socket, message: bytes) -> tuple[int, bytes]:
    connection.sendall(message)
    head = bytearray()
    while (end := head.find(b"\r\n\r\n")) < 0:
        part = connection.recv(1 << 14)
        if not part:
            raise Broken(f"ended in {bytes(head[:500])!r}")
        head += part
    if not head.startswith(b"HTTP/1."):
        raise Broken(repr(bytes(head[:500])))
    line, *lines = bytes(head[:end]).split(b"\r\n")
    headers = dict(header.lower().split(b": ", 1) for header in lines)
    status, length = int(line.split()[1]), headers.get(b"content-length")
    if b"transfer-encoding" in headers or (length is None and status not in _NO_BODY):
        raise Broken(f"no length: {bytes(head)!r}")
    body, start = bytearray(int(length or 0)), head[end + 4 :]
    if len(start) > len(body):
        raise Broken(f"{len(start) - len(body)} bytes too many after {bytes(head[:end])!r}")
    body[: len(start)] = start
    rest = memoryview(body)[len(start) :]
    while rest:
        number = connection.recv_into(rest)
        if not number:
            raise Broken(f"{len(rest)} bytes are missing after {bytes(head[:end])!r}")
        rest = rest[number:]
    return status, bytes(body)
