"""A request: Flask's, with what every check and handler asks of it read once and quickly."""

from collections import Counter
from collections.abc import Iterator
from functools import cache, cached_property
from typing import Any, NoReturn
from urllib.parse import parse_qsl, unquote_to_bytes

import flask
from flask.json.provider import JSONProvider

from placement_sched.api.auth import ANONYMOUS, Identity
from placement_sched.api.blueprint import Face, Route, RouteRule
from placement_sched.api.request_context import context_of
from placement_sched.api.response import TooLarge, UnsupportedMediaType
from placement_sched.api.versions import Version
from placement_sched.errors import Invalid
from placement_sched.limits import MAX_JSON_BYTES, MAX_JSON_VALUES
from placement_sched.model.document import decoded, encoded
from placement_sched.model.request_ids import NO_REQUEST, RequestIds

Pairs = tuple[tuple[str, str], ...]

_USUAL_PORTS = {"http": ":80", "https": ":443"}
_QUERY_FAULT = "Invalid query string parameters"
_NUL = b"\\u0000"
_BACKSLASH = ord("\\")


class RequestHeaders:
    """Headers looked up by name, in whatever case.

    A request asks for a score of them, most of which it does not have: werkzeug's, which can do
    much more, take ten times as long.
    """

    __slots__ = ("_environ",)

    def __init__(self, environ: dict[str, Any]) -> None:
        self._environ = environ

    def get(self, key: str, /) -> str | None:
        """Return the header's value, or None."""
        value: str | None = self._environ.get(_variable(key))
        return value


@cache  # of the names that this service asks for, which are few
def _variable(header: str) -> str:
    name = header.upper().replace("-", "_")
    return name if name in {"CONTENT_TYPE", "CONTENT_LENGTH"} else f"HTTP_{name}"


class OrjsonProvider(JSONProvider):
    """Flask's JSON by orjson, without NUL characters, which PostgreSQL cannot store."""

    def dumps(self, obj: Any, **kwargs: Any) -> str:  # noqa: ARG002 - Flask's signature
        """Return ``obj`` as JSON."""
        return encoded(obj).decode()

    def loads(self, s: str | bytes, **kwargs: Any) -> Any:  # noqa: ARG002 - Flask's signature
        """Return what a JSON text says; raise :class:`ValueError` where it is malformed.

        Raises :class:`TooLarge` for one with too many values, before it is parsed.
        """
        text = s if isinstance(s, bytes) else s.encode()
        if (values := _values(text)) > MAX_JSON_VALUES:
            raise TooLarge(f"The request body has {values} values; at most {MAX_JSON_VALUES}.")
        document = decoded(text)
        if _has_nul(text):
            raise ValueError("a NUL character (\\u0000) is not allowed")
        return document


