# SPDX-License-Identifier: Apache-2.0
"""Prometheus gauges of the cloud, shared by workers in a file."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
from prometheus_client.core import GaugeMetricFamily

from placement_sched.model.document import encode
from placement_sched.model.figures import CloudFigures
from placement_sched.operations.periodic import PeriodicTask

#: Maximum age of cached figures, in seconds.
MAX_AGE = 60
#: Callback that reads the current figures, or raises :class:`Error`.
ReadFigures = Callable[[], CloudFigures]


class SharedFile:
    """JSON file in a directory of several workers (None: a single process)."""

    def __init__(self, directory: str | None, name: str) -> None:
        self._path = None if directory is None else Path(directory) / name

    def read(self) -> Any:
        """Return the latest document, or None before the first write."""
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

    def get_age(self) -> float | None:
        """Return the age in seconds, or None without a document of the past."""
        try:
            age = time.time() - self._path.stat().st_mtime if self._path else -1
        except OSError:
            return None
        return age if age >= 0 else None


class CloudGauges(PeriodicTask):
    """Prometheus collector of the cloud's figures, empty until they are read."""

    failure = "the figures of the cloud were not read"
    pause = MAX_AGE

    def __init__(self, read: ReadFigures, directory: str | None) -> None:
        super().__init__()
        self._read = read
        self._file = SharedFile(directory, "cloud_figures.json")
        self._figures: CloudFigures | None = None

    def run_round(self) -> None:
        """Read recent figures of another worker, or compute them."""
        age = self._file.get_age()
        if age is None or age >= MAX_AGE:
            self._figures = self._read().limit_names()
            self._file.write(self._figures.as_json())
        elif (shared := self._file.read()) is None:
            self._next = 0.0
        else:
            self._figures = CloudFigures.from_json(shared)
            self._next -= age

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges, and first read the figures again if they are too old."""
        self()
        figures = self._figures
        if figures is None:
            return
        hosts = GaugeMetricFamily(
            "placement_sched_hosts", "Compute services of hosts, by state.", labels=["state"]
        )
        for state, number in figures.hosts.items():
            hosts.add_metric([state], number)
        yield hosts
        for name, amounts in (("free", figures.free), ("used", figures.used)):
            gauge = GaugeMetricFamily(
                f"placement_sched_resources_{name}",
                f"How much is {name} of a resource class in a zone, in the units of the class.",
                labels=["resource_class", "zone"],
            )
            for key, amount in sorted(amounts.items()):
                gauge.add_metric(key, amount)
            yield gauge
