"""``/healthz``: whether this process lives, and whether it could serve a request.

Needs no token. ``/healthz`` and ``/healthz/live`` answer 200 while the process lives;
``/healthz/ready`` and ``/healthz?ready`` answer 503 while the database does not answer or is not
prepared.
"""

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

import orjson

from placement_sched.api.errors import RETRY_AFTER
from placement_sched.api.services import Services
from placement_sched.errors import Unavailable
from placement_sched.store import liveness

_METHODS = ("GET", "HEAD")


class Health:
    """The WSGI application of ``/healthz``."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer one request."""
        status, body = self._answer(environ)
        content = orjson.dumps(body)
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(content))),
            ("Cache-Control", "no-store"),
        ]
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("Allow", ", ".join(_METHODS)))
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers.append(("Retry-After", str(RETRY_AFTER)))
        start_response(f"{int(status)} {status.phrase}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [content]

    def _answer(self, environ: dict[str, Any]) -> tuple[HTTPStatus, dict[str, str]]:
        if environ["REQUEST_METHOD"] not in _METHODS:
            return HTTPStatus.METHOD_NOT_ALLOWED, {"status": "only GET and HEAD are served"}
        path = environ.get("PATH_INFO", "").rstrip("/")
        query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        if path == "/ready" or (not path and "ready" in query):
            return self._readiness()
        if path in {"", "/live"}:
            return HTTPStatus.OK, {"status": "live"}
        return HTTPStatus.NOT_FOUND, {"status": "there are /healthz/live and /healthz/ready"}

    def _readiness(self) -> tuple[HTTPStatus, dict[str, str]]:
        try:
            self._services.ready()
            with self._services.database.read() as connection:
                liveness.ask(connection)
        except Unavailable as failure:
            return HTTPStatus.SERVICE_UNAVAILABLE, {"status": "not ready", "reason": failure.detail}
        return HTTPStatus.OK, {"status": "ready"}
