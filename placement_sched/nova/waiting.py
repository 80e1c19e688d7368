"""How many of nova's requests wait in RabbitMQ for a scheduler, as a gauge of ``/metrics``."""

import time
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

from kombu import Connection
from kombu.exceptions import KombuError
from kombu.transport import pyamqp
from oslo_log import log
from prometheus_client.core import GaugeMetricFamily

from placement_sched.errors import one_line
from placement_sched.nova.rpc import TOPIC
from placement_sched.nova.shadow.transport import Broker, NovaBus

LOG = log.getLogger(__name__)

#: For so many seconds RabbitMQ is not asked again.
KEPT = 5
#: Seconds that it has to connect and to answer, each.
_PATIENCE = 3
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
        connect_timeout=_PATIENCE,
        transport_options={"read_timeout": _PATIENCE, "write_timeout": _PATIENCE},
    )
    with connection, connection.channel() as channel:
        # Passive: nothing is made, and what there is stays as it is.
        return int(channel.queue_declare(TOPIC, passive=True).message_count)


class WaitingRequests:
    """The gauge as a collector of Prometheus, which asks RabbitMQ when a scrape comes.

    One thread at a time asks; any other shows what is known.
    """

    def __init__(self, ask: Callable[[], int | None]) -> None:
        self._ask = ask
        self._lock = Lock()
        self._number: int | None = None
        self._asked_at: float | None = None

    def describe(self) -> list[Any]:
        """Return nothing: RabbitMQ is not asked when this is registered."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauge; without a number where RabbitMQ does not answer."""
        if self._lock.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._lock.release()
        gauge = GaugeMetricFamily(
            "placement_sched_rpc_waiting", "Requests that wait in RabbitMQ for a scheduler."
        )
        if self._number is not None:
            gauge.add_metric([], self._number)
        yield gauge

    def _refresh(self) -> None:
        now = time.monotonic()
        if self._asked_at is None or now - self._asked_at >= KEPT:
            self._asked_at, self._number = now, self._ask()
