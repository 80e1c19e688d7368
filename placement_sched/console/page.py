"""One page: its template within the frame that all pages share, with the headers that guard it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlencode, urlsplit

import flask

from placement_sched.api.request_context import WSGI, StartResponse
from placement_sched.api.response import status_of
from placement_sched.config.settings import Settings
from placement_sched.console.client import ApiRefused, Caller
from placement_sched.console.reports import Heading, rendered
from placement_sched.errors import Error, Forbidden, NotFound
from placement_sched.model.clock import utcnow

#: Sent with every answer below ``/console``. Scripts and styles come from this service alone, and
#: none stand inline.
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
#: Where an answer does not say itself how long it is kept.
_NOT_KEPT = {"Cache-Control": "no-store"}
#: By these a proxy says that the client is elsewhere.
_FORWARDED = (
    "Forwarded",
    "Via",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Port",
    "X-Forwarded-Proto",
    "X-Forwarded-Server",
    "X-Real-Ip",
)


def guarding(application: WSGI) -> WSGI:
    """Return ``application`` with :data:`HEADERS` on each answer below ``/console``.

    Those of pages have them already; a body that does not arrive, or a method that HTTP does not
    know, is refused before any page is asked.
    """

    def answer(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        path: str = environ.get("PATH_INFO", "")
        if path != "/console" and not path.startswith("/console/"):
            return application(environ, start_response)

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            known = {name.lower() for name, _ in headers}
            wanted = {**HEADERS, **_NOT_KEPT}.items()
            missing = [(name, value) for name, value in wanted if name.lower() not in known]
            return start_response(status, [*headers, *missing], *rest)

        return application(environ, start)

    return answer


def is_shown(request: flask.Request, settings: Settings) -> bool:
    """Return whether this client is shown the console, as ``[console] enabled`` says."""
    enabled: bool | None = settings.console.enabled
    return is_local(request) if enabled is None else enabled


def is_local(request: flask.Request) -> bool:
    """Return whether a browser on this machine asks, and knows that it does.

    The name it asked for has to be a loopback one, too: a page of another site may resolve its
    own name to 127.0.0.1, and read what is answered there.
    """
    if any(name in request.headers for name in _FORWARDED):
        return False
    client = request.environ.get("REMOTE_ADDR") or "127.0.0.1"
    host = urlsplit(f"//{request.host}").hostname or ""
    return _is_loopback(client) and (host == "localhost" or _is_loopback(host))


def check_shown(request: flask.Request, settings: Settings) -> None:
    """Raise :class:`NotFound` where this client is not shown the console."""
    if not is_shown(request, settings):
        raise NotFound(
            "The console is not enabled here: without [console] enabled = true it is shown to "
            "browsers on the machine of the service alone, at a loopback address"
        )


def check_same_origin(request: flask.Request) -> None:
    """Raise :class:`Forbidden` where a page of another origin has sent a request.

    Links of other sites may open a page; they may not post a form or read data. Browsers say by
    ``Sec-Fetch-Site`` and ``Origin`` where a request comes from (Fetch Metadata, W3C).
    """
    site = request.headers.get("Sec-Fetch-Site")
    opens = request.method in {"GET", "HEAD"} and request.headers.get("Sec-Fetch-Mode") in {
        None,
        "navigate",
    }
    if site is not None:
        allowed = site in {"same-origin", "none"} or opens
    else:
        origin = request.headers.get("Origin")
        own = {f"{scheme}://{request.host}" for scheme in ("http", "https")}
        allowed = opens if origin is None else origin in own
    if not allowed:
        raise Forbidden("The request was sent by a page of another origin")


def is_encrypted(request: flask.Request) -> bool:
    """Return whether passwords may be sent: by TLS, or within this machine."""
    return request.scheme == "https" or is_local(request)


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


#: The pages that the navigation shows: name, path below ``/console/``, and what each is for.
NAVIGATION = (
    ("Cloud", "", "Every host, coloured by what it has free"),
    ("Ask", "ask", "Where a request would go, and why not elsewhere"),
    ("Decisions", "decisions", "What was decided, and how"),
    ("Capacity", "capacity", "How many more instances fit"),
    ("Aggregates", "aggregates", "Which hosts are reserved for what"),
    ("Policies", "policies", "The options of each scheduling policy"),
)


def page(
    template: str, title: str, values: Mapping[str, Any] | None = None, *, status: int = 200
) -> flask.Response:
    """Return the page of a template that extends ``page.html``.

    Templates have ``root``, the path of the console without a slash at its end, ``title``,
    ``person`` (who has signed in) and ``here``, the page's own path and query string.
    """
    request = flask.request
    known = {
        "root": f"{request.root_path}/console",
        "title": title,
        "navigation": NAVIGATION,
        "person": flask.g.get("person"),
        "here": request.full_path.rstrip("?"),
    }
    return guarded(flask.Response(rendered(template, {**known, **(values or {})}), status))


def without_empty_fields() -> flask.Response | None:
    """Return a redirect to this address without its empty fields, None where it has none.

    A browser without scripts sends every field of a form. Where all are empty they stay, so that
    the page can say what is missing.
    """
    pairs = list(flask.request.args.items(multi=True))
    filled = [(name, text) for name, text in pairs if text.strip()]
    if not filled or len(filled) == len(pairs):
        return None
    address = f"{flask.request.root_path}{flask.request.path}?{urlencode(filled)}"
    return guarded(flask.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": address}))


@dataclass(frozen=True, slots=True)
class FormError:
    """Why a form has no answer, in the words of who refuses it, and the status of its page."""

    status: int
    detail: str


def form_error(failure: ApiRefused | Error) -> FormError:
    """Return what a page says of a question that was refused."""
    if isinstance(failure, Error):
        return FormError(int(status_of(failure)), failure.detail)
    return FormError(int(failure.status), failure.detail)


def error_page(status: int, detail: str) -> flask.Response:
    """Return the page of an error; ``detail`` says in one sentence what is wrong."""
    title = HTTPStatus(status).phrase
    return page("error.html", title, {"status": int(status), "detail": detail}, status=status)


def heading(title: str, *facts: tuple[str, str]) -> Heading:
    """Return the heading of a report that is made now, of what this service answered."""
    place = flask.request.host_url.rstrip("/")
    return Heading(title=title, place=place, made=utcnow(), facts=facts)


def download(name: str, html: str) -> flask.Response:
    """Return a report as a file to keep."""
    response = guarded(flask.Response(html, content_type="text/html; charset=utf-8"))
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def guarded(response: flask.Response) -> flask.Response:
    """Return a response that no one stores, with the headers of all pages."""
    response.headers.update(HEADERS)
    response.headers["Cache-Control"] = "no-store"
    return response


def caller() -> Caller:
    """Return what asks the APIs as the person who has sent the current request."""
    return Caller(flask.g.person.token)
