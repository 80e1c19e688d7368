# SPDX-License-Identifier: Apache-2.0
"""Free ports of the loopback address, and WSGI applications served there by a thread."""

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server


class _HandlerWithoutLog(WSGIRequestHandler):
    def log_message(self, *_arguments: Any) -> None:
        """Log nothing."""


class _ThreadingServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, *_arguments: Any) -> None:
        """Ignore clients that close their connection early."""


@contextmanager
def reserve_port() -> Iterator[socket.socket]:
    """Yield a socket that is bound to a free port and does not listen.

    Connections are refused, and no other program gets the port as a free port. A server can still
    listen on the port: it sets SO_REUSEADDR, too.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder


@contextmanager
def serve_application(
    application: Callable[..., Any], tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Serve an application in a thread, over HTTPS with ``tls``, and yield its URL."""
    with make_server("127.0.0.1", 0, application, _ThreadingServer, _HandlerWithoutLog) as server:
        if tls is not None:
            # Each client's thread does the handshake, so that slow clients do not delay others.
            server.socket = tls.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(timeout=60)


def send_json(
    start_response: Any, status: str, document: Any, *headers: tuple[str, str]
) -> list[bytes]:
    """Send a document, or bytes as they are."""
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    length = ("Content-Length", str(len(content)))
    start_response(status, [("Content-Type", "application/json"), length, *headers])
    return [content]


class FakeService:
    """A service with JSON responses that a test can break."""

    def __init__(self) -> None:
        self.url = ""
        #: Status and document of every response, if set.
        self.failure: tuple[str, Any] | None = None
        #: Cleared to delay all responses.
        self.awake = threading.Event()
        self.awake.set()

    def respond(self, environ: dict[str, Any]) -> tuple[str, Any]:
        """Return status and document of a response."""
        raise NotImplementedError

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        response = self.respond(environ)
        self.awake.wait(10)
        return send_json(start_response, *(self.failure or response))


@contextmanager
def run_fake_service(service: FakeService, tls: ssl.SSLContext | None = None) -> Iterator[None]:
    """Serve a fake service, and set its URL."""
    with serve_application(service, tls) as service.url:
        try:
            yield
        finally:
            service.awake.set()
