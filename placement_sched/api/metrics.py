"""``/metrics``: what Prometheus reads of this service.

Each application has a registry of its own. With several worker processes the numbers are in files
of a shared directory, one per process, which whoever is asked adds up: :func:`share` says where,
or the environment's ``PROMETHEUS_MULTIPROC_DIR`` does (prometheus-client, "Multiprocess Mode").
"""

import os
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Histogram, values
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector

from placement_sched.api.wsgi_types import WSGI
from placement_sched.db.tally import Tally
from placement_sched.errors import ConfigurationError

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"

#: What of a request is counted, beside its status, in its WSGI environment.
_NOTED = "placement_sched.noted"

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
        _check_directory()
        self._registry = CollectorRegistry()
        asked = Asked._fields
        self._requests = self._counter(
            "requests", "Requests answered.", (*asked, "status", "microversion")
        )
        self._seconds = self._histogram(
            "request_duration_seconds", "Time until a request was answered.", asked, _SECONDS
        )
        self._statements = self._histogram(
            "request_statements", "SQL statements that a request took.", asked, _STATEMENTS
        )
        self._candidates = self._histogram(
            "request_candidates", "Allocation candidates that a request found.", asked, _CANDIDATES
        )
        self._claims = self._counter(
            "claims",
            "Attempts to allocate: won, lost (to a rival or for want of room), and retried.",
            ("face", "outcome"),
        )
        # Prometheus's own look-up of labels takes longer than the counting.
        self._counted: dict[tuple[Asked, int, str], Counter] = {}
        self._measured: dict[Asked, tuple[Histogram, Histogram]] = {}

    def _counter(self, name: str, text: str, labels: Iterable[str]) -> Counter:
        return Counter(f"placement_sched_{name}", text, labels, registry=self._registry)

    def _histogram(
        self, name: str, text: str, labels: Iterable[str], buckets: Iterable[float]
    ) -> Histogram:
        return Histogram(
            f"placement_sched_{name}",
            text,
            tuple(labels),
            registry=self._registry,
            buckets=tuple(buckets),
        )

    def request(
        self, asked: Asked, status: int, microversion: str, seconds: float, tally: Tally
    ) -> None:
        """Count an answered request, its time and its tally."""
        if asked.method not in _METHODS:
            asked = asked._replace(method="other")
        key = (asked, status, microversion)
        counter = self._counted.get(key)
        if counter is None:
            counter = self._requests.labels(*asked, status, microversion)
            self._counted[key] = counter
        counter.inc()
        measured = self._measured.get(asked)
        if measured is None:
            measured = (self._seconds.labels(*asked), self._statements.labels(*asked))
            self._measured[asked] = measured
        durations, statements = measured
        durations.observe(seconds)
        statements.observe(tally.statements)
        if tally.candidates is not None:
            self._candidates.labels(*asked).observe(tally.candidates)
        self._count_claims(asked.face, tally)

    def _count_claims(self, face: str, tally: Tally) -> None:
        for outcome, number in (
            ("won", tally.claims_won),
            ("lost", tally.claims_lost),
            ("retried", tally.claims_retried),
        ):
            if number:
                self._claims.labels(face, outcome).inc(number)

    def scrape(self, accept: str) -> tuple[str, bytes]:
        """Return content type and text of all numbers, in the format that ``accept`` asks for."""
        registry = self._registry
        if DIRECTORY in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call] # it has no types
        encode, content_type = choose_encoder(accept)
        return content_type, encode(registry)


class Scrape:
    """The WSGI application of ``/metrics``."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer one request."""
        status, headers, content = self._answer(environ)
        headers.append(("Content-Length", str(len(content))))
        start_response(f"{int(status)} {status.phrase}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [content]

    def _answer(self, environ: dict[str, Any]) -> tuple[HTTPStatus, list[tuple[str, str]], bytes]:
        text = ("Content-Type", "text/plain; charset=utf-8")
        if environ.get("PATH_INFO", "").rstrip("/"):
            return HTTPStatus.NOT_FOUND, [text], b"there is only /metrics\n"
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            allow = ("Allow", "GET, HEAD")
            return HTTPStatus.METHOD_NOT_ALLOWED, [text, allow], b"only GET and HEAD are served\n"
        content_type, content = self._metrics.scrape(environ.get("HTTP_ACCEPT", ""))
        return HTTPStatus.OK, [("Content-Type", content_type)], content


def note(environ: dict[str, Any], asked: Asked, microversion: str) -> None:
    """Leave word for :func:`counted` of what was asked, and at which version."""
    environ[_NOTED] = (asked, microversion)


def counted(application: WSGI, metrics: Metrics, tally: Tally) -> WSGI:
    """Return ``application``, counting the answers of what was noted; to be put before all else.

    A status that a client never receives is not counted: CORS answers in a face's stead.
    """

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        began = time.perf_counter()

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            noted = environ.pop(_NOTED, None)
            if noted is not None:
                asked, microversion = noted
                seconds = time.perf_counter() - began
                metrics.request(asked, int(status[:3]), microversion, seconds, tally)
                tally.reset()
            return start_response(status, headers, *rest)

        return application(environ, start)

    return serve


def share(directory: str) -> None:
    """Let this process and those forked from it keep their numbers in files of ``directory``.

    To be called before any application is made. It changes the process, as prometheus-client
    knows no other way.
    """
    os.environ[DIRECTORY] = directory
    # It is chosen when prometheus-client is imported, which was before anybody knew.
    values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call] # as above


def _check_directory() -> None:
    """Raise :class:`ConfigurationError` where the directory to share is not there."""
    directory = os.environ.get(DIRECTORY)
    if directory is not None and not Path(directory).is_dir():
        raise ConfigurationError(f"{DIRECTORY}: {directory} is no directory")
