"""Turns a table of routes into a WSGI application: the same order of checks on every face.

Who (401), which version (400, 406), which route (404, 405), which content type (415, 406), may
they (403), is the question well formed (400): and only then the handler.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes
from uuid import uuid4

import flask
import orjson
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge
from werkzeug.exceptions import MethodNotAllowed as NoSuchMethod
from werkzeug.http import http_date

from placement_sched.api.auth import ANONYMOUS, STRATEGIES, Identity
from placement_sched.api.call import Answer, Call
from placement_sched.api.errors import (
    RETRY_AFTER,
    MethodNotAllowed,
    TooLarge,
    UnsupportedMediaType,
    status_of,
)
from placement_sched.api.metrics import Asked
from placement_sched.api.microversion import Headers, NotAcceptable, Version
from placement_sched.api.route import Route
from placement_sched.api.schema import shortened
from placement_sched.api.services import Services
from placement_sched.errors import Error, Invalid, NotFound

LOG = logging.getLogger(__name__)

JSON = "application/json"

#: The most that an error says, in characters: it may repeat what was asked, which may be long.
DETAIL = 1500

# An escaped NUL in a JSON text: an odd number of backslashes, then u0000.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


class Dialect(Protocol):
    """Where faces differ: how a version is asked for and shown, and the shape of an error."""

    #: Whether a reader who takes no JSON is refused, rather than given JSON all the same.
    heeds_accept: bool
    #: Whether of a repeated parameter the first value has to fit too, or the last alone.
    minds_first: bool

    def negotiate(self, headers: Headers) -> Version:
        """Return the version that the headers ask for."""
        ...

    def stamps(self, version: Version) -> Mapping[str, str]:
        """Return the headers that tell which version answered."""
        ...

    def error(self, error: Error, status: int, title: str, seen: "Seen") -> Answer:
        """Return the answer that tells ``error`` in this face's shape."""
        ...


@dataclass(slots=True)
class Seen:
    """What is known of a request so far; a failing request may know little."""

    request_id: str
    identity: Identity = ANONYMOUS
    version: Version | None = None
    accept: str = ""


def build(name: str, routes: Iterable[Route], dialect: Dialect, services: Services) -> flask.Flask:
    """Return the WSGI application of one face."""
    app = flask.Flask(name, static_folder=None)
    app.url_map.merge_slashes = False
    app.config["MAX_CONTENT_LENGTH"] = services.settings.api.max_request_body_size
    by_address: dict[tuple[str, str], list[Route]] = {}
    for route in routes:
        by_address.setdefault((route.path, route.method), []).append(route)
    public = {
        path for (path, _), found in by_address.items() if all(route.public for route in found)
    }
    for (path, method), found in by_address.items():
        view = _view(found, dialect, services)
        app.add_url_rule(
            path,
            endpoint=f"{method} {path}",
            view_func=view,
            methods=[method],
            provide_automatic_options=False,
        )
    for rule in app.url_map.iter_rules():
        if rule.methods and rule.methods != {"HEAD"}:
            rule.methods.discard("HEAD")
    app.wsgi_app = _rooted(app.wsgi_app)  # type: ignore[method-assign] # as Flask documents it
    app.before_request(_entrance(public, dialect, services))
    app.register_error_handler(Exception, _exit(dialect))
    app.after_request(_stamp(name, dialect, services))
    return app


def _rooted(inner: Callable[..., Any]) -> Callable[..., Any]:
    """Serve the prefix itself (``/placement``) as its root (``/placement/``)."""

    def application(environ: dict[str, Any], start_response: Any) -> Any:
        environ["PATH_INFO"] = environ.get("PATH_INFO") or "/"
        return inner(environ, start_response)

    return application


def _entrance(public: set[str], dialect: Dialect, services: Services) -> Callable[[], None]:
    authenticate = STRATEGIES[services.settings.api.auth_strategy]

    def enter() -> None:
        request = flask.request
        seen = _seen()
        flask.g.seen = seen
        rule = request.url_rule
        # By another method the same address is refused to everyone alike.
        open_to_all = (rule.rule if rule else request.path) in public
        if not open_to_all:
            seen.identity = authenticate(request.headers)
        seen.version = dialect.negotiate(request.headers)
        _refuse_odd_length(request.environ.get("CONTENT_LENGTH") or "0")
        if request.content_length and not request.content_type:  # before 404 and 405
            raise Invalid("content-type header required: the body is of no type.")
        if not open_to_all:  # version documents tell nothing that a database knows
            services.ready()
        services.database.tally.reset()  # what made the database ready is not this request's

    return enter


