"""The console's routes: its pages, its own files, and the APIs for its scripts.

The console only looks: of what it passes on to the APIs for scripts, the one thing that is not a
GET is a question that changes nothing.
"""

import re
from collections.abc import Callable
from functools import lru_cache, partial
from gzip import compress

import flask
from flask import request
from flask.sansio.blueprints import BlueprintSetupState
from werkzeug.exceptions import HTTPException
from werkzeug.exceptions import NotFound as NoRoute
from werkzeug.routing import BaseConverter

from placement_sched.api.call import Services
from placement_sched.api.response import MethodNotAllowed, status_of
from placement_sched.api.validation import shortened
from placement_sched.console.client import ApiRefused, SignInNeeded
from placement_sched.console.page import (
    caller,
    check_same_origin,
    check_shown,
    error_page,
    guarded,
    is_shown,
)
from placement_sched.console.pages import aggregates, ask, capacity, cloud, decisions, policies
from placement_sched.console.session import Doors
from placement_sched.errors import Error, Forbidden, Invalid, NotFound

#: What gets shorter; pictures that are compressed already do not.
_TEXTS = frozenset(
    ("application/json", "image/svg+xml", "text/css", "text/html", "text/javascript", "text/plain")
)
#: By these a browser says that a page of another site sent a request, or led to it.
_OTHERS = frozenset(("cross-site", "same-site"))
#: Bytes; below, the head of the answer is most of it.
_WORTH = 500

#: The same bytes of the same text: ten thousand hosts (2 MB) take 40 ms and become 400 KB.
_packed = partial(compress, compresslevel=6, mtime=0)
#: Files stay the same while the service runs: each is compressed once.
_packed_file = lru_cache(maxsize=64)(_packed)


def compressed(response: flask.Response) -> flask.Response:
    """Return the answer to the current request, as gzip where client and rule allow it.

    Its ETag becomes weak, as it then names two forms of the same text (RFC 9110, 8.8.3).
    """
    if not _can_be(response):
        return response
    response.vary.add("Accept-Encoding")
    if request.accept_encodings.quality("gzip") <= 0:
        return response
    tag, _ = response.get_etag()
    if tag is not None:
        response.set_etag(tag, weak=True)
    if response.status_code == 304:
        return response
    response.direct_passthrough = False
    body = response.get_data()
    if len(body) >= _WORTH:
        response.set_data(_packed_file(body) if _is_file() else _packed(body))
        response.headers["Content-Encoding"] = "gzip"
        response.headers.pop("Accept-Ranges", None)
    return response


def _can_be(response: flask.Response) -> bool:
    """Return whether the rule allows an answer to be compressed, for a client that accepts it."""
    if response.mimetype not in _TEXTS or response.status_code in {204, 206}:
        return False
    if "Content-Encoding" in response.headers or "Set-Cookie" in response.headers:
        return False
    return _is_file() or request.headers.get("Sec-Fetch-Site") not in _OTHERS


def _is_file() -> bool:
    return request.endpoint == "console.static"


#: What answers ``/`` instead of the list of APIs, or None where a program asks.
Home = Callable[[], flask.Response | None]

#: Questions that scripts may send as a POST: none of them changes anything.
_QUESTIONS = re.compile(r"/scheduler/v1/(explain|capacity|plan|rebalance|decisions/[^/]+/replay)")
#: The APIs that scripts may read.
_APIS = re.compile(r"/(compute|image|placement|scheduler)(/.*)?")
#: What is answered with a page that says why not, where nothing is served.
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_PAGES = (cloud, ask, decisions, capacity, aggregates, policies)
_JSON, _HTML = "application/json", "text/html"
#: So much of a path that is not there is repeated, in characters.
_REPEATED = 200


class _Anything(BaseConverter):
    """The rest of a path, whatever it holds: slashes at its beginning, too."""

    regex = ".*"
    weight = 300
    part_isolating = False


