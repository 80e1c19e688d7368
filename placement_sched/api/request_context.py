"""The context of a request that each of its log lines shows: its ids, the authenticated caller."""

from collections.abc import Callable, Iterable
from typing import Any

from oslo_context import context

from placement_sched.api.versions import Headers
from placement_sched.model.request_ids import RequestIds, ids_of

StartResponse = Callable[..., Any]
WSGI = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]

#: The header that shows the id of a request, which the log has as well.
REQUEST_ID = "X-Openstack-Request-Id"
#: Where a WSGI environment has the context. No header of a client can have this name.
_KEY = "placement_sched.request_context"
#: Where keystonemiddleware writes what oslo.log shows of a caller.
_CALLER = {
    "user_id": "X-User-Id",
    "project_id": "X-Project-Id",
    "user_domain_id": "X-User-Domain-Id",
    "project_domain_id": "X-Project-Domain-Id",
    "domain_id": "X-Domain-Id",
    "system_scope": "OpenStack-System-Scope",
}


class RequestContext(context.RequestContext):
    """The context of one request, as oslo.log shows it.

    The caller is set once the identity service has confirmed the token; what a client claims in a
    header or a noauth2 token is not shown.
    """

    def __init__(self, ids: RequestIds) -> None:
        self.ids = ids
        super().__init__(request_id=ids.request_id, global_request_id=ids.global_request_id)

    def confirm(self, headers: Headers) -> None:
        """Keep who the identity service says the caller is."""
        for name, header in _CALLER.items():
            setattr(self, name, headers.get(header) or None)


class _NoContext(context.RequestContext):
    """Stands in the thread's store between requests: oslo.log takes it for no context at all."""

    def __bool__(self) -> bool:
        return False


_NONE = _NoContext(overwrite=False)


def context_of(environ: dict[str, Any]) -> RequestContext | None:
    """Return the context of a request, or None where nothing has given it one."""
    found: RequestContext | None = environ.get(_KEY)
    return found


def identified(application: WSGI) -> WSGI:
    """Return ``application`` with a context for each request and its id in each answer: first."""

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
