# SPDX-License-Identifier: Apache-2.0
"""Sixteen clients fill ten small providers while the server's workers are killed.

``PLACEMENT_SCHED_TEST_RACE_SECONDS`` says for how long on each database, 10 by default.
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

SECONDS = float(os.environ.get("PLACEMENT_SCHED_TEST_RACE_SECONDS", "10"))
WRITERS, WORKERS, PROVIDERS = 16, 3, 10
#: Seconds between two kills at most; each is at any moment, also while workers start.
PAUSE = 3.0


class Killer(threading.Thread):
    """Kills any worker of a server with SIGKILL, again and again."""

    def __init__(self, server: psutil.Process) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._over = threading.Event()
        self.killed = 0

    def run(self) -> None:
        while not self._over.wait(random.uniform(0.05, PAUSE)):
            with suppress(psutil.NoSuchProcess, IndexError):
                workers = [one for one in self._server.children() if one.status() != "zombie"]
                random.choice(workers).kill()
                self.killed += 1

    def stop(self) -> None:
        self._over.set()
        self.join(timeout=60)


@pytest.fixture
def race_results(
    database, database_url, serve, record_property
) -> Iterator[tuple[list[str], list[WriterResult]]]:
    """What sixteen writers tell of ten providers, having raced against a server in trouble."""
    providers = [make_provider(database, VCPU=TOTALS[-1]) for _ in range(PROVIDERS)]
    server = serve(*("--workers", str(WORKERS)), OS_PLACEMENT_DATABASE__CONNECTION=database_url)
    killer = Killer(psutil.Process(server.process.pid))
    with journal_writes(database):
        killer.start()
        told = run_in_processes(
            WRITERS, write_at_random, server.url, providers, SECONDS, database_url
        )
        killer.stop()
        record_property(TRIED, f"{killer.killed} workers killed on {database.reader.dialect.name}")
        assert killer.killed >= SECONDS // PAUSE - 1
        assert server.process.poll() is None
        wait_for_writes(database)
        yield providers, told


def test_acknowledged_writes_are_complete_and_rejected_ones_absent(
    database, race_results, record_property
):
    providers, told = race_results
    expected = {
        (consumer, provider): amount
        for tale in told
        for consumer, amounts in tale.holds.items()
        for provider, amount in amounts.items()
    }
    assert used_in_database(database) == expected
    with database.read() as connection:
        known = set(connection.scalars(select(consumers_table.c.uuid)))
    assert known == {consumer for consumer, _provider in expected}
    check_inventories(database, providers, told)
    check_usages(database, providers, expected)
    check_capacity(database, providers)
    # Totals are lowered below what is used, which is then given up in part: check_room knows when.
    assert_invariants(database, but={Invariant.OVER_CAPACITY})
    check_race_coverage(told)
    writes = sum(tale.ends.total() for tale in told)
    record_property(TRIED, f"{writes} writes of {WRITERS} writers")


def used_in_database(database: Database) -> dict[tuple[str, str], int]:
    with database.read() as connection:
        names = list(connection.scalars(select(allocations_table.c.consumer_id).distinct()))
        found = allocations.of_consumers(connection, names)
        rows = connection.scalar(select(func.count()).select_from(allocations_table))
    held = {(one.consumer.uuid, one.provider_uuid): one.used for one in found}
    assert len(held) == rows, "an allocation is there twice, or its consumer is not"
    return held


def check_inventories(database: Database, providers: list[str], told: list[WriterResult]) -> None:
    """The last acknowledged total stands; no generation let two writes through."""
    for provider in providers:
        shrinks = [one for tale in told for one in tale.shrinks if one.provider == provider]
        sure = [one for one in shrinks if one.sure]
        assert all(count == 1 for count in Counter(one.over for one in sure).values())
        last = max(sure, key=lambda one: one.over, default=None)
        possible = {one.total for one in shrinks if last is None or one.over > last.over}
        possible.add(TOTALS[-1] if last is None else last.total)
        with database.read() as connection:
            found = resource_providers.by_uuid(connection, provider)
            (inventory,) = inventories.of_provider(connection, found.id)
        assert inventory.total in possible


def check_usages(
    database: Database, providers: list[str], expected: dict[tuple[str, str], int]
) -> None:
    """What is used of a provider is what its consumers hold."""
    for provider in providers:
        held = sum(amount for (_name, on), amount in expected.items() if on == provider)
        with database.read() as connection:
            _, rows = allocations.of_provider(connection, provider)
            _generation, used = usages.of_provider(connection, provider)
        assert sum(row.used for row in rows) == used["VCPU"] == held


def check_capacity(database: Database, providers: list[str]) -> None:
    """No write ever used more of a provider than it had at that moment.

    Only a total that was lowered below what was used already leaves one with more used than there
    is, and then nobody gets more of it.
    """
    with database.read() as connection:
        found = resource_providers.by_uuids(connection, providers)
        now = {
            one.uuid: usages.of_provider(connection, one.uuid)[1]["VCPU"] for one in found.values()
        }
    numbers = {one.id: one.uuid for one in found.values()}
    used, excesses = replay_journal(database, dict.fromkeys(numbers, TOTALS[-1]))
    assert excesses == []
    assert {numbers[provider]: amount for provider, amount in used.items()} == now


def check_race_coverage(told: list[WriterResult]) -> None:
    """Every kind of request was acknowledged and refused, and some had no answer."""
    ends: Counter[tuple[str, int | None]] = sum((tale.ends for tale in told), Counter())
    LOG.info("%s", dict(sorted(ends.items(), key=str)))
    kinds = {kind for kind, _status in ends}
    assert kinds == {
        "PUT /allocations",
        "POST /allocations",
        "DELETE /allocations",
        "POST /reshaper",
        "PUT /resource_providers",
    }
    assert {kind for kind, status in ends if status in {200, 204}} == kinds
    assert {kind for kind, status in ends if status == 409} >= {
        "PUT /allocations",
        "POST /allocations",
        "POST /reshaper",
    }
    assert any(status is None for _kind, status in ends)
    assert {status for _kind, status in ends} <= {200, 204, 404, 409, 503, None}
