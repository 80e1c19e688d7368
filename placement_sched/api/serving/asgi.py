"""``placement-sched serve``: an ASGI application that lets a WSGI application answer.

The event loop reads each request to its end; only then one of a few threads answers it. A client
that sends slowly, or not at all, or that does not read its answer, holds a connection and no
thread. See doc/decisions/0002 for the figures.

Where more is asked than can be answered, requests wait in their order, for a bounded time: what a
client has given up is not worked on, nor what has waited too long, so that the threads work for
clients who still listen. While clients give up, the newest request is answered first: the oldest
one's client would be gone before it has its answer.

Liveness, readiness and the refusals of what waited too long have a thread each, so that none of
them waits for the other requests, nor these for it: clients without a token may ask for the first
two without end.
"""

import asyncio
import logging
import sys
import time
from asyncio import AbstractEventLoop, Future
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote_to_bytes

from placement_sched.api.request_context import WSGI
from placement_sched.api.serving.body_reading import (
    REFUSED,
    Bodies,
    Body,
    BodyRefusal,
    Receive,
    Whole,
    complete,
)
from placement_sched.api.serving.framing import refusal_of

LOG = logging.getLogger(__name__)

#: granian sends when this is called, on whatever thread; what it returns has nothing left to do.
Send = Callable[[dict[str, Any]], Awaitable[None]]
Scope = Mapping[str, Any]

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
#: The most header names whose form in an environ is remembered; clients may invent names.
_NAMES = 500
#: The newest request is answered first for so many seconds after a client gave up.
_IMPATIENT = 1.0
_GONE = "http.disconnect"
#: The paths of ``api/root.py`` that say whether the service is well, each also with a slash at its
#: end. Where ``ready`` is in its query, the first asks for readiness.
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
    """What the WSGI application answered, and what it wants to be called once that is sent."""

    status: int
    headers: list[tuple[bytes, bytes]]
    content: bytes
    close: Callable[[], None]


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
        self._requests = _Threads(application, threads, patience, "request")
        # So that a server whose threads are all at work does not seem to be dead or unready. While
        # a database does not say whether it is ready, only the thread of readiness waits for it.
        self._liveness = _Threads(application, 1, 0, "liveness")
        self._readiness = _Threads(application, 1, patience, "readiness")
        self._refusals = _Threads(application, 1, 0, "refusal")
        self._bodies = Bodies(most, room=threads * most)
        self._names: dict[bytes, str] = {}
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        environ = self._environ(scope)
        body = None
        if "CONTENT_LENGTH" in environ or "HTTP_TRANSFER_ENCODING" in environ:
            body = await self._bodies.read(environ, receive)
            complete(environ, body.data, body.amount)
            if body.refusal is not None:
                environ[REFUSED] = body.refusal
        else:
            environ["wsgi.input"] = Whole()
        loop = asyncio.get_running_loop()
        answered: Future[Sequence[Awaitable[None]]] = loop.create_future()
        fault = refusal_of(scope)
        closes = partial(self._closes, body, fault)
        job = _Job(environ, loop, answered, time.monotonic(), send, closes)
        threads = self._threads_for(job)
        if fault is not None:
            environ[REFUSED] = fault
        waits = threads.answer(job)
        watches = tuple(self._watches(threads, job, body, receive)) if waits else ()
        try:
            for sent in await answered:
                await sent
        finally:
            for watch in watches:
                watch.cancel()
            if body is not None:
                self._bodies.release(body)

    def _threads_for(self, job: "_Job") -> "_Threads":
        """Return the threads that answer a request; refuse readiness once the server stops."""
        if job.is_liveness:
            return self._liveness
        if not job.is_readiness:
            return self._requests
        if not self._stopping():
            return self._readiness
        job.environ[REFUSED] = STOPPING
        return self._refusals

    def _watches(
        self, threads: "_Threads", job: "_Job", body: Body | None, receive: Receive
    ) -> Iterator[asyncio.Handle | asyncio.Task[None]]:
        """Watch a request that waits: whether its client goes, and whether it waits too long."""
        # Of a body that was refused the rest may still come.
        if body is None or body.ended:
            yield asyncio.create_task(_give_up_with_client(threads, job, receive))
        if threads.patience > 0:
            yield job.loop.call_later(threads.patience, self._refuse, threads, job)

    def _refuse(self, threads: "_Threads", job: "_Job") -> None:
        """Refuse a request that still waits, though all threads are at work."""
        if threads.take_back(job):
            job.environ[REFUSED] = OVERLOADED
            self._refusals.answer(job)

    def _closes(self, body: Body | None, fault: BodyRefusal | None) -> bool:
        """Return whether the connection ends with an answer that is sent now.

        Others may read such a head otherwise, and see the next request begin elsewhere.
        """
        unread = body is not None and not body.ended
        return unread or fault is not None or self._stopping()

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
        if len(self._names) < _NAMES:
            self._names[name] = key
        return key


