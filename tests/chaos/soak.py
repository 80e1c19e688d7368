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
from tests.chaos.recorded_writes import AllocationClaimer, RecordedWrites, check_recorded_writes
from tests.conftest import create_server_database, make_settings
from tests.own_servers import run_database_servers
from tests.support.providers import make_provider
from tests.support.scheduling import make_report, make_spec, make_uuid
from tests.support.servers import Server, build_environment, start_server

#: Number of samples. The first is taken while the server warms up.
SAMPLE_COUNT = 10
#: Maximum ratio of the last third of the samples to the first. In half an hour, a leak of 1 KB per
#: request exceeds the ratio for memory.
MAX_GROWTH_RATIOS = {"megabytes": 1.1, "descriptors": 1.1, "latency": 1.25}


@dataclass(frozen=True)
class ServerSample:
    """Memory and descriptors of a server, and median latency in milliseconds."""

    megabytes: float
    descriptors: int
    latency: float


def main() -> int:
    """Load a server, print the samples, and return 1 if a value grew."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--database", choices=["postgresql", "mysql"], default="postgresql")
    arguments = parser.parse_args()
    with (
        run_database_servers(),
        _start_server_with_database(arguments.database) as (server, database),
    ):
        samples, recorded_writes = _load_server_and_take_samples(
            server, database, arguments.minutes * 60
        )
        check_recorded_writes(database, [recorded_writes])
    return _print_samples(samples, recorded_writes)


@contextmanager
def _start_server_with_database(kind: str) -> Iterator[tuple[Server, Database]]:
    databases = create_server_database(kind)
    url = next(databases)
    database = Database(make_settings(url))
    variables = build_environment(
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


def _load_server_and_take_samples(
    server: Server, database: Database, seconds: float
) -> tuple[list[ServerSample], RecordedWrites]:
    """Claim, free, select, list and explain for a time, and take samples."""
    console = Console()
    hosts = [make_report(f"cn{number}", vcpus=1_000_000) for number in range(500)]
    server.request_json("POST", "/scheduler/v1/compute_nodes", hosts)
    providers = [make_provider(database, VCPU=1_000_000) for _ in range(5)]
    claimer = AllocationClaimer([server.url], providers, seed=1)
    samples, placed = [], 0
    for number in range(SAMPLE_COUNT):
        end = time.monotonic() + seconds / SAMPLE_COUNT
        taken = []
        while time.monotonic() < end:
            claimer.claim_and_free_for_seconds(0.2)
            placed += 1
            taken.append(_measure_placement_latency(server, placed))
            server.request_json("DELETE", f"/scheduler/v1/instances/{make_uuid(placed)}")
            server.request_json("POST", "/scheduler/v1/explain", {"request_spec": make_spec()})
            server.get("/scheduler/v1/hosts?limit=100")
            server.get("/metrics")
        samples.append(_measure_server_processes(server, statistics.median(taken)))
        console.print(f"[{number + 1}/{SAMPLE_COUNT}] {samples[-1]}", markup=False)
    return samples, claimer.recorded_writes


def _measure_placement_latency(server: Server, number: int) -> float:
    """Place an instance, and return its latency in seconds."""
    begun = time.monotonic()
    body = {"request_spec": make_spec(make_uuid(number))}
    server.request_json("POST", "/scheduler/v1/select_destinations", body)
    return time.monotonic() - begun


def _measure_server_processes(server: Server, latency: float) -> ServerSample:
    processes = [psutil.Process(pid) for pid in (server.process.pid, *server.workers())]
    return ServerSample(
        megabytes=sum(process.memory_info().rss for process in processes) / 2**20,
        descriptors=sum(process.num_fds() for process in processes),
        latency=1000 * latency,
    )


def _print_samples(samples: list[ServerSample], recorded_writes: RecordedWrites) -> int:
    table, flat = Table("Of the server", "First third", "Last third", "Flat"), True
    third = max(1, len(samples) // 3)
    for name, most in MAX_GROWTH_RATIOS.items():
        values = [getattr(sample, name) for sample in samples]
        first, last = statistics.median(values[1 : third + 1]), statistics.median(values[-third:])
        is_flat = last <= first * most
        flat &= is_flat
        table.add_row(name, f"{first:.1f}", f"{last:.1f}", "yes" if is_flat else "NO")
    console = Console()
    console.print(table)
    console.print(f"{recorded_writes.statuses.total()} writes, no acknowledged write is lost")
    return 0 if flat else 1


if __name__ == "__main__":
    sys.exit(main())
