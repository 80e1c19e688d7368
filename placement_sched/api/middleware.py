# SPDX-License-Identifier: Apache-2.0
"""WSGI middleware: request context, access log, slow requests, metrics."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from oslo_context import context
from werkzeug.wsgi import ClosingIterator

from placement_sched.api.metrics import Metrics, find_labels
from placement_sched.api.versions import Headers
from placement_sched.model.context import RequestIds, build_request_ids
from placement_sched.model.request_stats import log_slow

StartResponse = Callable[..., Any]
WSGI = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]

#: The header with the request id of the log.
REQUEST_ID = "X-Openstack-Request-Id"
#: Environ key of the context. Clients cannot set it: keys of headers begin with ``HTTP_``.
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
LOG = logging.getLogger(__name__)


class RequestContext(context.RequestContext):
    """The context of a request for oslo.log, with a confirmed caller only."""

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


def find_context(environ: dict[str, Any]) -> RequestContext | None:
    """Return the context of a request, or None if it has none."""
    request_context: RequestContext | None = environ.get(_KEY)
    return request_context


def set_request_context(application: WSGI) -> WSGI:
    """Wrap ``application``, outermost, to set the context and send its id."""

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        ids = build_request_ids(environ.get("HTTP_X_OPENSTACK_REQUEST_ID"))
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


def log_requests(application: WSGI) -> WSGI:
    """Wrap ``application`` to log requests in Apache's common log format."""

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if not LOG.isEnabledFor(logging.INFO):
            return application(environ, start_response)
        began = time.perf_counter()
        # The path as sent, read before the application shifts a part of it to SCRIPT_NAME.
        path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        query = environ.get("QUERY_STRING", "")
        target = _escape(f"{path}?{query}" if query else path)
        status, headers = "-", {}

        def start(status_line: str, header_list: list[tuple[str, str]], *rest: Any) -> Any:
            nonlocal status, headers
            status = status_line.partition(" ")[0]
            headers = {name.lower(): value for name, value in header_list}
            return start_response(status_line, header_list, *rest)

        body = application(environ, start)
        milliseconds = round((time.perf_counter() - began) * 1000, 1)
        # Logged after the client has its response (PEP 3333).
        return ClosingIterator(
            body, lambda: _log_request(environ, target, status, headers, milliseconds)
        )

    return serve


def _log_request(
    environ: dict[str, Any],
    target: str,
    status: str,
    headers: Mapping[str, str],
    milliseconds: float,
) -> None:
    context, labels = find_context(environ), find_labels(environ)
    # From a header if there is a proxy: it may be any text.
    client = _escape_word(environ.get("REMOTE_ADDR") or "")
    # Only a user that the identity service confirmed: an unconfirmed token may be a keystone token
    # that was sent to the wrong service.
    user = _escape_word((context and context.user_id) or "-")
    # Fields for [DEFAULT] use_json. The context has the ids, the user and the project.
    fields = {
        "method": environ.get("REQUEST_METHOD"),
        "path": target,
        "api": labels.api if labels else None,
        "route": labels.route if labels else None,
        "status": int(status) if status.isdecimal() else None,
        "duration_ms": milliseconds,
        "client": client or None,
    }
    LOG.info(
        '%s - %s [%s] "%s %s %s" %s %s %s %.1f ms',
        client or "-",
        user,
        datetime.now().astimezone().strftime("%d/%b/%Y:%H:%M:%S %z"),
        environ.get("REQUEST_METHOD", "-"),
        target,
        environ.get("SERVER_PROTOCOL", "-"),
        status,
        headers.get("content-length", "-"),
        headers.get("x-openstack-request-id", "-"),
        milliseconds,
        extra={"context": context, "extra": fields},
    )


def _escape_word(text: str) -> str:
    return _escape(text).replace(" ", "_")


def _escape(text: str) -> str:
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text
    return "".join(
        char if char.isprintable() and char not in '"\\' else f"\\x{ord(char):02x}" for char in text
    )


def observe_requests(application: WSGI, metrics: Metrics, slow_seconds: float) -> WSGI:
    """Wrap ``application`` to count requests and to log slow requests.

    Requests without labels are not counted. A request is slow if its response takes
    ``slow_seconds`` or more. With 0, no request is logged. The CORS middleware must be
    inside of this wrapper, because it may replace a response and its status.
    """

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        began = time.perf_counter()

        def start(status_line: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            seconds, status = time.perf_counter() - began, int(status_line[:3])
            if slow_seconds and seconds >= slow_seconds:
                _log_slow_request(environ, status, seconds)
            metrics.count_request(environ, status, seconds)
            return start_response(status_line, headers, *rest)

        return application(environ, start)

    return serve


def _log_slow_request(environ: dict[str, Any], status: int, seconds: float) -> None:
    labels = find_labels(environ)
    name = "a request outside of the APIs"
    fields = {"status": status, "duration_ms": round(seconds * 1000, 1)}
    if labels:
        name = f"{labels.method} /{labels.api}{labels.route}"
        fields |= labels._asdict()
    log_slow(LOG, name, f"status {status}", fields, context=find_context(environ))
