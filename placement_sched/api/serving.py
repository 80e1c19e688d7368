# SPDX-License-Identifier: Apache-2.0
"""ASGI application of ``placement-sched serve`` for a WSGI application.

The event loop reads each request completely before a thread answers it. A client that sends or
reads slowly therefore occupies a connection, but no thread. See doc/decisions/0003 for the figures.

Requests wait for a thread in the order of arrival. A request that waits for longer than
``[api] queue_timeout`` is rejected, and a request whose client is gone is dropped. The event loop
itself answers liveness checks and rejections, and a separate thread answers readiness checks, so
that health checks never wait for other requests.
"""

import asyncio
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from http import HTTPStatus
from io import BytesIO
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote_to_bytes

from placement_sched.api.middleware import WSGI, StartResponse
from placement_sched.api.request import build_plain_error, send_json
from placement_sched.limits import (
    MAX_BODY_WAIT,
    MAX_DISCARD_SECONDS,
    MAX_DISCARDED_BYTES,
    MAX_HEADER_BYTES,
    MAX_HEADERS_BYTES,
    MAX_UNCOUNTED_BYTES,
)

LOG = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[dict[str, Any]]]
#: Sends a message of a response. granian sends during the call, which any thread may make. Awaiting
#: the result only completes the call.
Send = Callable[[dict[str, Any]], Awaitable[None]]
Scope = Mapping[str, Any]
Sent = Sequence[Awaitable[None]]

#: Bytes of a large body that must arrive in each ``MAX_BODY_WAIT``: 64 KiB a second.
BYTES_PER_WAIT = 640 * 2**10
#: The environ key of the :class:`RejectedBody` of a body that could not be read.
REJECTED_BODY_KEY = "placement_sched.body_rejected"
#: Bytes to read at once from the stream of a server.
_READ_SIZE = 2**18
#: A host name or an address in brackets, with an optional port, or nothing (RFC 3986). It has no
#: comma, which joins repeated headers.
_HOST = re.compile(
    r"(?:\[[0-9A-Za-z:.%~_-]+\]|(?:[A-Za-z0-9._~!$&'()*+;=-]|%[0-9A-Fa-f]{2})*)(?::[0-9]*)?"
)
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


class RejectedBody(NamedTuple):
    """Status and message for a request that is not passed to a handler."""

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
WRONG_HOST = RejectedBody(
    HTTPStatus.BAD_REQUEST,
    "The header Host is not a single host name or address, with or without a port.",
)
CODING = RejectedBody(HTTPStatus.NOT_IMPLEMENTED, "Only the transfer coding chunked is supported.")
OVERLOADED = RejectedBody(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "the server is overloaded: the request waited for longer than [api] queue_timeout",
)
STOPPING = RejectedBody(HTTPStatus.SERVICE_UNAVAILABLE, "the server is stopping")


class ReadBody(BytesIO):
    """A request body that has been read completely."""


def set_body(environ: dict[str, Any], data: bytes, size: int) -> None:
    """Put a body into ``environ``. ``size`` may exceed a dropped body."""
    environ["wsgi.input"] = ReadBody(data)
    environ["wsgi.input_terminated"] = True
    environ["CONTENT_LENGTH"] = str(size)
    environ.pop("HTTP_TRANSFER_ENCODING", None)


@dataclass(slots=True)
class Body:
    """The body of a request, while and after it is read.

    ``size`` is its length in bytes, ``counted_bytes`` its share of the memory for bodies. If
    ``is_dropped`` is true, ``pieces`` stay empty, and ``rejection`` is the error for the client, or
    None if the application rejects the body for its size. ``is_complete`` is true if the body was
    read completely, so that the connection can be reused.
    """

    data: bytes = b""
    size: int = 0
    counted_bytes: int = 0
    rejection: RejectedBody | None = None
    is_complete: bool = True
    is_dropped: bool = False
    pieces: list[bytes] = field(default_factory=list)


_NO_BODY = Body()


