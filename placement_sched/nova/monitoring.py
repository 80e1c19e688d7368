"""``/metrics`` and ``/healthz`` of ``placement-sched nova-scheduler``, its only HTTP.

The process that starts the workers answers, in threads beside all else: it lives as long as the
service does, and a worker that is busy or dies costs no scrape.
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

from placement_sched.errors import ConfigurationError, Error, one_line
from placement_sched.nova.rpc import TOPIC
from placement_sched.nova.shadow.tap import Broker, NovaBus
from placement_sched.operations.gauges import ReadGauges

OPTION = "[scheduler] metrics_listen"
#: Seconds for which a client may keep a thread waiting.
_PATIENCE = 10
_JSON = "application/json"


class Figures(Protocol):
    """Counts the calls of nova's that processes answer, for all of them together."""

    def call(self, method: str, outcome: str, seconds: float) -> None:
        """Count a call that was answered, its time and its statistics."""

    def left_out(self, number: int) -> None:
        """Show how many of nova's objects the last full reading could not record as they are."""

    def scrape(self, accept: str) -> tuple[str, bytes]:
        """Return content type and text of all numbers, in the format that ``accept`` asks for."""


class Monitor:
    """Answers Prometheus, and who asks whether the service lives and is ready.

    It listens from the start: raises :class:`Error` where it cannot. ``listen`` is what
    ``[scheduler] metrics_listen`` says.
    """

    def __init__(self, listen: str, scrape: Callable[[str], tuple[str, bytes]]) -> None:
        self._scrape = scrape
        #: Whether calls are answered; asked for each ``/healthz/ready``.
        self.is_ready: Callable[[], bool] = lambda: False
        self._server = _server_at(listen, self)
        self._thread: Thread | None = None
        self._path = Path(listen) if listen.startswith("/") else None
        #: Where it listens: the path of a unix socket, else address and port.
        self.listens = listen if self._path else _written(*self._server.server_address[:2])

    def start(self) -> None:
        """Answer from now on, in threads of their own."""
        self._thread = Thread(target=self._server.serve_forever, name="monitor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more; a unix socket's file goes."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def answer(self, path: str, accept: str) -> tuple[HTTPStatus, str, bytes]:
        """Return status, content type and body of an answer to ``GET path``."""
        match path.rstrip("/"):
            case "/metrics":
                return HTTPStatus.OK, *self._scrape(accept)
            case "/healthz" | "/healthz/live":
                return _status(HTTPStatus.OK, "ok")
            case "/healthz/ready":
                if self.is_ready():
                    return _status(HTTPStatus.OK, "ready")
                return _status(HTTPStatus.SERVICE_UNAVAILABLE, "not ready")
        return _status(HTTPStatus.NOT_FOUND, "not found")


def _status(status: HTTPStatus, text: str) -> tuple[HTTPStatus, str, bytes]:
    return status, _JSON, json.dumps({"status": text}, separators=(",", ":")).encode()


def _written(host: Any, port: Any) -> str:
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def _server_at(listen: str, monitor: Monitor) -> ThreadingHTTPServer:
    """Return a server that listens at the path or address that the option names."""

    class Handler(_Handler):
        answer = staticmethod(monitor.answer)

    try:
        if listen.startswith("/"):
            _free(Path(listen))
            return _UnixServer(listen, Handler)  # type: ignore[arg-type] # typed for TCP alone
        host, port = _address(listen)
        (family, _, _, _, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        of_family = _V6Server if family == socket.AF_INET6 else _Server
        return of_family(address[:2], Handler)  # type: ignore[arg-type] # of IPv6 as well
    except OSError as failure:
        raise Error(f"{OPTION}: cannot listen on {listen}: {failure.strerror}") from None


def _address(listen: str) -> tuple[str, int]:
    """Return host and port; raise :class:`ConfigurationError` for what is neither."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 0xFFFF:
        raise ConfigurationError(
            f"{OPTION}: {listen} is neither ADDRESS:PORT nor the path of a socket"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def _free(path: Path) -> None:
    """Remove a socket that a service left which was killed; raise where another listens there."""
    if not path.exists() or not stat.S_ISSOCK(path.stat().st_mode):
        return
    with socket.socket(socket.AF_UNIX) as trial:
        trial.settimeout(_PATIENCE)
        with suppress(ConnectionRefusedError):
            trial.connect(str(path))
            raise Error(f"{OPTION}: cannot listen on {path}: another service does")
    path.unlink()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Bind, and do not ask for this machine's name, which may wait for a name server."""
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let a client that went away go."""


class _V6Server(_Server):
    address_family = socket.AF_INET6


class _UnixServer(_Server):
    address_family = socket.AF_UNIX


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE
    server_version, sys_version = "placement_sched", ""
    answer: Callable[[str, str], tuple[HTTPStatus, str, bytes]]

    def do_GET(self) -> None:
        """Answer."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Answer likewise, without the body."""
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        accept = self.headers.get("Accept", "")
        status, content_type, body = self.answer(urlsplit(self.path).path, accept)
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *_what: Any) -> None:
        """Log nothing: a scrape is not a request of nova's."""


LOG = log.getLogger(__name__)

#: For so many seconds RabbitMQ is not asked again.
KEPT = 5
#: Seconds that it has to connect and to answer, each.
_WAITING_PATIENCE = 3
_AWAY: tuple[type[Exception], ...] = (
    *pyamqp.Transport.connection_errors,
    *pyamqp.Transport.channel_errors,
    KombuError,
    OSError,
)


def waiting_at(bus: NovaBus) -> int | None:
    """Return how many requests are in the queue of nova's schedulers; None where no broker says."""
    reason = ""
    for broker in bus.brokers:
        try:
            return _waiting_at(broker)
        except _AWAY as failure:
            reason = one_line(failure)
    LOG.debug("how many requests wait is not known: %s", reason)
    return None


def _waiting_at(broker: Broker) -> int:
    connection = Connection(
        **broker.arguments,
        transport="pyamqp",
        connect_timeout=_WAITING_PATIENCE,
        transport_options={"read_timeout": _WAITING_PATIENCE, "write_timeout": _WAITING_PATIENCE},
    )
    with connection, connection.channel() as channel:
        # Passive: nothing is made, and what there is stays as it is.
        return int(channel.queue_declare(TOPIC, passive=True).message_count)


class WaitingRequests(ReadGauges):
    """The gauge as a collector of Prometheus; without a number where RabbitMQ does not answer."""

    def __init__(self, ask: Callable[[], int | None]) -> None:
        super().__init__(KEPT)
        self._ask = ask
        self._number: int | None = None

    def _read(self) -> float:
        self._number = self._ask()
        return 0

    def _shown(self) -> Iterator[GaugeMetricFamily]:
        gauge = GaugeMetricFamily(
            "placement_sched_rpc_waiting", "Requests that wait in RabbitMQ for a scheduler."
        )
        if self._number is not None:
            gauge.add_metric([], self._number)
        yield gauge
