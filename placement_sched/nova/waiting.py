"""How many of nova's requests wait in RabbitMQ for a scheduler, as a gauge of ``/metrics``."""

from collections.abc import Callable, Iterator

from kombu import Connection
from kombu.exceptions import KombuError
from kombu.transport import pyamqp
from oslo_log import log
from prometheus_client.core import GaugeMetricFamily

from placement_sched.errors import one_line
from placement_sched.nova.rpc import TOPIC
from placement_sched.nova.shadow.transport import Broker, NovaBus
from placement_sched.operations.gauges.reading import ReadGauges

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
