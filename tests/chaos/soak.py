# SPDX-License-Identifier: Apache-2.0
"""Long use of a server (``make test-only WHAT=soak``).

Its memory, descriptors and latency must stay flat.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from placement_sched.db.transaction import Database
from tests.chaos.ledger import Claimer, Ledger, check_ledgers
from tests.conftest import make_settings, server_database
from tests.support.providers import make_provider
from tests.support.scheduling import instance, report, spec
from tests.support.servers import Server, environment, start_server

#: How often the server is looked at; the first is taken for warming up.
LOOKS = 10
#: How many times as much of each the last third may have as the first. Memory is the steadiest: in
#: half an hour a leak of 1 KB per request is more than this.
MOST = {"megabytes": 1.1, "descriptors": 1.1, "latency": 1.25}


@dataclass(frozen=True)
class Sample:
    """What a server holds at a moment, and how long its requests took (milliseconds, median)."""

    megabytes: float
    descriptors: int
    latency: float


def main() -> int:
    """Use a server for so long, print what was seen, and return 1 where anything grew."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--database", choices=["postgresql", "mysql"], default="postgresql")
    given = parser.parse_args()
    with _start_server(given.database) as (server, database):
        looks, ledger = _use_server(server, database, given.minutes * 60)
        check_ledgers(database, [ledger])
    return _report_samples(looks, ledger)


@contextmanager
def _start_server(kind: str) -> Iterator[tuple[Server, Database]]:
    databases = server_database(kind)
    url = next(databases)
    database = Database(make_settings(url))
    variables = environment(
        OS_PLACEMENT_DATABASE__CONNECTION=url, OS_DEFAULT__SERVICE_DOWN_TIME="86400"
    )
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            start_server("--workers", "2", folder=Path(folder), variables=variables) as server,
        ):
            yield server, database
    finally:
        database.dispose()
        next(databases, None)


def _use_server(server: Server, database: Database, seconds: float) -> tuple[list[Sample], Ledger]:
    """Claim, free, select, list and explain until the time is over; look now and then."""
    console = Console()
    hosts = [report(f"cn{number}", vcpus=1_000_000) for number in range(500)]
    server.ask("POST", "/scheduler/v1/compute_nodes", hosts)
    providers = [make_provider(database, VCPU=1_000_000) for _ in range(5)]
    claimer = Claimer([server.url], providers, seed=1)
    looks, placed = [], 0
    for number in range(LOOKS):
        end = time.monotonic() + seconds / LOOKS
        taken = []
        while time.monotonic() < end:
            claimer.run_for(0.2)
            placed += 1
            taken.append(_measure_placement(server, placed))
            server.ask("DELETE", f"/scheduler/v1/instances/{instance(placed)}")
            server.ask("POST", "/scheduler/v1/explain", {"request_spec": spec()})
            server.get("/scheduler/v1/hosts?limit=100")
            server.get("/metrics")
        looks.append(_take_sample(server, statistics.median(taken)))
        console.print(f"[{number + 1}/{LOOKS}] {looks[-1]}", markup=False)
    return looks, claimer.ledger


def _measure_placement(server: Server, number: int) -> float:
    """Place an instance; return the seconds that it took."""
    begun = time.monotonic()
    body = {"request_spec": spec(instance(number))}
    server.ask("POST", "/scheduler/v1/select_destinations", body)
    return time.monotonic() - begun


def _take_sample(server: Server, latency: float) -> Sample:
    processes = [psutil.Process(pid) for pid in (server.process.pid, *server.workers())]
    return Sample(
        megabytes=sum(one.memory_info().rss for one in processes) / 2**20,
        descriptors=sum(one.num_fds() for one in processes),
        latency=1000 * latency,
    )


def _report_samples(looks: list[Sample], ledger: Ledger) -> int:
    table, flat = Table("Of the server", "First third", "Last third", "Flat"), True
    third = max(1, len(looks) // 3)
    for name, most in MOST.items():
        seen = [getattr(look, name) for look in looks]
        first, last = statistics.median(seen[1 : third + 1]), statistics.median(seen[-third:])
        is_flat = last <= first * most
        flat &= is_flat
        table.add_row(name, f"{first:.1f}", f"{last:.1f}", "yes" if is_flat else "NO")
    console = Console()
    console.print(table)
    console.print(f"{ledger.answers.total()} writes, all that were acknowledged are there")
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
