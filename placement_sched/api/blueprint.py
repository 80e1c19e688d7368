"""Routes as their handlers declare them, on Flask's blueprints.

A noun's handlers stand on a :class:`Blueprint` (``@blueprint.get("/traits/<name>", policy=...)``),
and the nouns of an API on its :class:`Face`. What a declaration says beyond path and method is a
:class:`Route`, which Flask keeps with the rule that matched (``request.url_rule.route``).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import flask
from werkzeug.routing import Rule

from placement_sched.api.call import Answer, Handler
from placement_sched.api.validation import Schemas
from placement_sched.api.versions import EVER, NEVER, Headers, Version
from placement_sched.errors import Error
from placement_sched.model.request_ids import RequestIds
from placement_sched.operations.nova_cloud import NovaNoun

#: The variable parts of a path.
PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method on one path over one window of versions, with all that guards it.

    ``path`` is relative to the face. ``policy`` is the rule that must hold before anything is
    looked up; None only with ``public``, which needs no token. Outside ``since``..``until`` the
    route is 404. Routes that share path, method and versions differ by ``action``, the one key of
    the request body that each answers to (nova's ``{"add_host": {...}}``). With ``body`` a JSON
    body of one of ``content_types`` is required; with ``data``, bytes of one of these types, of
    which ``call.body`` is the number. A body that ``takes_many`` things may have any length, others
    have at most ``MAX_JSON_BYTES`` bytes. ``changes`` is what the route changes, where that may
    be nova's: where it is read from nova's databases, the route is refused (409).
    ``subject(services, **arguments)``, called only where the body is invalid, raises
    :class:`NotFound` (404, not 400) where what the path names is not there. ``success`` are the
    statuses of answers, ``refusals`` those of errors beyond the ones that follow from the rest.
    ``answer`` is the body of a success (None: it has none). With ``located`` a success has the
    header Location, with ``dated`` Last-Modified (None: where it has a body).
    """

    method: str
    path: str
    handler: Handler
    policy: str | None = None
    public: bool = False
    since: Version = EVER
    until: Version = NEVER
    action: str | None = None
    body: Schemas | None = None
    data: bool = False
    takes_many: bool = False
    changes: NovaNoun | None = None
    subject: Callable[..., None] | None = None
    query: Schemas | None = None
    content_types: tuple[str, ...] = ("application/json",)
    success: tuple[int, ...] = (200,)
    refusals: tuple[int, ...] = ()
    located: bool = False
    dated: bool | None = None
    answer: Schemas | None = None

    def serves(self, version: Version) -> bool:
        """Return whether this route exists for a request of ``version``."""
        return self.since <= version <= self.until

    @property
    def takes_body(self) -> bool:
        """Whether a body of one of the content types is required."""
        return self.data or self.body is not None

    @property
    def is_dated(self) -> bool:
        """Whether a success has Last-Modified."""
        return self.answer is not None if self.dated is None else self.dated

    @property
    def statuses(self) -> frozenset[int]:
        """Every status that a request to this route may be answered with."""
        # On any route: a malformed microversion, one that is not served, no database.
        found = {*self.success, *self.refusals, 400, 406, 503}
        if not self.public:
            found |= {401, 403}
        if PARAMETER.search(self.path):
            # No name has a NUL character in it, whatever the route makes of names.
            found.add(404)
        if self.takes_body:
            found |= {413, 415}
        if self.changes:
            found.add(409)
        return frozenset(found)


H = TypeVar("H", bound=Handler)


class Declare(Protocol):
    """A decorator for a path's handler of one method."""

    def __call__(self, rule: str, **guards: Any) -> Callable[[H], H]:
        """Declare a handler."""


class Blueprint(flask.Blueprint):
    """The routes of one noun. Its decorators take what a :class:`Route` has beside path and method.

    A handler is called with the :class:`Call` and the variable parts of the path. HEAD and OPTIONS
    are served only where a handler declares them. ``guards`` is what all of its routes have alike,
    ``changes`` what all that are not GET have.
    """

    # Flask's own, which call :meth:`route`; here for handlers, which return an Answer.
    get: Declare  # type: ignore[assignment]
    post: Declare  # type: ignore[assignment]
    put: Declare  # type: ignore[assignment]
    patch: Declare  # type: ignore[assignment]
    delete: Declare  # type: ignore[assignment]

    def __init__(
        self, name: str, import_name: str, *, changes: NovaNoun | None = None, **guards: Any
    ) -> None:
        super().__init__(name, import_name)
        self.routes: list[Route] = []
        self._guards = guards
        self._changing = {**guards, "changes": changes}

    def route(  # type: ignore[override] # handlers return an Answer
        self, rule: str, *, methods: Iterable[str], **guards: Any
    ) -> Callable[[H], H]:
        """Declare a handler for several methods."""

        def declare(handler: H) -> H:
            for method in methods:
                given = {**(self._guards if method == "GET" else self._changing), **guards}
                route = Route(method=method, path=rule, handler=handler, **given)
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
    """Flask's rule, with the route that it leads to where one of our blueprints declared it."""

    def __init__(self, string: str, *, route: Route | None = None, **options: Any) -> None:
        super().__init__(string, **options)
        self.route = route
        if route is not None:
            self.methods = {route.method}  # without HEAD, which werkzeug adds to GET


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a request that failed: before a version was negotiated it has none."""

    ids: RequestIds
    version: Version | None = None
    accept: str = ""


class ApiStyle(Protocol):
    """Where faces differ: how a version is requested and shown, and the shape of an error."""

    #: Whether a client that does not accept JSON is refused, rather than given JSON all the same.
    refuses_other_types: bool = False
    #: Whether every value of a repeated parameter is checked, or only the last.
    checks_every_value: bool = True

    def negotiate(self, headers: Headers) -> Version:
        """Return the version that the headers ask for."""

    def version_headers(self, version: Version) -> Mapping[str, str]:
        """Return the headers that show which version answered."""

    def error(self, error: Error, status: int, title: str, seen: Seen) -> Answer:
        """Return the answer that reports ``error`` in this face's shape."""


class Face(flask.Blueprint):
    """One API: the blueprints of its nouns, and its style."""

    def __init__(self, name: str, style: ApiStyle, nouns: Iterable[Blueprint]) -> None:
        super().__init__(name, __name__)
        self.style = style
        nouns = tuple(nouns)
        for noun in nouns:
            self.register_blueprint(noun)
        self.routes = tuple(route for noun in nouns for route in noun.routes)
