# SPDX-License-Identifier: Apache-2.0
"""Routes of the console: pages, static files, and APIs for scripts.

The console is read-only: it forwards only GET requests and queries sent by POST.
"""

import gzip
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import flask
from flask import request
from flask.sansio.blueprints import BlueprintSetupState
from werkzeug.exceptions import HTTPException
from werkzeug.exceptions import NotFound as NoRoute
from werkzeug.routing import BaseConverter

from placement_sched.api.application import Application
from placement_sched.api.health import HOME
from placement_sched.api.request import MethodNotAllowed
from placement_sched.api.routing import Services
from placement_sched.cli.report.html import STYLESHEET
from placement_sched.errors import Error, Forbidden, Invalid, NotFound, shorten
from placement_sched.extensions.console import ask, capacity, cloud, decisions
from placement_sched.extensions.console.client import ApiError, SignInNeeded
from placement_sched.extensions.console.page import (
    PageAccess,
    add_security_headers,
    build_form_error,
    check_same_origin,
    check_shown,
    get_api_client,
    is_shown,
    render_error_page,
    with_headers,
)
from placement_sched.extensions.console.session import SignInViews
from placement_sched.model.clock import read_timestamp

#: Media types to compress.
_COMPRESSED_TYPES = frozenset(
    ("application/json", "image/svg+xml", "text/css", "text/html", "text/javascript", "text/plain")
)
#: Values of Sec-Fetch-Site for a request or link of another site.
_OTHER_SITES = frozenset(("cross-site", "same-site"))
#: Minimum size to compress, in bytes: smaller responses consist mostly of headers.
_MIN_COMPRESSED_SIZE = 500

#: Level 6 compresses ten thousand hosts from 2 MB to 400 KB in 40 ms.
_compress = partial(gzip.compress, compresslevel=6, mtime=0)
#: Static files do not change while the service runs.
_compress_file = lru_cache(maxsize=64)(_compress)


def compress(response: flask.Response) -> flask.Response:
    """Compress a response with gzip if the client and the response allow it.

    The ETag becomes weak, since it stands for two encodings of the same text (RFC 9110, 8.8.3).
    """
    if not _can_compress(response):
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
    if len(body) >= _MIN_COMPRESSED_SIZE:
        response.set_data(_compress_file(body) if _is_file() else _compress(body))
        response.headers["Content-Encoding"] = "gzip"
        response.headers.pop("Accept-Ranges", None)
    return response


def _can_compress(response: flask.Response) -> bool:
    """Return whether compression is allowed, if the client accepts it."""
    if response.mimetype not in _COMPRESSED_TYPES or response.status_code in {204, 206}:
        return False
    if "Content-Encoding" in response.headers or "Set-Cookie" in response.headers:
        return False
    return _is_file() or request.headers.get("Sec-Fetch-Site") not in _OTHER_SITES


def _is_file() -> bool:
    return request.endpoint == "console.static"


#: Queries that scripts may send as a POST. They change nothing.
_READ_ONLY_POSTS = re.compile(
    r"/scheduler/v1/(explain|capacity|plan|rebalance|decisions/[^/]+/replay)"
)
#: The APIs that scripts may read.
_APIS = re.compile(r"/(compute|image|placement|scheduler)(/.*)?")
#: Methods of the error page for unknown paths.
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_PAGES = (cloud, ask, decisions)
_JSON, _HTML = "application/json", "text/html"
#: Maximum length of an unknown path in a message, in characters.
_MAX_SHOWN_PATH = 200


class _Anything(BaseConverter):
    """Converter for the end of a path, including slashes at its beginning."""

    regex = ".*"
    weight = 300
    part_isolating = False


class _Blueprint(flask.Blueprint):
    """Blueprint whose static files include the stylesheet of reports."""

    def send_static_file(self, filename: str) -> flask.Response:
        if filename == STYLESHEET.name:
            return flask.send_file(STYLESHEET, max_age=self.get_send_file_max_age(filename))
        return super().send_static_file(filename)


def install(application: Application, services: Services) -> None:
    """Add the console below ``/console``, and for browsers at ``/``."""
    application.extensions[PageAccess.NAME] = PageAccess()
    sign_in_views = SignInViews(services.settings)
    application.register_blueprint(
        _build_blueprint(application, services, sign_in_views), url_prefix="/console"
    )
    application.view_functions[HOME] = _build_home(
        services, sign_in_views, application.view_functions[HOME]
    )
    application.wsgi_app = add_security_headers(application.wsgi_app)  # type: ignore[assignment,method-assign] # as Flask does