class BodyMemory:
    """Reader of request bodies, with limits on their time and memory.

    ``limit`` is the limit of a body and ``total`` the limit of all bodies together, in bytes.
    Bodies of more than ``MAX_UNCOUNTED_BYTES`` bytes count towards ``total`` until
    :meth:`release`.
    """

    def __init__(self, limit: int, total: int) -> None:
        self._max_bytes = limit
        self._free_bytes = total

    async def read(self, environ: Mapping[str, Any], receive: Receive) -> Body:
        """Read the body of a request within the limits."""
        length = parse_length(environ)
        body = self.begin(length)
        # With "Expect: 100-continue", a client does not send a body that is too large.
        is_waiting = environ.get("HTTP_EXPECT", "").lower() == "100-continue"
        is_unread = body.is_dropped and (is_waiting or (length or 0) > MAX_DISCARDED_BYTES)
        body.is_complete = not is_unread and await self._fill(body, length, receive)
        body.data = b"".join(body.pieces)
        body.pieces.clear()
        if body.is_dropped and length is not None:
            body.size = length
        return body

    def begin(self, length: int | None) -> Body:
        """Begin a body of ``length`` bytes, or None if unknown."""
        return Body(is_dropped=length is not None and length > self._max_bytes)

    def add(self, body: Body, piece: bytes) -> None:
        """Add a piece to a body, or drop a body that does not fit."""
        body.size += len(piece)
        if body.is_dropped:
            return
        new_bytes = body.size - body.counted_bytes if body.size > MAX_UNCOUNTED_BYTES else 0
        if body.size > self._max_bytes:
            self._drop(body, None)
        elif new_bytes > self._free_bytes:
            self._drop(body, FULL)
        else:
            self._free_bytes -= new_bytes
            body.counted_bytes += new_bytes
            body.pieces.append(piece)

    def release(self, body: Body) -> None:
        """Release the memory of a body whose request has been answered."""
        self._free_bytes += body.counted_bytes

    async def _fill(self, body: Body, length: int | None, receive: Receive) -> bool:
        """Read a body (``length`` or None), and return whether it is complete."""
        now = asyncio.get_running_loop().time
        end, step = now() + MAX_DISCARD_SECONDS, BYTES_PER_WAIT
        has_more = True
        try:
            async with asyncio.timeout_at(now() + MAX_BODY_WAIT) as deadline:
                while has_more and (length is None or body.size < length):
                    message = await receive()
                    if message["type"] == _GONE:
                        break
                    self.add(body, message.get("body", b""))
                    has_more = message.get("more_body", False)
                    if has_more and body.size > MAX_DISCARDED_BYTES:
                        return False
                    if body.size >= step:
                        step = body.size + BYTES_PER_WAIT
                        deadline.reschedule(now() + MAX_BODY_WAIT)
                    if body.is_dropped:
                        deadline.reschedule(min(end, deadline.when() or end))
        except TimeoutError:
            if not body.is_dropped:
                self._drop(body, SLOW)
            return False
        if body.size < (length or 0) or (length is None and has_more):
            self._drop(body, INCOMPLETE)
            return False
        return True

    def _drop(self, body: Body, rejection: RejectedBody | None) -> None:
        self.release(body)
        body.counted_bytes, body.is_dropped, body.rejection = 0, True, rejection
        body.pieces.clear()


class BodyReader:
    """WSGI middleware that reads request bodies before ``inner`` is called."""

    def __init__(self, inner: WSGI, limit: int) -> None:
        self._inner = inner
        self._max_bytes = limit
        # uwsgi closes the connections of its http-socket without sending the header Connection.
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
        body = build_plain_error(environ, rejection.status, rejection.detail)
        return send_json(environ, start_response, rejection.status, body)


