# SPDX-License-Identifier: Apache-2.0
"""Declarations of routes on Flask's blueprints, and calls of handlers.

The handlers of a resource belong to a :class:`Blueprint` (``@blueprint.get("/traits/<name>",
policy=...)``), and the resources of an API to its :class:`Api`. Each declaration
creates a :class:`Route`, an attribute of the matching rule (``request.url_rule.route``). A handler
takes an :class:`ApiCall` and returns an :class:`ApiResponse`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from random import Random
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import flask
from werkzeug.routing import Rule

from placement_sched.api.auth import Identity
from placement_sched.api.metrics import Metrics
from placement_sched.api.policy import Policy
from placement_sched.api.validation import Schemas
from placement_sched.api.versions import AFTER_ALL_VERSIONS, BEFORE_ALL_VERSIONS, Headers, Version
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import Error
from placement_sched.model.clock import Clock
from placement_sched.model.context import RequestIds
from placement_sched.model.document import Json
from placement_sched.operations.nova_cloud import NovaObjectKind
from placement_sched.scheduler.policies.registry import Policies, get_policies
from placement_sched.scheduler.scheduler import Scheduler

P = ParamSpec("P")
T = TypeVar("T")
#: Pattern of a variable part of a path, such as ``<name>``.
PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Objects that all handlers share, such as database and scheduler."""

    settings: Settings
    database: Database
    policy: Policy
    metrics: Metrics
    clock: Clock
    random: Random
    scheduler: Scheduler
    #: Prepares the database on first use. Raises ``Unavailable`` if that fails.
    ready: Callable[[], None]
    #: Runs the periodic tasks that are due. Called every second, also without requests.
    run_periodic_tasks: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    """A request that has passed all checks.

    ``query`` are the names and values of the query string in order. ``body`` is the decoded JSON or
    None. For a route with ``data`` set, ``body`` is the number of bytes. ``base`` is the prefix of
    links in responses (``/placement``), and ``url`` is ``base`` with scheme and host.
    """

    services: Services
    identity: Identity
    version: Version
    query: tuple[tuple[str, str], ...]
    body: Any
    base: str
    url: str
    ids: RequestIds
    headers: Headers

    def list_values(self, key: str) -> tuple[str, ...]:
        """Return every value of a query parameter."""
        return tuple(value for name, value in self.query if name == key)

    def find_value(self, key: str) -> str | None:
        """Return the last value of a query parameter, or None."""
        return next(iter(reversed(self.list_values(key))), None)

    def check(self, rule: str) -> None:
        """Raise :class:`Forbidden` unless ``rule`` is allowed in the project."""
        target = {"project_id": self.identity.project_id}
        self.services.policy.check(rule, self.identity, target)

    def is_allowed(self, rule: str) -> bool:
        """Return whether ``rule`` allows the caller to act on own objects."""
        return self.services.policy.allows(rule, self.identity, self.identity.get_target())

    def read(
        self,
        operation: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **keywords: P.kwargs,
    ) -> T:
        """Call ``operation`` with a read connection, and return its result."""
        with self.services.database.read() as connection:
            return operation(connection, *args, **keywords)

    def write(
        self,
        operation: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **keywords: P.kwargs,
    ) -> T:
        """Call ``operation`` in a write transaction, and return its result."""
        return self.services.database.write(
            lambda connection: operation(connection, *args, **keywords)
        )

    def get_policies(self) -> Policies:
        """Return the scheduling policies of the configuration."""
        return get_policies(self.settings, self.services.clock)

    @property
    def settings(self) -> Settings:
        """Return the current options, after reloading changed files."""
        return self.services.scheduler.live.get_settings()

    def read_clock(self) -> datetime:
        """Return the current time in naive UTC, the format of the tables."""
        return self.services.clock()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiResponse:
    """The response of a handler: a body of JSON, bytes, or None (no body)."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    last_modified: datetime | None = None


Handler = Callable[..., ApiResponse]


def run_in_transaction(
    handler: Callable[Concatenate[ApiCall, Connection, P], ApiResponse],
) -> Callable[Concatenate[ApiCall, P], ApiResponse]:
    """Decorate a handler to run in a transaction, with its connection."""

    @wraps(handler)
    def run(call: ApiCall, /, *args: P.args, **names: P.kwargs) -> ApiResponse:
        return call.services.database.write(
            lambda connection: handler(call, connection, *args, **names)
        )

    return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A method of a path in a range of versions, with its checks.

    * ``path`` is relative to the API.
    * ``blueprint_name`` is a tag in the OpenAPI document.
    * ``policy`` is the API policy rule, checked before the database is read. It is None only for
      ``public`` routes, which need no token.
    * ``since`` and ``until`` are the first and last version. Requests with other versions get 404.
    * ``action`` distinguishes routes with the same path, method and versions. It is the only key of
      the request body (nova's ``{"add_host": {...}}``).
    * ``body`` has the schemas of a required JSON body.
    * ``documented_body`` replaces ``body`` in the OpenAPI document, if the handler validates more
      than ``body`` does.
    * ``data``: the required body is bytes, and ``call.body`` is their number.
    * ``content_types`` are the allowed types of the body.
    * ``takes_many``: the body may exceed :data:`~placement_sched.limits.MAX_JSON_BYTES`, up to
      ``[api] max_request_body_size``.
    * ``changes`` is the kind of objects that the route changes. The route answers 409 if this
      service reads objects of this kind from nova's databases.
    * ``subject`` is called as ``subject(services, **arguments)`` if the body is invalid. It raises
      :class:`NotFound` if the object in the path does not exist: the response is 404, not 400.
    * ``query`` has the schemas of the query string.
    * ``success`` are the statuses of successful responses.
    * ``errors`` are the statuses of errors that do not follow from the other fields.
    * ``located``: a successful response has the header Location.
    * ``has_last_modified``: a successful response has the header Last-Modified. None: only if
      ``response`` is set.
    * ``response`` has the schemas of a successful response. None: it is empty, or not documented.
    """

    method: str
    path: str
    blueprint_name: str
    handler: Handler
    policy: str | None = None
    public: bool = False
    since: Version = BEFORE_ALL_VERSIONS
    until: Version = AFTER_ALL_VERSIONS
    action: str | None = None
    body: Schemas | None = None
    documented_body: Json | None = None
    data: bool = False
    takes_many: bool = False
    changes: NovaObjectKind | None = None
    subject: Callable[..., None] | None = None
    query: Schemas | None = None
    content_types: tuple[str, ...] = ("application/json",)
    success: tuple[int, ...] = (200,)
    errors: tuple[int, ...] = ()
    located: bool = False
    has_last_modified: bool | None = None
    response: Schemas | None = None

    def serves(self, version: Version) -> bool:
        """Return whether this route exists for a request of ``version``."""
        return self.since <= version <= self.until

    @property
    def takes_body(self) -> bool:
        """Return whether a request body is required."""
        return self.data or self.body is not None

    @property
    def is_dated(self) -> bool:
        """Return whether a successful response has Last-Modified."""
        declared = self.has_last_modified
        return self.response is not None if declared is None else declared

    @property
    def statuses(self) -> frozenset[int]:
        """Return every status that the route may answer."""
        # Any route: a malformed microversion, an unsupported microversion, no database.
        statuses = {*self.success, *self.errors, 400, 406, 503}
        if not self.public:
            statuses |= {401, 403}
        if PARAMETER.search(self.path):
            # A NUL character in a name is 404 on any route.
            statuses.add(404)
        if self.takes_body:
            statuses |= {413, 415}
        if self.changes:
            statuses.add(409)
        return frozenset(statuses)


