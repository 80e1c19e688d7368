"""The Flask application, and the one order in which it checks requests.

On every face, as ``api-ref`` has it word for word:

1. the body arrives: its length is known (411), it is complete (400) and in time (408), and there is
   room for it (503);
2. the caller is known (401, or 503 while keystone does not answer);
3. the microversion is well formed (400) and served (406);
4. the length of the body is a number, and the body has a type (400);
5. the database answers (503);
6. path (404), method (405) and microversion (404) lead to a route;
7. the route takes the type of the body (415), and the client accepts JSON (406);
8. where the body's one key names an action: the body is not too large (413), it is JSON, and there
   is such an action (400);
9. the policy allows the request (403);
10. what it would change is not read from nova's databases (409);
11. the names in the path (404) and the query string (400) are valid;
12. the body is not too large (413), and valid JSON (400, or 404 where what the path names does not
    exist).

Only then the handler is called. A path that needs no token skips steps 2, 5 and 9. Step 1 is
``serving.py``'s. What fails is reported by the face's own style. Extensions of Flask
may be added as to any application: their ``before_request`` functions run after step 5.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, cast

import flask
from flask.globals import request_ctx
from flask.sessions import NullSession, SessionInterface
from webob.acceptparse import create_accept_header
from werkzeug import exceptions
from werkzeug.routing import MapAdapter, Rule

from placement_sched.api.auth import STRATEGIES, Identity
from placement_sched.api.blueprint import Face, Route, RouteRule, Seen
from placement_sched.api.call import Answer, Call, Services
from placement_sched.api.metrics import Asked, note
from placement_sched.api.request import OrjsonProvider, Pairs, Request, origin_of
from placement_sched.api.response import (
    JSON,
    NOT_FOUND,
    RETRY_AFTER,
    MethodNotAllowed,
    Response,
    TooLarge,
    plain_error,
    status_of,
)
from placement_sched.api.validation import shortened
from placement_sched.api.versions import NotAcceptable, Version
from placement_sched.errors import Error, Invalid, NotFound, PluginFailed
from placement_sched.model.request_stats import begin_stats
from placement_sched.operations.nova_cloud import check_not_novas

LOG = logging.getLogger(__name__)

#: What most clients send, which need not be taken apart.
_TAKES_JSON = frozenset((JSON, "*/*"))
#: The most that an error says, in characters: it may repeat what was asked, which may be long.
DETAIL = 1500
#: What a client gets to know of a defect.
_DEFECT = "Internal error; see the server log for this request id."
_NO_SESSION = NullSession()


class _NoSessions(SessionInterface):
    """Sessions of which there are none: every request brings its token."""

    def open_session(self, app: flask.Flask, request: flask.Request) -> NullSession:  # noqa: ARG002
        return _NO_SESSION


class Application(flask.Flask):
    """The faces by the first part of their paths (``""``: one face alone, at the root).

    Paths of no face, such as those that an extension adds, are served as by any Flask application.
    """

    request_class = Request
    json_provider_class = OrjsonProvider
    url_rule_class: type[Rule] = RouteRule
    session_interface = _NoSessions()

    def __init__(
        self, services: Services, faces: Mapping[str, Face], beside: flask.Blueprint
    ) -> None:
        """Mount ``faces``; ``beside`` has what is served without a token, for monitoring."""
        super().__init__("placement_sched", static_folder=None)
        api = services.settings.api
        self.services = services
        self.config["MAX_CONTENT_LENGTH"] = api.max_request_body_size
        self._longest_query: int = api.max_query_string_size
        self._authenticate = STRATEGIES[api.auth_strategy]
        self._faces = faces
        # Rules end as they are written: no request is redirected.
        self.url_map.merge_slashes = False
        self.register_blueprint(beside)
        for prefix, face in faces.items():
            self.register_blueprint(face, url_prefix=prefix or None)
        self._sharing, self._public = _by_address(self._rules())
        self.before_request(self._enter)
        self.register_error_handler(exceptions.HTTPException, self._http_error)
        self.register_error_handler(Exception, self._error)

    @property
    def names(self) -> dict[str, str]:
        """The names of the APIs by the first part of their paths."""
        return {prefix: face.name for prefix, face in self._faces.items()}

    def create_url_adapter(self, request: flask.Request | None) -> MapAdapter | None:
        """Return what finds the rule of a request, whose path it takes apart.

        The first part of the path decides on the face, unless an extension's rule matches it
        (:meth:`_enter`); ``/placement`` is served as ``/placement/``.
        """
        if not isinstance(request, Request):
            return super().create_url_adapter(request)
        environ = request.environ
        sent: str = environ.get("PATH_INFO") or "/"
        end = sent.find("/", 1)
        prefix = sent if end < 0 else sent[:end]
        request.face = self._faces.get(prefix)
        if request.face is None:
            prefix, request.face = "", self._faces.get("")
        if request.face is None:
            if sent[0] != "/" or sent.startswith("//"):
                raise exceptions.NotFound
            path = request.path
        else:
            request.prefix = prefix
            request.below = "/" + request.path[len(prefix) :].lstrip("/")
            path = prefix + request.below
        return MapAdapter(
            self.url_map,
            environ.get("HTTP_HOST") or environ["SERVER_NAME"],
            request.root_path,
            "",
            environ["wsgi.url_scheme"],
            path,
            request.method,
        )

    def _enter(self) -> None:
        """Check what is checked of every request, whether or not there is a route for it."""
        request = _current()
        rule = request.url_rule
        if self._near_no_face(request) if rule is None else rule.route is None:
            request.face = None
        face = request.face
        if face is None:
            return
        address = request.prefix + request.below if rule is None else rule.rule
        needs_no_token = address in self._public
        if not needs_no_token:
            request.identity = self._authenticate(request.sent_headers)
        request.version = face.style.negotiate(request.sent_headers)
        request.check_length_and_label()  # before 404 and 405
        if not needs_no_token:  # version documents show nothing that a database knows
            self.services.ready()
        # What made the database ready is not this request's.
        begin_stats()

    def _near_no_face(self, request: Request) -> bool:
        """Return whether a path that no rule matches begins as only rules of no face do."""
        if request.prefix or request.face is None:
            return False
        first = request.below.split("/", 2)[1]
        near = [rule.route for rule in self._rules() if rule.rule.split("/", 2)[1] == first]
        return bool(near) and not any(near)

    def _rules(self) -> Iterable[RouteRule]:
        return cast("Iterable[RouteRule]", self.url_map.iter_rules())

    def dispatch_request(self) -> Any:
        """Check the rest, and return the response of the handler.

        The handler is what ``view_functions`` has, so that extensions can wrap it there. It is
        called with the :class:`Call` first, then the variable parts of the path by name.
        """
        request = _current()
        if request.routing_exception is not None:
            self.raise_routing_exception(request)
        rule = request.url_rule
        if rule is not None and request.sent_method not in (rule.methods or ()):
            request.url_rule = None
            adapter = cast("MapAdapter", request_ctx.url_adapter)
            raise exceptions.MethodNotAllowed(adapter.allowed_methods())
        face, version = request.face, request.version
        if face is None or version is None or request.matched is None:
            return super().dispatch_request()
        rule, route = self._serving(request, face, version)
        request.url_rule = rule
        arguments = request.view_args or {}
        pairs = request.pairs
        if route.policy is not None:
            policy = self.services.policy
            target = _target(request.identity, policy.project_key(route.policy), pairs)
            policy.check(route.policy, request.identity, target)
        if route.changes is not None:
            check_not_novas(route.changes, self.services.settings)
        if any("\0" in argument for argument in arguments.values()):
            raise NotFound("The URL contains a NUL character.")
        most, every_value = self._longest_query, face.style.checks_every_value
        request.check_query(route, version, most=most, every_value=every_value)
        try:
            body = request.body_of(route, version)
        except Invalid:
            if route.subject is not None:
                route.subject(self.services, **arguments)
            raise
        call = Call(
            services=self.services,
            identity=request.identity,
            version=version,
            query=pairs,
            body=body,
            base=request.base,
            url=f"{origin_of(request.environ)}{request.base}",
            ids=request.ids,
            headers=request.sent_headers,
        )
        view: Callable[..., Any] = self.view_functions[rule.endpoint]
        return self.make_response(view(call, **arguments))

    def _serving(self, request: Request, face: Face, version: Version) -> tuple[RouteRule, Route]:
        """Return the rule of the version and action, if it takes what is sent and expected."""
        rule = cast("RouteRule", request.url_rule).rule
        serving = [
            (one, route)
            for one, route in self._sharing[rule, request.sent_method]
            if route.serves(version)
        ]
        if not serving:
            raise NotFound("This path is not served at the requested microversion.")
        _, route = serving[0]
        request.check_content_type(route)
        # As OpenStack placement has it, only what has a document is refused.
        shows = route.method == "GET" and not route.public and HTTPStatus.OK in route.success
        if face.style.refuses_other_types and shows:
            accept = request.sent_headers.get("Accept") or JSON
            # WebOb reads it as OpenStack placement does: an invalid header is ignored.
            fits = accept in _TAKES_JSON or create_accept_header(accept).acceptable_offers([JSON])
            if not fits:
                raise NotAcceptable(f"Only {JSON} is provided")
        if route.action is None:
            return serving[0]
        action = request.action()
        for one, route in serving:
            if route.action == action:
                return one, route
        raise Invalid(f"There is no such action: {action}")

    def make_response(self, rv: Any) -> flask.Response:
        """Return the response to the request: of an answer, or of what Flask's views return."""
        if not isinstance(rv, Answer):
            return super().make_response(rv)
        request = _current()
        face, version = request.face, request.version
        if face is None:
            return Response(rv, {})
        response = Response(rv, {} if version is None else face.style.version_headers(version))
        route = request.matched
        asked = Asked(face.name, "" if route is None else route.path, request.sent_method)
        note(request.environ, asked, str(version) if version else "")
        return response

    def _http_error(self, failure: exceptions.HTTPException) -> Any:
        """Report an error of Flask or werkzeug; an extension's own as it is."""
        request = _current()
        if request.face is None and request.url_rule is not None:
            return failure
        match failure:
            case exceptions.MethodNotAllowed():
                allowed = tuple(sorted(failure.valid_methods or ()))
                said = f"The method {request.sent_method} is not allowed for this resource. "
                error: Error = MethodNotAllowed(f"{said}Allowed: {', '.join(allowed)}.", allowed)
            case exceptions.NotFound():
                error = NotFound(NOT_FOUND)
            case exceptions.RequestEntityTooLarge():
                words = "The request body is larger than [api] max_request_body_size allows."
                error = TooLarge(words)
            case _:
                error = Invalid(failure.description or "The request could not be understood.")
        return self._error(error)

    def _error(self, failure: Exception) -> flask.Response:
        """Report a failure in the face's style; a defect goes to the log as well."""
        request = _current()
        error = failure if isinstance(failure, Error) else Error(_DEFECT)
        status = status_of(error)
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            # An absent database is not a defect to trace: the error and its cause in one line.
            cause = error.__cause__
            reason = f" ({type(cause).__name__}: {cause})" if cause else ""
            LOG.error("%s", " ".join(f"{error}{reason}".split()))
        elif status >= 500 and status != HTTPStatus.NOT_IMPLEMENTED:
            # A plugin's own failure is logged with its traceback where it is called.
            traced = None if isinstance(failure, PluginFailed) else failure
            LOG.error("%s", error, exc_info=traced)
        error.detail = shortened(error.detail, DETAIL)
        if error.fault is not None:
            short = {key: shortened(error.fault[key], DETAIL) for key in ("problem", "path")}
            error.fault = {**error.fault, **short}
        if request.face is None:
            detail = error.detail
            if detail == NOT_FOUND:
                apis = ", ".join(filter(None, self._faces))
                detail = f"Nothing is served at this path; APIs: {apis}"
            answer = Answer(status=status, body=plain_error(request.environ, status, detail))
        else:
            seen = Seen(request.ids, request.version, request.sent_headers.get("Accept") or "")
            answer = request.face.style.error(error, int(status), status.phrase, seen)
        headers = dict(answer.headers)
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers["Retry-After"] = str(RETRY_AFTER)
        if isinstance(error, MethodNotAllowed) and error.allowed:
            headers["Allow"] = ", ".join(error.allowed)
        return self.make_response(replace(answer, headers=headers))

    def close(self) -> None:
        """Send the notifications that are left, and close the connections."""
        self.services.scheduler.announcer.close()
        self.services.database.dispose()


def _current() -> Request:
    """Return the request itself; asking a proxy for an attribute takes six times as long."""
    proxy = cast("Any", request_ctx)
    return cast("Request", proxy._get_current_object().request)  # noqa: SLF001 - as documented


def _by_address(
    rules: Iterable[RouteRule],
) -> tuple[dict[tuple[str, str], list[tuple[RouteRule, Route]]], frozenset[str]]:
    """Return the routes by address and method, and the addresses that need no token at all."""
    found: dict[tuple[str, str], list[tuple[RouteRule, Route]]] = {}
    for rule in rules:
        if (route := rule.route) is not None:
            found.setdefault((rule.rule, route.method), []).append((rule, route))
    guarded = {path for (path, _), some in found.items() if not all(one.public for _, one in some)}
    return found, frozenset(path for path, _ in found) - guarded


def _target(identity: Identity, project_key: str | None, pairs: Pairs) -> dict[str, str]:
    """Return what a rule is checked against: the caller's own, or the query's project, if any."""
    if project_key is None:
        project_id = identity.project_id
        return {"project_id": project_id, "user_id": identity.user_id, "owner": project_id}
    project_id = dict(pairs).get(project_key, "")
    return {"project_id": project_id} if project_id else {}
