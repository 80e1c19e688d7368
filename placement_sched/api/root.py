"""``/``: which APIs are served here, in which versions, and where."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson

from placement_sched.api.microversion import Version
from placement_sched.api.origin import origin_of
from placement_sched.api.plain_errors import plain_error

_METHODS = ("GET", "HEAD")
#: What is served beside the APIs: for monitoring, without a token.
_BESIDE = (("health", "/healthz"), ("readiness", "/healthz/ready"), ("metrics", "/metrics"))


@dataclass(frozen=True, slots=True)
class Api:
    """One API: the first part of its paths, and the major version that is served below it.

    ``id`` and ``path`` are those of the major version (``v2.1`` at ``/compute/v2.1/``).
    ``oldest`` and ``newest`` are its microversions; both None where it has none.
    """

    name: str
    id: str
    path: str
    oldest: Version | None = None
    newest: Version | None = None

    @property
    def prefix(self) -> str:
        """The first part of its paths."""
        return f"/{self.name}"


class Root:
    """The WSGI application of ``/``, and of every path that nothing is served at."""

    def __init__(self, apis: Sequence[Api]) -> None:
        self._apis = tuple(apis)

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer one request."""
        more: list[tuple[str, str]] = []
        if environ.get("PATH_INFO", "") not in {"", "/"}:
            apis = ", ".join(api.prefix for api in self._apis)
            status = HTTPStatus.NOT_FOUND
            body = plain_error(environ, status, f"Nothing is served at this path; APIs: {apis}")
        elif environ["REQUEST_METHOD"] not in _METHODS:
            allowed = ", ".join(_METHODS)
            more.append(("Allow", allowed))
            status = HTTPStatus.METHOD_NOT_ALLOWED
            body = plain_error(environ, status, f"This document is only read. Allowed: {allowed}.")
        else:
            status, body = HTTPStatus.OK, self._document(environ)
        content = orjson.dumps(body)
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
        start_response(f"{int(status)} {status.phrase}", headers + more)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [content]

    def _document(self, environ: dict[str, Any]) -> dict[str, Any]:
        base = f"{origin_of(environ)}{environ.get('SCRIPT_NAME', '')}"
        return {
            "apis": [
                {
                    "name": api.name,
                    "versions": [
                        {
                            "id": api.id,
                            "status": "CURRENT",
                            "min_version": str(api.oldest) if api.oldest else None,
                            "max_version": str(api.newest) if api.newest else None,
                            "links": [{"rel": "self", "href": f"{base}{api.path}"}],
                        }
                    ],
                }
                for api in self._apis
            ],
            "links": [{"rel": rel, "href": f"{base}{path}"} for rel, path in _BESIDE],
        }
