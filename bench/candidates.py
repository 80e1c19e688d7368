# SPDX-License-Identifier: Apache-2.0
"""Compares GET /allocation_candidates and other reads with openstack-placement.

``make bench``, or ``python bench/candidates.py --help``. Every response is compared with the peer's
response. If a response differs, the difference is printed and the exit status is 1.
"""

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import harness
import queries
import services
from harness import Databases, Finding, Target, Times, WrongResponse
from one_cloud import measure_calls, send_get
from queries import Query
from responses import ExpectedCandidates, read_response, require_equal
from selections import CALLS
from services import Request, Server
from worlds import ALWAYS_UP, FlatWorld, NestedWorld, SharedWorld, World

OUT = Path(__file__).resolve().parent / "out"
#: The growth of the time from 10 000 hosts to 100 000, and the memory of a worker then.
GROWTH_TARGET = Target(1.3, is_maximum=True)
MEMORY_TARGET = Target(300, " MB", is_maximum=True)


class Scenario(NamedTuple):
    """A kind of cloud, its queries, its sizes, and its sizes with ``--quick``."""

    world: Callable[..., World]
    queries: Callable[[World], Sequence[Query]]
    sizes: tuple[int, ...]
    quick: tuple[int, ...]


GROWTH, READS = "growth", "reads"
SCENARIOS: Mapping[str, Scenario] = {
    "flat": Scenario(FlatWorld, queries.flat, (10_000,), (1_000,)),
    "nested": Scenario(NestedWorld, queries.nested, (10_000,), (300,)),
    "shared": Scenario(SharedWorld, queries.shared, (10_000,), (500,)),
    READS: Scenario(FlatWorld, queries.reads_of_providers, (10_000,), (500,)),
    GROWTH: Scenario(FlatWorld, queries.flat, (1_000, 10_000, 100_000), (500, 1_000, 2_000)),
}
COLUMNS = (
    *("query", "candidates", "ours ms (best)", "peer ms (best)", "ratio (of bests)"),
    *("ratio of CPU", "ours CPU ms", "peer CPU ms", "first ms", "ours kB"),
)


@dataclass
class Run:
    """A run on a database, with the results so far."""

    kind: str
    databases: Databases
    options: argparse.Namespace
    findings: list[Finding] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    report: list[str] = field(default_factory=list)

    def show(self, title: str, table: str) -> None:
        """Print a section, and keep it for the report."""
        self.report.append(harness.build_section(f"{self.kind}: {title}", table))
        print(self.report[-1], flush=True)

    def add_findings(self, scenario: str, findings: Iterator[Finding]) -> None:
        """Keep the values that have targets."""
        applies = self.options.sizes[scenario] == SCENARIOS[scenario].sizes
        self.findings += (each._replace(applies=applies) for each in findings)


class Checker:
    """Checks of the responses of both services, if there is a peer."""

    def __init__(self, peer: Server | None) -> None:
        self._peer = peer
        self._wholes: dict[str, ExpectedCandidates] = {}
        self._responses: dict[Request, object] = {}

    def check(self, server: str, query: Query, request: Request, body: bytes) -> int | None:
        """Return the number of candidates. Raises :class:`WrongResponse`."""
        if self._peer is None:
            return None
        if not query.whole:
            response = read_response(body)
            expected = self._responses.setdefault(request, response)
            require_equal(f"{server}, {request.path}", response, expected)
            return None
        if query.whole not in self._wholes:
            _, reply = self._peer.address.measure(Request("GET", query.whole))
            self._wholes = {query.whole: ExpectedCandidates(query.name, reply.body)}
        return self._wholes[query.whole].check(f"{server}, {query.name}", body, query.limit)


def _compare(run: Run, scenario: str, world: World) -> None:
    """Measure the queries of a scenario on both services in turns."""
    database = run.databases.find_or_fill(world)
    rows = []
    with services.both(database, has_peer=not run.options.no_peer) as servers:
        chosen = list(SCENARIOS[scenario].queries(world))
        if scenario == READS and isinstance(world, FlatWorld):
            chosen += queries.reads_of_consumers(world, servers[0].address.get)
        checker = Checker(servers[1] if len(servers) > 1 else None)
        for query in chosen:
            harness.report_progress(f"{scenario}, {query.name}")
            try:
                rows.append(_compare_query(run, scenario, query, servers, checker))
            except WrongResponse as difference:
                run.differences.append(str(difference))
    title = f"{scenario}, {type(world).__name__} of {world.size:,}"
    run.show(title, harness.build_table(COLUMNS, rows))


