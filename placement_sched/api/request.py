# SPDX-License-Identifier: Apache-2.0
"""Flask request and response of an API, and the statuses of errors."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from html import escape
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, NoReturn
from urllib.parse import parse_qsl, quote, unquote_to_bytes

import flask
import orjson
from flask.json.provider import JSONProvider
from werkzeug.datastructures import Headers
from werkzeug.http import http_date

from placement_sched import errors
from placement_sched.api.auth import ANONYMOUS, Identity, Unauthorized
from placement_sched.api.middleware import StartResponse, find_context
from placement_sched.api.routing import Api, ApiResponse, Route, RouteRule
from placement_sched.api.versions import NotAcceptable, Version
from placement_sched.errors import Invalid
from placement_sched.limits import MAX_JSON_BYTES, MAX_JSON_VALUES
from placement_sched.model.context import NO_REQUEST, RequestIds
from placement_sched.model.document import decode, encode

#: The message for a path that is not served.
NOT_FOUND = "The resource could not be found."
#: Seconds after which a client may retry if the database did not answer (503).
RETRY_AFTER = 1
JSON = "application/json"
HTML = "text/html"
TEXT = "text/plain"

#: Characters of URLs that are not encoded: the reserved characters, and the percent sign.
_URL_SAFE = "%/:?#[]@!$&'()*+,;=~"
#: Statuses whose responses have no body and no Content-Length (RFC 9110).
_BODILESS = frozenset((HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED))
#: Phrases of statuses. Python 3.13 has the new phrases of RFC 9110 for four of them.
STATUS_PHRASES = {int(status): status.phrase for status in HTTPStatus} | {
    413: "Request Entity Too Large",
    414: "Request-URI Too Long",
    416: "Requested Range Not Satisfiable",
    422: "Unprocessable Entity",
}
_STATUS_LINES = {status: f"{status} {phrase}" for status, phrase in STATUS_PHRASES.items()}
Pairs = tuple[tuple[str, str], ...]
_USUAL_PORTS = {"http": ":80", "https": ":443"}
_QUERY_FAULT = "Invalid query string parameters"
#: An escaped NUL: an odd number of backslashes, then u0000.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


class UnsupportedMediaType(errors.Error):
    """The route does not accept the content type of the body."""


class MethodNotAllowed(errors.Error):
    """The path supports only the methods in ``allowed``."""

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


def get_status(error: errors.Error) -> HTTPStatus:
    """Return the status of ``error``, or of its nearest base class."""
    statuses = (STATUSES[base] for base in type(error).__mro__ if base in STATUSES)
    return next(statuses, HTTPStatus.INTERNAL_SERVER_ERROR)


class Response(flask.Response):
    """The response of an API."""

    default_mimetype = None

    def __init__(self, response: ApiResponse, version_headers: Mapping[str, str]) -> None:
        """Encode ``response``, with the version headers of the API."""
        body = response.body
        headers: dict[str, str] = {}
        if body is not None:
            headers["Content-Type"] = JSON
        if response.last_modified is not None:
            headers["Last-Modified"] = http_date(response.last_modified)
            headers["Cache-Control"] = "no-cache"
        headers.update(response.headers)
        headers.update(version_headers)
        if "Location" in headers:
            headers["Location"] = quote(headers["Location"], safe=_URL_SAFE)
        content: bytes | None = None
        if response.status not in _BODILESS:
            is_encoded = body is None or isinstance(body, bytes)
            content = (body or b"") if is_encoded else encode(body)
        super().__init__(content, _STATUS_LINES[response.status], list(headers.items()))

    def get_wsgi_headers(self, environ: dict[str, Any]) -> Headers:  # noqa: ARG002 - werkzeug's
        """Return the headers unchanged, since werkzeug would copy and check them."""
        return self.headers


def render_error_page(kind: str, status: int, title: str, paragraphs: Sequence[str]) -> ApiResponse:
    """Render an error as HTML or text, for clients that do not accept JSON."""
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


def build_plain_error(environ: dict[str, Any], status: HTTPStatus, detail: str) -> dict[str, Any]:
    """Return the body of an error outside of the APIs, in placement's format."""
    title = STATUS_PHRASES[status]
    error: dict[str, Any] = {"status": int(status), "title": title, "detail": detail}
    if (context := find_context(environ)) is not None:
        error.update(context.ids.as_json())
    return {"errors": [error]}


