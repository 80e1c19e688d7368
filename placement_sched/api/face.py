"""Turns a table of routes into a WSGI application: the same order of checks on every face.

Who (401), which version (400, 406), which route (404, 405), which content type (415, 406), may
they (403), is the question well formed (400): and only then the handler.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Protocol

from webob.acceptparse import create_accept_header
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge
from werkzeug.wrappers import Request

from placement_sched.api import query_string, request_body
from placement_sched.api.auth import ANONYMOUS, STRATEGIES, Identity
from placement_sched.api.call import Answer, Call
from placement_sched.api.errors import RETRY_AFTER, MethodNotAllowed, TooLarge, status_of
from placement_sched.api.metrics import Asked, note
from placement_sched.api.microversion import Headers, NotAcceptable, Version
from placement_sched.api.origin import origin_of
from placement_sched.api.query_string import Pairs
from placement_sched.api.request_context import context_of
from placement_sched.api.request_headers import RequestHeaders
from placement_sched.api.response import JSON, content_of, send
from placement_sched.api.route import Route
from placement_sched.api.routing import Found, RouteTable
from placement_sched.api.schema import shortened
from placement_sched.api.services import Services
from placement_sched.api.wsgi_types import StartResponse
from placement_sched.errors import Error, Invalid, NotFound
from placement_sched.model.request_ids import NO_REQUEST, RequestIds

LOG = logging.getLogger(__name__)

#: What most clients send, which need not be taken apart.
_TAKES_JSON = frozenset((JSON, "*/*"))

#: The most that an error says, in characters: it may repeat what was asked, which may be long.
DETAIL = 1500


class Dialect(Protocol):
    """Where faces differ: how a version is asked for and shown, and the shape of an error."""

    #: Whether a reader who takes no JSON is refused, rather than given JSON all the same.
    heeds_accept: bool
    #: Whether every value of a repeated parameter is checked, or only the last.
    checks_every_value: bool

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

    ids: RequestIds
    identity: Identity = ANONYMOUS
    version: Version | None = None
    accept: str = ""

    @property
    def request_id(self) -> str:
        """The id of the request in this service."""
        return self.ids.request_id or ""


class Face:
    """One API: the WSGI application of a table of routes, spoken in a dialect."""

    def __init__(
        self, name: str, routes: Iterable[Route], dialect: Dialect, services: Services
    ) -> None:
        self._name = name
        self._table = RouteTable(routes)
        self._dialect = dialect
        self._services = services
        self._authenticate = STRATEGIES[services.settings.api.auth_strategy]
        self._longest_query: int = services.settings.api.max_query_string_size
        self._largest_body: int = services.settings.api.max_request_body_size

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request (WSGI)."""
        # The prefix itself (``/placement``) is served as its root (``/placement/``).
        environ["PATH_INFO"] = environ.get("PATH_INFO") or "/"
        # Not kept in its own environ: the cycle would hold its body until the collector comes.
        request = Request(environ, populate_request=False)
        request.max_content_length = self._largest_body
        headers = RequestHeaders(environ)
        # As it was sent: werkzeug's is in capitals, and "get" is another method (RFC 9110).
        method: str = environ["REQUEST_METHOD"]
        seen = Seen(_ids(environ), accept=headers.get("Accept") or "")
        found = self._table.find(request.path, method)
        try:
            self._enter(request, headers, found, seen)
            answer = self._answer(request, headers, found, seen)
            content = content_of(answer)
        except Exception as failure:  # noqa: BLE001 - no traceback reaches a user
            answer = self._told(failure, seen)
            content = content_of(answer)
        stamps = {} if seen.version is None else self._dialect.stamps(seen.version)
        asked = Asked(self._name, found.template, method)
        note(environ, asked, str(seen.version) if seen.version else "")
        return send(answer, content, stamps, method, start_response)

    def _enter(self, request: Request, headers: Headers, found: Found, seen: Seen) -> None:
        """Check what is checked of every request, whether or not there is a route for it."""
        if not found.open_to_all:
            seen.identity = self._authenticate(headers)
        seen.version = self._dialect.negotiate(headers)
        request_body.refuse_unlabelled(request)  # before 404 and 405
        if not found.open_to_all:  # version documents tell nothing that a database knows
            self._services.ready()
        # What made the database ready is not this request's.
        self._services.database.tally.reset()

    def _answer(self, request: Request, headers: Headers, found: Found, seen: Seen) -> Answer:
        """Check the rest, and let the route's handler answer."""
        if found.refusal is not None:
            raise found.refusal
        services, version, arguments = self._services, seen.version, found.arguments
        serving = [route for route in found.routes if version and route.serves(version)]
        if not serving or version is None:
            raise NotFound("This path is not served at the requested microversion.")
        self._check_types(request, headers, serving[0])
        route = serving[0]
        if route.action is not None:
            route = request_body.route_of_action(request, serving)
        query = request.query_string
        pairs = query_string.pairs_of(query)
        self._authorize(route, seen.identity, pairs)
        if any("\0" in argument for argument in arguments.values()):
            raise NotFound("Nothing has a name with a NUL character.")
        query_string.check(
            query,
            pairs,
            route,
            version,
            most=self._longest_query,
            every_value=self._dialect.checks_every_value,
        )
        call = Call(
            services=services,
            identity=seen.identity,
            version=version,
            query=pairs,
            body=request_body.body_of(request, route, version, services, arguments),
            base=request.script_root,
            url=f"{origin_of(request.environ)}{request.script_root}",
            ids=seen.ids,
            headers=headers,
        )
        return route.handler(call, **arguments)

    def _check_types(self, request: Request, headers: Headers, route: Route) -> None:
        request_body.refuse_other_types(request, route)
        if not self._dialect.heeds_accept or request.method != "GET" or route.public:
            return
        if HTTPStatus.OK not in route.statuses:
            return  # as OpenStack placement has it: only what is asked for to be read is refused
        accept = headers.get("Accept")
        if not accept or accept in _TAKES_JSON:
            return
        # WebOb reads it as OpenStack placement does: what is no such header says nothing.
        if not create_accept_header(accept).acceptable_offers([JSON]):
            raise NotAcceptable(f"Only {JSON} is provided")

    def _authorize(self, route: Route, identity: Identity, pairs: Pairs) -> None:
        """Raise :class:`Forbidden` unless the route's rule lets the caller in."""
        if route.policy is not None:
            project_key = self._services.policy.project_key(route.policy)
            target = _target(identity, project_key, pairs)
            self._services.policy.check(route.policy, identity, target)

    def _told(self, failure: Exception, seen: Seen) -> Answer:
        """Return the answer that tells of a failure; what is a defect goes to the log as well."""
        error = _as_error(failure)
        status = status_of(error)
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            LOG.error("%s %s", seen.request_id, _sentence(error))
        elif status >= 500 and status != HTTPStatus.NOT_IMPLEMENTED:
            LOG.error("%s %s", seen.request_id, error, exc_info=failure)
        error.detail = shortened(error.detail, DETAIL)
        answer = self._dialect.error(error, int(status), status.phrase, seen)
        headers = dict(answer.headers)
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers["Retry-After"] = str(RETRY_AFTER)
        if isinstance(error, MethodNotAllowed) and error.allowed:
            headers["Allow"] = ", ".join(error.allowed)
        return replace(answer, headers=headers)


