# SPDX-License-Identifier: Apache-2.0
"""A consumer of notifications that uses oslo.messaging's listener, as ceilometer does."""

from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue
from typing import Any, NamedTuple

from kombu import Connection
from oslo_config import cfg

from placement_sched.config.options.services import import_oslo_messaging


class ReceivedNotification(NamedTuple):
    """A notification as a consumer receives it."""

    priority: str
    publisher: str
    event_type: str
    payload: dict[str, Any]
    context: dict[str, Any]


class Listener:
    """Receiver of the notifications of topics on nova's exchange."""

    def __init__(self) -> None:
        self._received: Queue[ReceivedNotification] = Queue()

    def info(self, context, publisher_id, event_type, payload, _metadata) -> None:
        notification = ReceivedNotification("info", publisher_id, event_type, payload, context)
        self._received.put(notification)

    def error(self, context, publisher_id, event_type, payload, _metadata) -> None:
        notification = ReceivedNotification("error", publisher_id, event_type, payload, context)
        self._received.put(notification)

    def next(self) -> ReceivedNotification:
        """Return the next notification, or fail after a minute."""
        return self._received.get(timeout=60)


@contextmanager
def run_notification_listener(url: str, *topics: str) -> Iterator[Listener]:
    """Run a consumer of these topics, whose queues exist until the end."""
    library = import_oslo_messaging()
    conf = cfg.ConfigOpts()
    conf(args=[], default_config_files=[], default_config_dirs=[])
    transport = library.get_notification_transport(conf, url)
    targets = [library.Target(topic=topic, exchange="nova") for topic in topics]
    listener = Listener()
    server = library.get_notification_listener(transport, targets, [listener], executor="threading")
    server.start()
    try:
        yield listener
    finally:
        server.stop()
        server.wait(timeout=60)
        transport.cleanup()
        with Connection(url.replace("rabbit://", "amqp://")) as connection:
            for topic in topics:
                for priority in ("info", "error"):
                    connection.default_channel.queue_delete(f"{topic}.{priority}")