def send_json(
    environ: dict[str, Any], start_response: StartResponse, status: HTTPStatus, body: Any
) -> Sequence[bytes]:
    """Answer a WSGI request with JSON, without Flask."""
    content = orjson.dumps(body)
    headers = [("Content-Type", JSON), ("Content-Length", str(len(content)))]
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers.append(("Retry-After", str(RETRY_AFTER)))
    start_response(_STATUS_LINES[status], headers)
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [content]


class OrjsonProvider(JSONProvider):
    """JSON provider with orjson, without NUL, which PostgreSQL rejects."""

    def dumps(self, obj: Any, **kwargs: Any) -> str:  # noqa: ARG002 - Flask's signature
        """Return ``obj`` as JSON."""
        return encode(obj).decode()

    def loads(self, s: str | bytes, **kwargs: Any) -> Any:  # noqa: ARG002 - Flask's signature
        """Parse JSON, or raise :class:`ValueError` or :class:`TooLarge`."""
        text = s if isinstance(s, bytes) else s.encode()
        # An upper bound: commas and opening brackets.
        if (values := sum(map(text.count, (b",", b"[", b"{")))) > MAX_JSON_VALUES:
            raise TooLarge(
                f"The request body has {values} values, but at most {MAX_JSON_VALUES} are allowed."
            )
        document = decode(text)
        if b"u0000" in text and _NUL.search(text):
            raise ValueError("a NUL character (\\u0000) is not allowed")
        return document


