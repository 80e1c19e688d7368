# SPDX-License-Identifier: Apache-2.0
"""A client with persistent connections that sends head and body apart and counts failures."""

import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import NamedTuple

from tests.support.versions import LATEST

#: Limit of the servers for a body, in bytes: the largest bodies are rejected.
MAX_BODY_BYTES = 512 * 1024
BODY_SIZES = (0, 10, 2_000, 60_000, 1_000_000)
PAUSES_BEFORE_BODY = (0.0, 0.003, 0.05)
THREAD_COUNT = 16


class MixedRequest(NamedTuple):
    """A request without its body, and the expected statuses."""

    method: str
    path: str
    statuses: tuple[int, ...]
    user: str = "admin"
    version: str = LATEST
    kind: str = "application/json"


PROVIDERS_PATH = "/placement/resource_providers"
MIXED_REQUESTS = (
    MixedRequest("PUT", "/placement/traits/CUSTOM_A", (401,), user=""),
    MixedRequest("PUT", "/placement/traits/CUSTOM_A", (403,), user="bob"),
    MixedRequest("PUT", "/placement/nothing", (404,)),
    MixedRequest("POST", "/placement/traits", (405,)),
    MixedRequest("PUT", "/placement/traits/CUSTOM_A", (406,), version="1.99"),
    MixedRequest("POST", PROVIDERS_PATH, (415,), kind="text/plain"),
    # 413 above the limit. Below the limit the body is not JSON.
    MixedRequest("POST", PROVIDERS_PATH, (400, 413)),
    MixedRequest("PUT", "/placement/traits/CUSTOM_A", (201, 204)),
    MixedRequest("GET", "/placement/traits?name=in:HW_CPU_X86_AVX", (200,)),
    MixedRequest("DELETE", "/placement/traits/CUSTOM_B", (204, 404)),
    MixedRequest("GET", "/healthz", (200,)),
)


@dataclass
class RequestCounts:
    """Counts of the answered requests by status, and of the lost requests by description."""

    answered: Counter = field(default_factory=Counter)
    lost: Counter = field(default_factory=Counter)


class PersistentConnection:
    """A persistent connection of HTTP/1.1, opened again after ``Connection: close``."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.socket: socket.socket | None = None

    def send_request(self, request: MixedRequest, size: int, gap: float) -> int:
        """Send head and body of a request and return the status of the response."""
        if self.socket is None:
            self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=60)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(build_request_head(request, size))
        time.sleep(gap)
        self.socket.sendall(b"{" * size)
        status, closes = read_response(self.socket)
        if closes:
            self.close()
        return status

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def build_request_head(request: MixedRequest, size: int) -> bytes:
    lines = [
        f"{request.method} {request.path} HTTP/1.1",
        "Host: 127.0.0.1",
        f"OpenStack-API-Version: placement {request.version}",
        f"Content-Type: {request.kind}",
        f"Content-Length: {size}",
    ]
    if request.user:
        lines.append(f"X-Auth-Token: {request.user}")
    return "\r\n".join([*lines, "", ""]).encode()


def read_response(connection: socket.socket) -> tuple[int, bool]:
    """Read a response and return its status, and whether the connection closes."""
    text = b""
    while b"\r\n\r\n" not in text:
        text += receive_bytes(connection)
    start, _, content = text.partition(b"\r\n\r\n")
    first, *lines = start.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    status = int(first.split()[1])
    closes = headers.get("connection", "").lower() == "close"
    if "content-length" not in headers and status != 204:
        raise ValueError(f"a response without a length: {start!r}")
    missing = int(headers.get("content-length", "0")) - len(content)
    while missing > 0:
        missing -= len(receive_bytes(connection))
    if missing:
        raise ValueError(f"more than one response: {text!r}")
    return status, closes


def receive_bytes(connection: socket.socket) -> bytes:
    data = connection.recv(2**16)
    if not data:
        raise ConnectionError("closed without a word")
    return data


def send_mixed_requests(port: int, number: int, seed: int = 1) -> RequestCounts:
    """Send ``number`` requests of every kind in random order over persistent connections."""
    cases = list(product(MIXED_REQUESTS, BODY_SIZES, PAUSES_BEFORE_BODY))
    mixed = (cases * (number // len(cases) + 1))[:number]
    Random(seed).shuffle(mixed)
    outcome = RequestCounts()
    with ThreadPoolExecutor(THREAD_COUNT) as pool:
        shares = [mixed[first::THREAD_COUNT] for first in range(THREAD_COUNT)]
        list(pool.map(lambda share: _send_requests(port, share, outcome), shares))
    return outcome


def _send_requests(
    port: int, cases: list[tuple[MixedRequest, int, float]], outcome: RequestCounts
) -> None:
    connection = PersistentConnection(port)
    for request, size, gap in cases:
        try:
            status = connection.send_request(request, size, gap)
        except (OSError, ValueError) as failure:
            outcome.lost[f"{request.method} {request.path} {size} B {gap} s: {failure!r}"] += 1
            connection.close()
            continue
        if status in request.statuses:
            outcome.answered[status] += 1
        else:
            outcome.lost[f"{request} {size} B: {status}"] += 1
    connection.close()
