# SPDX-License-Identifier: Apache-2.0
"""No committed change is missed, whatever other transactions do at the same time."""

import random
import time
from datetime import timedelta
from itertools import count
from threading import Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import insert

from placement_sched.db import tables
from placement_sched.db.transaction import Database
from placement_sched.store.placement import change_log
from tests.conftest import make_settings
from tests.exploring import draws
from tests.support.placement_copy import ChangeLogCopy
from tests.support.processes import run_in_processes

pytestmark = [
    pytest.mark.all_databases,
    pytest.mark.system,
    pytest.mark.usefixtures("log_of_changes"),
]

ALLOCATIONS = tables.allocations
#: Ids that no database assigns.
NUMBERS = count(1_000_000)


class Writer:
    """A connection whose rows no other connection writes, so that it never waits."""

    def __init__(self, database):
        self.connection = database.writer.connect()
        self.rows, self.before = [], []

    @property
    def is_open(self):
        return self.connection.in_transaction()

    def insert(self, provider):
        number = next(NUMBERS)
        row = {"id": number, "resource_provider_id": provider, "resource_class_id": 0}
        self.connection.execute(insert(ALLOCATIONS), {**row, "consumer_id": "c", "used": 1})
        self.rows = [*self.rows, number]

    def change(self, provider):
        self._execute_on_last_row(ALLOCATIONS.update().values(used=provider + 7))

    def move(self, provider):
        self._execute_on_last_row(ALLOCATIONS.update().values(resource_provider_id=provider))

    def remove(self, provider):
        self._execute_on_last_row(ALLOCATIONS.delete())
        self.rows = self.rows[:-1]

    def roll_back_to_savepoint(self, provider):
        rows = self.rows
        savepoint = self.connection.begin_nested()
        self.insert(provider)
        savepoint.rollback()
        self.rows = rows

    def commit(self, _provider=0):
        self.connection.commit()
        self.before = self.rows

    def roll_back(self, _provider=0):
        self.connection.rollback()
        self.rows = self.before

    def _execute_on_last_row(self, statement):
        for number in self.rows[-1:]:
            self.connection.execute(statement.where(ALLOCATIONS.c.id == number))


WRITING = (
    "insert",
    "insert",
    "change",
    "move",
    "remove",
    "roll_back_to_savepoint",
    "commit",
    "roll_back",
)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(WRITING), st.integers(0, 3), st.integers(1, 4)),
        st.tuples(st.sampled_from(["follow", "follow late", "trim", "begin"])),
    ),
    max_size=60,
)


@pytest.fixture(params=[0.0, 3.0], ids=["no overlap", "3 s"])
def overlap(request, monkeypatch):
    """Without an overlap, every row of a transaction that ends later is late."""
    monkeypatch.setattr(change_log, "OVERLAP", request.param)


@given(steps=steps)
@settings(
    max_examples=draws(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_copy_equals_the_tables_after_each_read(database, overlap, steps):
    cloud = Cloud(database)
    try:
        for name, *arguments in steps:
            cloud.step(name, *arguments)
        cloud.finish_writers()
    finally:
        for writer in cloud.writers:
            writer.connection.close()


class Cloud:
    """A database with several writers, and two copies that are read often and rarely."""

    def __init__(self, database):
        self.database = database
        self.prompt, self.late = ChangeLogCopy(database), ChangeLogCopy(database)
        self.writers = [Writer(database) for _ in range(4)]

    def step(self, name, *arguments):
        if name == "trim":
            self.trim()
        elif name == "begin":
            self.late = ChangeLogCopy(self.database)
        elif name in {"follow", "follow late"}:
            copy = self.prompt if name == "follow" else self.late
            copy.follow()
            assert copy.equals_tables()
        else:
            number, provider = arguments
            if self.may_write(self.writers[number]):
                getattr(self.writers[number], name)(provider)

    def trim(self):
        if self.may_write(None):
            with self.database.read() as connection:
                change_log.trim(connection, timedelta(0))

    def may_write(self, writer):
        """Return whether a write would not wait. SQLite has a single writer at a time."""
        alone = self.database.url.get_backend_name() == "sqlite"
        others = (each for each in self.writers if each is not writer)
        return not (alone and any(each.is_open for each in others))

    def finish_writers(self):
        for writer in self.writers:
            writer.commit()
        for copy in (self.prompt, self.late):
            copy.follow()
            assert copy.equals_tables()
            assert not copy.follow().providers


#: Number of transactions of each process by database, and number of processes.
TRANSACTIONS, WRITERS = {"sqlite": 150, "postgresql": 700, "mysql": 700}, 3


def write_at_random(barrier, which, url, transactions):
    """Insert rows of a new provider in each transaction, and delete some earlier rows."""
    database, dice, remaining = Database(make_settings(url)), random.Random(which), []
    barrier.wait(timeout=120)
    for number in range(transactions):
        provider = 10_000 * (which + 1) + number
        with database.writer.connect() as connection:
            rows = [
                {
                    "resource_provider_id": provider,
                    "consumer_id": f"{which} {number}",
                    "resource_class_id": place,
                    "used": 1,
                }
                for place in range(dice.choice((1, 1, 3)))
            ]
            connection.execute(insert(ALLOCATIONS), rows)
            removed = dice.choice(remaining) if remaining and dice.random() < 0.3 else None
            if removed is not None:
                consumer = ALLOCATIONS.c.consumer_id == f"{which} {removed}"
                connection.execute(ALLOCATIONS.delete().where(consumer))
            if dice.random() < 0.1:
                time.sleep(dice.uniform(0, 0.02))
            if dice.random() < 0.2:
                connection.rollback()
                continue
            connection.commit()
            remaining = [each for each in [*remaining, number] if each != removed]
    database.dispose()
    return [which]


def test_reader_misses_no_change_of_concurrent_processes(database, database_url):
    """Each provider is written once and perhaps deleted, so a missed change stays missed."""
    copy, done = ChangeLogCopy(database), []
    number = TRANSACTIONS[database.url.get_backend_name()]
    racing = Thread(
        target=lambda: done.extend(run_in_processes(WRITERS, write_at_random, database_url, number))
    )
    racing.start()
    readings = 0
    while racing.is_alive():
        copy.follow()
        readings += 1
    racing.join(timeout=60)
    copy.follow()
    assert sorted(done) == list(range(WRITERS))
    assert copy.equals_tables()
    assert copy.doubts == 0
    assert len(copy.rows) > WRITERS * number / 3
    assert readings > 20