def _seen() -> Seen:
    """Return what is known of the request in hand before anything of it is checked."""
    return Seen(f"req-{uuid4()}", accept=flask.request.headers.get("Accept") or "")


def _refuse_odd_length(text: str) -> None:
    """Raise :class:`Invalid` for a Content-Length that is no number, where a server lets it by."""
    try:
        int(text)
    except ValueError:
        raise Invalid(f"content-length header must be an integer. Got: {text}") from None


def _view(
    found: list[Route], dialect: Dialect, services: Services
) -> Callable[..., flask.Response]:
    def view(**arguments: str) -> flask.Response:
        seen: Seen = flask.g.seen
        version = seen.version
        request = flask.request
        serving = [route for route in found if version and route.serves(version)]
        if not serving or version is None:
            raise NotFound("This path is not served at the requested microversion.")
        _check_types(serving[0], dialect)
        route = serving[0] if serving[0].action is None else _of_action(serving)
        if route.policy is not None:
            target = _target(seen.identity, services.policy.project_key(route.policy))
            services.policy.check(route.policy, seen.identity, target)
        if any("\0" in argument for argument in arguments.values()):
            raise NotFound("Nothing has a name with a NUL character.")
        _refuse_unreadable(request.query_string, services.settings.api.max_query_string_size)
        call = Call(
            services=services,
            identity=seen.identity,
            version=version,
            query=_query(route, version, dialect),
            body=_body_of(route, version, services, arguments),
            base=request.script_root,
            url=f"{request.scheme}://{request.host}{request.script_root}",
            request_id=seen.request_id,
            headers=request.headers,
        )
        return _render(route.handler(call, **arguments))

    return view


def _target(identity: Identity, project_key: str | None) -> dict[str, str]:
    """Return what a rule is asked about: the caller's own, or the project that the query names.

    A query that names none has no project, which is nobody's.
    """
    if project_key is None:
        project_id = identity.project_id
        return {"project_id": project_id, "user_id": identity.user_id, "owner": project_id}
    *_, project_id = flask.request.args.getlist(project_key) or [""]
    return {"project_id": project_id} if project_id else {}


def _check_types(route: Route, dialect: Dialect) -> None:
    request = flask.request
    takes_body = route.data or route.body is not None
    if takes_body and request.mimetype not in route.content_types:
        raise UnsupportedMediaType(
            f"The media type {request.mimetype or None} is not supported, "
            f"use {' or '.join(route.content_types)}"
        )
    if not dialect.heeds_accept or request.method != "GET" or route.public:
        return
    if HTTPStatus.OK not in route.statuses:
        return  # as OpenStack placement has it: only what is asked for to be read is refused
    accept = request.accept_mimetypes
    # What is no media type at all says nothing.
    told = any("/" in kind for kind in accept.values())
    if told and not accept.best_match([JSON]):
        raise NotAcceptable(f"Only {JSON} is provided")


def _query(route: Route, version: Version, dialect: Dialect) -> tuple[tuple[str, str], ...]:
    pairs = tuple(flask.request.args.items(multi=True))
    schema = route.query.at(version) if route.query else None
    if schema is not None:
        words = "Invalid query string parameters"
        schema.check(dict(pairs), words)
        if dialect.minds_first and len(pairs) != len(dict(pairs)):
            schema.check(dict(reversed(pairs)), words)
    return pairs


def _refuse_unreadable(query: bytes, most: int) -> None:
    """Raise :class:`Invalid` for a query string that no database could be asked with."""
    if len(query) > most:
        raise Invalid(
            f"Invalid query string parameters: {len(query)} bytes, where "
            f"[api] max_query_string_size allows {most}"
        )
    try:
        text = unquote_to_bytes(query).decode()
    except UnicodeDecodeError:
        raise Invalid("Invalid query string parameters: they are not in UTF-8") from None
    if "\0" in text:
        raise Invalid("Invalid query string parameters: they have a NUL character")


def _of_action(serving: list[Route]) -> Route:
    """Return the route that the one key of the request body names."""
    document = _decoded(keep=True)
    if not isinstance(document, dict) or len(document) != 1:
        raise Invalid("Malformed request body: an object with exactly one key, the action")
    (action,) = document
    for route in serving:
        if route.action == action:
            return route
    raise Invalid(f"There is no such action: {action}")


