"""A queue of this service's own on nova's exchange, which gets a copy of each call to a scheduler.

nova-scheduler's queues stay as they are, and nothing is answered. RabbitMQ drops the oldest of more
than :data:`MOST` messages, those older than :data:`OLDEST` seconds, and the queue itself once no
process reads from it, so that the cloud never waits for this service.
"""

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from kombu import Connection, Consumer, Exchange, Queue
from kombu.exceptions import KombuError
from kombu.message import Message
from kombu.transport import pyamqp
from oslo_config import cfg
from oslo_log import log

from placement_sched.config.conf import read_files
from placement_sched.config.logs import without_warnings
from placement_sched.config.options.notifications import oslo_messaging, set_exchange
from placement_sched.config.opts import Conf
from placement_sched.errors import ConfigurationError, Unavailable, one_line

#: The drivers of ``transport_url`` that mean RabbitMQ.
_RABBIT = ("rabbit", "kombu", "amqp")
_GROUP = "oslo_messaging_rabbit"


@dataclass(frozen=True, slots=True)
class Broker:
    """One address of the message bus; ``arguments`` are those of a kombu connection."""

    host: str
    port: int
    arguments: Mapping[str, Any] = field(repr=False)

    def __str__(self) -> str:
        """Return the address as logs show it: without user and password."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class NovaBus:
    """The message bus: its addresses, tried in turn, and nova's exchange there."""

    brokers: Sequence[Broker]
    exchange: str
    is_durable: bool
    is_auto_deleted: bool
    heartbeat: int


def read_transport(files: Sequence[str], url: str | None = None) -> NovaBus:
    """Return the transport that the files' ``[DEFAULT] transport_url`` and ``url`` over it name.

    Raises :class:`ConfigurationError` where none is named, or not RabbitMQ.
    """
    library = oslo_messaging()
    set_exchange()
    conf = _conf(files)
    named = url or conf.transport_url
    if not named or named == "rabbit://":
        raise ConfigurationError(
            "[DEFAULT] transport_url is not set: name nova's message bus, or hand over nova.conf "
            "with --config-file"
        )
    try:
        parsed = library.TransportURL.parse(conf, named)
    except (library.MessagingException, ValueError):
        # What the library says of it may have the password.
        raise ConfigurationError("[DEFAULT] transport_url is not a URL of a message bus") from None
    if parsed.transport not in _RABBIT:
        raise ConfigurationError(
            f"[DEFAULT] transport_url: {parsed.transport} is not RabbitMQ, whose exchanges give a "
            "copy of each request"
        )
    options = conf[_GROUP]
    return NovaBus(
        brokers=tuple(_broker(host, parsed, options) for host in parsed.hosts) or (),
        exchange=conf.control_exchange,
        is_durable=options.amqp_durable_queues or options.rabbit_quorum_queue,
        is_auto_deleted=options.amqp_auto_delete,
        heartbeat=options.heartbeat_timeout_threshold,
    )


def _conf(files: Sequence[str]) -> Any:
    """Return an oslo.config object with the options of oslo.messaging alone."""
    conf = Conf()
    with without_warnings():
        options = import_module("oslo_messaging.opts").list_opts()
    for group, members in options:
        conf.register_opts(members, group=group)
    return read_files(conf, files)


def _broker(host: Any, parsed: Any, options: cfg.ConfigOpts.GroupAttr) -> Broker:
    port = host.port or 5672
    query = parsed.query
    secured = _flag(query.get("ssl"), default=options.ssl)
    arguments = {
        "hostname": host.hostname or "localhost",
        "port": port,
        "userid": host.username or "guest",
        "password": host.password or "",
        "virtual_host": parsed.virtual_host or "/",
        "login_method": options.rabbit_login_method,
        "ssl": _tls(host.hostname or "localhost", query, options) if secured else False,
    }
    return Broker(str(arguments["hostname"]), port, arguments)


def _tls(host: str, query: Mapping[str, str], options: cfg.ConfigOpts.GroupAttr) -> Any:
    """Return the arguments of TLS; True where the files name none.

    The version is the newest that both ends have. As with oslo.messaging, options in the query of
    the URL win, and a certificate's name is checked where the authority is named.
    """

    def given(name: str) -> str:
        return query.get(name) or getattr(options, name)

    found: dict[str, Any] = {}
    for name, argument in (("ssl_key_file", "keyfile"), ("ssl_cert_file", "certfile")):
        if value := given(name):
            found[argument] = value
    if authority := given("ssl_ca_file"):
        found |= {"ca_certs": authority, "cert_reqs": ssl.CERT_REQUIRED}
        checked = query.get("ssl_enforce_hostname_verification")
        if _flag(checked, default=options.ssl_enforce_hostname_verification):
            found["server_hostname"] = host
    return found or True


def _flag(text: str | None, *, default: bool) -> bool:
    return default if text is None else text.strip().lower() in {"1", "true", "yes", "on"}


LOG = log.getLogger(__name__)