def _values(text: bytes) -> int:
    """Return how many values a JSON text has at most: commas, also in its strings, and brackets."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _has_nul(text: bytes) -> bool:
    """Return whether a JSON text has an escaped NUL: an odd number of backslashes, then u0000."""
    at = text.find(_NUL)
    while at >= 0:
        before = at
        while before and text[before - 1] == _BACKSLASH:
            before -= 1
        if (at - before) % 2 == 0:
            return True
        at = text.find(_NUL, at + 1)
    return False


class Request(flask.Request):
    """A request to a face, or beside them (``face`` is None then).

    ``prefix`` and ``below`` are the two parts of its path: what the face is mounted at, and the
    rest, which begins with one slash. ``identity`` and ``version`` are known once they are checked.
    """

    url_rule: RouteRule | None = None
    face: Face | None = None
    prefix: str = ""
    below: str = "/"
    identity: Identity = ANONYMOUS
    version: Version | None = None

    def __init__(self, environ: dict[str, Any], *args: Any) -> None:
        super().__init__(environ, *args)
        self.sent_headers = RequestHeaders(environ)
        #: As it was sent: werkzeug's is in capitals, and "get" is another method (RFC 9110).
        self.sent_method: str = environ["REQUEST_METHOD"]
        known = context_of(environ)
        self.ids: RequestIds = NO_REQUEST if known is None else known.ids

    @property
    def matched(self) -> Route | None:
        """The route whose path and method matched; others may share both."""
        return None if self.url_rule is None else self.url_rule.route

    @property
    def base(self) -> str:
        """The prefix of links in answers (``/placement``)."""
        return f"{self.root_path.rstrip('/')}{self.prefix}"

    @cached_property
    def pairs(self) -> Pairs:
        """The query's names and values in the order sent; invalid UTF-8 is replaced."""
        if not self.query_string:
            return ()
        return tuple(parse_qsl(self.query_string.decode(errors="replace"), keep_blank_values=True))

    def on_json_loading_failed(self, e: ValueError | None) -> NoReturn:
        """Raise :class:`Invalid` for a body that is not JSON."""
        raise Invalid(f"Malformed JSON: {e}") from None

    def check_length_and_label(self) -> None:
        """Raise :class:`Invalid` for a body without a type, or of a length that is not a number."""
        length = self.environ.get("CONTENT_LENGTH")
        if not length:
            return
        try:
            int(length)
        except ValueError:  # where a server lets it by
            raise Invalid(f"content-length header must be an integer. Got: {length}") from None
        if not self.content_type and self.content_length:
            raise Invalid("content-type header required: the body is of no type.")

    def check_content_type(self, route: Route) -> None:
        """Raise :class:`UnsupportedMediaType` for a body of a type that ``route`` does not take."""
        if route.takes_body and self.mimetype not in route.content_types:
            raise UnsupportedMediaType(
                f"The media type {self.mimetype or None} is not supported, "
                f"use {' or '.join(route.content_types)}"
            )

    def action(self) -> str:
        """Return the body's one key; raise :class:`Invalid` for any other body."""
        document = self._document()
        if not isinstance(document, dict) or len(document) != 1:
            raise Invalid("Malformed request body: an object with exactly one key, the action")
        (action,) = document
        return str(action)

    def body_of(self, route: Route, version: Version) -> Any:
        """Return the body as ``Call.body`` has it; raise :class:`Invalid` where it is invalid."""
        if route.data:
            return self.content_length or 0  # the bytes themselves are not kept
        if route.body is None:
            return None
        document = self._document(route)
        schema = route.body.at(version)
        if schema is not None:
            schema.check(document, "JSON does not validate")
        return document

    def _document(self, route: Route | None = None) -> Any:
        """Return the JSON body; raise :class:`TooLarge` for one that would take long to check.

        The routes of actions are chosen by their body, which is kept until one is.
        """
        length = self.content_length or 0
        if length > MAX_JSON_BYTES and not (route and route.takes_many):
            raise TooLarge(f"The request body has {length} bytes; at most {MAX_JSON_BYTES} here.")
        return self.get_json(force=True, cache=route is None or route.action is not None)

    def check_query(self, route: Route, version: Version, *, most: int, every_value: bool) -> None:
        """Raise :class:`Invalid` for a query string that ``route`` does not accept.

        ``most`` is its greatest length in bytes. Of a repeated parameter the last value has to fit
        the schema, and with ``every_value`` each of the others too: handlers may read them all.
        """
        query, pairs = self.query_string, self.pairs
        if len(query) > most:
            limit = f"[api] max_query_string_size allows {most}"
            raise Invalid(f"{_QUERY_FAULT}: {len(query)} bytes, where {limit}")
        if query:
            _check_characters(query)
        schema = route.query.at(version) if route.query else None
        if schema is None:
            return
        last = dict(pairs)
        schema.check(last, _QUERY_FAULT)
        if every_value and len(pairs) != len(last):
            required = {name: last[name] for name in schema.definition.get("required", ())}
            for some in _rounds(pairs):
                schema.check(required | some, _QUERY_FAULT)


def origin_of(environ: dict[str, Any]) -> str:
    """Return scheme and host of a request (WSGI) as the client or its proxy named them.

    The name is taken as it is: those of services inside a cluster often are not valid internet host
    names (``placement_backend``). Without one it is the server's own.
    """
    scheme: str = environ["wsgi.url_scheme"]
    host: str = environ.get("HTTP_HOST") or f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"
    return f"{scheme}://{host.removesuffix(_USUAL_PORTS.get(scheme, ''))}"


def _rounds(pairs: Pairs) -> Iterator[dict[str, str]]:
    """Yield the first value of each parameter, then the second value of those that have one, ...

    Takes no longer where there are thousands of names, of which one has thousands of values.
    """
    seen: Counter[str] = Counter()
    rounds: list[dict[str, str]] = []
    for name, value in pairs:
        if seen[name] == len(rounds):
            rounds.append({})
        rounds[seen[name]][name] = value
        seen[name] += 1
    return iter(rounds)


def _check_characters(query: bytes) -> None:
    """Raise :class:`Invalid` for a query string that a database cannot be asked with."""
    try:
        text = unquote_to_bytes(query).decode()
    except UnicodeDecodeError:
        raise Invalid(f"{_QUERY_FAULT}: not valid UTF-8") from None
    if "\0" in text:
        raise Invalid(f"{_QUERY_FAULT}: contains a NUL character")