def _read_body(environ: dict[str, Any], max_bytes: int) -> bool:
    """Read the body into ``environ``, and return whether the stream ended.

    A body above ``max_bytes`` is read and dropped, so that the connection can be reused. A body
    above ``MAX_DISCARDED_BYTES`` is not read to its end.
    """
    length = parse_length(environ)
    if length is None and not environ.get("wsgi.input_terminated"):
        environ[REJECTED_BODY_KEY] = NO_LENGTH
        return False
    if length == 0:
        environ["wsgi.input"] = ReadBody()
        return environ.get("CONTENT_LENGTH", "") in {"", "0"}  # an invalid length may hide a body
    bodies = BodyMemory(max_bytes, total=max_bytes)
    body = bodies.begin(length)
    if length is None:  # chunked: a longer body shows at the first byte above the maximum
        end = MAX_DISCARDED_BYTES + 1
    else:
        end = length if length <= MAX_DISCARDED_BYTES else 0
    read = environ["wsgi.input"].read
    while body.size < end and (piece := read(min(end - body.size, _READ_SIZE))):
        bodies.add(body, piece)
    size = body.size if length is None else length
    if body.size < size <= max_bytes:
        environ[REJECTED_BODY_KEY] = INCOMPLETE
        return False
    set_body(environ, b"".join(body.pieces), size)
    return size <= MAX_DISCARDED_BYTES


def parse_length(environ: Mapping[str, Any]) -> int | None:
    """Return the length of a body, 0 if invalid, None if chunked."""
    if "HTTP_TRANSFER_ENCODING" in environ:
        return None
    text: str = environ.get("CONTENT_LENGTH") or ""
    # The application rejects an invalid length that a server did not reject.
    return int(text) if text.isascii() and text.isdigit() else 0


def _add_connection_close(start_response: StartResponse) -> StartResponse:
    def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
        return start_response(status, [*headers, ("Connection", "close")], *rest)

    return start


def check_headers(scope: Scope, environ: Mapping[str, Any]) -> RejectedBody | None:
    """Return the error if headers are too long or ambiguous, or None."""
    sizes: dict[bytes, int] = {}
    for name, value in scope["headers"]:
        sizes[name] = sizes.get(name, 0) + len(name) + len(value)
    if sum(sizes.values()) > MAX_HEADERS_BYTES or max(sizes.values(), default=0) > MAX_HEADER_BYTES:
        return TOO_LONG
    # RFC 9112, 3.2. granian adds an empty Host if it is missing. Clients may also send it empty.
    if not _HOST.fullmatch(environ.get("HTTP_HOST", "").strip(" \t")):
        return WRONG_HOST
    # RFC 9112, 6.1: otherwise the encoded body would be read as the body itself.
    coding = environ.get("HTTP_TRANSFER_ENCODING", "chunked").strip(" \t").lower()
    return None if coding == "chunked" else CODING


class AsgiToWsgi:
    """ASGI application that runs a WSGI application on threads.

    ``limit`` is the maximum size of a body in bytes. ``queue_timeout`` is the maximum wait for a
    thread in seconds (0: no maximum). ``stopping`` returns true shortly before the server stops.
    Then the server reports that it is not ready, and each response closes its connection, so that a
    proxy sends its next request to another server.
    """

    def __init__(
        self,
        application: WSGI,
        *,
        limit: int,
        threads: int,
        queue_timeout: float = 0,
        stopping: Callable[[], bool] = bool,
    ) -> None:
        self._application = application
        self._executor = ThreadPoolExecutor(threads, "request")
        # Requests wait on the event loop, since the executor cannot drop waiting requests.
        self._requests, self._readiness = asyncio.Semaphore(threads), asyncio.Semaphore(1)
        self._bodies = BodyMemory(limit, total=threads * limit)
        self._queue_timeout = queue_timeout or None
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        environ = _build_environ(scope)
        rejection = check_headers(scope, environ)
        body = _NO_BODY
        if "CONTENT_LENGTH" in environ or "HTTP_TRANSFER_ENCODING" in environ:
            body = await self._bodies.read(environ, receive)
            set_body(environ, body.data, body.size)
        # A proxy may parse ambiguous headers differently, and assume that the next request starts
        # elsewhere (request smuggling).
        closes = rejection is not None or not body.is_complete
        respond = partial(self._respond, environ, send, closes)
        try:
            disconnect = receive if body.is_complete else None
            sent = await self._dispatch(environ, rejection or body.rejection, respond, disconnect)
            for message in sent:
                await message
        finally:
            self._bodies.release(body)

    async def _dispatch(
        self,
        environ: dict[str, Any],
        rejection: RejectedBody | None,
        respond: Callable[..., Sent],
        receive: Receive | None,
    ) -> Sent:
        """Answer a request, on a thread if needed.

        ``receive`` detects that the client is gone. It is None if the body is unread.
        """
        check = _find_health_check(environ)
        if check == "ready" and self._stopping():
            rejection = STOPPING
        if rejection is not None or check == "live":
            return respond(rejection)
        threads = self._readiness if check else self._requests
        must_wait, gone = threads.locked(), None
        try:
            async with asyncio.timeout(self._queue_timeout if must_wait else None) as deadline:
                if must_wait and receive:
                    gone = asyncio.create_task(_end_at_disconnect(receive, deadline))
                await threads.acquire()
        except TimeoutError:
            return () if gone and gone.done() else respond(OVERLOADED)
        finally:
            if gone:
                gone.cancel()
        try:
            if check:
                return await _run_on_own_thread(respond)
            return await asyncio.get_running_loop().run_in_executor(self._executor, respond)
        finally:
            threads.release()

    def _respond(
        self,
        environ: dict[str, Any],
        send: Send,
        closes: bool,
        rejection: RejectedBody | None = None,
    ) -> Sent:
        """Answer and send on this thread, as the event loop may be busy."""
        if rejection is not None:
            environ[REJECTED_BODY_KEY] = rejection
        status, headers, content, close = _run_application(self._application, environ)
        if closes or self._stopping():
            headers.append((b"connection", b"close"))
        sent = (
            send({"type": "http.response.start", "status": status, "headers": headers}),
            send({"type": "http.response.body", "body": content}),
        )
        try:
            close()
        except Exception:
            LOG.exception("the application failed after its response to %s", environ["PATH_INFO"])
        return sent


