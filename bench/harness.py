# SPDX-License-Identifier: Apache-2.0
"""Options, rounds, tables and targets of all benchmarks."""

import argparse
import importlib
import multiprocessing
import os
import shlex
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import NamedTuple, Self

from load import fill
from sqlalchemy.engine import URL, make_url
from worlds import World

from tests.conftest import DATABASE_SERVER_URLS
from tests.differential.comparison import PEER_PYTHON
from tests.support.empty_databases import empty_database

#: The kinds of databases in the tests, by their names here.
KINDS = {"postgresql": "postgresql", "mariadb": "mysql", "sqlite": "sqlite", "galera": "galera"}
#: The databases with targets, which are the same on each.
TARGET_DATABASES = ("postgresql", "mariadb")


class WrongResponse(Exception):
    """A response differs from the peer's, or from the acknowledged requests."""


class Databases:
    """The databases of a run that hold clouds. They are dropped at the end."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._urls: dict[World, URL] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="bench-")))
        if self._kind == "galera":
            cluster = importlib.import_module("tests.galera.cluster")
            cluster.SETTINGS["innodb-buffer-pool-size"] = "128M"  # MariaDB's default
            started = self._stack.enter_context(cluster.run_cluster())
            DATABASE_SERVER_URLS["galera"] = started.nodes[0].url()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._stack.close()

    def make_empty(self) -> str:
        """Return the URL of a new empty database."""
        return self._stack.enter_context(empty_database(KINDS[self._kind], self._folder))

    def find_or_fill(self, world: World) -> URL:
        """Return a database that holds a cloud."""
        if world not in self._urls:
            self._urls[world] = self.fill_new(world)
        return self._urls[world]

    def fill_new(self, world: World) -> URL:
        """Return a new database that holds a cloud."""
        url = self.make_empty()
        seconds = fill(url, world)
        print(f"loaded {type(world).__name__} of {world.size:,} in {seconds:.1f} s", flush=True)
        return make_url(url)


def _read_kinds(value: str) -> tuple[str, ...]:
    kinds = tuple(value.split(","))
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise argparse.ArgumentTypeError(f"not {', '.join(unknown)}, but {', '.join(KINDS)}")
    return kinds


class Options(argparse.ArgumentParser):
    """The command line of a benchmark, with the options that all benchmarks share.

    Without ``has_peer`` the benchmark has no peer. ``can_omit_peer`` adds the option ``--no-peer``.
    """

    def __init__(
        self,
        description: str | None,
        default_databases: str = "postgresql",
        *,
        has_peer: bool = True,
        can_omit_peer: bool = False,
    ) -> None:
        super().__init__(description=description)
        self._sized: dict[str, tuple[float, float]] = {}
        self.set_defaults(no_peer=not has_peer)
        if can_omit_peer:
            self.add_argument("--no-peer", action="store_true", help="placement-sched only")
        self.add_argument("--quick", action="store_true", help="small cloud, few rounds")
        self.add_argument(
            "--database",
            dest="databases",
            type=_read_kinds,
            default=_read_kinds(default_databases),
            help=f"with commas: {', '.join(KINDS)} (default: {default_databases})",
        )

    def add_sized(self, name: str, default: float, quick: float, text: str) -> None:
        """Add an option that has another default with ``--quick``."""
        self._sized[name.strip("-").replace("-", "_")] = (default, quick)
        self.add_argument(
            name, type=type(default), help=f"{text} (default: {default}; quick {quick})"
        )

    def parse(self) -> argparse.Namespace:
        """Return the options of the command line. The process ends if the peer is missing."""
        options = self.parse_args()
        if not options.no_peer and not PEER_PYTHON.exists():
            reason = "make peer installs openstack-placement and nova"
            print(f"there is no {PEER_PYTHON}: {reason}", file=sys.stderr)
            sys.exit(2)
        for name, defaults in self._sized.items():
            if getattr(options, name) is None:
                setattr(options, name, defaults[options.quick])
        return options


def run_on_databases(options: argparse.Namespace, measure: Callable[[str, Databases], None]) -> int:
    """Call ``measure`` for each kind of database, and return the exit status."""
    print(f"`{shlex.join(sys.argv)}`", flush=True)
    wrong = False
    for kind in options.databases:
        with Databases(kind) as databases:
            try:
                measure(kind, databases)
            except WrongResponse as difference:
                print(f"WRONG response on {kind}: {difference}", flush=True)
                wrong = True
    return int(wrong)


@contextmanager
def client_processes(number: int) -> Iterator[Executor]:
    """Start client processes, and wait until all of them run."""
    with ProcessPoolExecutor(number, multiprocessing.get_context("spawn")) as clients:
        list(clients.map(sleep, [1.0] * number))
        yield clients


def report_progress(text: str) -> None:
    """Print a line to standard error."""
    print(f"  {text} ...", file=sys.stderr, flush=True)


@dataclass(slots=True)
class Times:
    """Milliseconds of each round, and the mean of the CPU milliseconds."""

    ms: list[float] = field(default_factory=list)
    cpu_ms: float = 0.0

    @property
    def median(self) -> float:
        """Return the median of the rounds."""
        return statistics.median(self.ms)

    @property
    def best(self) -> float:
        """Return the time of the fastest round."""
        return min(self.ms)

    def __str__(self) -> str:
        return f"{self.median:.1f} ({self.best:.1f})"


def take_turns(
    calls: Mapping[str, Callable[[int], float]],
    rounds: int,
    *,
    warm_up: int = 1,
    seconds: float = float("inf"),
    clocks: Mapping[str, Callable[[], float]] | None = None,
) -> dict[str, Times]:
    """Call all in each round, so that other work on the machine affects all of them.

    A call has the number of the round and returns milliseconds. Rounds with negative numbers warm
    up and do not count. A call that has used ``seconds`` is not repeated. ``clocks`` return the
    CPU seconds of the server of a call.
    """
    times = {name: Times() for name in calls}
    spent = dict.fromkeys(calls, 0.0)
    for number in range(-warm_up, rounds):
        for name in list(calls) if number % 2 else reversed(list(calls)):
            if times[name].ms and spent[name] > seconds:
                continue
            clock = clocks[name] if clocks else lambda: 0.0
            cpu, start = clock(), perf_counter()
            ms = calls[name](number)
            if number >= 0:
                spent[name] += perf_counter() - start
                times[name].ms.append(ms)
                times[name].cpu_ms += (clock() - cpu) * 1000
    for each in times.values():
        each.cpu_ms /= max(len(each.ms), 1)
    return times


def compare(ours: Times, peer: Times) -> tuple[float, float, float]:
    """Return the peer's time divided by ours: median of the pairs, best rounds, and CPU time."""
    pairs = zip(ours.ms, peer.ms, strict=False)  # the slower side may have fewer rounds
    return (
        statistics.median(theirs / own for own, theirs in pairs),
        peer.best / ours.best,
        peer.cpu_ms / max(ours.cpu_ms, 0.001),
    )


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of the values lies, or 0 without values."""
    if len(values) < 2:
        return values[0] if values else 0.0
    return statistics.quantiles(values, n=100, method="inclusive")[round(share * 100) - 1]


def format_value(value: object) -> str:
    """Return a cell of a table."""
    if isinstance(value, float):
        return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"
    return "" if value is None else str(value)


def build_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(columns)} |", "| --- |" + " --: |" * (len(columns) - 1)]
    lines += [f"| {' | '.join(map(format_value, row))} |" for row in rows]
    return "\n".join(lines)


def build_section(title: str, *tables: str) -> str:
    """Return a section of a report: title, load average and tables."""
    load = os.getloadavg()[0]
    return "\n\n".join([f"\n## {title} (load average {load:.1f})", *filter(None, tables)])


class Target(NamedTuple):
    """The smallest good value, or the largest if ``is_maximum``: a time, a growth, a size."""

    limit: float
    unit: str = "x"
    is_maximum: bool = False

    def is_missed(self, value: float) -> bool:
        """Return whether a value misses the target."""
        return value > self.limit if self.is_maximum else value < self.limit


class Finding(NamedTuple):
    """A measured value and its target."""

    name: str
    value: float
    target: Target
    note: str = ""
    #: Whether the cloud has the size of the target.
    applies: bool = True


def build_target_table(findings: Iterable[Finding], kind: str, *, applies: bool = True) -> str:
    """Return the table of targets and values of a kind of database.

    ``applies`` is false if the cloud has another size.
    """
    rows = []
    for name, value, target, note, has_size in findings:
        verdict = "MISSED" if target.is_missed(value) else "kept"
        if not (applies and has_size):
            verdict = "other size"
        if kind not in TARGET_DATABASES:
            verdict = "no target"
        limit = f"{'≤' if target.is_maximum else '≥'} {target.limit:g}{target.unit}"
        rows.append((name, limit, f"{format_value(float(value))}{target.unit}", verdict, note))
    return build_table(("measured", "limit", "value", "verdict", "note"), rows) if rows else ""
