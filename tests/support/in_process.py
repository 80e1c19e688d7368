# SPDX-License-Identifier: Apache-2.0
"""Services asked as over HTTP, by the same client, but in this process: each on an address."""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import requests
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token
from requests.adapters import BaseAdapter

from placement_sched.clients.session import RemoteService
from tests.differential.peer.wsgi_call import call
from tests.differential.sides import Peer

#: Answers a request that is told as ``wsgi_call`` has it.
Asked = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class InProcess(BaseAdapter):
    """Hands requests to a function instead of to the network; keeps what was asked."""

    def __init__(self, asked: Asked) -> None:
        super().__init__()
        self._asked = asked
        self.seen: list[str] = []

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:
        url = urlsplit(request.url)
        target = url.path + (f"?{url.query}" if url.query else "")
        self.seen.append(f"{request.method} {target}")
        body = request.body.encode() if isinstance(request.body, str) else request.body
        told = self._asked(
            {
                "method": request.method,
                "target": target,
                "headers": list(request.headers.items()),
                "body": None if body is None else base64.b64encode(body).decode(),
            }
        )
        answer = requests.Response()
        answer.status_code = told["status"]
        answer.reason = "told"
        answer.headers.update(dict(told["headers"]))
        answer._content = base64.b64decode(told["body"])
        answer.url, answer.request = request.url, request
        return answer

    def close(self) -> None:
        """There is nothing to close."""


def wsgi_handler(application: Any) -> Asked:
    """Let a WSGI application of this process answer."""
    return lambda asked: call(application, asked)


def peer_handler(other: Peer) -> Asked:
    """Let OpenStack's placement answer, which runs in a process of its own."""
    return other.answer


def build_adapter(door: InProcess, url: str = "http://elsewhere") -> Adapter:
    """Return who asks at ``url`` with the token of noauth2's administrator."""
    session = requests.Session()
    session.mount(url, door)
    return Adapter(Session(auth=Token(url, "admin"), session=session), endpoint_override=url)


def placement_service(door: InProcess, url: str = "http://elsewhere") -> RemoteService:
    return RemoteService(build_adapter(door, url), "placement")


def compute_service(door: InProcess, url: str = "http://elsewhere") -> RemoteService:
    return RemoteService(build_adapter(door, url), "compute")


def answer_with_documents(
    documents: Mapping[str, Any], *, version: str | None = "compute 2.53", status: int = 200
) -> Asked:
    """Let the documents answer, each a path's; others are not found."""

    def send_document(request: Mapping[str, Any]) -> Mapping[str, Any]:
        path = request["target"].partition("?")[0]
        document = documents.get(path)
        if callable(document):
            document = document(request["target"])
        headers = [] if version is None else [["OpenStack-API-Version", version]]
        return {
            "status": 404 if document is None else status,
            "headers": headers,
            "body": base64.b64encode(json.dumps(document).encode()).decode(),
        }

    return send_document
