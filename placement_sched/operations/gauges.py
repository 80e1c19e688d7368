# SPDX-License-Identifier: Apache-2.0
"""Prometheus gauges of the cloud and of the capacity for chosen flavors.

If the cached figures are a minute old, a scrape starts a thread that counts the capacity. No scrape
waits for the thread, and each scrape shows the age of the figures. The workers share the figures in
a file.
"""

import os
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import orjson
from oslo_log import log
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from placement_sched.errors import Error
from placement_sched.model.document import encode
from placement_sched.model.figures import CapacityFigures, CloudFigures, FailoverResult, Reliability

LOG = log.getLogger(__name__)
#: Counts the capacity for flavors of these names.
CountFlavors = Callable[[Sequence[str]], CapacityFigures]
#: Maximum age of cached figures, in seconds.
MAX_AGE = 60
#: Maximum number of flavors, the first of the option.
MAX_FLAVORS = 50
#: The name of the thread that counts.
THREAD_NAME = "capacity of flavors"
_PREFIX = "placement_sched_scheduler_capacity"
#: Reads the last failover result, if any. Raises :class:`Error` if it cannot.
ReadFailover = Callable[[], FailoverResult | None]
#: Reads the current figures. Raises :class:`Error` if it cannot.
ReadFigures = Callable[[], CloudFigures]
_CLOUD_PREFIX = "placement_sched"


