"""What stands before all faces: the headers of a proxy, and the answers browsers ask for (CORS)."""

from oslo_middleware.cors import CORS
from oslo_middleware.http_proxy_to_wsgi import HTTPProxyToWSGI

from placement_sched.api.wsgi_types import WSGI
from placement_sched.config.settings import Settings


def edged(application: WSGI, settings: Settings) -> WSGI:
    """Return ``application`` behind what is configured of oslo.middleware.

    ``[cors] allowed_origin`` answers preflight requests and names the origins that may read
    answers; ``[oslo_middleware] enable_proxy_headers_parsing`` believes ``Forwarded`` and
    ``X-Forwarded-*``. Neither costs anything where it is not configured.
    """
    if settings.cors.allowed_origin:
        application = CORS(application, settings.conf)
    if settings.oslo_middleware.enable_proxy_headers_parsing:
        application = HTTPProxyToWSGI(application, settings.conf)
    return application
