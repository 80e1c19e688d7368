# SPDX-License-Identifier: Apache-2.0
"""Races writes and the reads beside them against openstack-placement on one PostgreSQL database.

``make bench WHAT=writes``, or ``python bench/writes.py --help``. Each answer is checked, and after
each line what both servers show is held against all that was acknowledged; a difference is shown
and ends the race with status 1.
"""

import argparse
import multiprocessing
import os
import shlex
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata

import both_servers
from chores import Chore, chores
from counting import Answerer, answerer
from databases import filled_database
from load import open_database
from worlds.flat import FlatWorld

#: Worker processes of each server.
PROCESSES = 2
#: Client processes that ask it: more than workers, or those would wait for the clients.
CLIENTS = 4


@dataclass(frozen=True, slots=True)
class Measured:
    """One server's part of a result: requests per second and CPU milliseconds, one a round."""

    rates: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured of one chore."""

    chore: Chore
    ours: Measured
    peer: Measured
    statements: int

    @property
    def ratio(self) -> float:
        """Return how many times the peer's throughput ours is, by medians."""
        return statistics.median(self.ours.rates) / statistics.median(self.peer.rates)

    @property
    def best_ratio(self) -> float:
        """Return the same by the quickest round of each."""
        return max(self.ours.rates) / max(self.peer.rates)

    @property
    def cpu_ratio(self) -> float:
        """Return how many times our CPU time the peer takes, by medians."""
        return statistics.median(self.peer.cpu_ms) / statistics.median(self.ours.cpu_ms)


def race(
    chore: Chore,
    servers: tuple[both_servers.Server, both_servers.Server],
    rounds: int,
    clients: ProcessPoolExecutor,
    answer: Answerer,
) -> Result:
    """Give both the same work in turns, check all they say and what it came to; return the rates.

    Raises :class:`both_servers.WrongAnswer`. One round goes before that is not counted.
    """
    measured = {server.name: Measured() for server in servers}
    for number in range(rounds + 1):
        for server in servers if number % 2 else servers[::-1]:
            requests = chore.batch(number)
            before = server.cpu_seconds()
            seconds, replies = _send(clients, server.address, requests)
            cpu_ms = (server.cpu_seconds() - before) * 1000
            chore.check(requests, replies)
            if number:
                measured[server.name].rates.append(len(requests) / seconds)
                measured[server.name].cpu_ms.append(cpu_ms / len(requests))
    requests = chore.batch(0)[:2]
    answers = [answer(request) for request in requests]
    chore.check(requests, [reply for reply, _ in answers])
    for server in servers:
        chore.finish(server)
    return Result(chore, measured["ours"], measured["peer"], answers[-1][1])


def _send(
    clients: ProcessPoolExecutor,
    address: both_servers.Address,
    requests: Sequence[both_servers.Request],
) -> tuple[float, list[both_servers.Reply]]:
    """Return the seconds from the first request to the last reply, and the replies."""
    parts = [requests[first::CLIENTS] for first in range(CLIENTS)]
    done = list(clients.map(_ask_all, [address] * CLIENTS, parts))
    replies: list[both_servers.Reply] = [both_servers.Reply(0, b"")] * len(requests)
    for first, (_, _, answers) in enumerate(done):
        replies[first::CLIENTS] = answers
    return max(end for _, end, _ in done) - min(start for start, _, _ in done), replies


def _ask_all(
    address: both_servers.Address, requests: Sequence[both_servers.Request]
) -> tuple[float, float, list[both_servers.Reply]]:
    """Return when it began and ended, and the replies: what a client process does.

    It begins with a new connection, so that no chance of the first ones gives one worker more to
    do than the other all the time.
    """
    address.forget()
    messages = [address.message(request) for request in requests]
    started = time.monotonic()
    replies = [address.answer(message) for message in messages]
    return started, time.monotonic(), replies