#: The routing key of what nova sends to its schedulers.
TOPIC = "scheduler"
#: How many messages wait in the queue, for how many seconds, and for how many the queue is kept
#: that no process reads from, in case it is not deleted at once.
MOST, OLDEST, KEPT = 1000, 60, 300
#: How many messages are handed out before they are done with.
_AHEAD = 20
#: Seconds between two attempts to connect: they grow from the first to the second.
_RETRY, _RETRY_MOST = 1.0, 10.0
#: Seconds that a connection may take.
_CONNECT_TIMEOUT = 5
#: Seconds after which the reader looks whether it is to stop.
_TICK = 1.0

#: What the libraries raise for something that a broker refuses, and where it goes away.
_REFUSED: tuple[type[Exception], ...] = pyamqp.Transport.channel_errors
_LOST = (*pyamqp.Transport.connection_errors, *_REFUSED, KombuError, OSError)


def queue_name(host: str) -> str:
    """Return the name of the queue, by which an operator sees what it is."""
    return f"placement-sched.nova-shadow.{host}"


class Tap:
    """Reads the messages of nova's topic until it is stopped, over as many connections as needed.

    ``handle`` is called with the body of each message, and raises nothing but :class:`Unavailable`:
    then the message is dropped, as nova does not wait for it.
    """

    def __init__(self, transport: NovaBus, host: str, handle: Callable[[object], None]) -> None:
        self._transport = transport
        self._handle = handle
        self._stopped = threading.Event()
        self._away = False
        self.name = queue_name(host)
        #: Set while there is a queue that gets copies.
        self.is_open = threading.Event()

    def stop(self) -> None:
        """Let :meth:`run` return soon; for any thread, and for signal handlers."""
        self._stopped.set()

    def run(self) -> None:
        """Read until :meth:`stop`; where the broker goes away, wait until one answers."""
        pause = _RETRY
        while not self._stopped.is_set():
            for broker in self._transport.brokers:
                if self._stopped.is_set():
                    return
                try:
                    self._read_from(broker)
                    pause = _RETRY
                except _LOST as failure:
                    if self.is_open.is_set():
                        pause = _RETRY
                    self._lost(broker, failure)
                finally:
                    self.is_open.clear()
            self._stopped.wait(pause)
            pause = min(pause * 2, _RETRY_MOST)

    def _lost(self, broker: Broker, failure: BaseException) -> None:
        """Log once that the broker is away."""
        if not self._away:
            LOG.warning(
                "the message bus at %s is away: %s; requests are not seen until it is back",
                broker,
                one_line(failure),
            )
        self._away = True

    def _read_from(self, broker: Broker) -> None:
        """Read from one broker until it goes away, or the tap is stopped."""
        heartbeat = self._transport.heartbeat
        connection = Connection(
            **broker.arguments,
            transport="pyamqp",
            connect_timeout=_CONNECT_TIMEOUT,
            heartbeat=heartbeat,
        )
        with connection:
            connection.connect()
            channel = connection.channel()
            channel.basic_qos(0, _AHEAD, False)
            with self._consuming(connection, channel):
                self._opened(broker)
                while not self._stopped.is_set():
                    with suppress(TimeoutError):
                        connection.drain_events(timeout=_TICK)
                    if heartbeat:
                        connection.heartbeat_check()

    def _opened(self, broker: Broker) -> None:
        self.is_open.set()
        if self._away:
            LOG.info("the message bus is back: reading from %s", broker)
        self._away = False

    @contextmanager
    def _consuming(self, connection: Connection, channel: Any) -> Iterator[None]:
        """Declare exchange and queue, and consume; the queue goes with its last consumer."""
        exchange = self._declared(connection)
        arguments = {
            "x-max-length": MOST,
            "x-overflow": "drop-head",
            "x-message-ttl": OLDEST * 1000,
            "x-expires": KEPT * 1000,
        }
        queue = Queue(
            self.name,
            exchange,
            routing_key=TOPIC,
            durable=False,
            auto_delete=True,
            queue_arguments=arguments,
        )
        # kombu would declare the exchange as well, with properties that may be others than nova's.
        bound = queue(channel)
        bound.queue_declare()
        channel.queue_bind(self.name, exchange.name, TOPIC)
        consumer = Consumer(channel, [bound], auto_declare=False, on_message=self._got)
        consumer.consume()
        yield
        consumer.cancel()

    def _declared(self, connection: Connection) -> Exchange:
        """Return nova's exchange, as nova declared it where it has, else as nova would."""
        named = self._transport
        exchange = Exchange(
            named.exchange,
            type="topic",
            durable=named.is_durable,
            auto_delete=named.is_auto_deleted,
        )
        try:
            with connection.channel() as trial:
                exchange(trial).declare(passive=True)
        except _REFUSED:
            with connection.channel() as channel:
                exchange(channel).declare()
        return exchange

    def _got(self, message: Message) -> None:
        """Hand over a message; it is done with, whatever becomes of it."""
        message.ack()
        try:
            body: object = message.payload
        except Exception:  # noqa: BLE001 - of whatever decoder the message asks for
            body = None
        try:
            self._handle(body)
        except Unavailable as failure:
            LOG.warning("a request was not evaluated: %s", failure.detail)
