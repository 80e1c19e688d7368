# SPDX-License-Identifier: Apache-2.0
"""Races what a fleet of nova-computes sends each minute, beside selections of hosts.

``make bench WHAT=fleet``, or ``python bench/fleet.py --help``. Each nova-compute reads the tree of
its provider and the provider's inventories, aggregates, traits and allocations; one in a hundred
writes its inventories. First they ask as fast as they are answered; then at the pace of the fleet,
while others select hosts. openstack-placement is asked for candidates and claims instead.
"""

import argparse
import multiprocessing
import os
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import both_servers
import databases
import orjson
from answers import Same
from both_servers import Address, Request, Server, WrongAnswer
from selections import PLACED, Flavor, Selected, consumers, overfull, percentile, release, selected
from sqlalchemy.engine import URL
from worlds.flat import FlatWorld
from worlds.nested import NestedWorld
from worlds.nodes import ALWAYS_UP
from worlds.rows import World, uuid_of

#: Client processes of the nova-computes, and those that select.
REPORTERS, SELECTORS = 4, 4
#: A nova-compute reports once in so many seconds, and writes once in so many times.
PERIOD, WRITES = 60.0, 100
READ = ("inventories", "aggregates", "traits", "allocations")
#: The clouds, and how many providers a nova-compute has there.
WORLDS: Mapping[str, tuple[Callable[..., World], int]] = {
    "flat": (FlatWorld, 1),
    "nested": (NestedWorld, 7),
}
#: How many providers are compared at the end.
COMPARED = 50


@dataclass(frozen=True, slots=True)
class Reported:
    """What a client process sent for its nova-computes: milliseconds of each request."""

    ms: tuple[float, ...]
    seconds: float
    conflicts: int
    #: What each provider's inventories were last answered to be, where they were written.
    written: dict[str, Any]


@dataclass(slots=True)
class Measured:
    """What was measured of one server, one figure a round."""

    alone: list[float] = field(default_factory=list)
    per_core: list[float] = field(default_factory=list)
    served: list[float] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)
    report_ms: list[float] = field(default_factory=list)
    selections: list[Selected] = field(default_factory=list)
    seconds: float = 0.0
    conflicts: int = 0


def report(address: Address, hosts: Sequence[int], seconds: float, pace: float | None) -> Reported:
    """Send what the nova-computes of ``hosts`` do, in turn: what a client process does.

    ``pace`` is how many of them report in a second; None is as fast as they are answered. One
    that is late is not waited for.
    """
    began = time.monotonic()
    ms: list[float] = []
    conflicts, written, turn = 0, {}, 0
    while (now := time.monotonic()) < began + seconds:
        if pace is not None and (due := began + turn / pace) > now:
            time.sleep(min(due, began + seconds) - now)
            continue
        number = hosts[turn % len(hosts)]
        root, turn = uuid_of("host", number), turn + 1
        tree = orjson.loads(_timed(address, _tree(root), ms, 200) or b"{}")
        inventories: dict[str, Any] = {}
        for provider in (one["uuid"] for one in tree["resource_providers"]):
            for request in _reads(provider):
                body = _timed(address, request, ms, 200)
                if provider == root and request.path.endswith("/inventories"):
                    inventories = orjson.loads(body or b"{}")
        if number % WRITES == 0:
            path = f"/resource_providers/{root}/inventories"
            body = _timed(address, Request("PUT", path, _changed(inventories)), ms, 200, 409)
            if body is None:
                conflicts += 1
            else:
                written[root] = orjson.loads(body)["inventories"]
    return Reported(tuple(ms), time.monotonic() - began, conflicts, written)


def _tree(root: str) -> Request:
    return Request("GET", f"/resource_providers?in_tree={root}")


def _reads(provider: str) -> list[Request]:
    return [Request("GET", f"/resource_providers/{provider}/{noun}") for noun in READ]


