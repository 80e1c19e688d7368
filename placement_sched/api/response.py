# SPDX-License-Identifier: Apache-2.0
"""The HTTP response of an answer, and the table of error statuses."""

from collections.abc import Mapping, Sequence
from html import escape
from http import HTTPStatus
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import flask
import orjson
from werkzeug.datastructures import Headers
from werkzeug.http import http_date

from placement_sched import errors
from placement_sched.api.auth import Unauthorized
from placement_sched.api.call import ApiResponse
from placement_sched.api.request_context import StartResponse, context_of
from placement_sched.api.versions import NotAcceptable
from placement_sched.model.document import encode

#: The message for a path that is not served.
NOT_FOUND = "The resource could not be found."
#: Seconds after which a client may retry if the database did not answer (503).
RETRY_AFTER = 1
JSON = "application/json"
HTML = "text/html"
TEXT = "text/plain"

#: The reserved characters of URLs, and the percent sign of encoded characters: not encoded.
_URL_SAFE = "%/:?#[]@!$&'()*+,;=~"
#: Statuses whose answers have no body and no Content-Length (RFC 9110).
_BODILESS = frozenset((HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED))
_STATUS_LINES = {int(status): f"{int(status)} {status.phrase}" for status in HTTPStatus}


class UnsupportedMediaType(errors.Error):
    """The route does not accept the content type of the body."""


class MethodNotAllowed(errors.Error):
    """The path does not support this method.

    ``allowed`` is the value of the header Allow.
    """

    def __init__(self, detail: str, allowed: Sequence[str] = ()) -> None:
        super().__init__(detail)
        self.allowed = tuple(allowed)


class TooLarge(errors.Error):
    """The body is larger than the configured limit."""


STATUSES: Mapping[type[errors.Error], HTTPStatus] = MappingProxyType(
    {
        errors.Invalid: HTTPStatus.BAD_REQUEST,
        Unauthorized: HTTPStatus.UNAUTHORIZED,
        errors.Forbidden: HTTPStatus.FORBIDDEN,
        errors.NotFound: HTTPStatus.NOT_FOUND,
        MethodNotAllowed: HTTPStatus.METHOD_NOT_ALLOWED,
        NotAcceptable: HTTPStatus.NOT_ACCEPTABLE,
        errors.Conflict: HTTPStatus.CONFLICT,
        TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        errors.LimitExceeded: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        UnsupportedMediaType: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        errors.NotSupported: HTTPStatus.NOT_IMPLEMENTED,
        errors.PluginFailed: HTTPStatus.INTERNAL_SERVER_ERROR,
        errors.ConfigurationError: HTTPStatus.INTERNAL_SERVER_ERROR,
        errors.Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    }
)


def status_of(error: errors.Error) -> HTTPStatus:
    """Return the status of ``error``, or of its nearest base class in the table."""
    statuses = (STATUSES[base] for base in type(error).__mro__ if base in STATUSES)
    return next(statuses, HTTPStatus.INTERNAL_SERVER_ERROR)


class Response(flask.Response):
    """The response of an API.

    All headers are set at once.
    """

    default_mimetype = None

    def __init__(self, answer: ApiResponse, version_headers: Mapping[str, str]) -> None:
        """Encode ``answer``.

        ``version_headers`` are the headers of all answers of the API.
        """
        body = answer.body
        headers: dict[str, str] = {}
        if body is not None:
            headers["Content-Type"] = JSON
        if answer.last_modified is not None:
            headers["Last-Modified"] = http_date(answer.last_modified)
            headers["Cache-Control"] = "no-cache"
        headers.update(answer.headers)
        headers.update(version_headers)
        if "Location" in headers:
            headers["Location"] = quote(headers["Location"], safe=_URL_SAFE)
        content: bytes | None = None
        if answer.status not in _BODILESS:
            is_encoded = body is None or isinstance(body, bytes)
            content = (body or b"") if is_encoded else encode(body)
        super().__init__(content, _STATUS_LINES[answer.status], list(headers.items()))

    def get_wsgi_headers(self, environ: dict[str, Any]) -> Headers:  # noqa: ARG002 - werkzeug's
        """Return the headers unchanged, since werkzeug would copy and check them."""
        return self.headers


def page(kind: str, status: int, title: str, paragraphs: Sequence[str]) -> ApiResponse:
    """Render an error as :data:`HTML` or :data:`TEXT`, for clients that do not accept JSON."""
    heading = f"{status} {title}"
    content = "\n\n".join((heading, *paragraphs)) + "\n"
    if kind == HTML:
        lines = "<br /><br />\n  ".join(escape(text, quote=False) for text in paragraphs)
        content = (
            f"<html>\n <head>\n  <title>{heading}</title>\n </head>\n"
            f" <body>\n  <h1>{heading}</h1>\n  {lines}<br /><br />\n </body>\n</html>\n"
        )
    headers = {"Content-Type": f"{kind}; charset=UTF-8"}
    return ApiResponse(status=status, body=content.encode(), headers=headers)


def plain_error(environ: dict[str, Any], status: HTTPStatus, detail: str) -> dict[str, Any]:
    """Return the body of an error outside of the APIs, in placement's format."""
    error: dict[str, Any] = {"status": int(status), "title": status.phrase, "detail": detail}
    if (context := context_of(environ)) is not None:
        error.update(context.ids.as_json())
    return {"errors": [error]}


def json_answer(
    environ: dict[str, Any], start_response: StartResponse, status: HTTPStatus, body: Any
) -> Sequence[bytes]:
    """Answer a WSGI request with JSON, without Flask."""
    content = orjson.dumps(body)
    headers = [("Content-Type", JSON), ("Content-Length", str(len(content)))]
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers.append(("Retry-After", str(RETRY_AFTER)))
    start_response(_STATUS_LINES[status], headers)
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [content]
