"""What stands before all faces: the headers of a proxy, and the answers browsers ask for (CORS)."""

from collections.abc import Callable, Iterable
from typing import Any
from uuid import uuid4

from oslo_middleware.cors import CORS
from oslo_middleware.http_proxy_to_wsgi import HTTPProxyToWSGI

from placement_sched.api.response import REQUEST_ID
from placement_sched.api.wsgi_types import WSGI
from placement_sched.config.settings import Settings


def edged(application: WSGI, settings: Settings) -> WSGI:
    """Return ``application`` behind what is configured of oslo.middleware.

    ``[cors] allowed_origin`` answers preflight requests and names the origins that may read
    answers; ``[oslo_middleware] enable_proxy_headers_parsing`` believes ``Forwarded`` and
    ``X-Forwarded-*``. Neither costs anything where it is not configured.
    """
    if settings.cors.allowed_origin:
        application = _identified(CORS(application, settings.conf))
    if settings.oslo_middleware.enable_proxy_headers_parsing:
        application = HTTPProxyToWSGI(application, settings.conf)
    return application


def _identified(application: WSGI) -> WSGI:
    """Return ``application`` with a request id on answers that no face gave, as to preflights."""

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            if all(name.lower() != REQUEST_ID.lower() for name, _ in headers):
                headers = [*headers, (REQUEST_ID, f"req-{uuid4()}")]
            return start_response(status, headers, *rest)

        return application(environ, start)

    return serve
