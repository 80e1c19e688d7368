"""Who may open the console, and from where: checked before any page looks at a request."""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import flask

from placement_sched.api.request_context import WSGI, StartResponse
from placement_sched.errors import Forbidden, NotFound
from placement_sched.settings import Settings

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
