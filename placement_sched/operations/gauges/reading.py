"""How gauges are read when a scrape asks for them: not too often, and once for all workers."""

import os
import time
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import orjson
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from placement_sched.model.document import encoded


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
