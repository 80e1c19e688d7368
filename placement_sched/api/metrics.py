# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of an application.

Each application has its own registry. With several worker processes, each process writes its
numbers to a file in a shared directory, and the scraped process adds up all files.
:func:`share_numbers` or the environment variable ``PROMETHEUS_MULTIPROC_DIR`` sets the directory
(prometheus-client, "Multiprocess Mode").
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import os_resource_classes
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, values
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from placement_sched.candidates.cache import CacheFigures
from placement_sched.errors import ConfigurationError
from placement_sched.limits import MAX_METRIC_NAMES
from placement_sched.model.decision import DecisionLabels, ReasonLabels
from placement_sched.model.figures import OTHER
from placement_sched.model.request_stats import begin_stats, get_request_stats

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"

#: The label ``api`` of claims and conflicts of placement-sched nova-scheduler.
RPC = "nova-scheduler"

#: Environ keys: labels of the request, and its microversion until the request is counted.
_LABELS = "placement_sched.request_labels"
_UNCOUNTED = "placement_sched.uncounted"

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_STATEMENTS = (0, 1, 2, 3, 5, 8, 12, 20, 40, 80)
_CANDIDATES = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)

#: Methods with their own label. Others share a label, since clients may invent methods.
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


class RequestLabels(NamedTuple):
    """The labels of a request, with the template of its path (or "")."""

    api: str
    route: str
    method: str


