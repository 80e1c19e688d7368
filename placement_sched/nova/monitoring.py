# SPDX-License-Identifier: Apache-2.0
"""``/metrics`` and ``/healthz`` of ``placement-sched nova-scheduler``.

The parent process of the workers answers in separate threads. It runs as long as the service, so
that a scrape does not fail if a worker is busy or dies.
"""

import json
import socket
import socketserver
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Protocol
from urllib.parse import urlsplit

from kombu import Connection
from kombu.exceptions import KombuError
from kombu.transport import pyamqp
from oslo_log import log
from prometheus_client.core import GaugeMetricFamily

from placement_sched.errors import ConfigurationError, Error, format_one_line
from placement_sched.nova.message_bus import NovaBus
from placement_sched.nova.rpc import TOPIC
from placement_sched.operations.periodic import PeriodicTask

LOG = log.getLogger(__name__)

OPTION = "[scheduler] metrics_listen"
#: Maximum number of seconds that a client may block a thread.
_CLIENT_TIMEOUT = 10
_JSON = "application/json"
#: Seconds for which the length of RabbitMQ's queue is cached.
QUEUE_LENGTH_LIFETIME = 5
#: Maximum number of seconds to connect to RabbitMQ, and to wait for its reply.
_BROKER_TIMEOUT = 3
_AWAY: tuple[type[Exception], ...] = (
    *pyamqp.Transport.connection_errors,
    *pyamqp.Transport.channel_errors,
    KombuError,
    OSError,
)


class CallMetrics(Protocol):
    """Counters of nova's calls, summed over all processes."""

    def count_call(self, method: str, outcome: str, seconds: float) -> None:
        """Count an answered call, its duration and its statistics."""

    def set_left_out(self, number: int) -> None:
        """Set how many objects of nova the last full sync did not fully record."""

    def scrape(self, accept: str) -> tuple[str, bytes]:
        """Return content type and text of all metrics for an Accept header."""


class Monitor:
    """The HTTP server for Prometheus and for health checks.

    The constructor begins to listen, and raises :class:`Error` if this fails. ``listen`` is the
    value of ``[scheduler] metrics_listen``.
    """

    def __init__(self, listen: str, scrape: Callable[[str], tuple[str, bytes]]) -> None:
        self._scrape = scrape
        #: Whether calls are answered, for ``/healthz/ready``.
        self.is_ready: Callable[[], bool] = lambda: False
        self._server = _create_server(listen, self)
        self._thread: Thread | None = None
        self._path = Path(listen) if listen.startswith("/") else None
        #: The listening address: the path of a unix socket, or address and port.
        self.listens = listen
        if self._path is None:
            host, port = map(str, self._server.server_address[:2])
            self.listens = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def start(self) -> None:
        """Start to answer HTTP requests, in separate threads."""
        self._thread = Thread(target=self._server.serve_forever, name="monitor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering, and remove the file of a unix socket."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def respond(self, path: str, accept: str) -> tuple[HTTPStatus, str, bytes]:
        """Return status, content type and body for ``GET path``."""
        match path.rstrip("/"):
            case "/metrics":
                return HTTPStatus.OK, *self._scrape(accept)
            case "/healthz" | "/healthz/live":
                return _build_status(HTTPStatus.OK, "ok")
            case "/healthz/ready":
                if self.is_ready():
                    return _build_status(HTTPStatus.OK, "ready")
                return _build_status(HTTPStatus.SERVICE_UNAVAILABLE, "not ready")
        return _build_status(HTTPStatus.NOT_FOUND, "not found")


def _build_status(status: HTTPStatus, text: str) -> tuple[HTTPStatus, str, bytes]:
    return status, _JSON, json.dumps({"status": text}, separators=(",", ":")).encode()


def _create_server(listen: str, monitor: Monitor) -> ThreadingHTTPServer:
    class Handler(_Handler):
        respond = staticmethod(monitor.respond)

    try:
        if listen.startswith("/"):
            _remove_stale_socket(Path(listen))
            return _Server(socket.AF_UNIX, listen, Handler)
        host, port = _parse_address(listen)
        (family, _, _, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return _Server(family, address[:2], Handler)
    except OSError as failure:
        raise Error(f"{OPTION}: cannot listen on {listen}: {failure.strerror}") from None


def _parse_address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 0xFFFF:
        raise ConfigurationError(
            f"{OPTION}: {listen} is neither ADDRESS:PORT nor the path of a socket"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def _remove_stale_socket(path: Path) -> None:
    """Remove the socket of a killed service, or raise :class:`Error`."""
    if not path.exists() or not stat.S_ISSOCK(path.stat().st_mode):
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_CLIENT_TIMEOUT)
        with suppress(ConnectionRefusedError):
            probe.connect(str(path))
            raise Error(f"{OPTION}: cannot listen on {path}: another service listens there")
    path.unlink()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, family: int, address: Any, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = family
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Bind without resolving this machine's name, which may take long."""
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that went away."""


class _Handler(BaseHTTPRequestHandler):
    timeout = _CLIENT_TIMEOUT
    server_version, sys_version = "placement_sched", ""
    respond: Callable[[str, str], tuple[HTTPStatus, str, bytes]]

    def do_GET(self) -> None:
        accept = self.headers.get("Accept", "")
        status, content_type, body = self.respond(urlsplit(self.path).path, accept)
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

    def log_message(self, *_args: Any) -> None:
        """Log nothing: a scrape is not a request of nova."""


def find_queue_length(bus: NovaBus) -> int | None:
    """Return the length of the scheduler queue, or None if no broker answers."""
    reason = ""
    for broker in bus.brokers:
        connection = Connection(
            **broker.arguments,
            transport="pyamqp",
            connect_timeout=_BROKER_TIMEOUT,
            transport_options={"read_timeout": _BROKER_TIMEOUT, "write_timeout": _BROKER_TIMEOUT},
        )
        try:
            with connection, connection.channel() as channel:
                # Passive: this creates nothing and changes nothing.
                return int(channel.queue_declare(TOPIC, passive=True).message_count)
        except _AWAY as failure:
            reason = format_one_line(failure)
    LOG.debug("the number of waiting requests cannot be read: %s", reason)
    return None


class WaitingRequests(PeriodicTask):
    """Gauge of waiting requests, without a value if RabbitMQ does not answer."""

    failure = "the number of waiting requests was not read"
    pause = QUEUE_LENGTH_LIFETIME

    def __init__(self, read_length: Callable[[], int | None]) -> None:
        super().__init__()
        self._read_length = read_length
        self._length: int | None = None

    def run_round(self) -> None:
        """Read the number of waiting requests."""
        self._length = self._read_length()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauge, after reading its value again if it is too old."""
        self()
        gauge = GaugeMetricFamily(
            "placement_sched_rpc_waiting", "Requests that wait in RabbitMQ for a scheduler."
        )
        if self._length is not None:
            gauge.add_metric([], self._length)
        yield gauge