def _timed(address: Address, request: Request, ms: list[float], *allowed: int) -> bytes | None:
    """Return the body of a 200, None for another status that is allowed; note the time."""
    message = address.message(request)
    began = time.perf_counter()
    reply = address.answer(message)
    ms.append((time.perf_counter() - began) * 1000)
    if reply.status not in allowed:
        raise WrongAnswer(f"{request.method} {request.path}: {reply.status} {reply.body[:500]!r}")
    return reply.body if reply.status == 200 else None


def _changed(held: dict[str, Any]) -> dict[str, Any]:
    """Return inventories to write, which can give as much as before: one host in eight is full."""
    inventories = {
        name: {**one, "max_unit": one["max_unit"] ^ 1} for name, one in held["inventories"].items()
    }
    return {**held, "inventories": inventories}


def select_hosts(
    name: str, address: Address, seed: str, seconds: float, pace: float
) -> list[Selected]:
    """Select hosts, so many a second where the server keeps up: what a client process does."""
    began, made = time.monotonic(), []
    for turn, consumer in enumerate(consumers(seed)):
        time.sleep(max(began + turn / pace - time.monotonic(), 0))
        if time.monotonic() >= began + seconds:
            break
        made.append(selected(name, address, Flavor(), consumer))
    return made


def race(
    servers: Sequence[Server], given: argparse.Namespace, clients: Executor
) -> dict[str, Measured]:
    """Let the fleet ask both servers in turns; return what was measured of each."""
    measured = {server.name: Measured() for server in servers}
    shares = [range(first, given.hosts, REPORTERS) for first in range(REPORTERS)]
    last: dict[str, Any] = {}
    # Until all client processes run, and both servers have answered once.
    list(clients.map(time.sleep, [1.0] * (REPORTERS + SELECTORS)))
    for server in servers:
        _reports(clients, server, shares, 1.0, None)
        release(server, [selected(server.name, server.address, Flavor(), uuid_of("warm", 0))])
    for number in range(given.rounds):
        for server in servers if number % 2 else servers[::-1]:
            print(f"  {server.name}, round {number + 1} ...", file=sys.stderr, flush=True)
            mine = measured[server.name]
            before = server.cpu_seconds()
            alone = _reports(clients, server, shares, given.seconds / 2, None)
            spent = server.cpu_seconds() - before
            mine.alone.append(sum(len(one.ms) / one.seconds for one in alone))
            mine.per_core.append(sum(len(one.ms) for one in alone) / spent)
            beside = _beside(clients, server, shares, given, f"{number}", mine)
            for one in (*alone, *beside):
                mine.conflicts += one.conflicts
                last |= one.written
    check(servers, last)
    return measured


def _reports(
    clients: Executor, server: Server, shares: Sequence[range], seconds: float, pace: float | None
) -> list[Reported]:
    asked = [clients.submit(report, server.address, share, seconds, pace) for share in shares]
    return [one.result() for one in asked]


def _beside(
    clients: Executor,
    server: Server,
    shares: Sequence[range],
    given: argparse.Namespace,
    seed: str,
    mine: Measured,
) -> list[Reported]:
    """Let hosts be selected while the fleet reports at its pace; release what was claimed."""
    before = server.cpu_seconds()
    selecting = [
        clients.submit(
            select_hosts,
            server.name,
            server.address,
            f"{server.name} {seed} {turn}",
            given.seconds,
            given.selections / SELECTORS,
        )
        for turn in range(SELECTORS)
    ]
    pace = given.hosts / PERIOD / REPORTERS
    reported = _reports(clients, server, shares, given.seconds, pace)
    made = [one for share in selecting for one in share.result()]
    seconds = max(one.seconds for one in reported)
    mine.served.append(sum(len(one.ms) for one in reported) / seconds)
    mine.cores.append((server.cpu_seconds() - before) / seconds)
    mine.report_ms += (ms for one in reported for ms in one.ms)
    mine.selections += made
    mine.seconds += seconds
    release(server, made)
    return reported


