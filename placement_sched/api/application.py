# SPDX-License-Identifier: Apache-2.0
"""The Flask application and its order of checks.

Every API checks requests in this order (the same list stands in ``api-ref``):

1. The body arrives: its length is announced (411), it is complete (400) and in time (408), and
   there is memory for it (503).
2. The caller is authenticated (401, or 503 while keystone does not answer).
3. The microversion is well formed (400) and supported (406).
4. The length of the body is a number, and the body has a content type (400).
5. The database answers (503).
6. A route matches the path (404), the method (405) and the microversion (404).
7. The route accepts the content type of the body (415), and the client accepts JSON (406).
8. If the only key of the body names an action: the body is not too large (413), it is valid JSON,
   and the action exists (400).
9. The policy allows the request (403).
10. The objects to be changed are not read from nova's databases (409).
11. The names in the path (404) and the query string (400) are valid.
12. The body is not too large (413), and it is valid JSON (400, or 404 if the object that the path
    names does not exist).

Then the handler is called. A path that needs no token skips steps 2, 5 and 9. ``serving.py``
performs step 1. Errors are reported in the format of the API. Flask extensions work as in any
application. Their ``before_request`` functions run after step 5.
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

from placement_sched.api.auth import STRATEGIES
from placement_sched.api.metrics import RequestLabels, set_labels
from placement_sched.api.request import (
    JSON,
    NOT_FOUND,
    RETRY_AFTER,
    STATUS_PHRASES,
    MethodNotAllowed,
    OrjsonProvider,
    Request,
    Response,
    TooLarge,
    build_origin,
    build_plain_error,
    get_status,
)
from placement_sched.api.routing import (
    Api,
    ApiCall,
    ApiResponse,
    ErrorContext,
    Route,
    RouteRule,
    Services,
)
from placement_sched.api.versions import NotAcceptable, Version
from placement_sched.errors import Error, Invalid, NotFound, PluginFailed, shorten
from placement_sched.limits import MAX_DETAIL_CHARACTERS
from placement_sched.model.context import set_caller
from placement_sched.model.request_stats import begin_stats
from placement_sched.operations.nova_cloud import check_not_read_from_nova

LOG = logging.getLogger(__name__)

#: The Accept headers of most clients, which need no parsing.
_USUAL_ACCEPT = frozenset((JSON, "*/*"))
#: The message for a client if a defect occurs.
_DEFECT = "Internal error. See the server log for this request id."
_NO_SESSION = NullSession()


class _NoSessions(SessionInterface):
    """Session interface without sessions: every request carries its token."""

    def open_session(self, app: flask.Flask, request: flask.Request) -> NullSession:  # noqa: ARG002
        return _NO_SESSION


class Application(flask.Flask):
    """Flask application of all APIs.

    The first part of a path selects the API (``""`` for an API at the root). Other paths, such as
    the paths of an extension, are served as by any Flask application.
    """

    request_class = Request
    json_provider_class = OrjsonProvider
    url_rule_class: type[Rule] = RouteRule
    session_interface = _NoSessions()

    def __init__(
        self, services: Services, apis: Mapping[str, Api], monitoring: flask.Blueprint
    ) -> None:
        """Mount the APIs, and the routes for monitoring, which need no token."""
        super().__init__("placement_sched", static_folder=None)
        options = services.settings.api
        self.services = services
        self.config["MAX_CONTENT_LENGTH"] = options.max_request_body_size
        self._max_query_size: int = options.max_query_string_size
        self._authenticate = STRATEGIES[options.auth_strategy]
        self._apis = apis
        # No request is redirected to a path with or without a slash at its end.
        self.url_map.merge_slashes = False
        self.register_blueprint(monitoring)
        for prefix, api in apis.items():
            self.register_blueprint(api, url_prefix=prefix or None)
        self._routes, self._public_paths = _group_routes(self._list_rules())
        self.before_request(self._check_first)
        self.register_error_handler(exceptions.HTTPException, self._report_http_error)
        self.register_error_handler(Exception, self._report_error)

    @property
    def names(self) -> dict[str, str]:
        """Map the first parts of paths to the names of the APIs."""
        return {prefix: api.name for prefix, api in self._apis.items()}

    def create_url_adapter(self, request: flask.Request | None) -> MapAdapter | None:
        """Select the API by the first part of the path, and find the rule."""
        if not isinstance(request, Request):
            return super().create_url_adapter(request)
        environ = request.environ
        path_info: str = environ.get("PATH_INFO") or "/"
        end = path_info.find("/", 1)
        prefix = path_info if end < 0 else path_info[:end]
        request.api = self._apis.get(prefix)
        if request.api is None:
            prefix, request.api = "", self._apis.get("")
        if request.api is None:
            if path_info[0] != "/" or path_info.startswith("//"):
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

    def _check_first(self) -> None:
        request = _get_request()
        rule = request.url_rule
        belongs_to_extension = rule is not None and rule.route is None
        if rule is None and request.api is not None and not request.prefix:
            # The first part of the path may be used only by extensions.
            first = request.below.split("/", 2)[1]
            routes = [
                candidate.route
                for candidate in self._list_rules()
                if candidate.rule.split("/", 2)[1] == first
            ]
            belongs_to_extension = bool(routes) and not any(routes)
        if belongs_to_extension:
            request.api = None
        api = request.api
        if api is None:
            return
        path = request.prefix + request.below if rule is None else rule.rule
        is_public = path in self._public_paths
        if not is_public:
            request.identity = self._authenticate(request.headers)
            set_caller(request.identity.build_credentials)
        request.version = api.conventions.negotiate(request.headers)
        request.check_content_headers()  # before 404 and 405
        if not is_public:  # version documents need no database
            self.services.ready()
        # Statements that prepared the database do not count for this request.
        begin_stats()

    def _list_rules(self) -> Iterable[RouteRule]:
        return cast("Iterable[RouteRule]", self.url_map.iter_rules())

    def dispatch_request(self) -> Any:
        """Run the remaining checks and return the response of the handler.

        Handlers are called from ``view_functions``, so that extensions can wrap them. They
        receive the :class:`ApiCall` first, then the variable parts of the path by name.
        """
        request = _get_request()
        if request.routing_exception is not None:
            self.raise_routing_exception(request)
        rule = request.url_rule
        if rule is not None and request.sent_method not in (rule.methods or ()):
            request.url_rule = None
            adapter = cast("MapAdapter", request_ctx.url_adapter)
            raise exceptions.MethodNotAllowed(adapter.allowed_methods())
        api, version = request.api, request.version
        if api is None or version is None or request.matched is None:
            return super().dispatch_request()
        rule, route = self._find_route(request, api, version)
        request.url_rule = rule
        arguments = request.view_args or {}
        pairs = request.pairs
        if route.policy is not None:
            policy = self.services.policy
            target = request.identity.get_target()
            if key := policy.find_project_key(route.policy):
                target = {"project_id": project} if (project := dict(pairs).get(key)) else {}
            policy.check(route.policy, request.identity, target)
        if route.changes is not None:
            check_not_read_from_nova(route.changes, self.services.settings)
        if any("\0" in argument for argument in arguments.values()):
            raise NotFound("The URL contains a NUL character.")
        max_bytes, every_value = self._max_query_size, api.conventions.checks_every_value
        request.check_query(route, version, max_bytes=max_bytes, every_value=every_value)
        try:
            body = request.validate_body(route, version)
        except Invalid:
            if route.subject is not None:
                route.subject(self.services, **arguments)
            raise
        call = ApiCall(
            services=self.services,
            identity=request.identity,
            version=version,
            query=pairs,
            body=body,
            base=request.base,
            url=f"{build_origin(request.environ)}{request.base}",
            ids=request.ids,
            headers=request.headers,
        )
        view: Callable[..., Any] = self.view_functions[rule.endpoint]
        return self.make_response(view(call, **arguments))

    def _find_route(self, request: Request, api: Api, version: Version) -> tuple[RouteRule, Route]:
        """Check content types, and find the rule and route of the request."""
        path = cast("RouteRule", request.url_rule).rule
        routes = [
            (rule, route)
            for rule, route in self._routes[path, request.sent_method]
            if route.serves(version)
        ]
        if not routes:
            raise NotFound("This path is not served at the requested microversion.")
        _, route = routes[0]
        request.check_content_type(route)
        # As in OpenStack placement, Accept matters only for responses with a document.
        has_document = route.method == "GET" and not route.public and HTTPStatus.OK in route.success
        if api.conventions.rejects_other_types and has_document:
            accept = request.headers.get("Accept") or JSON
            # Like OpenStack placement, WebOb ignores an invalid header.
            fits = accept in _USUAL_ACCEPT or create_accept_header(accept).acceptable_offers([JSON])
            if not fits:
                raise NotAcceptable(f"Only {JSON} is provided")
        if route.action is None:
            return routes[0]
        action = request.get_action()
        for rule, route in routes:
            if route.action == action:
                return rule, route
        raise Invalid(f"There is no such action: {action}")

    def make_response(self, rv: Any) -> flask.Response:
        """Convert an :class:`ApiResponse`, or any value of a Flask view."""
        if not isinstance(rv, ApiResponse):
            return super().make_response(rv)
        request = _get_request()
        if request.api is None:
            return Response(rv, {})
        path = "" if request.matched is None else request.matched.path
        labels = RequestLabels(request.api.name, path, request.sent_method)
        set_labels(request.environ, labels, str(request.version or ""))
        return Response(rv, request.version_headers)

    def _report_http_error(self, failure: exceptions.HTTPException) -> Any:
        """Report an error of werkzeug, unless it belongs to an extension."""
        request = _get_request()
        if request.api is None and request.url_rule is not None:
            return failure
        match failure:
            case exceptions.MethodNotAllowed():
                allowed = tuple(sorted(failure.valid_methods or ()))
                problem = f"The method {request.sent_method} is not allowed for this resource. "
                error: Error = MethodNotAllowed(f"{problem}Allowed: {', '.join(allowed)}.", allowed)
            case exceptions.NotFound():
                error = NotFound(NOT_FOUND)
            case exceptions.RequestEntityTooLarge():
                message = "The request body is larger than [api] max_request_body_size allows."
                error = TooLarge(message)
            case _:
                error = Invalid(failure.description or "The request could not be understood.")
        return self._report_error(error)

    def _report_error(self, failure: Exception) -> flask.Response:
        """Report a failure in the format of the API, and log defects."""
        if self.config["PROPAGATE_EXCEPTIONS"]:
            raise failure
        request = _get_request()
        error = failure if isinstance(failure, Error) else Error(_DEFECT)
        status = get_status(error)
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            # An unreachable database is not a defect: log a line without a traceback.
            cause = error.__cause__
            reason = f" ({type(cause).__name__}: {cause})" if cause else ""
            LOG.error("%s", " ".join(f"{error}{reason}".split()))
        elif status >= 500 and status != HTTPStatus.NOT_IMPLEMENTED:
            # The failure of a plugin has been logged by its caller, with its traceback.
            exc_info = None if isinstance(failure, PluginFailed) else failure
            LOG.error("%s", error, exc_info=exc_info)
        error.detail = shorten(error.detail, MAX_DETAIL_CHARACTERS)
        if error.fault is not None:
            shortened_texts = {
                key: shorten(error.fault[key], MAX_DETAIL_CHARACTERS) for key in ("problem", "path")
            }
            error.fault = {**error.fault, **shortened_texts}
        if request.api is None:
            detail = error.detail
            if detail == NOT_FOUND:
                apis = ", ".join(filter(None, self._apis))
                detail = f"Nothing is served at this path. APIs: {apis}"
            response = ApiResponse(
                status=status, body=build_plain_error(request.environ, status, detail)
            )
        else:
            context = ErrorContext(
                request.ids, request.version, request.headers.get("Accept") or ""
            )
            response = request.api.conventions.render_error(
                error, int(status), STATUS_PHRASES[status], context
            )
        headers = dict(response.headers)
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers["Retry-After"] = str(RETRY_AFTER)
        if isinstance(error, MethodNotAllowed) and error.allowed:
            headers["Allow"] = ", ".join(error.allowed)
        return self.make_response(replace(response, headers=headers))

    def close(self) -> None:
        """Send the remaining notifications and close the database connections."""
        self.services.scheduler.notifier.close()
        self.services.database.dispose()


def _get_request() -> Request:
    """Return the request itself: attributes of Flask's proxy are slow."""
    proxy = cast("Any", request_ctx)
    return cast("Request", proxy._get_current_object().request)  # noqa: SLF001 - as documented


def _group_routes(
    rules: Iterable[RouteRule],
) -> tuple[dict[tuple[str, str], list[tuple[RouteRule, Route]]], frozenset[str]]:
    """Group routes by path and method, and find paths that need no token."""
    groups: dict[tuple[str, str], list[tuple[RouteRule, Route]]] = {}
    for rule in rules:
        if (route := rule.route) is not None:
            groups.setdefault((rule.rule, route.method), []).append((rule, route))
    guarded = {
        path for (path, _), group in groups.items() if not all(route.public for _, route in group)
    }
    return groups, frozenset(path for path, _ in groups) - guarded
