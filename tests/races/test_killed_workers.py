# SPDX-License-Identifier: Apache-2.0
"""Races of sixteen clients for ten small providers while the server's workers are killed.

``PLACEMENT_SCHED_TEST_RACE_SECONDS`` is the duration on each database, 6 by default.
"""

import logging
import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest
from sqlalchemy import func, select

from placement_sched.db.tables import allocations as allocations_table
from placement_sched.db.tables import consumers as consumers_table
from placement_sched.db.transaction import Database
from placement_sched.model.checks import Invariant
from placement_sched.store.placement import allocations, inventories, resource_providers, usages
from tests.chaos.scale import TRIED
from tests.races.journal import journal_writes, replay_journal, wait_for_writes
from tests.races.writer import TOTALS, WriterResult, write_at_random
from tests.support.invariants import assert_invariants
from tests.support.processes import run_in_processes
from tests.support.providers import make_provider

pytestmark = [pytest.mark.all_databases, pytest.mark.system]

LOG = logging.getLogger(__name__)

SECONDS = float(os.environ.get("PLACEMENT_SCHED_TEST_RACE_SECONDS", "6"))
WRITERS, WORKERS, PROVIDERS = 16, 3, 10
#: Maximum seconds between two kills. A kill may hit a worker that is starting.
PAUSE = 3.0


class Killer(threading.Thread):
    """A thread that repeatedly kills a random worker of a server with SIGKILL."""

    def __init__(self, server: psutil.Process) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._over = threading.Event()
        self.killed = 0

    def run(self) -> None:
        while not self._over.wait(random.uniform(0.05, PAUSE)):
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
def race_results(
    database, database_url, serve, record_property
) -> Iterator[tuple[list[str], list[WriterResult]]]:
    """Run the writers and the killer, and return the providers and the writers' results."""
    providers = [make_provider(database, VCPU=TOTALS[-1]) for _ in range(PROVIDERS)]
    server = serve(*("--workers", str(WORKERS)), OS_PLACEMENT_DATABASE__CONNECTION=database_url)
    killer = Killer(psutil.Process(server.process.pid))
    with journal_writes(database):
        killer.start()
        results = run_in_processes(
            WRITERS, write_at_random, server.url, providers, SECONDS, database_url
        )
        killer.stop()
        record_property(TRIED, f"{killer.killed} workers killed on {database.reader.dialect.name}")
        assert killer.killed >= SECONDS // PAUSE - 1
        assert server.process.poll() is None
        wait_for_writes(database)
        yield providers, results


def test_acknowledged_writes_are_complete_and_rejected_writes_absent(
    database, race_results, record_property
):
    providers, results = race_results
    expected = {
        (consumer, provider): amount
        for result in results
        for consumer, amounts in result.holds.items()
        for provider, amount in amounts.items()
    }
    assert used_in_database(database) == expected
    with database.read() as connection:
        known = set(connection.scalars(select(consumers_table.c.uuid)))
    assert known == {consumer for consumer, _provider in expected}
    check_inventories(database, providers, results)
    check_usages(database, providers, expected)
    check_capacity(database, providers)
    # Some totals were lowered below the usage. check_capacity compares at the moment of each write.
    assert_invariants(database, but={Invariant.OVER_CAPACITY})
    check_race_coverage(results)
    writes = sum(result.statuses.total() for result in results)
    record_property(TRIED, f"{writes} writes of {WRITERS} writers")


def used_in_database(database: Database) -> dict[tuple[str, str], int]:
    with database.read() as connection:
        names = list(connection.scalars(select(allocations_table.c.consumer_id).distinct()))
        rows = allocations.of_consumers(connection, names)
        number = connection.scalar(select(func.count()).select_from(allocations_table))
    held = {(row.consumer.uuid, row.provider_uuid): row.used for row in rows}
    assert len(held) == number, "an allocation is duplicate or lacks its consumer"
    return held


def check_inventories(
    database: Database, providers: list[str], results: list[WriterResult]
) -> None:
    """Check the total of each provider, and that each generation had a single write."""
    for provider in providers:
        shrinks = [
            shrink for result in results for shrink in result.shrinks if shrink.provider == provider
        ]
        sure = [shrink for shrink in shrinks if shrink.sure]
        assert all(count == 1 for count in Counter(shrink.over for shrink in sure).values())
        last = max(sure, key=lambda shrink: shrink.over, default=None)
        possible = {shrink.total for shrink in shrinks if last is None or shrink.over > last.over}
        possible.add(TOTALS[-1] if last is None else last.total)
        with database.read() as connection:
            found = resource_providers.by_uuid(connection, provider)
            (inventory,) = inventories.of_provider(connection, found.id)
        assert inventory.total in possible


def check_usages(
    database: Database, providers: list[str], expected: dict[tuple[str, str], int]
) -> None:
    """Compare the usage of each provider with the allocations of its consumers."""
    for provider in providers:
        held = sum(amount for (_name, on), amount in expected.items() if on == provider)
        with database.read() as connection:
            _, rows = allocations.of_provider(connection, provider)
            _generation, used = usages.of_provider(connection, provider)
        assert sum(row.used for row in rows) == used["VCPU"] == held


def check_capacity(database: Database, providers: list[str]) -> None:
    """Check that no write exceeded the total that its provider had at that moment.

    A provider has more used than its total only if its total was lowered below the usage.
    """
    with database.read() as connection:
        found = resource_providers.by_uuids(connection, providers)
        now = {
            uuid: usages.of_provider(connection, uuid)[1]["VCPU"]
            for uuid in (provider.uuid for provider in found.values())
        }
    numbers = {provider.id: provider.uuid for provider in found.values()}
    used, excesses = replay_journal(database, dict.fromkeys(numbers, TOTALS[-1]))
    assert excesses == []
    assert {numbers[provider]: amount for provider, amount in used.items()} == now


def check_race_coverage(results: list[WriterResult]) -> None:
    """Check that every kind of request succeeded and failed, and some had no response."""
    statuses: Counter[tuple[str, int | None]] = sum(
        (result.statuses for result in results), Counter()
    )
    LOG.info("%s", dict(sorted(statuses.items(), key=str)))
    kinds = {kind for kind, _status in statuses}
    assert kinds == {
        "PUT /allocations",
        "POST /allocations",
        "DELETE /allocations",
        "POST /reshaper",
        "PUT /resource_providers",
    }
    assert {kind for kind, status in statuses if status in {200, 204}} == kinds
    assert {kind for kind, status in statuses if status == 409} >= {
        "PUT /allocations",
        "POST /allocations",
        "POST /reshaper",
    }
    assert any(status is None for _kind, status in statuses)
    assert {status for _kind, status in statuses} <= {200, 204, 404, 409, 503, None}
