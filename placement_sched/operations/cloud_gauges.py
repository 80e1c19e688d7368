"""The gauges of the whole cloud in ``/metrics``: hosts, and what is free and used of resources.

They are read when a scrape asks for them and those known are a minute old. Several workers share
them in a file beside their numbers, so that one of them reads for all.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock

import orjson
from oslo_log import log
from prometheus_client.core import GaugeMetricFamily

from placement_sched.errors import Error
from placement_sched.model.cloud_figures import CloudFigures

LOG = log.getLogger(__name__)

#: Reads the figures of the moment; raises :class:`Error` where it cannot.
ReadFigures = Callable[[], CloudFigures]

#: For so many seconds figures are not read again.
KEPT = 60

_FILE = "cloud_figures.json"
_PREFIX = "placement_sched"


class CloudGauges:
    """The figures of the cloud as a collector of Prometheus; ``directory`` is what workers share.

    One thread at a time reads them; any other shows those that are known.
    """

    def __init__(self, read: ReadFigures, directory: str | None) -> None:
        self._read = read
        self._file = None if directory is None else Path(directory) / _FILE
        self._lock = Lock()
        self._figures: CloudFigures | None = None
        self._read_at: float | None = None

    def describe(self) -> list[GaugeMetricFamily]:
        """Return nothing: what there is to collect is not asked for when this is registered."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges; none where the database was never reached."""
        if self._lock.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._lock.release()
        figures = self._figures
        if figures is None:
            return
        hosts = GaugeMetricFamily(
            f"{_PREFIX}_hosts", "Compute services of hosts, by state.", labels=["state"]
        )
        for state, number in figures.hosts.items():
            hosts.add_metric([state], number)
        yield hosts
        for name, amounts in (("free", figures.free), ("used", figures.used)):
            gauge = GaugeMetricFamily(
                f"{_PREFIX}_resources_{name}",
                f"How much is {name} of a resource class in a zone, in the units of the class.",
                labels=["resource_class", "zone"],
            )
            for key, amount in sorted(amounts.items()):
                gauge.add_metric(key, amount)
            yield gauge

    def _refresh(self) -> None:
        """Read the figures where those known are too old, from the file where that is young."""
        if self._read_at is not None and time.monotonic() - self._read_at < KEPT:
            return
        if (age := self._age()) is not None and age < KEPT and self._file is not None:
            try:
                self._figures = CloudFigures.from_json(orjson.loads(self._file.read_bytes()))
            except (OSError, ValueError):  # it is written at this moment by another worker
                return
            self._read_at = time.monotonic() - age
            return
        self._read_at = time.monotonic()  # also where it fails: a database that is away is left
        try:
            self._figures = self._read().bounded()
        except Error as failure:
            LOG.warning("the figures of the cloud were not read: %s", failure.detail)
            return
        if self._file is not None:
            written = self._file.with_suffix(f".{os.getpid()}")
            written.write_bytes(orjson.dumps(self._figures.as_json()))
            written.replace(self._file)

    def _age(self) -> float | None:
        """Return how old what the workers share is; None where there is nothing of use.

        What is younger than the file's time was written before the clock went back.
        """
        try:
            age = time.time() - self._file.stat().st_mtime if self._file else -1
        except OSError:
            return None
        return age if age >= 0 else None