def _ids(environ: dict[str, Any]) -> RequestIds:
    known = context_of(environ)
    return NO_REQUEST if known is None else known.ids


def _target(identity: Identity, project_key: str | None, pairs: Pairs) -> dict[str, str]:
    """Return what a rule is asked about: the caller's own, or the project that the query names.

    A query that names none has no project, which is nobody's.
    """
    if project_key is None:
        project_id = identity.project_id
        return {"project_id": project_id, "user_id": identity.user_id, "owner": project_id}
    project_id = dict(pairs).get(project_key, "")
    return {"project_id": project_id} if project_id else {}


def _sentence(error: Error) -> str:
    """Return an error and what it came of in one line: a database away is no defect to trace."""
    cause = error.__cause__
    reason = f" ({type(cause).__name__}: {cause})" if cause else ""
    return " ".join(f"{error}{reason}".split())


def _as_error(failure: Exception) -> Error:
    """Return the domain error that ``failure`` is, hiding what is none of the caller's business."""
    if isinstance(failure, Error):
        return failure
    if isinstance(failure, RequestEntityTooLarge):
        return TooLarge("The request body is larger than [api] max_request_body_size allows.")
    if isinstance(failure, HTTPException):
        return Invalid(failure.description or "The request could not be understood.")
    return Error("The server failed; its log has the reason under this request id.")