def _build_blueprint(
    application: Application, services: Services, sign_in_views: SignInViews
) -> flask.Blueprint:
    console = _Blueprint("console", __name__, static_folder="static")

    def check_request() -> flask.Response | None:
        return _check_request(services, sign_in_views)

    console.record_once(_register_converter)
    console.before_request(check_request)
    console.after_request(compress)
    console.register_error_handler(Exception, lambda failure: _render_error(failure, sign_in_views))
    for path, view in sign_in_views.get_views().items():
        console.add_url_rule(path, view_func=view, methods=["GET", "POST"])
    console.add_url_rule("/api/<path:path>", view_func=forward, methods=["GET", "POST"])
    paths = {rule.rule for rule in application.url_map.iter_rules()}
    for module in (*_PAGES, *([capacity] if paths.issuperset(capacity.API_PATHS) else [])):
        for path, view in module.VIEWS.items():
            name = f"{module.__name__.rpartition('.')[2]}_{view.__name__}"
            console.add_url_rule(path, name, view, methods=["GET"], strict_slashes=False)
    console.add_url_rule("/<anything:rest>", view_func=_reject_unknown_path, methods=_METHODS)
    return console


def _build_home(
    services: Services, sign_in_views: SignInViews, list_apis: Callable[[], Any]
) -> Callable[[], Any]:
    """Build the view of ``/``, which shows the console to allowed browsers."""

    def show_home() -> Any:
        kinds = request.accept_mimetypes
        if kinds.best_match([_JSON, _HTML]) != _HTML or not is_shown(request, services.settings):
            return list_apis()
        try:
            page = _check_request(services, sign_in_views) or cloud.show_overview()
        except Exception as failure:  # noqa: BLE001 - rendered as an error page
            page = _render_error(failure, sign_in_views)
        page.vary.add("Accept")
        return compress(page)

    return show_home


def forward(path: str) -> flask.Response:
    """Forward a script's request to an API, with the signed-in person's token.

    ``/console/api/scheduler/v1/explain`` is ``/scheduler/v1/explain`` with the token, which scripts
    cannot read. Raises :class:`Forbidden` for requests that may change something and
    :class:`NotFound` for other addresses, such as the console itself.
    """
    address = f"/{path}"
    if not _APIS.fullmatch(address):
        raise NotFound(f"There is no API at {address}")
    if request.method == "POST" and not _READ_ONLY_POSTS.fullmatch(address):
        raise Forbidden("The console is read-only and does not forward this request")
    query = request.query_string.decode("latin-1")
    # The APIs have no HEAD. Flask removes the body of the response.
    method = "GET" if request.method == "HEAD" else request.method
    reply = get_api_client().send(method, address, query, request.get_data())
    content_type = reply.headers.get("Content-Type", "")
    return with_headers(flask.Response(reply.body, reply.status, content_type=content_type))


def _register_converter(state: BlueprintSetupState) -> None:
    state.app.url_map.converters["anything"] = _Anything


def _check_request(services: Services, sign_in_views: SignInViews) -> flask.Response | None:
    check_shown(request, services.settings)
    check_same_origin(request)
    # Set before the page is built, because all pages, also of errors, show the signed-in person.
    flask.g.person = sign_in_views.get_person()
    flask.g.cloud_name = services.settings.console.cloud_name
    seconds: int | None = services.settings.placement_database.shown_at
    flask.g.shown_at = None if seconds is None else read_timestamp(seconds)
    if len(request.query_string) > services.settings.api.max_query_string_size:
        raise Invalid("The query string is longer than [api] max_query_string_size allows")
    if request.path.startswith("/console//"):
        raise NotFound("The console has no page whose path begins with two slashes")
    return None


def _reject_unknown_path(rest: str) -> flask.Response:
    if request.method not in {"GET", "HEAD"}:
        raise MethodNotAllowed(
            f"The console does not support {request.method} here", ("GET", "HEAD")
        )
    raise NotFound(f"The console has no page {shorten(rest, _MAX_SHOWN_PATH)}")


def _render_error(failure: Exception, sign_in_views: SignInViews) -> flask.Response:
    """Render an error as a page, as JSON, or as a redirect to the sign-in."""
    if isinstance(failure, SignInNeeded):
        return with_headers(sign_in_views.redirect_to_sign_in())
    status, detail = _describe_error(failure)
    if request.path.startswith("/console/api/"):
        body = {"errors": [{"status": status, "detail": detail}]}
        response = with_headers(flask.Response(flask.json.dumps(body), status, content_type=_JSON))
    else:
        response = render_error_page(status, detail)
    if isinstance(failure, MethodNotAllowed):
        response.headers["Allow"] = ", ".join(failure.allowed)
    return response


def _describe_error(failure: Exception) -> tuple[int, str]:
    """Return the status and the text to show for an exception."""
    if isinstance(failure, ApiError | Error):
        error = build_form_error(failure)
        return error.status, error.detail
    if isinstance(failure, NoRoute):
        return 404, "The console has no such page"
    if isinstance(failure, HTTPException):
        return failure.code or 500, failure.description or ""
    flask.current_app.logger.error("a page of the console failed", exc_info=failure)
    return 500, "This page failed. See the log of the service."
