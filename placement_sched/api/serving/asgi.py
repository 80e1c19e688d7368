"""``placement-sched serve``: an ASGI application around a WSGI application.

The event loop reads each request to its end; only then a thread answers it. A client that sends
slowly, or not at all, or that does not read its answer, holds a connection and no thread. See
doc/decisions/0002 for the figures.

Requests wait for a thread in their order. A request that has waited for longer than
``[api] queue_timeout`` is refused, and one whose client is gone is dropped. Liveness, and each
refusal, is answered by the event loop itself, and readiness by a thread of its own, so that they
never wait for other requests.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from enum import Enum
from functools import partial
from http import HTTPStatus
from threading import Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote_to_bytes

from placement_sched.api.request_context import WSGI
from placement_sched.api.serving.body_reading import (
    REFUSED,
    Bodies,
    BodyRefusal,
    Receive,
    Whole,
    complete,
)
from placement_sched.api.serving.framing import refusal_of

LOG = logging.getLogger(__name__)

#: granian sends when this is called, on any thread; awaiting what it returns only ends it.
Send = Callable[[dict[str, Any]], Awaitable[None]]
Scope = Mapping[str, Any]
Sent = Sequence[Awaitable[None]]

_SAME_FOR_ALL = {
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
_PLAIN = {b"content-type": "CONTENT_TYPE", b"content-length": "CONTENT_LENGTH"}
#: Maximum number of header names whose environ key is cached; clients may invent names.
_MAX_NAMES = 500
_GONE = "http.disconnect"
#: The paths of ``api/root.py`` that report health, each also with a slash at its end. With
#: ``ready`` in its query, the first is about readiness.
_HEALTH = "/healthz"
_LIVENESS = {_HEALTH, f"{_HEALTH}/live"}
_READINESS = f"{_HEALTH}/ready"
OVERLOADED = BodyRefusal(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "the server has more requests than it can answer; this one waited for longer than "
    "[api] queue_timeout",
)
STOPPING = BodyRefusal(HTTPStatus.SERVICE_UNAVAILABLE, "the server is stopping")


class WsgiResponse(NamedTuple):
    """The answer of the WSGI application, and a function to call once it is sent."""

    status: int
    headers: list[tuple[bytes, bytes]]
    content: bytes
    close: Callable[[], None]


class _Ending(Enum):
    """How the wait of a request for a thread ends."""

    TURN = "a thread is free"
    GONE = "the client is gone"
    LATE = "the request has waited too long"


class Bridge:
    """The ASGI application.

    Once ``stopping`` returns true, the server is not ready, and each answer closes its connection:
    a proxy takes its next request to another server before this one refuses connections.
    """

    def __init__(
        self,
        application: WSGI,
        *,
        most: int,
        threads: int,
        patience: float = 0,
        stopping: Callable[[], bool] = bool,
    ) -> None:
        self._application = application
        self._executor = ThreadPoolExecutor(threads, "request")
        # Requests wait on the event loop, from which they can go; the executor keeps what it has.
        self._requests, self._readiness = asyncio.Semaphore(threads), asyncio.Semaphore(1)
        self._bodies = Bodies(most, room=threads * most)
        self._patience = patience
        self._names: dict[bytes, str] = {}
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        environ = self._environ(scope)
        body = None
        if "CONTENT_LENGTH" in environ or "HTTP_TRANSFER_ENCODING" in environ:
            body = await self._bodies.read(environ, receive)
            complete(environ, body.data, body.amount)
        else:
            environ["wsgi.input"] = Whole()
        is_ended = body is None or body.ended
        refusal = refusal_of(scope)
        # Others may read such a head differently, and see the next request begin elsewhere.
        closes = refusal is not None or not is_ended
        respond = partial(self._respond, environ, send, closes)
        try:
            refusal = refusal or (body.refusal if body else None)
            watched = receive if is_ended else None
            for sent in await self._answer(environ, refusal, respond, watched):
                await sent
        finally:
            if body is not None:
                self._bodies.release(body)

    async def _answer(
        self,
        environ: dict[str, Any],
        refusal: BodyRefusal | None,
        respond: Callable[..., Sent],
        receive: Receive | None,
    ) -> Sent:
        """Answer a request on a thread, if one is needed; return what sending has left to do.

        ``receive`` reports that the client is gone; None if the rest of a body may still come.
        """
        is_readiness = _is_readiness(environ)
        if is_readiness and self._stopping():
            refusal = STOPPING
        if refusal is not None or _is_liveness(environ):
            return respond(refusal)
        threads = self._readiness if is_readiness else self._requests
        if threads.locked():
            ending = await self._wait_for_turn(threads, receive)
            if ending is not _Ending.TURN:
                return () if ending is _Ending.GONE else respond(OVERLOADED)
        else:
            await threads.acquire()
        try:
            return await (_on_own_thread(respond) if is_readiness else self._on_thread(respond))
        finally:
            threads.release()

    async def _wait_for_turn(
        self, threads: asyncio.Semaphore, receive: Receive | None
    ) -> "_Ending":
        """Wait until a thread is free, the client is gone, or the request is late."""
        turn = asyncio.create_task(threads.acquire())
        gone = asyncio.create_task(_client_gone(receive)) if receive else None
        ends: list[asyncio.Task[Any]] = [turn, gone] if gone else [turn]
        timeout = self._patience or None
        try:
            await asyncio.wait(ends, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
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
            return _Ending.TURN
        return _Ending.GONE if gone and gone.done() and not gone.cancelled() else _Ending.LATE

    async def _on_thread(self, respond: Callable[[], Sent]) -> Sent:
        return await asyncio.get_running_loop().run_in_executor(self._executor, respond)

    def _respond(
        self, environ: dict[str, Any], send: Send, closes: bool, refusal: BodyRefusal | None = None
    ) -> Sent:
        """Answer and send, on this thread: the event loop may be busy for a while."""
        if refusal is not None:
            environ[REFUSED] = refusal
        answer = _answer(self._application, environ)
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
            LOG.exception("after the answer to %s", environ["PATH_INFO"])
        return sent

    def _environ(self, scope: Scope) -> dict[str, Any]:
        """Return the request as PEP 3333 has it, without its body."""
        environ: dict[str, Any] = dict(_SAME_FOR_ALL)
        for name, value in scope["headers"]:
            key = self._names.get(name) or self._key(name)
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

    def _key(self, name: bytes) -> str:
        """Return a header's key in an environ, "" for one that is dropped."""
        if b"_" in name:  # it would look like the one with a hyphen, which a proxy may have checked
            return ""
        key = _PLAIN.get(name) or "HTTP_" + name.decode("latin-1").upper().replace("-", "_")
        if len(self._names) < _MAX_NAMES:
            self._names[name] = key
        return key


