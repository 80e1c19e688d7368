"""Which application a path leads to: the first part of the path decides."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from placement_sched.api.wsgi_types import WSGI


def mounted(applications: Mapping[str, WSGI], otherwise: WSGI) -> WSGI:
    """Return the application (WSGI) that hands each request to the one under its first part.

    ``applications`` are told by that part, as in ``/placement``; what leads to none of them is
    left to ``otherwise`` as it is, paths that do not begin with a slash among it.
    """

    def dispatch(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path: str = environ.get("PATH_INFO", "")
        end = path.find("/", 1)
        first = path if end < 0 else path[:end]
        application = applications.get(first)
        if application is None:
            return otherwise(environ, start_response)
        environ["SCRIPT_NAME"] = environ.get("SCRIPT_NAME", "") + first
        environ["PATH_INFO"] = path[len(first) :]
        return application(environ, start_response)

    return dispatch
