"""What is known of a request wherever it is handled: its ids, and who was authenticated.

The log shows it with every line of the request, as OpenStack's services do.
"""

from collections.abc import Callable, Iterable
from typing import Any

from oslo_context import context

from placement_sched.api.response import REQUEST_ID
from placement_sched.api.wsgi_types import WSGI
from placement_sched.model.request_ids import RequestIds, ids_of

#: Where a WSGI environment has the context. No header of a client can have this name.
_KEY = "placement_sched.request_context"


class RequestContext(context.RequestContext):
    """The context of one request, as oslo.log shows it.

    The caller is only in it once the identity service has confirmed the token: what a client says
    of itself, by a header or by a token of noauth2, is not shown.
    """

    def __init__(self, ids: RequestIds) -> None:
        self.ids = ids
        super().__init__(request_id=ids.request_id, global_request_id=ids.global_request_id)

    def confirm(self, user_id: str | None, project_id: str | None, **further: str | None) -> None:
        """Keep who the identity service says the caller is."""
        self.user_id = user_id
        self.project_id = project_id
        for name, value in further.items():
            setattr(self, name, value)


def context_of(environ: dict[str, Any]) -> RequestContext | None:
    """Return the context of a request, or None where nothing has given it one."""
    found: RequestContext | None = environ.get(_KEY)
    return found


def identified(application: WSGI) -> WSGI:
    """Return ``application`` with a context for each request, and its id in each answer.

    To be put before everything else that logs or answers.
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
            # The thread's next work may be of no request. There is no other way to say so.
            context._request_store.context = None  # noqa: SLF001

    return serve