class Metrics:
    """The metrics of an application."""

    def __init__(self) -> None:
        directory = os.environ.get(DIRECTORY)
        if directory is not None and not Path(directory).is_dir():
            raise ConfigurationError(f"{DIRECTORY}: {directory} is not a directory")
        self._registry = CollectorRegistry()
        labels = RequestLabels._fields
        common: dict[str, Any] = {"namespace": "placement_sched", "registry": self._registry}
        counter: Callable[..., Counter] = partial(Counter, **common)
        histogram: Callable[..., Histogram] = partial(Histogram, **common)
        # A sum would include workers that have ended.
        gauge: Callable[..., Gauge] = partial(Gauge, multiprocess_mode="mostrecent", **common)
        # prometheus-client's lookup of labels takes longer than the counting, so it is cached.
        counted = (*labels, "status", "microversion")
        self._requests = cache(counter("requests", "Requests answered.", counted).labels)
        claims = (
            "Attempts to allocate: won, lost (to a concurrent request or for lack of capacity), "
            "and retried."
        )
        self._claims = counter("claims", claims, ("api", "outcome"))
        conflicts = "Conflicts of claims and other writes with concurrent writes, by kind."
        self._conflicts = counter("conflicts", conflicts, ("api", "kind"))
        of_request: Callable[..., Histogram] = partial(
            histogram, labelnames=labels, subsystem="request"
        )
        seconds = of_request(
            "duration_seconds", "Time until a request was answered.", buckets=_SECONDS
        )
        statements = of_request("statements", "SQL statements of a request.", buckets=_STATEMENTS)
        self._seconds, self._statements = cache(seconds.labels), cache(statements.labels)
        self._candidates = of_request(
            "candidates", "Allocation candidates that a request found.", buckets=_CANDIDATES
        )
        self._cache_figures = CacheFigures()
        cache_gauge = partial(gauge, subsystem="provider_cache")
        self._cache_gauges = {
            "providers": cache_gauge("providers", "Providers in the cache of a worker."),
            "nbytes": cache_gauge("bytes", "Approximate memory of the provider cache."),
            "seconds": cache_gauge(
                "reading_seconds", "Time of the last full read of all providers."
            ),
        }
        cache_counter = partial(counter, subsystem="provider_cache")
        self._cache_counters = {
            "refreshes": cache_counter("refreshes", "Refreshes of changed providers."),
            "full_readings": cache_counter("full_readings", "Full reads of all providers."),
            "repairs": cache_counter("repairs", "Providers whose changes the log had missed."),
        }
        decisions = counter(
            "scheduler_decisions",
            "Decisions of select_destinations, by outcome, policy, and the stage that left no "
            "host.",
            DecisionLabels._fields,
        )
        failures = counter(
            "scheduler_no_valid_host",
            "Requests without a host, by the kind of the reason and its resource class.",
            ReasonLabels._fields,
        )
        #: Custom resource classes with their own label.
        self._custom_classes: set[str] = set()
        stages = histogram(
            "scheduler_stage_duration_seconds",
            "Time of a request in each stage of scheduling, for all of its instances.",
            ("stage",),
            buckets=_SECONDS,
        )
        self._pool_timeouts = counter(
            "database_pool_timeouts",
            "Timeouts of waiting for a database connection, because all were in use.",
        )
        calls = counter(
            "rpc_calls",
            "RPC calls from nova that placement-sched nova-scheduler answered, by outcome.",
            ("method", "outcome"),
        )
        call_seconds = histogram(
            "rpc_duration_seconds",
            "Time from receiving an RPC call to its reply.",
            ("method",),
            buckets=_SECONDS,
        )
        self._left_out = gauge(
            "nova_left_out", "Objects of nova's databases left out, or recorded with changes."
        )
        #: Collectors that read their numbers at each scrape rather than from files.
        self._collectors: list[Collector] = []
        self._decisions, self._stages = cache(decisions.labels), cache(stages.labels)
        self._failures = cache(failures.labels)
        self._calls, self._call_seconds = cache(calls.labels), cache(call_seconds.labels)

    def count_call(self, method: str, outcome: str, seconds: float) -> None:
        """Count an answered RPC call from nova, its time and its statistics."""
        self._calls(method, outcome).inc()
        self._call_seconds(method).observe(seconds)
        self._count_stats(RPC)

    def set_left_out(self, number: int) -> None:
        """Set the number of nova's objects left out, or recorded with changes."""
        self._left_out.set(number)

    def count_request(self, environ: dict[str, Any], status: int, seconds: float) -> None:
        """Count an answered request that has labels, and reset its statistics."""
        microversion = environ.pop(_UNCOUNTED, None)
        if microversion is None:
            return
        labels: RequestLabels = environ[_LABELS]
        if labels.method not in _METHODS:
            labels = labels._replace(method="other")
        self._requests(*labels, status, microversion).inc()
        self._seconds(*labels).observe(seconds)
        stats = get_request_stats()
        self._statements(*labels).observe(stats.statements)
        if stats.candidates is not None:
            self._candidates.labels(*labels).observe(stats.candidates)
        self._count_stats(labels.api)
        begin_stats()

    def _count_stats(self, api: str) -> None:
        stats = get_request_stats()
        for outcome in ("won", "lost", "retried"):
            if number := getattr(stats, f"claims_{outcome}"):
                self._claims.labels(api, outcome).inc(number)
        for kind, number in stats.conflicts.items():
            self._conflicts.labels(api, kind).inc(number)
        if stats.pool_timeouts:
            self._pool_timeouts.inc(stats.pool_timeouts)
        for stage, seconds in stats.stages.items():
            self._stages(stage).observe(seconds)
        for result in (stats.result, *stats.other_results):
            if result is not None and result.labels is not None:
                self._decisions(*result.labels).inc()
                if (reason := result.reason) is not None:
                    name = self._limit_class(reason.resource_class)
                    self._failures(reason.kind, name).inc()

    def _limit_class(self, name: str) -> str:
        if not name.startswith(os_resource_classes.CUSTOM_NAMESPACE):
            return name
        if len(self._custom_classes) < MAX_METRIC_NAMES:
            self._custom_classes.add(name)
        return name if name in self._custom_classes else OTHER

    def show(self, read: Collector) -> None:
        """Add a collector, which is read at each scrape."""
        self._collectors.append(read)
        self._registry.register(read)

    def update_provider_cache(self, figures: CacheFigures) -> None:
        """Update the metrics of this process's provider cache."""
        for name, gauge in self._cache_gauges.items():
            gauge.set(getattr(figures, name))
        for name, counter in self._cache_counters.items():
            counter.inc(getattr(figures, name) - getattr(self._cache_figures, name))
        self._cache_figures = figures

    def scrape(self, accept: str) -> tuple[str, bytes]:
        """Return the content type and the metrics in the format of ``accept``."""
        registry = self._registry
        if DIRECTORY in os.environ:
            registry = CollectorRegistry()
            for collector in (_ProcessFiles(), *self._collectors):
                registry.register(collector)
        encode, content_type = choose_encoder(accept)
        return content_type, encode(registry)


class _ProcessFiles(Collector):
    """Collector of the metrics files of all processes, also ended processes."""

    def collect(self) -> Iterable[Metric]:
        # The file of a process that is being started is empty.
        files = [path for path in Path(os.environ[DIRECTORY]).glob("*.db") if path.stat().st_size]
        merge: Any = MultiProcessCollector.merge  # it has no types
        numbers: Iterable[Metric] = merge([str(path) for path in files])
        return numbers


def set_labels(environ: dict[str, Any], labels: RequestLabels, microversion: str) -> None:
    """Record the labels and the version of a request for metrics and logs."""
    environ[_LABELS] = labels
    environ[_UNCOUNTED] = microversion


def find_labels(environ: dict[str, Any]) -> RequestLabels | None:
    """Return the labels of a request, or None outside of the APIs."""
    labels: RequestLabels | None = environ.get(_LABELS)
    return labels


@contextmanager
def share_numbers() -> Iterator[None]:
    """Share metrics of this process and its forks. Call it first."""
    if DIRECTORY in os.environ:
        yield
        return
    with TemporaryDirectory(prefix="placement_sched_") as directory:
        os.environ[DIRECTORY] = directory
        # prometheus-client chose the class at its import, before the directory was set.
        values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call] # as above
        yield
