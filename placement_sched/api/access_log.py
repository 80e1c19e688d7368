"""The access log: one line per request in the common format, with its request id and time."""

import logging
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

LOG = logging.getLogger(__name__)

WSGI = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


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
        target = _target(environ)
        seen: dict[str, Any] = {}

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            seen["status"] = status.partition(" ")[0]
            seen["headers"] = {name.lower(): value for name, value in headers}
            return start_response(status, headers, *rest)

        body = self._inner(environ, start)
        headers = seen.get("headers", {})
        LOG.info(
            '%s - %s [%s] "%s %s %s" %s %s %s %.1f ms',
            environ.get("REMOTE_ADDR") or "-",
            _user(environ),
            datetime.now().astimezone().strftime("%d/%b/%Y:%H:%M:%S %z"),
            environ.get("REQUEST_METHOD", "-"),
            target,
            environ.get("SERVER_PROTOCOL", "-"),
            seen.get("status", "-"),
            headers.get("content-length", "-"),
            headers.get("x-openstack-request-id", "-"),
            (time.perf_counter() - began) * 1000,
        )
        return body


def _target(environ: dict[str, Any]) -> str:
    """Return the path and query as sent, safe to print: taken before ``inner`` shifts the path."""
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    query = environ.get("QUERY_STRING", "")
    return _printable(f"{path}?{query}" if query else path)


def _user(environ: dict[str, Any]) -> str:
    """Return the user whom keystonemiddleware confirmed; a noauth2 token is never logged."""
    if environ.get("HTTP_X_IDENTITY_STATUS") != "Confirmed":
        return "-"
    return _printable(environ.get("HTTP_X_USER_ID") or "-").replace(" ", "_")


def _printable(text: str) -> str:
    """Return ``text`` with what could forge another line, or end the quotes, escaped."""
    return "".join(
        char if char.isprintable() and char not in '"\\' else f"\\x{ord(char):02x}" for char in text
    )
