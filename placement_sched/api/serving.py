# SPDX-License-Identifier: Apache-2.0
"""The ASGI application of ``placement-sched serve``, around a WSGI application.

The event loop reads each request completely before a thread answers it. A client that sends or
reads slowly therefore occupies a connection, but no thread. See doc/decisions/0003 for the figures.

Requests wait for a thread in their order. A request that waits for longer than
``[api] queue_timeout`` is rejected, and a request whose client is gone is dropped. The event loop
itself answers liveness checks and rejections, and a separate thread answers readiness checks, so
that they never wait for other requests.
"""

import asyncio
import logging
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache, partial
from http import HTTPStatus
from io import BytesIO
from threading import Thread
from typing import IO, Any, NamedTuple
from urllib.parse import parse_qs, unquote_to_bytes

from placement_sched.api.middleware import WSGI, StartResponse
from placement_sched.api.request import json_answer, plain_error
from placement_sched.limits import MAX_HEADER_BYTES, MAX_HEADERS_BYTES

LOG = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[dict[str, Any]]]
#: granian sends when this is called, on any thread. Awaiting the result only completes it.
Send = Callable[[dict[str, Any]], Awaitable[None]]
Scope = Mapping[str, Any]
Sent = Sequence[Awaitable[None]]

#: Maximum time for a body, or for its next ``BYTES_PER_WAIT`` bytes, in seconds.
MAX_BODY_WAIT = 10.0
#: Bytes per ``MAX_BODY_WAIT``: the minimum rate of a large body is 64 KiB a second.
BYTES_PER_WAIT = 640 * 2**10
#: Maximum time for reading a body that is dropped, in seconds.
MAX_DISCARD_SECONDS = 30.0
#: Maximum size of a body that is always accepted, in bytes. Larger bodies share the memory limit.
MAX_UNCOUNTED_BYTES = 64 * 2**10
#: Maximum number of bytes of a dropped body that are read.
MAX_DISCARDED_BYTES = 256 * 2**20
#: The environ key of the :class:`RejectedBody` of a body that could not be read.
REJECTED_BODY_KEY = "placement_sched.body_refused"
#: Bytes to read at once from the stream of a server.
_READ_SIZE = 2**18
#: A host name or an address in brackets, with an optional port, or nothing (RFC 3986).
_HOST = re.compile(
    rb"(?:\[[0-9A-Za-z:.%~_-]+\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?"
)
_CHUNKED = b"chunked"
_CONSTANT_ENVIRON = {
    "SCRIPT_NAME": "",
    "SERVER_SOFTWARE": "placement-sched",
    "wsgi.version": (1, 0),
    "wsgi.multithread": True,
    "wsgi.multiprocess": True,
    "wsgi.run_once": False,
    "wsgi.errors": sys.stderr,
    "wsgi.input_terminated": True,
}
_PROTOCOLS = {"1": "HTTP/1.0", "1.1": "HTTP/1.1", "2": "HTTP/2"}
_CONTENT_KEYS = {b"content-type": "CONTENT_TYPE", b"content-length": "CONTENT_LENGTH"}
_GONE = "http.disconnect"
#: The health paths of ``api/health.py``, each also with a slash at its end. ``/healthz?ready`` is
#: a readiness check.
_HEALTH = "/healthz"
_LIVENESS = {_HEALTH, f"{_HEALTH}/live"}
_READINESS = f"{_HEALTH}/ready"


class RejectedBody(NamedTuple):
    """Error for a client whose request could not be read."""

    status: HTTPStatus
    detail: str


INCOMPLETE = RejectedBody(HTTPStatus.BAD_REQUEST, "The request body ended before it was complete.")
SLOW = RejectedBody(HTTPStatus.REQUEST_TIMEOUT, "The request body did not arrive in time.")
FULL = RejectedBody(
    HTTPStatus.SERVICE_UNAVAILABLE, "Too many large request bodies are in progress. Retry later."
)
NO_LENGTH = RejectedBody(HTTPStatus.LENGTH_REQUIRED, "The header Content-Length is required.")
TOO_LONG = RejectedBody(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    f"The headers are too large: at most {MAX_HEADER_BYTES} bytes for each header and "
    f"{MAX_HEADERS_BYTES} for all headers are allowed.",
)
SEVERAL_HOSTS = RejectedBody(HTTPStatus.BAD_REQUEST, "The header Host is sent more than once.")
WRONG_HOST = RejectedBody(
    HTTPStatus.BAD_REQUEST, "The header Host is not a host name or address, with or without a port."
)
CODING = RejectedBody(HTTPStatus.NOT_IMPLEMENTED, "Only the transfer coding chunked is supported.")
OVERLOADED = RejectedBody(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "the server is overloaded: the request waited for longer than [api] queue_timeout",
)
STOPPING = RejectedBody(HTTPStatus.SERVICE_UNAVAILABLE, "the server is stopping")