def _is_liveness(environ: Mapping[str, Any]) -> bool:
    """Return whether a request needs neither the database nor much time."""
    return _health_path(environ) in _LIVENESS and not _is_readiness(environ)


def _is_readiness(environ: Mapping[str, Any]) -> bool:
    """Return whether a request is about the server's readiness."""
    path = _health_path(environ)
    if path == _HEALTH:  # as the application reads it, also with an escaped letter
        return "ready" in parse_qs(environ["QUERY_STRING"], keep_blank_values=True)
    return path == _READINESS


def _health_path(environ: Mapping[str, Any]) -> str:
    return str(environ["PATH_INFO"]).removesuffix("/")


def _on_own_thread(respond: Callable[[], Sent]) -> "asyncio.Future[Sent]":
    """Answer on a thread that does not keep the process from its end."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[Sent] = loop.create_future()

    def answer() -> None:
        sent = respond()
        with suppress(RuntimeError):  # the loop is closed: the server has stopped
            loop.call_soon_threadsafe(settle, sent)

    def settle(sent: Sent) -> None:
        if not answered.done():
            answered.set_result(sent)

    Thread(target=answer, name="readiness", daemon=True).start()
    return answered


async def _client_gone(receive: Receive) -> None:
    """Return once the client has closed the connection."""
    while (await receive())["type"] != _GONE:
        pass


def _answer(application: WSGI, environ: dict[str, Any]) -> WsgiResponse:
    """Return the whole answer of a WSGI application."""
    begun: list[tuple[str, list[tuple[str, str]]]] = []
    pieces: list[bytes] = []

    def start_response(
        status: str, headers: list[tuple[str, str]], _failure: Any = None
    ) -> Callable[[bytes], None]:
        begun.append((status, headers))
        return pieces.append

    close = _nothing
    try:
        parts = application(environ, start_response)
        close = getattr(parts, "close", _nothing)
        pieces.extend(parts)
        status, headers = begun[-1]
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        return WsgiResponse(int(status[:3]), encoded, b"".join(pieces), close)
    except Exception:
        LOG.exception("%s %s", environ["REQUEST_METHOD"], environ["PATH_INFO"])
        why = b"The server failed; see its log."
        return WsgiResponse(500, [(b"content-type", b"text/plain")], why, close)


def _nothing() -> None:
    """Do nothing."""