class _Job(NamedTuple):
    """A request, since when it waits, and the future that gets what sending has left to do."""

    environ: dict[str, Any]
    loop: AbstractEventLoop
    answered: Future[Sequence[Awaitable[None]]]
    since: float
    send: Send
    #: Says whether the connection ends with an answer that is sent now.
    closes: Callable[[], bool]

    @property
    def is_liveness(self) -> bool:
        """Return whether this asks for what needs neither the database nor much time."""
        return self._path in _LIVENESS and not self.is_readiness

    @property
    def is_readiness(self) -> bool:
        """Return whether this asks if the server is to be given requests."""
        if self._path == _HEALTH:  # read as the application reads it, where a letter may be escaped
            return "ready" in parse_qs(self.environ["QUERY_STRING"], keep_blank_values=True)
        return self._path == _READINESS

    @property
    def _path(self) -> str:
        return str(self.environ["PATH_INFO"]).removesuffix("/")


class _Threads:
    """The threads that answer; further requests wait for the first that is free, in their order.

    What has waited for more than ``patience`` seconds (0: no bound) is refused, not worked on.
    While clients give up, the newest request is the next, after those that are refused. Of the idle
    ones the last to work is the next to work again: what it used is still at hand.
    """

    def __init__(self, application: WSGI, number: int, patience: float, name: str) -> None:
        self._application = application
        self.patience = patience
        self._lock = Lock()
        self._idle: list[SimpleQueue[_Job]] = []
        #: By their futures: which one a client gives up is found at once, however many wait.
        self._waiting: OrderedDict[Future[Sequence[Awaitable[None]]], _Job] = OrderedDict()
        self._newest_first_until = 0.0
        for index in range(number):
            Thread(target=self._work, name=f"{name}-{index}", daemon=True).start()

    def answer(self, job: _Job) -> bool:
        """Give a request to a thread, or let it wait for one; return whether it waits."""
        with self._lock:
            if not self._idle:
                self._waiting[job.answered] = job
                return True
            thread = self._idle.pop()
        thread.put(job)
        return False

    def give_up(self, job: _Job) -> None:
        """Drop a request that still waits; nothing is sent. One at work is answered to its end."""
        if self.take_back(job):
            self._newest_first_until = time.monotonic() + _IMPATIENT
            job.answered.set_result(())

    def take_back(self, job: _Job) -> bool:
        """Let a request wait no longer; return whether it did, and no thread has begun with it."""
        with self._lock:
            return self._waiting.pop(job.answered, None) is not None

    def _work(self) -> None:
        mine: SimpleQueue[_Job] = SimpleQueue()
        while True:
            self._answer(self._next(mine))

    def _next(self, mine: SimpleQueue[_Job]) -> _Job:
        with self._lock:
            while self._waiting:
                job = self._take()
                if job.answered.cancelled():  # the server stops
                    continue
                if self._is_late(job):
                    job.environ[REFUSED] = OVERLOADED
                return job
            self._idle.append(mine)
        return mine.get()

    def _take(self) -> _Job:
        """Take the request that is answered next from those that wait."""
        oldest = next(iter(self._waiting.values()))
        newest_first = time.monotonic() < self._newest_first_until and not self._is_late(oldest)
        return self._waiting.popitem(last=newest_first)[1]

    def _is_late(self, job: _Job) -> bool:
        return 0 < self.patience < time.monotonic() - job.since

    def _answer(self, job: _Job) -> None:
        """Answer and send on this thread: by the event loop, the answer would wait for that."""
        answer = _answer(self._application, job.environ)
        headers = answer.headers
        if job.closes():
            headers.append((b"connection", b"close"))
        sent = (
            job.send({"type": "http.response.start", "status": answer.status, "headers": headers}),
            job.send({"type": "http.response.body", "body": answer.content}),
        )
        try:
            answer.close()
        except Exception:
            LOG.exception("after the answer to %s", job.environ["PATH_INFO"])
        with suppress(RuntimeError):  # the loop is closed: the server has stopped
            job.loop.call_soon_threadsafe(_settle, job.answered, sent)


async def _give_up_with_client(threads: _Threads, job: _Job, receive: Receive) -> None:
    """Give a request up when its client closes the connection."""
    while (await receive())["type"] != _GONE:
        pass
    threads.give_up(job)


def _settle(answered: Future[Sequence[Awaitable[None]]], sent: Sequence[Awaitable[None]]) -> None:
    if not answered.done():
        answered.set_result(sent)


def _answer(application: WSGI, environ: dict[str, Any]) -> WsgiResponse:
    """Return what a WSGI application answers, whole."""
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