H = TypeVar("H", bound=Handler)


class Blueprint(flask.Blueprint):
    """The routes of a resource, with a decorator for each method.

    A handler is called with the :class:`ApiCall` and the variable parts of the path. HEAD and
    OPTIONS are only answered if they are declared. The decorators take the fields of a
    :class:`Route`. ``fields`` apply to all routes, ``changes`` to all except GET routes.
    """

    # Flask's decorators, which call :meth:`route`, with the types of our handlers.
    get: Callable[Concatenate[str, ...], Callable[[H], H]]  # type: ignore[assignment]
    post: Callable[Concatenate[str, ...], Callable[[H], H]]  # type: ignore[assignment]
    put: Callable[Concatenate[str, ...], Callable[[H], H]]  # type: ignore[assignment]
    patch: Callable[Concatenate[str, ...], Callable[[H], H]]  # type: ignore[assignment]
    delete: Callable[Concatenate[str, ...], Callable[[H], H]]  # type: ignore[assignment]

    def __init__(
        self, name: str, import_name: str, *, changes: NovaObjectKind | None = None, **fields: Any
    ) -> None:
        super().__init__(name, import_name)
        self.routes: list[Route] = []
        self._shared_fields = fields
        self._shared_write_fields = {**fields, "changes": changes}

    def route(  # type: ignore[override] # handlers return an ApiResponse
        self, rule: str, *, methods: Iterable[str], **fields: Any
    ) -> Callable[[H], H]:
        """Declare a handler for several methods."""

        def declare(handler: H) -> H:
            for method in methods:
                is_read = method == "GET"
                shared = self._shared_fields if is_read else self._shared_write_fields
                route = Route(
                    method=method,
                    path=rule,
                    blueprint_name=self.name,
                    handler=handler,
                    **{**shared, **fields},
                )
                self.routes.append(route)
                self.add_url_rule(
                    rule,
                    view_func=handler,  # type: ignore[arg-type] # as above
                    provide_automatic_options=False,
                    methods=[method],
                    route=route,
                )
            return handler

        return declare


class RouteRule(Rule):
    """Werkzeug rule with the :class:`Route` of an API, or None for others."""

    def __init__(self, string: str, *, route: Route | None = None, **options: Any) -> None:
        super().__init__(string, **options)
        self.route = route
        if route is not None:
            self.methods = {route.method}  # without HEAD, which werkzeug adds to GET


@dataclass(frozen=True, slots=True)
class ErrorContext:
    """The parts of a request that its error response depends on."""

    ids: RequestIds
    version: Version | None = None
    accept: str = ""


class ApiConventions(Protocol):
    """The conventions of an API: version negotiation and the format of errors."""

    #: Whether clients that do not accept JSON get 406 rather than JSON.
    rejects_other_types: bool = False
    #: Whether every value of a repeated parameter is validated, or only the last.
    checks_every_value: bool = True

    def negotiate(self, headers: Headers) -> Version:
        """Return the version that the headers request."""

    def build_version_headers(self, version: Version) -> Mapping[str, str]:  # noqa: ARG002
        """Return the headers that report the version of a response, if any."""
        return {}

    def render_error(
        self, error: Error, status: int, title: str, context: ErrorContext
    ) -> ApiResponse:
        """Return the response that reports ``error`` in the format of the API."""


class Api(flask.Blueprint):
    """An API: the blueprints of its resources, and its conventions."""

    def __init__(
        self, name: str, conventions: ApiConventions, blueprints: Iterable[Blueprint]
    ) -> None:
        super().__init__(name, __name__)
        self.conventions = conventions
        blueprints = tuple(blueprints)
        for blueprint in blueprints:
            self.register_blueprint(blueprint)
        self.routes = tuple(route for blueprint in blueprints for route in blueprint.routes)