def check(servers: Sequence[Server], written: dict[str, Any]) -> None:
    """Raise :class:`WrongAnswer` where a server shows other inventories than were acknowledged.

    Nor may the two differ in what nova-computes read.
    """
    same = Same(servers[-1])
    for server in servers:
        for provider, inventories in written.items():
            path = f"/resource_providers/{provider}/inventories"
            if orjson.loads(server.get(path))["inventories"] != inventories:
                raise WrongAnswer(f"{server.name}: {path} is not what was acknowledged last")
    for provider in list(written)[:COMPARED]:
        for request in (_tree(provider), *_reads(provider)):
            same.check("ours", request, servers[0].answer(request))


def table(measured: dict[str, Measured], offered: float) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield (
        "| server | alone: requests/s (best) | per core | "
        f"beside selections: requests/s of {offered:.0f} | p50 ms | p99 ms | selections/s | p50 ms "
        "| p99 ms | claims lost | cores used | conflicts of PUT |"
    )
    yield "| --- |" + " --: |" * 11
    for name, one in measured.items():
        times = [made.ms for made in one.selections]
        placed = sum(made.outcome == PLACED for made in one.selections)
        yield (
            f"| {name} | {statistics.median(one.alone):.0f} ({max(one.alone):.0f}) "
            f"| {statistics.median(one.per_core):.0f} | {statistics.median(one.served):.0f} "
            f"| {percentile(one.report_ms, 0.5):.1f} | {percentile(one.report_ms, 0.99):.1f} "
            f"| {placed / one.seconds:.1f} | {percentile(times, 0.5):.0f} "
            f"| {percentile(times, 0.99):.0f} | {sum(made.lost for made in one.selections)} "
            f"| {statistics.median(one.cores):.2f} | {one.conflicts} |"
        )


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world", choices=WORLDS, default="flat", help="(%(default)s)")
    parser.add_argument("--hosts", type=int, help="nova-computes (10000; quick 500)")
    parser.add_argument("--selections", type=float, default=20, help="a second (%(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="of each server (%(default)s)")
    parser.add_argument("--rounds", type=int, help="of each server (3; quick 1)")
    parser.add_argument("--seconds", type=float, help="of a round (60; quick 6)")
    parser.add_argument("--no-peer", action="store_true", help="ours alone")
    parser.add_argument("--quick", action="store_true", help="a small cloud, a short round")
    both_servers.add_arguments(parser, several=True)
    given = parser.parse_args()
    quick = given.quick
    given.hosts = given.hosts or (500 if quick else 10_000)
    given.rounds = given.rounds or (1 if quick else 3)
    given.seconds = given.seconds or (6.0 if quick else PERIOD)
    return given


def measure(given: argparse.Namespace, kind: str, server: URL) -> None:
    """Race on one database, and print the table; raise :class:`WrongAnswer`."""
    venv = None if given.no_peer else both_servers.peer_venv(given.peer_venv)
    make, providers = WORLDS[given.world]
    world = make(given.hosts, given.seed, ALWAYS_UP)
    spawning = multiprocessing.get_context("spawn")
    with (
        databases.Stock(server) as stock,
        ProcessPoolExecutor(REPORTERS + SELECTORS, spawning) as clients,
        both_servers.both(stock.holding(world), venv, given.workers) as servers,
    ):
        measured = race(servers, given, clients)
        shown = stock.holding(world).render_as_string(hide_password=False)
        if beyond := overfull(shown):
            raise WrongAnswer(f"more is allocated than there is: {beyond[:5]}")
    load = os.getloadavg()[0]
    print(f"\n## {kind}, {given.hosts} nova-computes, {given.world}, load average {load:.1f}\n")
    offered = given.hosts / PERIOD * (1 + providers * len(READ) + 1 / WRITES)
    print("\n".join(table(measured, offered)), flush=True)


def main() -> int:
    """Run the race on each database; return 1 where an answer was wrong."""
    given = arguments()
    print(f"`{shlex.join(sys.argv)}`")
    wrong = False
    for kind, server in databases.server_urls(given).items():
        try:
            measure(given, kind, server)
        except WrongAnswer as difference:
            print(f"WRONG ANSWER on {kind}: {difference}")
            wrong = True
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