def blueprint_of(services: Services) -> flask.Blueprint:
    """Return the routes below ``/console``."""
    console = flask.Blueprint("console", __name__, static_folder="static")
    doors = Doors(services.settings)

    def enter() -> flask.Response | None:
        return _enter(services, doors)

    console.record_once(_with_converter)
    console.before_request(enter)
    console.after_request(compressed)
    console.register_error_handler(Exception, lambda failure: _failed(failure, doors))
    for path, view in doors.views().items():
        console.add_url_rule(path, view_func=view, methods=["GET", "POST"])
    console.add_url_rule("/api/<path:path>", view_func=passed_on, methods=["GET", "POST"])
    for noun in _PAGES:
        for path, view in noun.VIEWS.items():
            name = f"{noun.__name__.rpartition('.')[2]}_{view.__name__}"
            console.add_url_rule(path, name, view, methods=["GET"], strict_slashes=False)
    console.add_url_rule("/<anything:rest>", view_func=_unknown, methods=_METHODS)
    return console


def home_of(services: Services) -> Home:
    """Return what shows the console at ``/`` to browsers that may see it."""
    doors = Doors(services.settings)

    def home() -> flask.Response | None:
        kinds = request.accept_mimetypes
        if kinds.best_match([_JSON, _HTML]) != _HTML or not is_shown(request, services.settings):
            return None
        try:
            page = _enter(services, doors) or cloud.index()
        except Exception as failure:  # noqa: BLE001 - each has its page
            page = _failed(failure, doors)
        page.vary.add("Accept")
        return compressed(page)

    return home


def passed_on(path: str) -> flask.Response:
    """Pass a request of a page's script on to an API, under the token of who looks at the page.

    ``/console/api/scheduler/v1/explain`` is ``/scheduler/v1/explain`` with the token that scripts
    cannot read. Raises :class:`Forbidden` for what may change something, and :class:`NotFound` for
    what is of no API, such as the console itself.
    """
    address = f"/{path}"
    if not _APIS.fullmatch(address):
        raise NotFound(f"There is no API at {address}")
    if request.method == "POST" and not _QUESTIONS.fullmatch(address):
        raise Forbidden("The console changes nothing: it sends no such request")
    query = request.query_string.decode("latin-1")
    # The APIs know no HEAD; Flask leaves the body out of the answer to one.
    method = "GET" if request.method == "HEAD" else request.method
    reply = caller().send(method, address, query, request.get_data())
    return guarded(flask.Response(reply.body, reply.status, content_type=reply.content_type))


def _with_converter(state: BlueprintSetupState) -> None:
    state.app.url_map.converters["anything"] = _Anything


def _enter(services: Services, doors: Doors) -> flask.Response | None:
    check_shown(request, services.settings)
    check_same_origin(request)
    # Before any page, also one of an error: each shows who has signed in.
    flask.g.person = doors.person()
    if len(request.query_string) > services.settings.api.max_query_string_size:
        raise Invalid("The query string is longer than [api] max_query_string_size allows")
    if request.path.startswith("/console//"):
        raise NotFound("The console has no page whose path begins with two slashes")
    return None


def _unknown(rest: str) -> flask.Response:
    if request.method not in {"GET", "HEAD"}:
        raise MethodNotAllowed(f"The console takes no {request.method} here", ("GET", "HEAD"))
    raise NotFound(f"The console has no page {shortened(rest, _REPEATED)}")


def _failed(failure: Exception, doors: Doors) -> flask.Response:
    """Return the page of an error, in the words of who reports it."""
    if isinstance(failure, SignInNeeded):
        return guarded(doors.asked_to_sign_in())
    status, detail = _said(failure)
    if request.path.startswith("/console/api/"):
        body = {"errors": [{"status": status, "detail": detail}]}
        response = guarded(flask.Response(flask.json.dumps(body), status, content_type=_JSON))
    else:
        response = error_page(status, detail)
    if isinstance(failure, MethodNotAllowed):
        response.headers["Allow"] = ", ".join(failure.allowed)
    return response


def _said(failure: Exception) -> tuple[int, str]:
    """Return the status of a failure and a sentence on it."""
    if isinstance(failure, ApiRefused):
        return int(failure.status), failure.detail
    if isinstance(failure, Error):
        return int(status_of(failure)), failure.detail
    if isinstance(failure, NoRoute):
        return 404, "The console has no such page"
    if isinstance(failure, HTTPException):
        return failure.code or 500, failure.description or ""
    flask.current_app.logger.error("a page of the console failed", exc_info=failure)
    return 500, "This page failed; the log of the service says why"
