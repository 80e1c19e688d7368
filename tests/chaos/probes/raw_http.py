# SPDX-License-Identifier: Apache-2.0
"""Raw requests and responses on a socket, without an HTTP library."""

import re
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

#: Seconds to wait for the first response and for each further response.
FIRST_RESPONSE_TIMEOUT, NEXT_RESPONSE_TIMEOUT = 3.0, 0.5
_CONTENT_LENGTH_HEADER = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] (\d{3})[^\r\n]*\r\n")


@dataclass(frozen=True)
class RawHttpResponse:
    """A response: its status, and its unparsed head and body."""

    status: int
    text: bytes


@dataclass(frozen=True)
class RawHttpClient:
    """Address of a server, and its certificate if connections use TLS."""

    url: str
    certificate: Path | None = None

    def send_bytes(self, sent: bytes) -> list[RawHttpResponse]:
        """Send bytes on a new connection, and return the responses in order."""
        received = b""
        with self._open_connection() as connection, suppress(OSError):
            connection.settimeout(FIRST_RESPONSE_TIMEOUT)
            with suppress(ConnectionError):  # rejected before all bytes were sent
                connection.sendall(sent)
            while data := connection.recv(2**16):
                received += data
                connection.settimeout(NEXT_RESPONSE_TIMEOUT)
        return parse_http_responses(received)

    def _open_connection(self) -> socket.socket:
        port = urlsplit(self.url).port
        assert port is not None
        connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        if self.certificate is None:
            return connection
        context = ssl.create_default_context(cafile=str(self.certificate))
        context.set_alpn_protocols(["http/1.1"])
        return context.wrap_socket(connection, server_hostname="localhost")


def parse_http_responses(received: bytes) -> list[RawHttpResponse]:
    """Return the responses in a stream. Fail if it contains anything else."""
    responses = []
    while received:
        head = _STATUS_LINE.match(received)
        assert head, f"no response: {received[:200]!r}"
        end = received.find(b"\r\n\r\n") + 4
        assert end > 3, f"half a response: {received[:200]!r}"
        length = _CONTENT_LENGTH_HEADER.search(received[:end])
        rest = len(received) if length is None and b"close" in received[:end].lower() else end
        size = rest if length is None else end + int(length[1])
        if int(head[1]) >= 200:
            responses.append(RawHttpResponse(int(head[1]), received[:size]))
        received = received[size:]
    return responses
