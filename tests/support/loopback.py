# SPDX-License-Identifier: Apache-2.0
"""The loopback address: a port of one's own, and WSGI applications that a thread serves there."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_arguments: Any) -> None:
        """Leave the test's output alone."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def handle_error(self, *_arguments: Any) -> None:
        """Say nothing of a client that waits no longer."""


@contextmanager
def reserve_port() -> Iterator[socket.socket]:
    """Give a socket that is bound to a free port and does not listen.

    Connections are refused, and nobody else is given the port as a free one. Yet a server that is
    told the port can listen there: it sets SO_REUSEADDR as well.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder


@contextmanager
def serve_application(
    application: Callable[..., Any], tls: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Give the URL at which ``application`` answers until the end, over HTTPS with ``tls``."""
    with make_server("127.0.0.1", 0, application, _Server, _Quiet) as server:
        if tls is not None:
            # Hands are shaken by the thread of each client, so that none keeps others waiting.
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