class ReadBody(BytesIO):
    """A request body that has been read completely."""


def set_body(environ: dict[str, Any], data: bytes, amount: int) -> None:
    """Put a complete body into ``environ``, with its length in bytes.

    If the body was above the limit and has been dropped, ``amount`` is larger than ``data``.
    """
    environ["wsgi.input"] = ReadBody(data)
    environ["wsgi.input_terminated"] = True
    environ["CONTENT_LENGTH"] = str(amount)
    environ.pop("HTTP_TRANSFER_ENCODING", None)


@dataclass(slots=True)
class Body:
    """The body of a request, while and after it is read.

    ``amount`` is its length in bytes, ``held`` its share of the memory for bodies. Once it is
    ``dropped``, ``pieces`` stay empty, and ``rejection`` is the error for the client. ``ended`` is
    true if the body was read completely, so that the connection can be reused.
    """

    data: bytes = b""
    amount: int = 0
    held: int = 0
    rejection: RejectedBody | None = None
    ended: bool = False
    dropped: bool = False
    pieces: list[bytes] = field(default_factory=list)


class BodyMemory:
    """Reader of bodies on the event loop, with limits on their time and memory.

    ``limit`` is the limit of a body and ``total`` the limit of all bodies together, in bytes.
    Bodies of more than ``MAX_UNCOUNTED_BYTES`` bytes occupy it until :meth:`release`.
    """

    def __init__(self, limit: int, total: int) -> None:
        self._max_bytes = limit
        self._free_bytes = total

    async def read(self, environ: Mapping[str, Any], receive: Receive) -> Body:
        """Read the body of a request within the limits."""
        length = None if "HTTP_TRANSFER_ENCODING" in environ else length_of(environ)
        body = Body(dropped=length is not None and length > self._max_bytes)
        # With "Expect: 100-continue", a client does not send a body that is too large.
        is_waiting = environ.get("HTTP_EXPECT", "").lower() == "100-continue"
        if length is None or not body.dropped or not (is_waiting or length > MAX_DISCARDED_BYTES):
            body.ended = await self._fill(body, length, receive)
        body.data = b"".join(body.pieces)
        body.pieces.clear()
        if body.dropped and length is not None:
            body.amount = length
        return body

    def release(self, body: Body) -> None:
        """Release the memory of a body whose request has been answered."""
        self._free_bytes += body.held

    async def _fill(self, body: Body, length: int | None, receive: Receive) -> bool:
        """Read a body of ``length`` bytes (None: unknown).

        Returns whether it is complete.
        """
        now = asyncio.get_running_loop().time
        end, step = now() + MAX_DISCARD_SECONDS, BYTES_PER_WAIT
        try:
            async with asyncio.timeout_at(now() + MAX_BODY_WAIT) as deadline:
                while length is None or body.amount < length:
                    message = await receive()
                    self._add(body, message.get("body", b""))
                    if message["type"] == "http.disconnect":
                        self._drop(body, INCOMPLETE)
                        return False
                    if not message.get("more_body", False):
                        break
                    if body.amount > MAX_DISCARDED_BYTES:
                        return False
                    if body.amount >= step:
                        step = body.amount + BYTES_PER_WAIT
                        deadline.reschedule(now() + MAX_BODY_WAIT)
                    if body.dropped:
                        deadline.reschedule(min(end, deadline.when() or end))
        except TimeoutError:
            if not body.dropped:
                self._drop(body, SLOW)
            return False
        if length is not None and body.amount < length:
            self._drop(body, INCOMPLETE)
            return False
        return True

    def _add(self, body: Body, piece: bytes) -> None:
        body.amount += len(piece)
        if body.dropped:
            return
        more = body.amount - body.held if body.amount > MAX_UNCOUNTED_BYTES else 0
        if body.amount > self._max_bytes:
            self._drop(body, None)
        elif more > self._free_bytes:
            self._drop(body, FULL)
        else:
            self._free_bytes -= more
            body.held += more
            body.pieces.append(piece)

    def _drop(self, body: Body, rejection: RejectedBody | None) -> None:
        self._free_bytes += body.held
        body.held = 0
        body.dropped = True
        body.rejection = rejection
        body.pieces.clear()


