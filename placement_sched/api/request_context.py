# SPDX-License-Identifier: Apache-2.0
"""The request context of log lines: the ids and the authenticated caller."""

from collections.abc import Callable, Iterable
from typing import Any

from oslo_context import context

from placement_sched.api.versions import Headers
from placement_sched.model.context import RequestIds, ids_of

StartResponse = Callable[..., Any]
WSGI = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]

#: The header with the request id of the log.
REQUEST_ID = "X-Openstack-Request-Id"
#: The environ key of the context. A header of a client cannot have this name.
_KEY = "placement_sched.request_context"
#: The headers of keystonemiddleware with the fields of a caller that oslo.log shows.
_CALLER = {
    "user_id": "X-User-Id",
    "project_id": "X-Project-Id",
    "user_domain_id": "X-User-Domain-Id",
    "project_domain_id": "X-Project-Domain-Id",
    "domain_id": "X-Domain-Id",
    "system_scope": "OpenStack-System-Scope",
}


class RequestContext(context.RequestContext):
    """The context of a request for oslo.log.

    The caller is set once the identity service has confirmed the token. Unconfirmed headers and
    noauth2 tokens are not logged.
    """

    def __init__(self, ids: RequestIds) -> None:
        self.ids = ids
        super().__init__(request_id=ids.request_id, global_request_id=ids.global_request_id)

    def confirm(self, headers: Headers) -> None:
        """Set the caller from the headers of keystonemiddleware."""
        for name, header in _CALLER.items():
            setattr(self, name, headers.get(header) or None)


class _NoContext(context.RequestContext):
    """The context between requests, which oslo.log ignores."""

    def __bool__(self) -> bool:
        return False


_NONE = _NoContext(overwrite=False)


def context_of(environ: dict[str, Any]) -> RequestContext | None:
    """Return the context of a request, or None if it has none."""
    request_context: RequestContext | None = environ.get(_KEY)
    return request_context


def set_request_context(application: WSGI) -> WSGI:
    """Wrap ``application`` to set the context of each request and to send its id.

    This middleware has to be the outermost.
    """

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        ids = ids_of(environ.get("HTTP_X_OPENSTACK_REQUEST_ID"))
        environ[_KEY] = RequestContext(ids)
        header = (REQUEST_ID, ids.request_id or "")

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            headers.append(header)
            return start_response(status, headers, *rest)

        try:
            return application(environ, start)
        finally:
            _NONE.update_store()

    return serve
