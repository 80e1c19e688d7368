# SPDX-License-Identifier: Apache-2.0
"""Lets 1, 2, 4 and 8 schedulers select and claim on one database at once, until a cloud is full.

``make bench WHAT=schedulers``, or ``python bench/schedulers.py --help``. Each of ours is a server
process with a client that asks it one selection after the other. openstack-placement, with as many
workers, is asked for candidates and claims, as nova-schedulers do. Ours may not over-allocate.
"""

import argparse
import multiprocessing
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import both_servers
import databases
import tables
from both_servers import Address, Server, WrongAnswer
from selections import (
    GAVE_UP,
    NONE_FITS,
    PLACED,
    Flavor,
    Selected,
    claims_of,
    conflicts_of,
    consumers,
    overfull,
    percentile,
    release,
    room_for,
    selected,
)
from sqlalchemy.engine import URL
from targets import DATABASES, LOST_CLAIMS, SELECTIONS, Finding
from worlds.flat import FlatWorld
from worlds.nodes import ALWAYS_UP
from worlds.rows import uuid_of

HOSTS = 200
FLAVOR = Flavor(4, 16_384, 50)
#: A client that got no host because of others so often in a row will not get one.
_GIVEN_UP = 20


@dataclass(frozen=True, slots=True)
class Share:
    """What one client did between two times of the monotonic clock."""

    began: float
    ended: float
    made: tuple[Selected, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of so many schedulers of one service; ``room`` is for how many a host is left."""

    server: str
    schedulers: int
    made: tuple[Selected, ...]
    seconds: float
    #: How long all processes of the servers ran on a CPU.
    cpu_seconds: float
    lost: int
    started_again: int
    #: What ours met of others, by kind.
    conflicts: Counter[str]
    room: int
    #: What is allocated beyond the capacity of a provider.
    overfull: tuple[str, ...]

    @property
    def placed(self) -> int:
        """Return how many selections got a host."""
        return sum(one.outcome == PLACED for one in self.made)

    @property
    def rate(self) -> float:
        """Return how many got a host in a second."""
        return self.placed / self.seconds

    @property
    def cpu_ms(self) -> float:
        """Return for how many milliseconds the servers ran for each that got a host."""
        return 1000 * self.cpu_seconds / max(self.placed, 1)

    @property
    def lost_percent(self) -> float:
        """Return how many of all claims met others', in a hundred."""
        return 100 * self.lost / max(self.placed + self.lost, 1)


def fill(server: str, address: Address, seed: str, most: int) -> Share:
    """Select hosts until none fits, at most so many: what a client process does."""
    began, made, given_up = time.monotonic(), [], 0
    for consumer in islice(consumers(seed), most):
        made.append(selected(server, address, FLAVOR, consumer))
        outcome = made[-1].outcome
        given_up = given_up + 1 if outcome == GAVE_UP else 0
        if outcome == NONE_FITS or given_up == _GIVEN_UP:
            break
    return Share(began, time.monotonic(), tuple(made))


def measure(
    world: FlatWorld, stock: databases.Stock, schedulers: int, venv: Path | None, most: int
) -> Outcome:
    """Fill a cloud by ours, or by the peer where ``venv`` has it."""
    database = stock.holding(world)
    url = database.render_as_string(hide_password=False)
    with ExitStack() as stack:
        spawning = multiprocessing.get_context("spawn")
        clients = stack.enter_context(ProcessPoolExecutor(schedulers, spawning))
        if venv is None:
            servers = [stack.enter_context(both_servers.ours(database)) for _ in range(schedulers)]
        else:
            servers = [stack.enter_context(both_servers.peer(database, venv, schedulers))]
        asked = [servers[turn % len(servers)] for turn in range(schedulers)]
        _warm(clients, servers, schedulers)
        before, met = _claims(servers), _conflicts(servers)
        cpu = sum(one.cpu_seconds() for one in servers)
        shares = list(
            clients.map(
                fill,
                [one.name for one in asked],
                [one.address for one in asked],
                [f"{schedulers} {turn}" for turn in range(schedulers)],
                [most // schedulers] * schedulers,
            )
        )
        cpu = sum(one.cpu_seconds() for one in servers) - cpu
        claims, met = _claims(servers) - before, _conflicts(servers) - met
    made = tuple(one for share in shares for one in share.made)
    return Outcome(
        server=servers[0].name,
        schedulers=schedulers,
        made=made,
        seconds=max(one.ended for one in shares) - min(one.began for one in shares),
        cpu_seconds=cpu,
        lost=claims["lost"] + sum(one.lost for one in made),
        started_again=claims["retried"],
        conflicts=met,
        room=room_for(url, FLAVOR),
        overfull=tuple(overfull(url)),
    )


def _warm(clients: ProcessPoolExecutor, servers: Sequence[Server], number: int) -> None:
    """Wait until all client processes run and each server has answered once."""
    list(clients.map(time.sleep, [1.0] * number))
    for server in servers:
        release(server, [selected(server.name, server.address, FLAVOR, uuid_of("warm", 0))])


def _claims(servers: Sequence[Server]) -> Counter[str]:
    return sum((claims_of(one) for one in servers if one.name == "ours"), Counter())


def _conflicts(servers: Sequence[Server]) -> Counter[str]:
    return sum((conflicts_of(one) for one in servers if one.name == "ours"), Counter())


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield (
        "| server | schedulers | placed | room left | selections/s | CPU ms | p50 ms "
        "| p99 ms | claims lost | started again | conflicts | gave up | over-allocated |"
    )
    yield "| --- |" + " --: |" * 9 + " --- |" + " --: |" * 2
    for one in outcomes:
        times = [made.ms for made in one.made]
        met = ", ".join(f"{number} {kind}" for kind, number in one.conflicts.most_common())
        given_up = sum(made.outcome == GAVE_UP for made in one.made)
        yield (
            f"| {one.server} | {one.schedulers} | {one.placed} | {one.room} | {one.rate:.1f} "
            f"| {one.cpu_ms:.1f} | {percentile(times, 0.5):.0f} | {percentile(times, 0.99):.0f} "
            f"| {one.lost} ({one.lost_percent:.1f} %) | {one.started_again} | {met} | {given_up} "
            f"| {len(one.overfull)} |"
        )


def findings(outcomes: Sequence[Outcome]) -> Iterator[Finding]:
    """Yield the figures of ours of which something is promised."""
    for one in outcomes:
        if one.server == "ours":
            where = f"schedulers: {one.schedulers}"
            yield Finding(f"selections a second, {where}", one.rate, SELECTIONS)
            if one.schedulers > 1:
                yield Finding(f"claims lost, {where}", one.lost_percent, LOST_CLAIMS)


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, help="of the cloud (200; quick 10)")
    parser.add_argument("--schedulers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument(
        "--most",
        type=int,
        default=1_000_000,
        help="selections of each run, where a large cloud need not become full",
    )
    parser.add_argument("--no-peer", action="store_true", help="ours alone")
    parser.add_argument("--quick", action="store_true", help="a small cloud")
    both_servers.add_arguments(parser, several=True)
    given = parser.parse_args()
    given.hosts = given.hosts or (10 if given.quick else HOSTS)
    return given


def race(given: argparse.Namespace, server: URL) -> list[Outcome]:
    """Fill a cloud of its own by each number of schedulers of each service, in turns."""
    sides = [None]
    if not given.no_peer:
        sides.append(both_servers.peer_venv(given.peer_venv))
    outcomes = []
    for schedulers in given.schedulers:
        for venv in sides:
            name = "ours" if venv is None else "peer"
            print(f"  {name}, {schedulers} schedulers ...", file=sys.stderr, flush=True)
            world = FlatWorld(given.hosts, given.seed, ALWAYS_UP)
            with databases.Stock(server) as stock:
                outcomes.append(measure(world, stock, schedulers, venv, given.most))
    return outcomes


def main() -> int:
    """Run the race on each database; return 1 where anything was wrong."""
    given = arguments()
    print(f"`{shlex.join(sys.argv)}`")
    wrong = False
    for kind, server in databases.server_urls(given).items():
        try:
            outcomes = race(given, server)
        except WrongAnswer as difference:
            print(f"WRONG ANSWER on {kind}: {difference}")
            wrong = True
            continue
        for one in outcomes:
            if one.overfull and one.server == "ours":
                print(f"OVER-ALLOCATED on {kind} by {one.schedulers} of ours: {one.overfull}")
                wrong = True
        load, meant = os.getloadavg()[0], given.hosts == HOSTS
        print(f"\n## {kind}, {given.hosts} hosts, load average {load:.1f}\n")
        print("\n".join(table(outcomes)), end="\n\n")
        shown = [
            replace(one, applies=meant, promised=kind in DATABASES) for one in findings(outcomes)
        ]
        print("\n".join(tables.targets(shown)), flush=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