class BodyReader:
    """WSGI middleware that reads the body of each request before ``inner`` answers it."""

    def __init__(self, inner: WSGI, limit: int) -> None:
        self._inner = inner
        self._max_bytes = limit
        # uwsgi closes the connections of its http-socket without a header.
        options = {str(name) for name in getattr(sys.modules.get("uwsgi"), "opt", ())}
        self._closes = "http-socket" in options and "http11-socket" not in options
        self._closes_unread = "uwsgi" in sys.modules

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        is_ended = True
        if not isinstance(environ["wsgi.input"], ReadBody):
            try:
                is_ended = _read_body(environ, self._max_bytes)
            except Exception:  # noqa: BLE001 - each server has its own for a client that is gone
                environ[REJECTED_BODY_KEY] = INCOMPLETE
                is_ended = False
        # uwsgi closes the connection after an unread body, without the header Connection.
        if self._closes or (self._closes_unread and not is_ended):
            start_response = _add_connection_close(start_response)
        rejection: RejectedBody | None = environ.get(REJECTED_BODY_KEY)
        if rejection is None:
            return self._inner(environ, start_response)
        body = plain_error(environ, rejection.status, rejection.detail)
        return json_answer(environ, start_response, rejection.status, body)


def _read_body(environ: dict[str, Any], max_bytes: int) -> bool:
    """Replace the stream in ``environ`` by the complete body.

    Returns whether the body was read.
    """
    length = None if "HTTP_TRANSFER_ENCODING" in environ else length_of(environ)
    if length is None and not environ.get("wsgi.input_terminated"):
        environ[REJECTED_BODY_KEY] = NO_LENGTH
        return False
    if length == 0:
        environ["wsgi.input"] = ReadBody()
        return environ.get("CONTENT_LENGTH", "") in {"", "0"}  # an invalid number hides a body
    data, amount = _read_stream(environ["wsgi.input"], length, max_bytes)
    if length is not None and amount < length <= max_bytes:
        environ[REJECTED_BODY_KEY] = INCOMPLETE
        return False
    set_body(environ, data, length or amount)
    return (length or amount) <= MAX_DISCARDED_BYTES


def length_of(environ: Mapping[str, Any]) -> int:
    """Return the announced length of a body, 0 if it is missing or invalid."""
    text: str = environ.get("CONTENT_LENGTH") or ""
    # The application rejects an invalid length that a server did not reject.
    return int(text) if text.isascii() and text.isdigit() else 0


def _read_stream(stream: IO[bytes], length: int | None, max_bytes: int) -> tuple[bytes, int]:
    """Read a body, and return it (empty if above the limit) and its size in bytes."""
    pieces: list[bytes] = []
    amount = 0
    if length is not None and length > MAX_DISCARDED_BYTES:
        return b"", 0  # the body remains unread
    end = MAX_DISCARDED_BYTES + 1 if length is None else length
    while amount < end and (piece := stream.read(min(end - amount, _READ_SIZE))):
        amount += len(piece)
        if (length or amount) <= max_bytes:
            pieces.append(piece)
        else:
            pieces.clear()
    return b"".join(pieces), amount


def _add_connection_close(start_response: StartResponse) -> StartResponse:
    def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
        return start_response(status, [*headers, ("Connection", "close")], *rest)

    return start


def check_headers(scope: Mapping[str, Any]) -> RejectedBody | None:
    """Return the error of a request with too long or ambiguous headers, or None."""
    if _is_too_long(scope["headers"]):
        return TOO_LONG
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    # RFC 9112, 3.2. granian adds an empty header if it is missing. Clients may also send that.
    if len(hosts) > 1:
        return SEVERAL_HOSTS
    if hosts and not _HOST.fullmatch(hosts[0].strip(b" \t")):
        return WRONG_HOST
    # RFC 9112, 6.1: otherwise the encoded body would be read as the body itself.
    codings = [value for name, value in scope["headers"] if name == b"transfer-encoding"]
    if codings and b",".join(codings).strip(b" \t").lower() != _CHUNKED:
        return CODING
    return None