def conditions(given: argparse.Namespace, url: str) -> Iterator[str]:
    """Yield what it takes to get these figures again, and to judge them."""
    release = metadata.version("placement_sched")
    yield f"    {shlex.join(['python', *sys.argv])}"
    yield ""
    yield f"placement_sched {release} and {both_servers.PEER[0]} on {version_of(url)}"
    load = os.getloadavg()[0]
    yield (
        f"{given.hosts} hosts, {PROCESSES} workers each, {CLIENTS} clients, "
        f"{os.cpu_count()} cores, load average {load:.1f} at the end"
    )


@contextmanager
def as_many_as_promised(servers: Sequence[both_servers.Server]) -> Iterator[None]:
    """Let the servers work; raise ``WrongAnswer`` unless two processes of each did."""
    before = [server.cpu_by_process() for server in servers]
    yield
    for server, earlier in zip(servers, before, strict=True):
        now = server.cpu_by_process()
        worked = [seconds - earlier.get(process, 0) for process, seconds in now.items()]
        busy = sum(one > max(worked) / 10 for one in worked)
        if busy != PROCESSES:
            raise both_servers.WrongAnswer(
                f"{server.name}: {busy} processes answered, not {PROCESSES}"
            )


def version_of(url: str) -> str:
    """Return the kind and version of the database."""
    database = open_database(url)
    with database.reader.connect() as connection:
        numbers = connection.dialect.server_version_info or ()
    database.dispose()
    return f"{connection.dialect.name} {'.'.join(map(str, numbers))}"


def table(results: Sequence[Result]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield (
        "| request | a round | ours req/s (best) | peer req/s (best) | ratio (of bests) "
        "| ours CPU ms | peer CPU ms | CPU ratio | SQL statements |"
    )
    yield "| --- | --: | --: | --: | --: | --: | --: | --: | --: |"
    for one in results:
        yield (
            f"| {one.chore.name} | {one.chore.size} | {_rates(one.ours)} | {_rates(one.peer)} "
            f"| {one.ratio:.1f} ({one.best_ratio:.1f}) | {statistics.median(one.ours.cpu_ms):.2f} "
            f"| {statistics.median(one.peer.cpu_ms):.2f} | {one.cpu_ratio:.1f} "
            f"| {one.statements} |"
        )


def _rates(measured: Measured) -> str:
    return f"{statistics.median(measured.rates):.1f} ({max(measured.rates):.1f})"


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7, help="batches to each, a line")
    parser.add_argument("--share", type=float, default=1.0, help="scales the number of requests")
    parser.add_argument("--quick", action="store_true", help="500 hosts, 2 rounds, a fifth")
    parser.add_argument("--only", default="", help="lines whose names have this in them")
    both_servers.add_arguments(parser)
    given = parser.parse_args()
    if given.quick:
        given.hosts, given.rounds, given.share = 500, 2, 0.2
    return given


def main() -> int:
    """Run the race; return 1 where an answer was wrong."""
    given = arguments()
    venv = both_servers.peer_venv(given.peer_venv)
    world = FlatWorld(given.hosts, given.seed)
    with filled_database(given, world) as database:
        url = database.render_as_string(hide_password=False)
        with (
            ProcessPoolExecutor(CLIENTS, multiprocessing.get_context("spawn")) as clients,
            both_servers.ours(database, PROCESSES) as ours,
            both_servers.peer(database, venv, PROCESSES) as peer,
            answerer(url) as answer,
        ):
            results = []
            try:
                with as_many_as_promised((ours, peer)):
                    for chore in chores(world, ours, given.share):
                        if given.only in chore.name:
                            print(f"  {chore.name} ...", file=sys.stderr, flush=True)
                            results.append(race(chore, (ours, peer), given.rounds, clients, answer))
            except both_servers.WrongAnswer as difference:
                print(f"WRONG ANSWER: {difference}")
                return 1
        shown = [*conditions(given, url), "", *table(results)]
    print("\n".join(shown))
    return 0


if __name__ == "__main__":
    sys.exit(main())
