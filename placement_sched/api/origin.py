"""Where a client says that it asks: scheme and host, for links that lead back there."""

from typing import Any

_USUAL_PORTS = {"http": ":80", "https": ":443"}


def origin_of(environ: dict[str, Any]) -> str:
    """Return scheme and host of a request (WSGI) as the client or its proxy named them.

    The name is taken as it is: those of services inside a cluster often are no host names of the
    internet (``placement_backend``). Without one it is the server's own.
    """
    scheme: str = environ["wsgi.url_scheme"]
    host: str = environ.get("HTTP_HOST") or f"{environ['SERVER_NAME']}:{environ['SERVER_PORT']}"
    return f"{scheme}://{host.removesuffix(_USUAL_PORTS.get(scheme, ''))}"
