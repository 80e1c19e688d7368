"""An answer as it goes out: status line, headers and body."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from html import escape
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import flask
import orjson
from werkzeug.datastructures import Headers
from werkzeug.http import http_date

from placement_sched.api.call import Answer
from placement_sched.api.errors import RETRY_AFTER
from placement_sched.api.request_context import StartResponse, context_of
from placement_sched.model.document import encoded

JSON = "application/json"
HTML = "text/html"
TEXT = "text/plain"

#: What means something in a URL, or is encoded already; all else is encoded.
_OF_URLS = "%/:?#[]@!$&'()*+,;=~"
#: Statuses whose answers have no body and no Content-Length (RFC 9110).
_BARE = frozenset((HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED))
_LINES = {int(status): f"{int(status)} {status.phrase}" for status in HTTPStatus}


class Response(flask.Response):
    """The response to a face's request, all of whose headers are set at once."""

    default_mimetype = None

    def __init__(self, answer: Answer, version_headers: Mapping[str, str]) -> None:
        """Encode ``answer``; ``version_headers`` are headers of every answer of its face."""
        body = answer.body
        headers: dict[str, str] = {}
        if body is not None:
            headers["Content-Type"] = JSON
        if answer.last_modified is not None:
            headers["Last-Modified"] = _date(answer.last_modified.replace(microsecond=0))
            headers["Cache-Control"] = "no-cache"
        headers.update(answer.headers)
        headers.update(version_headers)
        if "Location" in headers:
            headers["Location"] = quote(headers["Location"], safe=_OF_URLS)
        content: bytes | None = None
        if answer.status not in _BARE:
            ready = body is None or isinstance(body, bytes)
            content = (body or b"") if ready else encoded(body)
        super().__init__(content, _LINES[answer.status], list(headers.items()))

    def get_wsgi_headers(self, environ: dict[str, Any]) -> Headers:  # noqa: ARG002 - werkzeug's
        """Return the headers as they are; werkzeug would copy and check them once more."""
        return self.headers


@lru_cache(maxsize=1000)  # most show the current second
def _date(moment: datetime) -> str:
    return http_date(moment)


def page(kind: str, status: int, title: str, paragraphs: Sequence[str]) -> Answer:
    """Return an error for a client that does not accept JSON, as :data:`HTML` or :data:`TEXT`."""
    heading = f"{status} {title}"
    content = "\n\n".join((heading, *paragraphs)) + "\n"
    if kind == HTML:
        lines = "<br /><br />\n  ".join(escape(one, quote=False) for one in paragraphs)
        content = (
            f"<html>\n <head>\n  <title>{heading}</title>\n </head>\n"
            f" <body>\n  <h1>{heading}</h1>\n  {lines}<br /><br />\n </body>\n</html>\n"
        )
    headers = {"Content-Type": f"{kind}; charset=UTF-8"}
    return Answer(status=status, body=content.encode(), headers=headers)


def plain_error(environ: dict[str, Any], status: HTTPStatus, detail: str) -> dict[str, Any]:
    """Return the body of an error of no API, in placement's shape, with the ids that are known."""
    error: dict[str, Any] = {"status": int(status), "title": status.phrase, "detail": detail}
    if (known := context_of(environ)) is not None:
        error.update(known.ids.as_json())
    return {"errors": [error]}


def json_answer(
    environ: dict[str, Any], start_response: StartResponse, status: HTTPStatus, body: Any
) -> Sequence[bytes]:
    """Answer with JSON before Flask is asked (WSGI)."""
    content = orjson.dumps(body)
    headers = [("Content-Type", JSON), ("Content-Length", str(len(content)))]
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers.append(("Retry-After", str(RETRY_AFTER)))
    start_response(_LINES[status], headers)
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [content]