class Request(flask.Request):
    """A request to an API, or to another path (then ``api`` is None).

    ``prefix`` and ``below`` are the two parts of the path: the mount point of the API, and the
    remainder, which begins with a single slash. ``identity`` and ``version`` are set by the checks.
    """

    url_rule: RouteRule | None = None
    api: Api | None = None
    prefix: str = ""
    below: str = "/"
    identity: Identity = ANONYMOUS
    version: Version | None = None

    def __init__(self, environ: dict[str, Any], *args: Any) -> None:
        super().__init__(environ, *args)
        #: The method as the client sent it: "get" is not GET (RFC 9110), but werkzeug converts it
        #: to GET.
        self.sent_method: str = environ["REQUEST_METHOD"]
        context = find_context(environ)
        self.ids: RequestIds = NO_REQUEST if context is None else context.ids

    @property
    def matched(self) -> Route | None:
        """Return a route of the path and method, for any version and action."""
        return None if self.url_rule is None else self.url_rule.route

    @property
    def version_headers(self) -> Mapping[str, str]:
        """Return the version headers of the response, once it is negotiated."""
        if self.api is None or self.version is None:
            return {}
        return self.api.conventions.build_version_headers(self.version)

    @property
    def base(self) -> str:
        """Return the prefix of links in responses (``/placement``)."""
        return f"{self.root_path.rstrip('/')}{self.prefix}"

    @cached_property
    def pairs(self) -> Pairs:
        """Return names and values of the query, with invalid UTF-8 replaced."""
        if not self.query_string:
            return ()
        return tuple(parse_qsl(self.query_string.decode(errors="replace"), keep_blank_values=True))

    def on_json_loading_failed(self, e: ValueError | None) -> NoReturn:
        """Raise :class:`Invalid` for a body that is not JSON."""
        raise Invalid(f"Malformed JSON: {e}") from None

    def check_content_headers(self) -> None:
        """Raise :class:`Invalid` for a body without type or numeric length."""
        length = self.environ.get("CONTENT_LENGTH")
        if not length:
            return
        try:
            int(length)
        except ValueError:  # some servers do not check it
            raise Invalid(f"content-length header must be an integer. Got: {length}") from None
        if not self.content_type and self.content_length:
            raise Invalid("content-type header required: the body has no type.")

    def check_content_type(self, route: Route) -> None:
        """Raise :class:`UnsupportedMediaType` for another type than the route's."""
        if route.takes_body and self.mimetype not in route.content_types:
            raise UnsupportedMediaType(
                f"The media type {self.mimetype or None} is not supported, "
                f"use {' or '.join(route.content_types)}"
            )

    def get_action(self) -> str:
        """Return the only key of the body, or raise :class:`Invalid`."""
        document = self._parse_json()
        if not isinstance(document, dict) or len(document) != 1:
            raise Invalid(
                "Malformed request body: expected an object with exactly one key, the action"
            )
        (action,) = document
        return str(action)

    def validate_body(self, route: Route, version: Version) -> Any:
        """Return the value for ``ApiCall.body``, or raise :class:`Invalid`."""
        if route.data:
            return self.content_length or 0  # the bytes themselves are not stored
        if route.body is None:
            return None
        document = self._parse_json(route)
        schema = route.body.find_schema(version)
        if schema is not None:
            schema.check(document, "JSON does not validate")
        return document

    def _parse_json(self, route: Route | None = None) -> Any:
        """Parse the JSON body, and keep it if its key names an action."""
        length = self.content_length or 0
        if length > MAX_JSON_BYTES and not (route and route.takes_many):
            raise TooLarge(
                f"The request body has {length} bytes, but at most {MAX_JSON_BYTES} are allowed."
            )
        return self.get_json(force=True, cache=route is None or route.action is not None)

    def check_query(
        self, route: Route, version: Version, *, max_bytes: int, every_value: bool
    ) -> None:
        """Reject a query string that ``route`` does not accept.

        Raises :class:`Invalid`. ``every_value`` also validates the earlier values of a repeated
        parameter, for handlers that read them. Otherwise only the last value has to match the
        schema.
        """
        query, pairs = self.query_string, self.pairs
        if len(query) > max_bytes:
            limit = f"[api] max_query_string_size allows {max_bytes}"
            raise Invalid(f"{_QUERY_FAULT}: {len(query)} bytes, but {limit}")
        try:
            text = unquote_to_bytes(query).decode()
        except UnicodeDecodeError:
            raise Invalid(f"{_QUERY_FAULT}: not valid UTF-8") from None
        if "\0" in text:  # databases reject it
            raise Invalid(f"{_QUERY_FAULT}: contains a NUL character")
        schema = route.query.find_schema(version) if route.query else None
        if schema is None:
            return
        last = dict(pairs)
        schema.check(last, _QUERY_FAULT)
        if every_value and len(pairs) != len(last):
            required = {name: last[name] for name in schema.definition.get("required", ())}
            for values in _split_repeated(pairs):
                schema.check(required | values, _QUERY_FAULT)


def build_origin(environ: dict[str, Any]) -> str:
    """Return the scheme and host that the client or its proxy sent.

    The host name is not validated, since names of services in a cluster often are invalid host
    names, such as ``placement_backend``. Without the header Host, the name of the server is used.
    """
    scheme: str = environ["wsgi.url_scheme"]
    host: str = environ.get("HTTP_HOST") or f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"
    return f"{scheme}://{host.removesuffix(_USUAL_PORTS.get(scheme, ''))}"


def _split_repeated(pairs: Pairs) -> Iterator[dict[str, str]]:
    """Yield the first values of all parameters, the second values, and so on."""
    counts: Counter[str] = Counter()
    rounds: list[dict[str, str]] = []
    for name, value in pairs:
        if counts[name] == len(rounds):
            rounds.append({})
        rounds[counts[name]][name] = value
        counts[name] += 1
    return iter(rounds)
