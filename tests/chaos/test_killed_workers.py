# SPDX-License-Identifier: Apache-2.0
"""Races of sixteen clients for ten small providers while the server's workers are killed."""

import random
import threading
from collections import Counter
from contextlib import suppress

import psutil
import pytest
from sqlalchemy import select

from placement_sched.db.tables import consumers
from tests.chaos.allocation_writer import (
    TOTAL_VCPUS,
    WriterResult,
    wait_for_transactions,
    write_at_random,
)
from tests.chaos.run_length import TRIED_KEY, choose_count
from tests.support.processes import run_in_processes
from tests.support.providers import make_provider
from tests.verifier.growth import find_lost_writes
from tests.verifier.model import AcknowledgedWrites
from tests.verifier.verify import assert_invariants

pytestmark = [pytest.mark.all_databases, pytest.mark.system]

#: Duration of the races on each database.
RACE_SECONDS = choose_count(6, 10)
WRITER_COUNT, WORKER_COUNT, PROVIDER_COUNT = 16, 3, 10
#: Maximum seconds between two kills. A kill may hit a worker that is starting.
MAX_PAUSE_SECONDS = 3.0


class WorkerKiller(threading.Thread):
    """A thread that repeatedly kills a random worker of a server with SIGKILL."""

    def __init__(self, server: psutil.Process) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._over = threading.Event()
        self.killed = 0

    def run(self) -> None:
        while not self._over.wait(random.uniform(0.05, MAX_PAUSE_SECONDS)):
            with suppress(psutil.NoSuchProcess, IndexError):
                workers = [
                    process for process in self._server.children() if process.status() != "zombie"
                ]
                random.choice(workers).kill()
                self.killed += 1

    def stop(self) -> None:
        self._over.set()
        self.join(timeout=60)


@pytest.fixture
def writer_results(database, database_url, serve, record_property) -> list[WriterResult]:
    """Run the writers and the killer, and return the writers' results."""
    providers = [make_provider(database, VCPU=TOTAL_VCPUS) for _ in range(PROVIDER_COUNT)]
    server = serve(
        *("--workers", str(WORKER_COUNT)), OS_PLACEMENT_DATABASE__CONNECTION=database_url
    )
    killer = WorkerKiller(psutil.Process(server.process.pid))
    killer.start()
    results = run_in_processes(
        WRITER_COUNT, write_at_random, server.url, providers, RACE_SECONDS, database_url
    )
    killer.stop()
    record_property(TRIED_KEY, f"{killer.killed} workers killed on {database.reader.dialect.name}")
    assert killer.killed >= RACE_SECONDS // MAX_PAUSE_SECONDS - 1
    assert server.process.poll() is None
    wait_for_transactions(database)
    return results


def test_acknowledged_writes_remain_and_rejected_writes_are_absent(
    database, writer_results, record_property
):
    expected = {
        consumer: ({(provider, "VCPU"): amount for provider, amount in amounts.items()},)
        for result in writer_results
        for consumer, amounts in result.amounts.items()
    }
    assert find_lost_writes(database, AcknowledgedWrites(expected)) == ()
    with database.read() as connection:
        stored_consumers = set(connection.scalars(select(consumers.c.uuid)))
    assert stored_consumers == {consumer for consumer, (amounts,) in expected.items() if amounts}
    assert_invariants(database)
    check_each_request_kind_succeeded(writer_results)
    writes = sum(result.statuses.total() for result in writer_results)
    record_property(TRIED_KEY, f"{writes} writes of {WRITER_COUNT} writers")


def check_each_request_kind_succeeded(results: list[WriterResult]) -> None:
    """Check that every kind of request succeeded, and some failed or had no response."""
    statuses = sum((result.statuses for result in results), Counter())
    kinds = {"PUT /allocations", "POST /allocations", "DELETE /allocations", "POST /reshaper"}
    assert {kind for kind, status in statuses if status == 204} == kinds
    assert {status for _kind, status in statuses} >= {204, 409, None}
    assert {status for _kind, status in statuses} <= {204, 404, 409, 503, None}