def _decoded(*, keep: bool = False) -> Any:
    """Return the body as JSON; ``keep`` leaves its bytes to be read once more."""
    data = flask.request.get_data(cache=keep)
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as fault:
        raise Invalid(f"Malformed JSON: {fault}") from None
    if _NUL.search(data):
        # PostgreSQL keeps no such text, and no name has a use for it.
        raise Invalid("Malformed JSON: a NUL character (\\u0000) is not taken")
    return document


def _amount_of_data() -> int:
    """Return how many bytes the body has, none of which is kept.

    They are read, for a client that is answered while it still sends may see its connection
    broken and not the answer; but not many more than a JSON body might have.
    """
    request = flask.request
    most, amount = request.max_content_length or 0, request.content_length or 0
    if amount > most:
        return amount
    amount, request.max_content_length = 0, 2 * most + 2**16  # never met
    while amount <= most and (some := request.stream.read(2**16)):
        amount += len(some)
    return amount


def _body(route: Route, version: Version) -> Any:
    if route.data:
        return _amount_of_data()
    if route.body is None:
        return None
    document = _decoded()
    schema = route.body.at(version)
    if schema is not None:
        schema.check(document, "JSON does not validate")
    return document


def _body_of(
    route: Route, version: Version, services: Services, arguments: Mapping[str, str]
) -> Any:
    """Return the body; where it is at fault and its subject is not there, that is what is told."""
    try:
        return _body(route, version)
    except Invalid:
        if route.subject is not None:
            route.subject(services, **arguments)
        raise


def _render(answer: Answer) -> flask.Response:
    body = answer.body
    if body is not None and not isinstance(body, bytes):
        body = orjson.dumps(body)
    response = flask.Response(body if body is not None else b"", status=answer.status)
    if body is None:
        del response.headers["Content-Type"]
    else:
        response.headers["Content-Type"] = JSON
    if answer.last_modified is not None:
        response.headers["Last-Modified"] = http_date(answer.last_modified)
        response.headers["Cache-Control"] = "no-cache"
    response.headers.update(answer.headers)
    return response


def _exit(dialect: Dialect) -> Callable[[Exception], flask.Response]:
    def leave(failure: Exception) -> flask.Response:
        seen: Seen = flask.g.get("seen") or _seen()
        flask.g.seen = seen
        error = _as_error(failure)
        status = status_of(error)
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            LOG.error("%s %s", seen.request_id, _sentence(error))
        elif status >= 500 and status != HTTPStatus.NOT_IMPLEMENTED:
            LOG.error("%s %s", seen.request_id, error, exc_info=failure)
        error.detail = shortened(error.detail, DETAIL)
        answer = dialect.error(error, int(status), status.phrase, seen)
        response = _render(answer)
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            response.headers["Retry-After"] = str(RETRY_AFTER)
        if isinstance(failure, NoSuchMethod) and failure.valid_methods:
            response.headers["Allow"] = ", ".join(sorted(failure.valid_methods))
        return response

    return leave


def _sentence(error: Error) -> str:
    """Return an error and what it came of in one line: a database away is no defect to trace."""
    cause = error.__cause__
    reason = f" ({type(cause).__name__}: {cause})" if cause else ""
    return " ".join(f"{error}{reason}".split())


def _as_error(failure: Exception) -> Error:
    """Return the domain error that ``failure`` is, hiding what is none of the caller's business."""
    if isinstance(failure, Error):
        return failure
    if isinstance(failure, NoSuchMethod):
        return MethodNotAllowed(
            f"The method {flask.request.method} is not allowed for this resource. "
            f"Allowed: {', '.join(sorted(failure.valid_methods or ()))}."
        )
    if isinstance(failure, RequestEntityTooLarge):
        return TooLarge("The request body is larger than [api] max_request_body_size allows.")
    if isinstance(failure, HTTPException):
        if failure.code == 404:
            return NotFound("The resource could not be found.")
        return Invalid(failure.description or "The request could not be understood.")
    return Error("The server failed; its log has the reason under this request id.")


def _stamp(
    face: str, dialect: Dialect, services: Services
) -> Callable[[flask.Response], flask.Response]:
    count, tally = services.metrics.request, services.database.tally

    def stamp(response: flask.Response) -> flask.Response:
        seen: Seen = flask.g.seen
        response.headers["X-Openstack-Request-Id"] = seen.request_id
        if seen.version is not None:
            response.headers.update(dialect.stamps(seen.version))
        request = flask.request
        asked = Asked(face, request.url_rule.rule if request.url_rule else "", request.method)
        version = str(seen.version) if seen.version else ""
        count(asked, response.status_code, version, request.environ, tally)
        tally.reset()
        return response

    return stamp
