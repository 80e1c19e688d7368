# SPDX-License-Identifier: Apache-2.0
"""Requests to a WSGI application in this process, without a connection."""

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, cast

import orjson
import requests
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict
from werkzeug.test import create_environ, run_wsgi_app

from placement_sched.api.middleware import WSGI
from placement_sched.model.document import Json

#: Environ keys that describe the connection, also of a request that is a part of another.
_CONNECTION = (
    *("SERVER_NAME", "SERVER_PORT", "SERVER_PROTOCOL", "SCRIPT_NAME", "wsgi.url_scheme"),
    *("REMOTE_ADDR", "REMOTE_PORT", "HTTP_HOST"),
)
_URL = "http://localhost"


@dataclass(frozen=True, slots=True)
class Reply:
    """A response with any status."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Json:
        """Return the decoded body, an empty object if there is no body."""
        document: Json = orjson.loads(self.body) if self.body else {}
        return document


def call_application(
    application: WSGI,
    method: str,
    url: str,
    *,
    body: bytes = b"",
    headers: Mapping[str, Any],
    outer: Mapping[str, Any] | None = None,
) -> Reply:
    """Call ``application`` and return its response.

    ``url`` is a path with an optional query string. ``outer`` is the environ of the request that
    this request is a part of: both have the same connection.
    """
    connection = {key: outer[key] for key in _CONNECTION if key in outer} if outer else {}
    environ = create_environ(
        url, method=method, data=body, headers=dict(headers), environ_overrides=connection
    )
    chunks, status, response_headers = run_wsgi_app(application, environ, buffered=True)
    return Reply(int(status[:3]), dict(response_headers), b"".join(chunks))


class ApplicationTransport(BaseAdapter):
    """Transport of requests that calls an application in this process."""

    def __init__(self, application: WSGI) -> None:
        super().__init__()
        self._application = application

    def send(
        self, request: requests.PreparedRequest, *_: Any, **_options: Any
    ) -> requests.Response:
        """Return the response of the application."""
        body = cast("str | bytes", request.body or b"")
        try:
            reply = call_application(
                self._application,
                str(request.method),
                request.path_url,
                body=body.encode() if isinstance(body, str) else body,
                headers=request.headers,
            )
        except (ValueError, OSError) as failure:
            # keystoneauth's callers report such an error as a failed connection.
            raise RuntimeError(f"{type(failure).__name__}: {failure}") from failure
        response = requests.Response()
        response.status_code, response.url, response.request = reply.status, _URL, request
        response.headers = CaseInsensitiveDict(reply.headers)
        response.raw = BytesIO(reply.body)
        return response

    def close(self) -> None:
        """Do nothing: there is no connection."""


def make_adapter(application: WSGI) -> Adapter:
    """Create an adapter that calls as an administrator without a name."""
    session = requests.Session()
    session.mount(_URL, ApplicationTransport(application))
    return Adapter(
        Session(Token(_URL, ":"), session=session),
        endpoint_override=_URL,
        additional_headers={"X-Roles": "admin"},
    )
