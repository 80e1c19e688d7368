# SPDX-License-Identifier: Apache-2.0
"""Clients of services that run in this process, without a network."""

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
from tests.differential.peer.wsgi_call import call_application
from tests.differential.sides import OpenStackPlacementPeer

#: Answers a request with a response. Both are documents of ``wsgi_call``.
RequestHandler = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class FunctionTransport(BaseAdapter):
    """Transport adapter that calls a function and records the requests."""

    def __init__(self, handler: RequestHandler) -> None:
        super().__init__()
        self._handler = handler
        self.seen: list[str] = []

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:
        url = urlsplit(request.url)
        target = url.path + (f"?{url.query}" if url.query else "")
        self.seen.append(f"{request.method} {target}")
        body = request.body.encode() if isinstance(request.body, str) else request.body
        reply = self._handler(
            {
                "method": request.method,
                "target": target,
                "headers": list(request.headers.items()),
                "body": None if body is None else base64.b64encode(body).decode(),
            }
        )
        response = requests.Response()
        response.status_code = reply["status"]
        response.reason = "told"
        response.headers.update(dict(reply["headers"]))
        response._content = base64.b64decode(reply["body"])
        response.url, response.request = request.url, request
        return response

    def close(self) -> None:
        """Do nothing."""


def build_wsgi_handler(application: Any) -> RequestHandler:
    return lambda request: call_application(application, request)


def build_peer_handler(peer: OpenStackPlacementPeer) -> RequestHandler:
    """Return the handler of OpenStack's placement, which runs in its own process."""
    return peer.send_wsgi_request


def build_adapter(transport: FunctionTransport, url: str = "http://elsewhere") -> Adapter:
    """Return a client of the service at ``url`` with the token of noauth2's administrator."""
    session = requests.Session()
    session.mount(url, transport)
    return Adapter(Session(auth=Token(url, "admin"), session=session), endpoint_override=url)


def placement_service(transport: FunctionTransport, url: str = "http://elsewhere") -> RemoteService:
    return RemoteService(build_adapter(transport, url), "placement")


def compute_service(transport: FunctionTransport, url: str = "http://elsewhere") -> RemoteService:
    return RemoteService(build_adapter(transport, url), "compute")


def build_document_handler(
    documents: Mapping[str, Any], *, version: str | None = "compute 2.53", status: int = 200
) -> RequestHandler:
    """Return a handler that sends the document of each path, and 404 for other paths."""

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
