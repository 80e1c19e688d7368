# SPDX-License-Identifier: Apache-2.0
"""Rendering of pages, their security headers and the checks of requests."""

import csv
import io
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from http import HTTPStatus
from ipaddress import ip_address
from time import monotonic
from typing import Any
from urllib.parse import urlencode, urlsplit

import flask
from jinja2 import ChoiceLoader, Environment, PackageLoader

from placement_sched.api.middleware import WSGI, StartResponse
from placement_sched.api.request import STATUS_PHRASES, get_status
from placement_sched.cli.report.html import TEMPLATES, Heading, build_environment
from placement_sched.cli.service import resolve
from placement_sched.config.settings import Settings
from placement_sched.errors import Error, Forbidden, NotFound
from placement_sched.extensions.console.client import ApiClient, ApiError, SignInNeeded
from placement_sched.extensions.console.forms import build_curl
from placement_sched.extensions.console.units import FILTERS
from placement_sched.model.clock import utcnow
from placement_sched.model.document import Json
from placement_sched.model.provider import FULL, NEARLY_FULL

#: Headers of every response below ``/console``. They allow only scripts and styles of this service,
#: and no inline scripts or styles.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
#: First characters of a text that a spreadsheet evaluates as a formula.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
_OPENER_POLICY = "Cross-Origin-Opener-Policy"
#: The header of responses that have no Cache-Control header.
_NO_STORE = {"Cache-Control": "no-store"}
#: Headers that a proxy adds.
_PROXY_HEADERS = (
    "Forwarded",
    "Via",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Port",
    "X-Forwarded-Proto",
    "X-Forwarded-Server",
    "X-Real-Ip",
)


