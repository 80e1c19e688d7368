"""The gauges of the standbys in ``/metrics``: which of them answer, and how far they lag."""

import time
from collections.abc import Callable, Iterator, Sequence
from threading import Lock

from oslo_log import log
from prometheus_client.core import GaugeMetricFamily

from placement_sched.db.standby_lag import StandbyState
from placement_sched.errors import Error

LOG = log.getLogger(__name__)

#: For so many seconds the standbys are not asked again.
KEPT = 5
_PREFIX = "placement_sched_standby"


class StandbyGauges:
    """The states of the standbys as a collector of Prometheus, read when a scrape asks for them.

    One thread at a time reads them; any other shows those that are known.
    """

    def __init__(self, read: Callable[[], Sequence[StandbyState]]) -> None:
        self._read = read
        self._lock = Lock()
        self._states: Sequence[StandbyState] = ()
        self._read_at: float | None = None

    def describe(self) -> list[GaugeMetricFamily]:
        """Return nothing: what there is to collect is not asked for when this is registered."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges; without a number where the primary does not answer."""
        if self._lock.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._lock.release()
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

    def _refresh(self) -> None:
        now = time.monotonic()
        if self._read_at is not None and now - self._read_at < KEPT:
            return
        self._read_at = now
        try:
            self._states = self._read()
        except Error as failure:
            self._states = ()
            LOG.warning("the lag of the standbys is not known: %s", failure.detail)
