"""The gauges of the standbys in ``/metrics``: which of them answer, and how far they lag."""

from collections.abc import Callable, Iterator, Sequence

from oslo_log import log
from prometheus_client.core import GaugeMetricFamily

from placement_sched.errors import Error
from placement_sched.operations.gauges.reading import ReadGauges
from placement_sched.store.standby_lag import StandbyState

LOG = log.getLogger(__name__)

#: For so many seconds the standbys are not asked again.
KEPT = 5
_PREFIX = "placement_sched_standby"


class StandbyGauges(ReadGauges):
    """The states of the standbys as a collector of Prometheus.

    Without a number where the primary does not answer.
    """

    def __init__(self, read: Callable[[], Sequence[StandbyState]]) -> None:
        super().__init__(KEPT)
        self._read_states = read
        self._states: Sequence[StandbyState] = ()

    def _read(self) -> float:
        try:
            self._states = self._read_states()
        except Error as failure:
            self._states = ()
            LOG.warning("the lag of the standbys is not known: %s", failure.detail)
        return 0

    def _shown(self) -> Iterator[GaugeMetricFamily]:
        up = GaugeMetricFamily(
            f"{_PREFIX}_up", "1 for a standby that answers, 0 for another.", labels=["standby"]
        )
        lag = GaugeMetricFamily(
            f"{_PREFIX}_lag_seconds",
            "How long ago the primary committed what a standby does not show yet.",
            labels=["standby"],
        )
        for state in self._states:
            up.add_metric([state.standby], state.lag is not None)
            if state.lag is not None:
                lag.add_metric([state.standby], state.lag)
        yield from (up, lag)
