# SPDX-License-Identifier: Apache-2.0
"""Prometheus gauges of capacity for flavors and failover capacity.

If the cached figures are a minute old, a scrape starts a thread that counts the capacity. No scrape
waits for the thread, and each scrape shows the age of the figures. The workers share the figures in
a file.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC
from typing import Any

from oslo_log import log
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from placement_sched.api.metrics import DIRECTORY
from placement_sched.errors import Error
from placement_sched.extensions.what_if.capacity.figures import CapacityFigures, Reliability
from placement_sched.extensions.what_if.capacity.report import report_flavor_capacities
from placement_sched.limits import MAX_METRIC_FLAVORS
from placement_sched.model.figures import FailoverResult
from placement_sched.operations.gauges import MAX_AGE, SharedFile
from placement_sched.operations.periodic import PeriodicTask
from placement_sched.scheduler.scheduler import Scheduler

LOG = log.getLogger(__name__)
#: Callback that counts the capacity for flavors, by their names.
CountFlavors = Callable[[Sequence[str]], CapacityFigures]
#: The name of the thread that counts the capacity.
THREAD_NAME = "capacity of flavors"
_PREFIX = "placement_sched_scheduler_capacity"
#: Callback that reads the last failover result, if any, or raises :class:`Error`.
ReadFailover = Callable[[], FailoverResult | None]


def build_gauges(
    scheduler: Scheduler, outside: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> list[Collector]:
    """Build the gauges of a scheduler (hook ``gauges``).

    ``outside`` wraps a function for use outside of requests.
    """

    def list_flavors() -> Sequence[str]:
        names: Sequence[str] = scheduler.live.get_settings().scheduler.capacity_flavors
        return names

    def read_failover_result() -> FailoverResult | None:
        with scheduler.database.read() as connection:
            return scheduler.caches.failover.get_current(connection)

    count = outside(lambda names: report_flavor_capacities(scheduler, names, time.time()))
    gauges: list[Collector] = [CapacityGauges(list_flavors, count, os.environ.get(DIRECTORY))]
    if scheduler.settings.scheduler.failover_interval:
        gauges.append(FailoverGauges(outside(read_failover_result)))
    return gauges


class CapacityGauges(PeriodicTask):
    """Prometheus collector of the remaining capacity for chosen flavors.

    It is empty before the first count. ``flavors`` returns the names of the flavors. The workers
    share figures in ``directory``.
    """

    thread_name = THREAD_NAME
    failure = "the capacity for flavors was not counted"
    pause = 0.0

    def __init__(
        self, flavors: Callable[[], Sequence[str]], count: CountFlavors, directory: str | None
    ) -> None:
        super().__init__()
        self._flavors, self._count = flavors, count
        self._file = SharedFile(directory, "capacity_figures.json")
        self._figures: CapacityFigures | None = None
        self._requested: tuple[str, ...] = ()
        self._tried_at = 0.0
        self._logged: set[str] = set()

    def _list_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._flavors()))[:MAX_METRIC_FLAVORS]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges of the latest count, and start a count if it is due."""
        if names := self._list_names():
            self._read_file()
            figures = self._figures
            self()
            if figures is not None:
                yield from build_capacity_gauges(figures, names)

    def is_due(self) -> bool:
        """Return whether the figures are too old or lack a configured flavor."""
        now, names, figures = time.time(), self._list_names(), self._figures
        is_young = figures is not None and _is_young(figures.counted_at, now)
        if is_young and figures is not None and figures.flavors.keys() >= {*names}:
            return False
        # The last count may have failed a moment ago.
        return self._requested != names or not _is_young(self._tried_at, now)

    def run_round(self) -> None:
        """Count the capacity and share the figures."""
        names = self._list_names()
        self._requested, self._tried_at = names, time.time()
        figures = self._figures = self._count(names)
        self._log_unknown(figures)
        self._file.write(figures.as_json())

    def _log_unknown(self, figures: CapacityFigures) -> None:
        for name, entry in figures.flavors.items():
            if entry.state is Reliability.UNKNOWN and name not in self._logged:
                self._logged.add(name)
                LOG.warning(
                    "[scheduler] capacity_flavors names %r, but no stored flavor has this name",
                    name,
                )

    def _read_file(self) -> None:
        if (shared := self._file.read()) is None:
            return
        shared_figures = CapacityFigures.from_json(shared)
        current = self._figures
        if (
            current is None
            or shared_figures.counted_at > current.counted_at
            or current.counted_at > time.time()
        ):
            self._figures = shared_figures


def _is_young(since: float, now: float) -> bool:
    # A time is in the future if the clock was set back.
    return 0 <= now - since < MAX_AGE


def build_capacity_gauges(
    figures: CapacityFigures, names: Sequence[str]
) -> Iterator[GaugeMetricFamily]:
    """Yield the gauges of the capacity for named flavors."""
    listed = {name: figures.flavors[name] for name in names if name in figures.flavors}
    counted = {
        name: entry
        for name, entry in listed.items()
        if entry.state in {Reliability.EXACT, Reliability.INEXACT}
    }
    whole = GaugeMetricFamily(
        _PREFIX, "How many more instances of a flavor fit.", labels=["flavor"]
    )
    by_zone = GaugeMetricFamily(
        f"{_PREFIX}_by_zone",
        "How many more instances of a flavor fit in a zone.",
        labels=["flavor", "zone"],
    )
    for name, entry in counted.items():
        whole.add_metric([name], entry.instances)
        for zone, instances in sorted(entry.zones.items()):
            by_zone.add_metric([name, zone], instances)
    states = GaugeMetricFamily(
        f"{_PREFIX}_state",
        "1 for the state of a flavor's capacity: exact, inexact (a lower bound), rejected (every "
        "request for it is rejected) or unknown (the flavor does not exist).",
        labels=["flavor", "state"],
    )
    for name, entry in listed.items():
        states.add_metric([name, entry.state], 1)
    age = GaugeMetricFamily(
        f"{_PREFIX}_age_seconds",
        "Seconds since the capacity for flavors was counted.",
        value=max(time.time() - figures.counted_at, 0),
    )
    yield from (whole, by_zone, states, age)


class FailoverGauges:
    """Prometheus collector of the last failover result, if there is any."""

    def __init__(self, read: ReadFailover) -> None:
        """Set the function that reads the result."""
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges of the last result."""
        try:
            result = self._read()
        except Error as failure:
            LOG.warning("cannot read the failover result: %s", failure.detail)
            return
        if result is not None:
            yield from build_failover_gauges(result, time.time())


def build_failover_gauges(result: FailoverResult, now: float) -> Iterator[GaugeMetricFamily]:
    """Yield the gauges of a failover result.

    ``now`` is in seconds since 1970.
    """
    prefix = "placement_sched_scheduler_failover"
    failures = GaugeMetricFamily(
        f"{prefix}_domains",
        "Hosts or domains whose failure is covered, uncovered or undetermined.",
        labels=["state"],
    )
    for state in ("covered", "uncovered", "undetermined"):
        failures.add_metric([state], result.report[state])
    remaining = GaugeMetricFamily(
        f"{prefix}_remaining",
        "Further instances of a flavor that do not reduce failover capacity (a lower bound).",
        labels=["flavor"],
    )
    for name, allowance in sorted(result.allowances.items()):
        remaining.add_metric([name], allowance.remaining)
    seconds = now - result.computed_at.replace(tzinfo=UTC).timestamp()
    age = GaugeMetricFamily(
        f"{prefix}_age_seconds",
        "Seconds since the failover capacity was computed.",
        value=max(seconds, 0),
    )
    yield from (failures, remaining, age)