def _build_environ(scope: Scope) -> dict[str, Any]:
    environ: dict[str, Any] = {**_CONSTANT_ENVIRON, "wsgi.input": ReadBody()}
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


def _find_health_check(environ: Mapping[str, Any]) -> str:
    """Return ``live`` or ``ready`` for a health check, "" for other requests."""
    match environ["PATH_INFO"].removesuffix("/"):
        case "/healthz":  # parsed as in the application: letters may be escaped
            query = parse_qs(environ["QUERY_STRING"], keep_blank_values=True)
            return "ready" if "ready" in query else "live"
        case "/healthz/live" | "/healthz/ready" as path:
            return str(path.removeprefix("/healthz/"))
    return ""


def _run_on_own_thread(respond: Callable[[], Sent]) -> "asyncio.Future[Sent]":
    """Run ``respond`` on a thread that does not delay the end of the process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Sent] = loop.create_future()

    def run() -> None:
        sent = respond()
        with suppress(RuntimeError):  # the loop is closed: the server has stopped
            loop.call_soon_threadsafe(set_result, sent)

    def set_result(sent: Sent) -> None:
        if not future.done():
            future.set_result(sent)

    Thread(target=run, name="readiness", daemon=True).start()
    return future


async def _end_at_disconnect(receive: Receive, deadline: asyncio.Timeout) -> None:
    while (await receive())["type"] != _GONE:
        pass
    with suppress(RuntimeError):  # the time is over
        deadline.reschedule(0)


def _run_application(
    application: WSGI, environ: dict[str, Any]
) -> tuple[int, list[tuple[bytes, bytes]], bytes, Callable[[], object]]:
    """Return status, headers, content and a function to call after sending."""
    starts: list[tuple[str, list[tuple[str, str]]]] = []
    pieces: list[bytes] = []

    def start_response(
        status: str, headers: list[tuple[str, str]], _failure: Any = None
    ) -> Callable[[bytes], None]:
        starts.append((status, headers))
        return pieces.append

    close: Callable[[], object] = bool
    try:
        parts = application(environ, start_response)
        close = getattr(parts, "close", close)
        pieces.extend(parts)
        status, headers = starts[-1]
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return int(status[:3]), encoded, b"".join(pieces), close
    except Exception:
        LOG.exception("%s %s", environ["REQUEST_METHOD"], environ["PATH_INFO"])
        message = b"The server failed; see its log."
        return 500, [(b"content-type", b"text/plain")], message, close
