"""The gauges of how many more instances of chosen flavors fit, in ``/metrics``.

They are counted beside the scrapes, by a thread that a scrape starts where what is known is a
minute old: no scrape waits for them, and each shows how old they are. Several workers share them in
a file beside their numbers.
"""

import os
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import orjson
from oslo_log import log
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from placement_sched.errors import Error
from placement_sched.model.document import encoded
from placement_sched.model.figures import CapacityFigures, CloudFigures, Counted


class ReadGauges(Collector):
    """Gauges that are read when a scrape comes and those known are ``kept`` seconds old.

    One thread at a time reads them; any other shows those that are known.
    """

    def __init__(self, kept: float) -> None:
        self._kept = kept
        self._lock = Lock()
        self._read_at: float | None = None

    def describe(self) -> list[GaugeMetricFamily]:
        """Return nothing: what there is to collect is not asked for when this is registered."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges, read again where that is due."""
        if self._lock.acquire(blocking=False):
            try:
                self._read_if_due()
            finally:
                self._lock.release()
        yield from self._shown()

    def _read_if_due(self) -> None:
        now = time.monotonic()
        if self._read_at is None or now - self._read_at >= self._kept:
            age = self._read()
            self._read_at = None if age is None else now - age

    @abstractmethod
    def _read(self) -> float | None:
        """Read what is shown, and return how many seconds old that is.

        0 also where it cannot be read: who is away is not asked by each scrape. None to read again
        at the next scrape.
        """

    @abstractmethod
    def _shown(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges of what was read last."""


class SharedFile:
    """A file in which the workers of a server share what one of them has read, as JSON."""

    def __init__(self, directory: str | None, name: str) -> None:
        """``directory`` is where the workers' numbers are; None where there is one process."""
        self._path = None if directory is None else Path(directory) / name

    def read(self) -> Any:
        """Return what was written last; None where there is nothing, or no file."""
        if self._path is None:
            return None
        try:
            return orjson.loads(self._path.read_bytes())
        except (OSError, ValueError):  # there is none yet
            return None

    def write(self, document: Any) -> None:
        """Put a document in the place of what there is, whole at any moment."""
        if self._path is not None:
            written = self._path.with_suffix(f".{os.getpid()}")
            written.write_bytes(encoded(document))
            written.replace(self._path)

    def age(self) -> float | None:
        """Return how many seconds ago it was written; None where there is nothing of use.

        What is younger than the file's time was written before the clock went back.
        """
        try:
            age = time.time() - self._path.stat().st_mtime if self._path else -1
        except OSError:
            return None
        return age if age >= 0 else None


LOG = log.getLogger(__name__)

#: Counts the capacity for flavors of these names.
CountFlavors = Callable[[Sequence[str]], CapacityFigures]

#: For so many seconds capacity is not counted again.
KEPT = 60
#: So many flavors are shown: the first that the option names.
MOST = 50
#: The name of the thread that counts.
THREAD = "capacity of flavors"

_PREFIX = "placement_sched_scheduler_capacity"


class CapacityGauges(Collector):
    """The capacity for chosen flavors as a collector of Prometheus.

    ``flavors`` returns their names; ``directory`` is what workers share. One thread at a time
    counts.
    """

    def __init__(
        self, flavors: Callable[[], Sequence[str]], count: CountFlavors, directory: str | None
    ) -> None:
        self._flavors, self._count = flavors, count
        self._file = SharedFile(directory, "capacity_figures.json")
        self._turn = Lock()
        self._figures: CapacityFigures | None = None
        self._asked: tuple[str, ...] = ()
        self._tried_at = 0.0
        self._logged: set[str] = set()

    def describe(self) -> list[GaugeMetricFamily]:
        """Return nothing: what there is to collect is not asked for when this is registered."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges of what was counted last; none where there is nothing yet."""
        names = tuple(dict.fromkeys(self._flavors()))[:MOST]
        if not names:
            return
        self._read_file()
        figures = self._figures
        self._refresh(names)
        if figures is not None:
            yield from _gauges(figures, names)

    def _refresh(self, names: tuple[str, ...]) -> None:
        """Let a thread count where what is known is too old, or of other flavors."""
        now, figures = time.time(), self._figures
        young = figures is not None and _is_young(figures.counted_at, now)
        if young and figures is not None and figures.flavors.keys() >= {*names}:
            return
        if self._asked == names and _is_young(self._tried_at, now):  # it failed a moment ago
            return
        if self._turn.acquire(blocking=False):
            self._asked, self._tried_at = names, now
            Thread(target=self._count_beside, args=(names,), name=THREAD, daemon=True).start()

    def _count_beside(self, names: tuple[str, ...]) -> None:
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
            if entry.state is Counted.UNKNOWN and name not in self._logged:
                self._logged.add(name)
                LOG.warning(
                    "[scheduler] capacity_flavors names %r, of which there is no stored flavor",
                    name,
                )

    def _read_file(self) -> None:
        """Take over what another worker has counted, where that is younger."""
        if (shared := self._file.read()) is None:
            return
        theirs = CapacityFigures.from_json(shared)
        current = self._figures
        if (
            current is None
            or theirs.counted_at > current.counted_at
            or current.counted_at > time.time()
        ):
            self._figures = theirs


def _is_young(since: float, now: float) -> bool:
    """Return whether it is so little ago; the future is from before the clock went back."""
    return 0 <= now - since < KEPT


def _gauges(figures: CapacityFigures, names: Sequence[str]) -> Iterator[GaugeMetricFamily]:
    listed = {name: figures.flavors[name] for name in names if name in figures.flavors}
    counted = {
        name: entry
        for name, entry in listed.items()
        if entry.state in {Counted.EXACT, Counted.INEXACT}
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
        "1 for the state of a flavor's capacity: exact, inexact (at least so many), refused (no "
        "request can have it) or unknown (there is no such flavor).",
        labels=["flavor", "state"],
    )
    for name, entry in listed.items():
        states.add_metric([name, entry.state], 1)
    age = GaugeMetricFamily(
        f"{_PREFIX}_age_seconds",
        "How long ago the capacity for flavors was counted.",
        value=max(time.time() - figures.counted_at, 0),
    )
    yield from (whole, by_zone, states, age)


#: Reads the figures of the moment; raises :class:`Error` where it cannot.
ReadFigures = Callable[[], CloudFigures]


_CLOUD_PREFIX = "placement_sched"


class CloudGauges(ReadGauges):
    """The figures of the cloud as a collector of Prometheus; none until they could be read."""

    def __init__(self, read: ReadFigures, directory: str | None) -> None:
        """``directory`` is what workers share."""
        super().__init__(KEPT)
        self._read_figures = read
        self._file = SharedFile(directory, "cloud_figures.json")
        self._figures: CloudFigures | None = None

    def _read(self) -> float | None:
        """Take the figures from the file where that is young, else from the cloud."""
        age = self._file.age()
        if age is not None and age < KEPT:
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
