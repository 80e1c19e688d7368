"""``/metrics``: what Prometheus reads of this service.

Each application has a registry of its own. With several worker processes the numbers are in files
of a shared directory, one per process, which the scraped process adds up: :func:`share` sets it,
or the environment's ``PROMETHEUS_MULTIPROC_DIR`` does (prometheus-client, "Multiprocess Mode").
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, values
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from placement_sched.api.request_context import WSGI
from placement_sched.candidates.cache import CacheFigures
from placement_sched.errors import ConfigurationError
from placement_sched.model.decision import DecisionLabels
from placement_sched.model.request_stats import begin_stats, request_stats
from placement_sched.operations.gauges import CapacityGauges, CloudGauges, CountFlavors, ReadFigures

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"

#: What claims and conflicts of placement-sched nova-scheduler are counted under, as a face.
RPC = "nova-scheduler"

#: The keys of a WSGI environ with what was asked, and with its microversion until it is counted.
_ASKED = "placement_sched.asked"
_UNCOUNTED = "placement_sched.uncounted"

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_STATEMENTS = (0, 1, 2, 3, 5, 8, 12, 20, 40, 80)
_CANDIDATES = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)

#: A method is the client's to invent; a label for each would grow without bound.
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


class Asked(NamedTuple):
    """What a request is counted under; ``route`` is the path's template, "" where none fits."""

    face: str
    route: str
    method: str