def _is_too_long(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    total = sum(len(name) + len(value) for name, value in headers)
    if total <= MAX_HEADER_BYTES:
        return False
    lengths: Counter[bytes] = Counter()
    for name, value in headers:
        lengths[name] += len(name) + len(value)
    return total > MAX_HEADERS_BYTES or max(lengths.values()) > MAX_HEADER_BYTES


class WsgiResponse(NamedTuple):
    """The WSGI application's answer, and a function to call once it is sent."""

    status: int
    headers: list[tuple[bytes, bytes]]
    content: bytes
    close: Callable[[], None]


class _WaitResult(Enum):
    TURN = "a thread is free"
    GONE = "the client is gone"
    LATE = "the request has waited too long"


class AsgiToWsgi:
    """ASGI application that runs a WSGI application on threads.

    ``stopping`` is a function that returns true shortly before the server stops. From then on, the
    server reports that it is not ready, and each answer closes its connection, so that a proxy
    sends its next request to another server.
    """

    def __init__(
        self,
        application: WSGI,
        *,
        limit: int,
        threads: int,
        patience: float = 0,
        stopping: Callable[[], bool] = bool,
    ) -> None:
        self._application = application
        self._executor = ThreadPoolExecutor(threads, "request")
        # Requests wait on the event loop, since they could not be removed from the executor.
        self._requests, self._readiness = asyncio.Semaphore(threads), asyncio.Semaphore(1)
        self._bodies = BodyMemory(limit, total=threads * limit)
        self._queue_timeout = patience
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        environ = self._build_environ(scope)
        body = None
        if "CONTENT_LENGTH" in environ or "HTTP_TRANSFER_ENCODING" in environ:
            body = await self._bodies.read(environ, receive)
            set_body(environ, body.data, body.amount)
        else:
            environ["wsgi.input"] = ReadBody()
        is_ended = body is None or body.ended
        rejection = check_headers(scope)
        # A proxy may parse ambiguous headers differently, and find another begin of the next
        # request (request smuggling).
        closes = rejection is not None or not is_ended
        respond = partial(self._respond, environ, send, closes)
        try:
            rejection = rejection or (body.rejection if body else None)
            disconnect = receive if is_ended else None
            for sent in await self._answer(environ, rejection, respond, disconnect):
                await sent
        finally:
            if body is not None:
                self._bodies.release(body)

    async def _answer(
        self,
        environ: dict[str, Any],
        rejection: RejectedBody | None,
        respond: Callable[..., Sent],
        receive: Receive | None,
    ) -> Sent:
        """Answer a request, on a thread if needed.

        Returns the results of sending each message, which must be awaited.

        ``receive`` is called to detect that the client is gone. It is None if a part of the body is
        unread.
        """
        is_readiness = _is_readiness(environ)
        if is_readiness and self._stopping():
            rejection = STOPPING
        if rejection is not None or _is_liveness(environ):
            return respond(rejection)
        threads = self._readiness if is_readiness else self._requests
        if threads.locked():
            result = await self._wait_for_turn(threads, receive)
            if result is not _WaitResult.TURN:
                return () if result is _WaitResult.GONE else respond(OVERLOADED)
        else:
            await threads.acquire()
        try:
            return await (_on_own_thread(respond) if is_readiness else self._on_thread(respond))
        finally:
            threads.release()

    async def _wait_for_turn(
        self, threads: asyncio.Semaphore, receive: Receive | None
    ) -> "_WaitResult":
        """Wait until a thread is free, the client is gone, or the time is over."""
        turn = asyncio.create_task(threads.acquire())
        gone = asyncio.create_task(_wait_for_disconnect(receive)) if receive else None
        tasks: list[asyncio.Task[Any]] = [turn, gone] if gone else [turn]
        timeout = self._queue_timeout or None
        try:
            await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # the server stops
            if turn.done():
                threads.release()
            raise
        finally:
            if gone:
                gone.cancel()
            if not turn.done():
                turn.cancel()
        if turn.done():
            return _WaitResult.TURN
        return (
            _WaitResult.GONE if gone and gone.done() and not gone.cancelled() else _WaitResult.LATE
        )

    async def _on_thread(self, respond: Callable[[], Sent]) -> Sent:
        return await asyncio.get_running_loop().run_in_executor(self._executor, respond)

    def _respond(
        self,
        environ: dict[str, Any],
        send: Send,
        closes: bool,
        rejection: RejectedBody | None = None,
    ) -> Sent:
        """Answer and send on this thread, since the event loop may be busy for a while."""
        if rejection is not None:
            environ[REJECTED_BODY_KEY] = rejection
        answer = _run_application(self._application, environ)
        headers = answer.headers
        if closes or self._stopping():
            headers.append((b"connection", b"close"))
        sent = (
            send({"type": "http.response.start", "status": answer.status, "headers": headers}),
            send({"type": "http.response.body", "body": answer.content}),
        )
        try:
            answer.close()
        except Exception:
            LOG.exception("the application failed after its answer to %s", environ["PATH_INFO"])
        return sent

    def _build_environ(self, scope: Scope) -> dict[str, Any]:
        """Return the WSGI environ of a request (PEP 3333), without its body."""
        environ: dict[str, Any] = dict(_CONSTANT_ENVIRON)
        for name, value in scope["headers"]:
            key = _get_environ_key(name)
            if key in environ:
                separator = ";" if key == "HTTP_COOKIE" else ","
                environ[key] += separator + value.decode("latin-1")
            elif key:
                environ[key] = value.decode("latin-1")
        path: bytes = scope["raw_path"]
        environ["REQUEST_METHOD"] = scope["method"]
        environ["PATH_INFO"] = (unquote_to_bytes(path) if b"%" in path else path).decode("latin-1")
        environ["QUERY_STRING"] = scope["query_string"].decode("latin-1")
        environ["SERVER_PROTOCOL"] = _PROTOCOLS[scope["http_version"]]
        environ["SERVER_NAME"], environ["SERVER_PORT"] = scope["server"]
        environ["REMOTE_ADDR"], environ["REMOTE_PORT"] = scope["client"]
        environ["wsgi.url_scheme"] = scope["scheme"]
        return environ


@lru_cache(maxsize=500)  # clients may invent names
def _get_environ_key(name: bytes) -> str:
    """Return the environ key of a header, or "" for a header to drop."""
    if b"_" in name:  # would replace the header with a hyphen, which a proxy may have checked
        return ""
    return _CONTENT_KEYS.get(name) or "HTTP_" + name.decode("latin-1").upper().replace("-", "_")


def _is_liveness(environ: Mapping[str, Any]) -> bool:
    return _health_path(environ) in _LIVENESS and not _is_readiness(environ)


def _is_readiness(environ: Mapping[str, Any]) -> bool:
    path = _health_path(environ)
    if path == _HEALTH:  # parsed as in the application: letters may be escaped
        return "ready" in parse_qs(environ["QUERY_STRING"], keep_blank_values=True)
    return path == _READINESS


def _health_path(environ: Mapping[str, Any]) -> str:
    return str(environ["PATH_INFO"]).removesuffix("/")


def _on_own_thread(respond: Callable[[], Sent]) -> "asyncio.Future[Sent]":
    """Answer on a daemon thread, so that it does not delay the end of the process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Sent] = loop.create_future()

    def answer() -> None:
        sent = respond()
        with suppress(RuntimeError):  # the loop is closed: the server has stopped
            loop.call_soon_threadsafe(set_result, sent)

    def set_result(sent: Sent) -> None:
        if not future.done():
            future.set_result(sent)

    Thread(target=answer, name="readiness", daemon=True).start()
    return future


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != _GONE:
        pass


def _run_application(application: WSGI, environ: dict[str, Any]) -> WsgiResponse:
    starts: list[tuple[str, list[tuple[str, str]]]] = []
    pieces: list[bytes] = []

    def start_response(
        status: str, headers: list[tuple[str, str]], _failure: Any = None
    ) -> Callable[[bytes], None]:
        starts.append((status, headers))
        return pieces.append

    close = _do_nothing
    try:
        parts = application(environ, start_response)
        close = getattr(parts, "close", _do_nothing)
        pieces.extend(parts)
        status, headers = starts[-1]
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return WsgiResponse(int(status[:3]), encoded, b"".join(pieces), close)
    except Exception:
        LOG.exception("%s %s", environ["REQUEST_METHOD"], environ["PATH_INFO"])
        message = b"The server failed; see its log."
        return WsgiResponse(500, [(b"content-type", b"text/plain")], message, close)


def _do_nothing() -> None:
    pass
