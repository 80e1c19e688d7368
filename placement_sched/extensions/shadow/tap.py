# SPDX-License-Identifier: Apache-2.0
"""Queue on nova's exchange that gets a copy of each call to a scheduler.

nova-scheduler's queues are not changed, and no call is answered. RabbitMQ drops the oldest of more
than :data:`MAX_MESSAGES` messages, messages older than :data:`MAX_MESSAGE_AGE` seconds, and a queue
that no process reads. The cloud thus never waits for this service.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kombu import Connection, Consumer, Exchange, Queue
from kombu.exceptions import KombuError
from kombu.message import Message
from kombu.transport import pyamqp
from oslo_log import log

from placement_sched.errors import Unavailable, format_one_line
from placement_sched.nova.message_bus import Broker, NovaBus

LOG = log.getLogger(__name__)

#: The routing key of nova's messages to its schedulers.
TOPIC = "scheduler"
#: Maximum number of messages in the queue, their maximum age in seconds, and the seconds for which
#: an unused queue exists if it is not deleted at once.
MAX_MESSAGES, MAX_MESSAGE_AGE, MAX_IDLE_SECONDS = 1000, 60, 300
#: Maximum number of messages that are delivered without an acknowledgement.
_PREFETCH = 20
#: Seconds between two attempts to connect, at first and at most.
_RETRY_PAUSE, _MAX_RETRY_PAUSE = 1.0, 10.0
#: Seconds that an attempt to connect may take.
_CONNECT_TIMEOUT = 5
#: Seconds between two checks for a stop.
_TICK = 1.0

#: Exceptions of the libraries for a rejected operation, and for a lost broker.
_REJECTED: tuple[type[Exception], ...] = pyamqp.Transport.channel_errors
_LOST = (*pyamqp.Transport.connection_errors, *_REJECTED, KombuError, OSError)


class Tap:
    """Consumer of nova's topic that reconnects until it is stopped.

    ``handle`` is called with the body of each message. It may only raise :class:`Unavailable`. The
    message is then dropped, as nova does not wait for a reply of this service.
    """

    def __init__(self, transport: NovaBus, host: str, handle: Callable[[object], None]) -> None:
        self._transport = transport
        self._handle = handle
        self._stopped = threading.Event()
        self._away = False
        self.name = f"placement-sched.nova-shadow.{host}"
        #: Set while the queue exists and receives copies.
        self.is_open = threading.Event()

    def stop(self) -> None:
        """Make :meth:`run` return soon, from any thread or signal handler."""
        self._stopped.set()

    def run(self) -> None:
        """Consume messages until :meth:`stop`, and reconnect to lost brokers."""
        pause = _RETRY_PAUSE
        while not self._stopped.is_set():
            for broker in self._transport.brokers:
                if self._stopped.is_set():
                    return
                reason = ""
                try:
                    self._consume_from(broker)
                    pause = _RETRY_PAUSE
                except _LOST as failure:
                    if self.is_open.is_set():
                        pause = _RETRY_PAUSE
                    reason = format_one_line(failure).rstrip(".")
                finally:
                    self.is_open.clear()
                if reason:  # logged outside the handler, or the line would repeat the exception
                    self._log_lost(broker, reason)
            self._stopped.wait(pause)
            pause = min(pause * 2, _MAX_RETRY_PAUSE)

    def _log_lost(self, broker: Broker, reason: str) -> None:
        """Log a lost broker, but only once until it is back."""
        if not self._away:
            LOG.warning(
                "no connection to the message bus at %s: %s. Requests are missed until it returns",
                broker,
                reason,
            )
        self._away = True

    def _consume_from(self, broker: Broker) -> None:
        """Consume from a broker until it is lost or the consumer is stopped."""
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
            channel.basic_qos(0, _PREFETCH, False)
            with self._declare_consumer(connection, channel):
                self._mark_open(broker)
                while not self._stopped.is_set():
                    with suppress(TimeoutError):
                        connection.drain_events(timeout=_TICK)
                    if heartbeat:
                        connection.heartbeat_check()

    def _mark_open(self, broker: Broker) -> None:
        self.is_open.set()
        if self._away:
            LOG.info("the message bus is back: reading from %s", broker)
        self._away = False

    def _declare_consumer(self, connection: Connection, channel: Any) -> Consumer:
        """Declare the exchange and an auto-deleted queue, and return its consumer."""
        exchange = self._declare_exchange(connection)
        arguments = {
            "x-max-length": MAX_MESSAGES,
            "x-overflow": "drop-head",
            "x-message-ttl": MAX_MESSAGE_AGE * 1000,
            "x-expires": MAX_IDLE_SECONDS * 1000,
        }
        queue = Queue(
            self.name,
            exchange,
            routing_key=TOPIC,
            durable=False,
            auto_delete=True,
            queue_arguments=arguments,
        )
        # kombu would declare the exchange too, with properties that may differ from nova's.
        bound = queue(channel)
        bound.queue_declare()
        channel.queue_bind(self.name, exchange.name, TOPIC)
        return Consumer(channel, [bound], auto_declare=False, on_message=self._handle_message)

    def _declare_exchange(self, connection: Connection) -> Exchange:
        """Return nova's exchange, declared like nova does if it does not exist."""
        bus = self._transport
        exchange = Exchange(
            bus.exchange, type="topic", durable=bus.is_durable, auto_delete=bus.is_auto_deleted
        )
        try:
            with connection.channel() as probe:
                exchange(probe).declare(passive=True)
        except _REJECTED:
            with connection.channel() as channel:
                exchange(channel).declare()
        return exchange

    def _handle_message(self, message: Message) -> None:
        """Acknowledge a message, and handle it."""
        message.ack()
        try:
            body: object = message.payload
        except Exception:  # noqa: BLE001 - the message names its decoder
            body = None
        try:
            self._handle(body)
        except Unavailable as failure:
            LOG.warning("a request was not evaluated: %s", failure.detail)