class ReadGauges(Collector):
    """Gauges that a scrape reads again if they are ``max_age`` seconds old.

    A single thread at a time reads the gauges. Other scrapes show the cached gauges.
    """

    def __init__(self, max_age: float) -> None:
        self._max_age = max_age
        self._lock = Lock()
        self._read_at: float | None = None

    def describe(self) -> list[GaugeMetricFamily]:
        """Return nothing, so that registration does not collect."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges, read again if they are too old."""
        if self._lock.acquire(blocking=False):
            try:
                self._read_if_due()
            finally:
                self._lock.release()
        yield from self._shown()

    def _read_if_due(self) -> None:
        now = time.monotonic()
        if self._read_at is None or now - self._read_at >= self._max_age:
            age = self._read()
            self._read_at = None if age is None else now - age

    @abstractmethod
    def _read(self) -> float | None:
        """Read the figures and return their age in seconds.

        A result of 0 also means that they cannot be read now, so that not every scrape tries again.
        A result of None makes the next scrape try again.
        """

    @abstractmethod
    def _shown(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges of the latest figures."""


class SharedFile:
    """A JSON file that the workers of a server share."""

    def __init__(self, directory: str | None, name: str) -> None:
        """Set the directory of the workers' metrics, None for a single process."""
        self._path = None if directory is None else Path(directory) / name

    def read(self) -> Any:
        """Return the latest document, or None."""
        if self._path is None:
            return None
        try:
            return orjson.loads(self._path.read_bytes())
        except (OSError, ValueError):  # not written yet
            return None

    def write(self, document: Any) -> None:
        """Replace the document atomically."""
        if self._path is not None:
            written = self._path.with_suffix(f".{os.getpid()}")
            written.write_bytes(encode(document))
            written.replace(self._path)

    def age(self) -> float | None:
        """Return the age of the document in seconds, or None without a document.

        A time in the future means that the clock was set back, and also returns None.
        """
        try:
            age = time.time() - self._path.stat().st_mtime if self._path else -1
        except OSError:
            return None
        return age if age >= 0 else None


class CapacityGauges(Collector):
    """Prometheus collector of the capacity for chosen flavors.

    ``flavors`` returns the names of the flavors. The workers share figures in ``directory``. A
    single thread at a time counts.
    """

    def __init__(
        self, flavors: Callable[[], Sequence[str]], count: CountFlavors, directory: str | None
    ) -> None:
        self._flavors, self._count = flavors, count
        self._file = SharedFile(directory, "capacity_figures.json")
        self._turn = Lock()
        self._figures: CapacityFigures | None = None
        self._requested: tuple[str, ...] = ()
        self._tried_at = 0.0
        self._logged: set[str] = set()

    def describe(self) -> list[GaugeMetricFamily]:
        """Return nothing, so that registration does not collect."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges of the latest count, or none before the first count."""
        names = tuple(dict.fromkeys(self._flavors()))[:MAX_FLAVORS]
        if not names:
            return
        self._read_file()
        figures = self._figures
        self._refresh(names)
        if figures is not None:
            yield from _gauges(figures, names)

    def _refresh(self, names: tuple[str, ...]) -> None:
        """Start a thread that counts, if the figures are old or for other flavors."""
        now, figures = time.time(), self._figures
        is_young = figures is not None and _is_young(figures.counted_at, now)
        if is_young and figures is not None and figures.flavors.keys() >= {*names}:
            return
        if self._requested == names and _is_young(self._tried_at, now):  # it failed a moment ago
            return
        if self._turn.acquire(blocking=False):
            self._requested, self._tried_at = names, now
            Thread(
                target=self._count_and_share, args=(names,), name=THREAD_NAME, daemon=True
            ).start()

    def _count_and_share(self, names: tuple[str, ...]) -> None:
        try:
            figures = self._figures = self._count(names)
            self._log_unknown(figures)
            self._file.write(figures.as_json())
        except Error as failure:
            LOG.warning("the capacity for flavors was not counted: %s", failure.detail)
        except Exception:
            LOG.exception("the capacity for flavors was not counted")
        finally:
            self._turn.release()

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
    # A time in the future is from before the clock was set back.
    return 0 <= now - since < MAX_AGE


def _gauges(figures: CapacityFigures, names: Sequence[str]) -> Iterator[GaugeMetricFamily]:
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
        "1 for the state of a flavor's capacity: exact, inexact (a lower bound), refused (every "
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


class CloudGauges(ReadGauges):
    """Prometheus collector of the figures of the cloud, empty until they are read."""

    def __init__(self, read: ReadFigures, directory: str | None) -> None:
        """Set the function that reads the figures, and the workers' directory."""
        super().__init__(MAX_AGE)
        self._read_figures = read
        self._file = SharedFile(directory, "cloud_figures.json")
        self._figures: CloudFigures | None = None

    def _read(self) -> float | None:
        age = self._file.age()
        if age is not None and age < MAX_AGE:
            if (shared := self._file.read()) is None:
                return None
            self._figures = CloudFigures.from_json(shared)
            return age
        try:
            self._figures = self._read_figures().bounded()
        except Error as failure:
            LOG.warning("the figures of the cloud were not read: %s", failure.detail)
        else:
            self._file.write(self._figures.as_json())
        return 0

    def _shown(self) -> Iterator[GaugeMetricFamily]:
        figures = self._figures
        if figures is None:
            return
        hosts = GaugeMetricFamily(
            f"{_CLOUD_PREFIX}_hosts", "Compute services of hosts, by state.", labels=["state"]
        )
        for state, number in figures.hosts.items():
            hosts.add_metric([state], number)
        yield hosts
        for name, amounts in (("free", figures.free), ("used", figures.used)):
            gauge = GaugeMetricFamily(
                f"{_CLOUD_PREFIX}_resources_{name}",
                f"How much is {name} of a resource class in a zone, in the units of the class.",
                labels=["resource_class", "zone"],
            )
            for key, amount in sorted(amounts.items()):
                gauge.add_metric(key, amount)
            yield gauge


class FailoverGauges(Collector):
    """Prometheus collector of the last failover result, empty before the first."""

    def __init__(self, read: ReadFailover) -> None:
        """Set the function that reads the result."""
        self._read = read

    def describe(self) -> list[GaugeMetricFamily]:
        """Return nothing, so that registration does not collect."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges of the last result."""
        try:
            result = self._read()
        except Error as failure:
            LOG.warning("the failover result was not read: %s", failure.detail)
            return
        if result is not None:
            yield from failover_gauges(result, time.time())


def failover_gauges(result: FailoverResult, now: float) -> Iterator[GaugeMetricFamily]:
    """Yield the gauges of a failover result. ``now`` is in seconds since 1970."""
    prefix = f"{_CLOUD_PREFIX}_scheduler_failover"
    failures = GaugeMetricFamily(
        f"{prefix}_domains",
        "Hosts or domains whose failure is covered, uncovered or undetermined.",
        labels=["state"],
    )
    for state in ("covered", "uncovered", "undetermined"):
        failures.add_metric([state], result.answer[state])
    remaining = GaugeMetricFamily(
        f"{prefix}_remaining",
        "How many more instances of a flavor certainly keep the failover capacity.",
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