def _compare_query(
    run: Run, scenario: str, query: Query, servers: Sequence[Server], checker: Checker
) -> Sequence[object]:
    candidates, kilobytes, size = None, 0.0, len(query.requests(0))

    def send(server: Server, number: int) -> float:
        nonlocal candidates, kilobytes
        milliseconds = 0.0
        for request in query.requests(number):
            ms, reply = server.address.measure(request)
            milliseconds += ms
            candidates = checker.check(server.name, query, request, reply.body)
            kilobytes = len(reply.body) / 1000
        return milliseconds / size

    first_ms, _ = servers[0].address.measure(query.requests(0)[0])
    times = harness.take_turns(
        {each.name: partial(send, each) for each in servers},
        run.options.rounds,
        warm_up=0,
        seconds=run.options.seconds,
        clocks={each.name: each.cpu_seconds for each in servers},
    )
    for each in times.values():
        each.cpu_ms /= size
    ours, peer = times["ours"], times.get("peer")
    run.add_findings(scenario, _find(f"{scenario}, {query.name}", query, ours, peer))
    if peer is None:
        compared: Sequence[object] = (None, None, None, ours.cpu_ms, None)
    else:
        ratio, best, cpu = harness.compare(ours, peer)
        compared = (peer, f"{ratio:.1f} ({best:.1f})", cpu, ours.cpu_ms, peer.cpu_ms)
    return (query.name, candidates, ours, *compared, first_ms, kilobytes)


def _find(name: str, query: Query, ours: Times, peer: Times | None) -> Iterator[Finding]:
    if query.time is not None:
        yield Finding(name, ours.median, query.time, f"best {ours.best:.1f} ms")
    if peer is not None:
        ratio, best, cpu = harness.compare(ours, peer)
        yield Finding(name, ratio, query.target, f"of bests {best:.0f}, of CPU {cpu:.0f}")


def _measure_growth(run: Run) -> None:
    """Measure placement-sched on clouds of several sizes in turns."""
    worlds = [FlatWorld(size, seen=ALWAYS_UP) for size in run.options.sizes[GROWTH]]
    rows: list[Sequence[object]] = []
    findings = []
    with ExitStack() as stack:
        servers = {
            f"{world.size:,}": stack.enter_context(services.ours(run.databases.find_or_fill(world)))
            for world in worlds
        }
        limited = {query.name: send_get(query.paths[0]) for query in queries.flat(worlds[-1])[:2]}
        first = [limited["limit=1000"](server, 0) for server in servers.values()]
        rows.append(("first request of a worker, ms", *first))
        for name, times in measure_calls(servers, limited | CALLS, run.options.rounds):
            rows.append((f"{name}, ms (best)", *times.values()))
            (smaller, small), (larger, large) = list(times.items())[-2:]
            ratio, best, cpu = harness.compare(small, large)
            title, note = f"growth {smaller} to {larger} hosts, {name}", f"of bests {best:.2f}"
            findings.append(Finding(title, ratio, GROWTH_TARGET, f"{note}, of CPU {cpu:.2f}"))
        memory = [server.resident_mb() for server in servers.values()]
    rows.append(("resident MB of a worker", *memory))
    findings.append(Finding(f"memory of a worker, {larger} hosts", memory[-1], MEMORY_TARGET))
    run.add_findings(GROWTH, iter(findings))
    run.show("growth", harness.build_table(("hosts", *servers), rows))


def _read_options() -> argparse.Namespace:
    parser = harness.Options(__doc__, "postgresql,mariadb", can_omit_peer=True)
    parser.add_argument("--only", help=f"scenarios, with commas: {','.join(SCENARIOS)}")
    parser.add_argument("--sizes", default="", help="flat=10000,growth=1000:10000:50000")
    parser.add_sized("--rounds", 9, 3, "rounds of each query")
    parser.add_sized("--seconds", 60.0, 5.0, "maximum time of a server for each query")
    options = parser.parse()
    options.only = options.only.split(",") if options.only else list(SCENARIOS)
    sizes = {name: each.quick if options.quick else each.sizes for name, each in SCENARIOS.items()}
    for part in filter(None, options.sizes.split(",")):
        name, _, numbers = part.partition("=")
        sizes[name] = tuple(sorted(map(int, numbers.split(":"))))
    if unknown := {*sizes, *options.only} - SCENARIOS.keys():
        parser.error(f"no scenario {', '.join(unknown)}; there are {', '.join(SCENARIOS)}")
    if len(sizes[GROWTH]) < 2:
        parser.error("--sizes: growth needs two sizes or more")
    options.sizes = sizes
    return options


def main() -> int:
    """Run the scenarios on each database."""
    options = _read_options()
    report = [f"`{shlex.join(sys.argv)}`"]

    def measure(kind: str, databases: Databases) -> None:
        run = Run(kind, databases, options)
        for name in (name for name in SCENARIOS if name in options.only):
            if name == GROWTH:
                _measure_growth(run)
                continue
            (size,) = options.sizes[name]
            _compare(run, name, SCENARIOS[name].world(size, seen=ALWAYS_UP))
            if name == READS:
                _compare(run, name, NestedWorld(size, seen=ALWAYS_UP))
        run.show("targets", harness.build_target_table(run.findings, kind))
        report.extend([*run.report, *run.differences])
        OUT.mkdir(exist_ok=True)
        (OUT / "report.md").write_text("\n".join(report) + "\n")
        if run.differences:
            raise WrongResponse("\n".join(run.differences))

    status = harness.run_on_databases(options, measure)
    print("\nwritten to bench/out: report.md")
    return status


if __name__ == "__main__":
    sys.exit(main())
