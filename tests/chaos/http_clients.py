# SPDX-License-Identifier: Apache-2.0
"""Clients of an application in this process and of a server."""

import json
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any

from webtest import TestApp

from tests.chaos.valid_requests import ADMIN_SERVICE_HEADERS


class InProcessClient:
    """Sends requests to an application in this process."""

    def __init__(self, app: TestApp) -> None:
        self._app = app

    def send_request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[int, str]:
        """Return the status and the body of the response."""
        request = self._app.RequestClass.blank(path, method=method, headers=dict(headers))
        if body is not None:
            request.body = body
        response = self._app.do_request(request, expect_errors=True)
        return response.status_int, response.body.decode("utf-8", "replace")


class HttpClient:
    """Sends requests to a server."""

    def __init__(self, connection: HTTPConnection) -> None:
        self._connection = connection

    def send_request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[int, str]:
        """Return the status and the body of the response."""
        self._connection.request(method, path, body, dict(headers))
        response = self._connection.getresponse()
        return response.status, response.read().decode("utf-8", "replace")


def send_json(
    client: InProcessClient | HttpClient,
    method: str,
    path: str,
    body: Any,
    version: str,
    headers: Mapping[str, str] = ADMIN_SERVICE_HEADERS,
) -> Any:
    """Return the document of the response, or {}. A write must succeed."""
    headers = {**headers, "OpenStack-API-Version": version}
    if body is not None:
        is_binary = isinstance(body, bytes)
        headers["Content-Type"] = "application/octet-stream" if is_binary else "application/json"
        body = body if is_binary else json.dumps(body).encode()
    status, text = client.send_request(method, path, headers, body)
    assert method == "GET" or status < 300, (method, path, text)
    return json.loads(text) if status == 200 and text else {}
