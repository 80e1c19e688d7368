# SPDX-License-Identifier: Apache-2.0
"""Asks an application in this process, or a server, whatever is to be asked."""

import json
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any

from webtest import TestApp

from tests.chaos.right_requests import ALL_ROLES


class InProcessClient:
    """Asks an application in this process."""

    def __init__(self, app: TestApp) -> None:
        self._app = app

    def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[int, str]:
        """Return the status and the body of an answer."""
        request = self._app.RequestClass.blank(path, method=method, headers=dict(headers))
        if body is not None:
            request.body = body
        answer = self._app.do_request(request, expect_errors=True)
        return answer.status_int, answer.body.decode("utf-8", "replace")


class HttpClient:
    """Asks a server."""

    def __init__(self, connection: HTTPConnection) -> None:
        self._connection = connection

    def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[int, str]:
        """Return the status and the body of an answer."""
        self._connection.request(method, path, body, dict(headers))
        answer = self._connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")


def send_json(
    client: InProcessClient | HttpClient,
    method: str,
    path: str,
    body: Any,
    version: str,
    headers: Mapping[str, str] = ALL_ROLES,
) -> Any:
    """Return the document that answers a request, {} where there is none; a write must succeed."""
    headers = {**headers, "OpenStack-API-Version": version}
    if body is not None:
        of_bytes = isinstance(body, bytes)
        headers["Content-Type"] = "application/octet-stream" if of_bytes else "application/json"
        body = body if of_bytes else json.dumps(body).encode()
    status, text = client.send(method, path, headers, body)
    assert method == "GET" or status < 300, (method, path, text)
    return json.loads(text) if status == 200 and text else {}
