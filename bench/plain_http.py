"""An HTTP client that costs next to nothing.

The clients of a race run on the cores of the servers. ``http.client`` takes half a millisecond of
them for each request, about what the quickest requests take of the server: that would be
measured, and of both servers alike.
"""

import socket

_TIMEOUT = 600.0


class Broken(Exception):
    """What came back is no whole HTTP answer."""


def ask(port: int, head: str, body: bytes = b"") -> tuple[int, bytes]:
    """Send a request to this machine on a connection of its own; return status and body.

    ``head`` is the request line and the headers, but for those that follow from here. Raises
    :class:`Broken`.
    """
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    text = f"{head}\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{length}\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT) as connection:
        connection.sendall(text.encode() + body)
        parts = []
        while part := connection.recv(1 << 20):
            parts.append(part)
    return _read(b"".join(parts))


def _read(answer: bytes) -> tuple[int, bytes]:
    head, end, body = answer.partition(b"\r\n\r\n")
    if not end or not head.startswith(b"HTTP/1."):
        raise Broken(repr(answer[:500]))
    line, *headers = head.split(b"\r\n")
    told = dict(header.lower().split(b": ", 1) for header in headers)
    if b"transfer-encoding" in told:
        raise Broken(f"in a form that is not read here: {head!r}")
    if len(body) != int(told.get(b"content-length", len(body))):
        raise Broken(f"{len(body)} bytes after {head!r}")
    return int(line.split()[1]), body