class Metrics:
    """The numbers of one application."""

    def __init__(self) -> None:
        """Raise :class:`ConfigurationError` where the directory to share is not there."""
        directory = os.environ.get(DIRECTORY)
        if directory is not None and not Path(directory).is_dir():
            raise ConfigurationError(f"{DIRECTORY}: {directory} is not a directory")
        self._registry = CollectorRegistry()
        asked = Asked._fields
        counter = partial(Counter, namespace="placement_sched", registry=self._registry)
        requests = counter("requests", "Requests answered.", (*asked, "status", "microversion"))
        claims = (
            "Attempts to allocate: won, lost (to a concurrent request or for lack of capacity), "
            "and retried."
        )
        self._claims = counter("claims", claims, ("face", "outcome"))
        conflicts = "What claims and other writes met of concurrent ones, by kind."
        self._conflicts = counter("conflicts", conflicts, ("face", "kind"))
        of_request = partial(
            Histogram,
            labelnames=asked,
            namespace="placement_sched",
            subsystem="request",
            registry=self._registry,
        )
        seconds = of_request(
            "duration_seconds", "Time until a request was answered.", buckets=_SECONDS
        )
        statements = of_request(
            "statements", "SQL statements that a request took.", buckets=_STATEMENTS
        )
        self._candidates = of_request(
            "candidates", "Allocation candidates that a request found.", buckets=_CANDIDATES
        )
        gauge = partial(
            Gauge,
            namespace="placement_sched",
            subsystem="mirror",
            registry=self._registry,
            # A worker that has ended would count for good in a sum.
            multiprocess_mode="mostrecent",
        )
        self._mirror = CacheFigures()
        self._mirror_gauges = {
            "providers": gauge("providers", "Providers in the memory of a worker."),
            "nbytes": gauge("bytes", "About how much memory they take."),
            "seconds": gauge("reading_seconds", "How long the last reading of all took."),
        }
        mirrored = partial(counter, subsystem="mirror")
        self._mirror_counters = {
            "refreshes": mirrored("refreshes", "Times that changed providers were read again."),
            "full_readings": mirrored("full_readings", "Times that all providers were read."),
            "repairs": mirrored("repairs", "Providers whose changes the log had missed."),
        }
        self._count_decisions_and_reads()
        self._count_calls()
        #: What is read for a scrape, and so is in no file of a process.
        self._read: list[Collector] = []
        # Prometheus's own look-up of labels takes longer than the counting.
        self._requests = cache(requests.labels)
        self._seconds = cache(seconds.labels)
        self._statements = cache(statements.labels)

    def _count_decisions_and_reads(self) -> None:
        decisions = Counter(
            "scheduler_decisions",
            "Decisions of select_destinations, by outcome, policy, and what stage left no host.",
            DecisionLabels._fields,
            namespace="placement_sched",
            registry=self._registry,
        )
        stages = Histogram(
            "stage_duration_seconds",
            "Time that a request spent in each stage of scheduling, all of its instances together.",
            labelnames=("stage",),
            namespace="placement_sched",
            subsystem="scheduler",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._pool_timeouts = Counter(
            "database_pool_timeouts",
            "Requests for a connection to the database that were given up, as all were in use.",
            namespace="placement_sched",
            registry=self._registry,
        )
        self._decisions = cache(decisions.labels)
        self._stages = cache(stages.labels)

    def _count_calls(self) -> None:
        calls = Counter(
            "rpc_calls",
            "Calls of nova's that placement-sched nova-scheduler answered, by outcome.",
            ("method", "outcome"),
            namespace="placement_sched",
            registry=self._registry,
        )
        seconds = Histogram(
            "rpc_duration_seconds",
            "Time from taking such a call to its answer.",
            ("method",),
            namespace="placement_sched",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._left_out = Gauge(
            "nova_left_out",
            "Objects in nova's databases that could not be recorded as they are.",
            namespace="placement_sched",
            registry=self._registry,
            multiprocess_mode="mostrecent",
        )
        self._calls = cache(calls.labels)
        self._call_seconds = cache(seconds.labels)

    def call(self, method: str, outcome: str, seconds: float) -> None:
        """Count a call of nova's that was answered, its time and its statistics."""
        self._calls(method, outcome).inc()
        self._call_seconds(method).observe(seconds)
        self._count_stats(RPC)

    def left_out(self, number: int) -> None:
        """Show how many of nova's objects the last full reading could not record as they are."""
        self._left_out.set(number)

    def request(self, asked: Asked, status: int, microversion: str, seconds: float) -> None:
        """Count an answered request, its time and its statistics."""
        if asked.method not in _METHODS:
            asked = asked._replace(method="other")
        self._requests(*asked, status, microversion).inc()
        self._seconds(*asked).observe(seconds)
        stats = request_stats()
        self._statements(*asked).observe(stats.statements)
        if stats.candidates is not None:
            self._candidates.labels(*asked).observe(stats.candidates)
        self._count_stats(asked.face)

    def _count_stats(self, face: str) -> None:
        stats = request_stats()
        for outcome in ("won", "lost", "retried"):
            if number := getattr(stats, f"claims_{outcome}"):
                self._claims.labels(face, outcome).inc(number)
        for kind, number in stats.conflicts.items():
            self._conflicts.labels(face, kind).inc(number)
        if stats.pool_timeouts:
            self._pool_timeouts.inc(stats.pool_timeouts)
        for stage, took in stats.stages.items():
            self._stages(stage).observe(took)
        if stats.decision is not None:
            self._decisions(*stats.decision).inc()

    def show_cloud(self, read: ReadFigures) -> None:
        """Show the figures of the whole cloud as well."""
        self.show(CloudGauges(read, os.environ.get(DIRECTORY)))

    def show_capacity(self, flavors: Callable[[], Sequence[str]], count: CountFlavors) -> None:
        """Show as well how many more instances fit, of the flavors that are named now."""
        self.show(CapacityGauges(flavors, count, os.environ.get(DIRECTORY)))

    def show(self, read: Collector) -> None:
        """Show as well what a collector reads when a scrape comes."""
        self._read.append(read)
        self._registry.register(read)

    def mirror(self, figures: CacheFigures) -> None:
        """Show what is kept of the cloud in this process's memory."""
        for name, shown in self._mirror_gauges.items():
            shown.set(getattr(figures, name))
        for name, counted_so_far in self._mirror_counters.items():
            counted_so_far.inc(getattr(figures, name) - getattr(self._mirror, name))
        self._mirror = figures

    def scrape(self, accept: str) -> tuple[str, bytes]:
        """Return content type and text of all numbers, in the format that ``accept`` asks for."""
        registry = self._registry
        if DIRECTORY in os.environ:
            registry = CollectorRegistry()
            for one in (_OfAllProcesses(), *self._read):
                registry.register(one)
        encode, content_type = choose_encoder(accept)
        return content_type, encode(registry)


class _OfAllProcesses(Collector):
    """The numbers in the files of all processes, also of those that have ended."""

    def collect(self) -> Iterable[Metric]:
        """Return them; a file that is empty yet is of a process that starts in this moment."""
        files = [one for one in Path(os.environ[DIRECTORY]).glob("*.db") if one.stat().st_size]
        merge: Any = MultiProcessCollector.merge  # it has no types
        numbers: Iterable[Metric] = merge([str(one) for one in files])
        return numbers


def note(environ: dict[str, Any], asked: Asked, microversion: str) -> None:
    """Note for :func:`counted` and the log which route was called, at which version."""
    environ[_ASKED] = asked
    environ[_UNCOUNTED] = microversion


def asked_of(environ: dict[str, Any]) -> Asked | None:
    """Return which route was called; None for what is beside the APIs."""
    found: Asked | None = environ.get(_ASKED)
    return found


def counted(application: WSGI, metrics: Metrics) -> WSGI:
    """Return ``application``, counting the answers of what was noted; to be put before all else.

    A status that a client never receives is not counted: CORS answers in a face's stead.
    """

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        began = time.perf_counter()

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            microversion = environ.pop(_UNCOUNTED, None)
            if microversion is not None:
                seconds = time.perf_counter() - began
                metrics.request(environ[_ASKED], int(status[:3]), microversion, seconds)
                begin_stats()
            return start_response(status, headers, *rest)

        return application(environ, start)

    return serve


def share(directory: str) -> None:
    """Let this process and its forks keep their numbers in files of ``directory``.

    To be called before any application is made.
    """
    os.environ[DIRECTORY] = directory
    # It is chosen when prometheus-client is imported, which was before anybody knew.
    values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call] # as above
