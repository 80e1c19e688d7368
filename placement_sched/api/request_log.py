"""The access log: one line per request in the common format, with its request id and time."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any

from placement_sched.api.metrics import asked_of
from placement_sched.api.request_context import WSGI, RequestContext, context_of
from placement_sched.model.request_stats import request_stats
from placement_sched.scheduler.explain.funnel import sentence_of, spent_by

LOG = logging.getLogger(__name__)


class AccessLog:
    """A WSGI application that logs each request to ``inner``.

    The line is the common log format of Apache httpd (host, ident, user, time, request line,
    status, bytes), then the request id and the milliseconds until the answer was ready.
    """

    def __init__(self, inner: WSGI) -> None:
        self._inner = inner

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer by ``inner``; log what it answered."""
        if not LOG.isEnabledFor(logging.INFO):
            return self._inner(environ, start_response)
        began = time.perf_counter()
        # As sent: taken before ``inner`` shifts the path.
        path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        query = environ.get("QUERY_STRING", "")
        target = _printable(f"{path}?{query}" if query else path)
        status, headers = "-", {}

        def start(answered: str, with_headers: list[tuple[str, str]], *rest: Any) -> Any:
            nonlocal status, headers
            status = answered.partition(" ")[0]
            headers = {name.lower(): value for name, value in with_headers}
            return start_response(answered, with_headers, *rest)

        body = self._inner(environ, start)
        took = round((time.perf_counter() - began) * 1000, 1)

        def log() -> None:
            context, asked = context_of(environ), asked_of(environ)
            # After a proxy it is what a header says, which may be any text.
            client = _word(environ.get("REMOTE_ADDR") or "")
            # As fields for [DEFAULT] use_json; the context has the ids, the user and the project.
            about = {
                "method": environ.get("REQUEST_METHOD"),
                "path": target,
                "face": asked.face if asked else None,
                "route": asked.route if asked else None,
                "status": int(status) if status.isdecimal() else None,
                "duration_ms": took,
                "client": client or None,
            }
            LOG.info(
                '%s - %s [%s] "%s %s %s" %s %s %s %.1f ms',
                client or "-",
                _user(context),
                _at(int(time.time())),
                environ.get("REQUEST_METHOD", "-"),
                target,
                environ.get("SERVER_PROTOCOL", "-"),
                status,
                headers.get("content-length", "-"),
                headers.get("x-openstack-request-id", "-"),
                took,
                extra={"context": context, "extra": about},
            )

        return _ThenLogged(body, log)


class _ThenLogged:
    """The parts of an answer; the server closes them once they are sent (PEP 3333)."""

    def __init__(self, body: Iterable[bytes], log: Callable[[], None]) -> None:
        self._body, self._log = body, log

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        """Close what there is to close, and write the line: the client does not wait for it."""
        try:
            if hasattr(self._body, "close"):
                self._body.close()
        finally:
            self._log()


@lru_cache(maxsize=1)
def _at(second: int) -> str:
    """Return the time as the common log format has it: once for all requests of a second."""
    return datetime.fromtimestamp(second).astimezone().strftime("%d/%b/%Y:%H:%M:%S %z")


def _user(context: RequestContext | None) -> str:
    """Return the user that the identity service confirmed.

    Never what a client says in a header: and not the user of a noauth2 token, which is no more
    than that, and may be a real token sent to the wrong place.
    """
    if context is None or not context.user_id:
        return "-"
    return _word(context.user_id)


def _word(text: str) -> str:
    """Return ``text`` as one word of a line."""
    return _printable(text).replace(" ", "_")


def _printable(text: str) -> str:
    """Return ``text`` with what could forge another line, or end the quotes, escaped."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return "".join(
        char if char.isprintable() and char not in '"\\' else f"\\x{ord(char):02x}" for char in text
    )


def watching(application: WSGI, seconds: float) -> WSGI:
    """Return ``application``, logging requests that take so many ``seconds`` or more; 0 logs none.

    To be put inside of :func:`~placement_sched.api.metrics.counted`, which begins new statistics.
    """
    if not seconds:
        return application

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        began = time.perf_counter()

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            took = time.perf_counter() - began
            if took >= seconds:
                _log(environ, status.partition(" ")[0], took)
            return start_response(status, headers, *rest)

        return application(environ, start)

    return serve


def _log(environ: dict[str, Any], status: str, took: float) -> None:
    asked = asked_of(environ)
    what = f"{asked.method} /{asked.face}{asked.route}" if asked else "a request beside the APIs"
    spent = spent_by(request_stats())
    about = {"status": int(status), "duration_ms": round(took * 1000, 1), **spent}
    if asked:
        about |= asked._asdict()
    LOG.warning(
        "slow: %s took %.1f s (status %s); %s",
        what,
        took,
        status,
        sentence_of(spent),
        extra={"context": context_of(environ), "extra": about},
    )