def add_security_headers(application: WSGI) -> WSGI:
    """Wrap ``application`` to add :data:`HEADERS` to responses of the console.

    Pages also add the headers. This wrapper is for rejections of incomplete bodies and unknown
    methods, which occur before any page is called.
    """

    def wrapper(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        path: str = environ.get("PATH_INFO", "")
        if path != "/console" and not path.startswith("/console/"):
            return application(environ, start_response)

        def start(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            present = {name.lower() for name, _ in headers}
            defaults = {**HEADERS, **_NO_STORE}.items()
            missing = [(name, value) for name, value in defaults if name.lower() not in present]
            complete = [*headers, *missing]
            if not is_encrypted(flask.Request(environ)):
                # Without TLS, browsers ignore this header and log an error.
                complete = [pair for pair in complete if pair[0] != _OPENER_POLICY]
            return start_response(status, complete, *exc_info)

        return application(environ, start)

    return wrapper


def is_shown(request: flask.Request, settings: Settings) -> bool:
    """Return whether ``[console] enabled`` shows the console to this client."""
    enabled: bool | None = settings.console.enabled
    return is_local(request) if enabled is None else enabled


def describe_address(settings: Settings, host: str, url: str) -> str:
    """Return the line of ``serve`` about the console at ``url``, or "".

    ``host`` is the address of the server.
    """
    is_shown: bool | None = settings.console.enabled
    if is_shown is None:
        is_shown = any(map(_is_loopback, resolve(host)))
    return f"the console is at {url}/" if is_shown else ""


def is_local(request: flask.Request) -> bool:
    """Return whether a browser on this machine requests a loopback address.

    The host name must be a loopback name, too: a page of another site could resolve its own name
    to 127.0.0.1 and read the responses (DNS rebinding).
    """
    if any(name in request.headers for name in _PROXY_HEADERS):
        return False
    client = request.environ.get("REMOTE_ADDR") or "127.0.0.1"
    host = urlsplit(f"//{request.host}").hostname or ""
    return _is_loopback(client) and (host == "localhost" or _is_loopback(host))


def check_shown(request: flask.Request, settings: Settings) -> None:
    """Raise :class:`NotFound` if a client may not see the console."""
    if not is_shown(request, settings):
        raise NotFound(
            "The console is not enabled here: without [console] enabled = true it is shown only to "
            "browsers on the machine of the service, at a loopback address"
        )


def check_same_origin(request: flask.Request) -> None:
    """Reject a request that a page of another origin has sent.

    Raises :class:`Forbidden`. Other sites may link to a page, but may not post a form or read data.
    Browsers send the origin in ``Sec-Fetch-Site`` and ``Origin`` (Fetch Metadata, W3C).
    """
    site = request.headers.get("Sec-Fetch-Site")
    is_navigation = request.method in {"GET", "HEAD"} and request.headers.get("Sec-Fetch-Mode") in {
        None,
        "navigate",
    }
    if site is not None:
        is_allowed = site in {"same-origin", "none"} or is_navigation
    else:
        origin = request.headers.get("Origin")
        own = {f"{scheme}://{request.host}" for scheme in ("http", "https")}
        is_allowed = is_navigation if origin is None else origin in own
    if not is_allowed:
        raise Forbidden("The request was sent by a page of another origin")


def is_encrypted(request: flask.Request) -> bool:
    """Return whether passwords may be sent: over TLS or within this machine."""
    return request.scheme == "https" or is_local(request)


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


#: The page that exists only if the APIs have the routes that it needs.
_CAPACITY = "Capacity"
#: The pages of the navigation: name, path below ``/console/``, purpose.
NAVIGATION = (
    ("Overview", "", "Hosts, used resources and failed requests"),
    ("Ask", "ask", "Explanation of a request: selected and rejected hosts"),
    ("Cloud", "cloud", "Every host, coloured by its used resources"),
    ("Decisions", "decisions", "Recorded decisions and their reasons"),
    (_CAPACITY, "capacity", "How many more instances fit"),
    ("Aggregates", "aggregates", "Host aggregates and reserved hosts"),
    ("Policies", "policies", "The options of each scheduling policy"),
)


#: The request of each page, which API policy rules allow or not. The overview has the rule of the
#: list of hosts, which rejects an invalid query at once.
_REQUESTS = {
    "Overview": ("GET", "/scheduler/v1/hosts"),
    "Ask": ("POST", "/scheduler/v1/explain"),
    "Cloud": ("GET", "/scheduler/v1/hosts"),
    "Decisions": ("GET", "/scheduler/v1/decisions"),
    _CAPACITY: ("POST", "/scheduler/v1/capacity"),
    "Aggregates": ("GET", "/scheduler/v1/aggregate_check"),
    "Policies": ("GET", "/scheduler/v1/policies"),
}
#: Lifetime of the cached pages of a token in seconds, and the maximum number of tokens.
_ACCESS_LIFETIME, _MAX_TOKENS = 60.0, 1000


class PageAccess:
    """Pages that API policy rules allow each token, cached for a minute."""

    #: The name among the extensions of the application.
    NAME = "console_access"

    def __init__(self) -> None:
        self._pages: dict[bytes, tuple[float, frozenset[str]]] = {}

    def list_pages(self, client: ApiClient, token: str) -> frozenset[str]:
        """Return the names of the pages that a token may read.

        They are all pages if the token cannot be checked, or if it leads to the sign-in.
        """
        key, now = sha256(token.encode()).digest(), monotonic()
        end, pages = self._pages.get(key, (0.0, frozenset()))
        if now >= end:
            try:
                allowed = [name for name, sent in _REQUESTS.items() if client.is_allowed(*sent)]
            except (ApiError, SignInNeeded):
                return frozenset(_REQUESTS)
            pages = frozenset(allowed)
            if len(self._pages) >= _MAX_TOKENS:
                self._pages.clear()
            self._pages[key] = now + _ACCESS_LIFETIME, pages
        return pages


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The entries of a page's Share menu, besides the page's link.

    None omits an entry. ``curl`` and ``command`` are shell commands that print the content of
    the page. The other fields are addresses.
    """

    curl: str | None = None
    command: str | None = None
    report: str | None = None
    csv: str | None = None
    json: str | None = None

    @property
    def address(self) -> str:
        """Return the address of the page with its query."""
        request = flask.request
        return f"{request.host_url.rstrip('/')}{request.root_path}{request.full_path.rstrip('?')}"


def build_share(
    api: str,
    query: str = "",
    *,
    body: Json | None = None,
    command: Sequence[str] = (),
    report: str | None = None,
    csv: str | None = None,
) -> Share:
    """Build the Share menu for a page that shows the response of an API.

    ``api`` and ``query`` are the path and the query string of the API, and ``body`` is the body of
    the request to it, or None. ``command`` is without the address of the server. ``report`` and
    ``csv`` are addresses below ``/console``.
    """
    request = flask.request
    root, url = f"{request.root_path}/console", request.url_root.rstrip("/")
    address = f"{api}?{query}" if query else api
    return Share(
        curl=build_curl(f"{url}{address}", body),
        command=shlex.join(["placement-sched", *command, "--url", url]) if command else None,
        report=None if report is None else f"{root}{report}",
        csv=None if csv is None else f"{root}{csv}",
        json=f"{root}/api{address}" if body is None else None,
    )


def render_page(
    template: str, title: str, values: Mapping[str, Any] | None = None, *, status: int = 200
) -> flask.Response:
    """Render a page from a template that extends ``page.html``.

    Templates have ``root`` (the path of the console without a trailing slash), ``title``,
    ``person`` (the signed-in person), ``here`` (the path and query string of the page),
    ``has_capacity`` (whether the capacity pages exist) and ``shown_at`` (the time of the fleet file
    that the service shows, or None). The value ``share`` is a :class:`Share`, or None for a page
    without a Share menu. ``refresh`` is the number of seconds after which scripts read the page
    again, or None. If ``refreshes_whole``, ``refresh.js`` does it, else the script of the page.
    """
    request = flask.request
    has_capacity = "console.capacity_index" in flask.current_app.view_functions
    person = flask.g.get("person")
    pages = {name for name, _, _ in NAVIGATION} - (set() if has_capacity else {_CAPACITY})
    if person and person.signs_out:
        access = flask.current_app.extensions[PageAccess.NAME]
        pages &= access.list_pages(get_api_client(), person.token)
    common = {
        "root": f"{request.root_path}/console",
        "title": title,
        "has_capacity": has_capacity,
        "navigation": [page for page in NAVIGATION if page[0] in pages],
        "person": person,
        "cloud_name": flask.g.get("cloud_name"),
        "shown_at": flask.g.get("shown_at"),
        "now": utcnow(),
        "refresh": None,
        "refreshes_whole": False,
        "share": Share(),
        "here": request.full_path.rstrip("?"),
    }
    html = render_template(template, {**common, **(values or {})})
    return with_headers(flask.Response(html, status))


def render_template(template: str, values: Mapping[str, Any]) -> str:
    """Render a template of the console, which may include parts of reports."""
    return _get_environment().get_template(template).render(values)


@cache
def _get_environment() -> Environment:
    environment = build_environment(ChoiceLoader([PackageLoader(__package__), TEMPLATES]))
    environment.filters.update(FILTERS)
    environment.globals.update(NEARLY_FULL=NEARLY_FULL, FULL=FULL)
    return environment


def redirect_without_empty_fields() -> flask.Response | None:
    """Redirect to this address without empty fields, or return None.

    Browsers without scripts send every field of a form. Returns None if no field is empty. If all
    fields are empty, it also returns None, so that the page can report this.
    """
    pairs = list(flask.request.args.items(multi=True))
    filled = [(name, text) for name, text in pairs if text.strip()]
    if not filled or len(filled) == len(pairs):
        return None
    return redirect(f"{flask.request.path}?{urlencode(filled)}")


def redirect(path: str) -> flask.Response:
    """Return a redirect to a path and query below the root of the application."""
    headers = {"Location": f"{flask.request.root_path}{path}"}
    return with_headers(flask.Response(status=HTTPStatus.SEE_OTHER, headers=headers))


#: What to do about an API policy rule, which the error before it names.
_ALLOWING = (
    " By default this rule allows the role admin. An administrator can allow other roles in a "
    "policy file ([oslo_policy] policy_file)."
)


@dataclass(frozen=True, slots=True)
class FormError:
    """The error of a form, with the status of the page and a text."""

    status: int
    detail: str


def build_form_error(failure: ApiError | Error) -> FormError:
    """Convert a rejection of a form to the error to show."""
    if isinstance(failure, Error):
        return FormError(int(get_status(failure)), failure.detail)
    is_policy = failure.status == HTTPStatus.FORBIDDEN and flask.g.person.signs_out
    return FormError(int(failure.status), f"{failure.detail}{_ALLOWING * is_policy}")


def render_result_page(
    template: str, title: str, values: Mapping[str, Any], build: Callable[[], Mapping[str, Any]]
) -> flask.Response:
    """Render a page with the values that ``build`` returns.

    If ``build`` raises an error of an API or form, the page gets it in the value ``error``.
    """
    try:
        return render_page(template, title, {"error": None, **values, **build()})
    except (ApiError, Error) as failure:
        error = build_form_error(failure)
        return render_page(template, title, {**values, "error": error}, status=error.status)


def render_error_page(status: int, detail: str) -> flask.Response:
    """Render the page of an error.

    ``detail`` is a sentence.
    """
    title = STATUS_PHRASES[status]
    values = {"status": int(status), "detail": detail, "share": None}
    return render_page("error.html", title, values, status=status)


def build_heading(title: str, *facts: tuple[str, str]) -> Heading:
    """Build the heading of a report by this service, with the current time."""
    source = flask.request.url_root.rstrip("/")
    return Heading(title=title, source=source, created_at=utcnow(), facts=facts)


def find_next_page_query(links: Iterable[Mapping[str, str]]) -> str | None:
    """Return the query string of the next page, from the API's link, or None."""
    queries = (urlsplit(link["href"]).query for link in links if link["rel"] == "next")
    return next(queries, None)


def download(name: str, html: str) -> flask.Response:
    """Send a report as an attachment."""
    response = with_headers(flask.Response(html, content_type="text/html; charset=utf-8"))
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def send_csv(name: str, titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> flask.Response:
    """Send a table as an attachment in CSV.

    A cell that a spreadsheet would evaluate as a formula gets an apostrophe as its prefix.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(titles)
    for row in rows:
        cells = ("" if cell is None else str(cell) for cell in row)
        writer.writerow(f"'{cell}" if cell.startswith(_FORMULAS) else cell for cell in cells)
    response = with_headers(flask.Response(text.getvalue(), content_type="text/csv; charset=utf-8"))
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def with_headers(response: flask.Response) -> flask.Response:
    """Add the headers of all pages to a response and forbid storing it."""
    response.headers.update(HEADERS)
    response.headers["Cache-Control"] = "no-store"
    return response


def get_api_client() -> ApiClient:
    """Return the API client of the person who sent the current request."""
    return ApiClient(flask.g.person.token)
