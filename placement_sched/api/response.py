"""An answer as it goes out: status line, headers and body."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from http import HTTPStatus
from urllib.parse import quote

import orjson
from werkzeug.http import http_date

from placement_sched.api.call import Answer
from placement_sched.api.wsgi_types import StartResponse

JSON = "application/json"
#: The header that tells the id of a request, which the log has as well.
REQUEST_ID = "X-Openstack-Request-Id"

#: What means something in a URL, or is encoded already; all else is encoded.
_OF_URLS = "%/:?#[]@!$&'()*+,;=~"
#: Statuses whose answers have no body, and tell no length of one (RFC 9110).
_BARE = frozenset((HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED))
_LINES = {int(status): f"{int(status)} {status.phrase}" for status in HTTPStatus}


def content_of(answer: Answer) -> bytes:
    """Return the body as it goes out."""
    body = answer.body
    if body is None:
        return b""
    return body if isinstance(body, bytes) else orjson.dumps(body)


def send(
    answer: Answer,
    content: bytes,
    stamps: Mapping[str, str],
    method: str,
    start_response: StartResponse,
) -> Iterable[bytes]:
    """Start the response (WSGI) and return its body; ``stamps`` are headers of every answer."""
    headers: dict[str, str] = {}
    if answer.body is not None:
        headers["Content-Type"] = JSON
    if answer.last_modified is not None:
        headers["Last-Modified"] = _date(answer.last_modified.replace(microsecond=0))
        headers["Cache-Control"] = "no-cache"
    headers.update(answer.headers)
    headers.update(stamps)
    if "Location" in headers:
        headers["Location"] = quote(headers["Location"], safe=_OF_URLS)
    if answer.status not in _BARE:
        headers["Content-Length"] = str(len(content))
    start_response(_LINES[answer.status], list(headers.items()))
    return () if method == "HEAD" or answer.status in _BARE else (content,)


@lru_cache(maxsize=1000)  # most tell the second that it is
def _date(moment: datetime) -> str:
    return http_date(moment)
