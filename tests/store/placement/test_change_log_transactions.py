# SPDX-License-Identifier: Apache-2.0
"""No committed change is missed, whatever other transactions do at the same time."""

from datetime import timedelta
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import insert

from placement_sched.db import tables
from placement_sched.store.placement import change_log
from tests.exploring import scale_example_count
from tests.store.placement.change_log_copy import ChangeLogCopy

pytestmark = [pytest.mark.all_databases, pytest.mark.system]

ALLOCATIONS_TABLE = tables.allocations
#: Ids that no database assigns.
UNUSED_ROW_IDS = count(1_000_000)


class OpenTransactionWriter:
    """A connection whose rows no other connection writes, so that it never waits."""

    def __init__(self, database):
        self.connection = database.writer.connect()
        self.rows, self.before = [], []

    @property
    def is_open(self):
        return self.connection.in_transaction()

    def insert_allocation(self, provider):
        number = next(UNUSED_ROW_IDS)
        row = {"id": number, "resource_provider_id": provider, "resource_class_id": 0}
        self.connection.execute(insert(ALLOCATIONS_TABLE), {**row, "consumer_id": "c", "used": 1})
        self.rows = [*self.rows, number]

    def change_allocation(self, provider):
        self._execute_on_last_row(ALLOCATIONS_TABLE.update().values(used=provider + 7))

    def move_allocation(self, provider):
        self._execute_on_last_row(ALLOCATIONS_TABLE.update().values(resource_provider_id=provider))

    def remove_allocation(self, provider):
        self._execute_on_last_row(ALLOCATIONS_TABLE.delete())
        self.rows = self.rows[:-1]

    def roll_back_to_savepoint(self, provider):
        rows = self.rows
        savepoint = self.connection.begin_nested()
        self.insert_allocation(provider)
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
            self.connection.execute(statement.where(ALLOCATIONS_TABLE.c.id == number))


WRITER_STEPS = (
    "insert_allocation", "insert_allocation", "change_allocation", "move_allocation",
    "remove_allocation", "roll_back_to_savepoint", "commit", "roll_back",
)  # fmt: skip
RANDOM_TRANSACTION_STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(WRITER_STEPS), st.integers(0, 3), st.integers(1, 4)),
        st.tuples(st.sampled_from(["follow", "follow late", "trim", "begin"])),
    ),
    max_size=60,
)


@pytest.fixture(params=[0.0, 3.0], ids=["no overlap", "3 s"])
def change_log_overlap(request, monkeypatch):
    """Without an overlap, every row of a transaction that ends later is late."""
    monkeypatch.setattr(change_log, "OVERLAP", request.param)


@given(steps=RANDOM_TRANSACTION_STEPS)
@settings(
    max_examples=scale_example_count(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_change_log_copy_equals_the_tables_after_each_read(database, change_log_overlap, steps):
    cloud = WritersAndChangeLogCopies(database)
    try:
        for name, *arguments in steps:
            cloud.execute_step(name, *arguments)
        cloud.commit_writers_and_compare_copies()
    finally:
        for writer in cloud.writers:
            writer.connection.close()


class WritersAndChangeLogCopies:
    """A database with several writers, and two copies that are read often and rarely."""

    def __init__(self, database):
        self.database = database
        self.prompt, self.late = ChangeLogCopy(database), ChangeLogCopy(database)
        self.writers = [OpenTransactionWriter(database) for _ in range(4)]

    def execute_step(self, name, *arguments):
        if name == "trim":
            self.delete_old_log_rows()
        elif name == "begin":
            self.late = ChangeLogCopy(self.database)
        elif name in {"follow", "follow late"}:
            copy = self.prompt if name == "follow" else self.late
            copy.follow()
            assert copy.equals_tables()
        else:
            number, provider = arguments
            if self.can_write_without_waiting(self.writers[number]):
                getattr(self.writers[number], name)(provider)

    def delete_old_log_rows(self):
        if self.can_write_without_waiting(None):
            with self.database.read() as connection:
                change_log.trim(connection, timedelta(0))

    def can_write_without_waiting(self, writer):
        """Return whether a write would not wait. SQLite has a single writer at a time."""
        alone = self.database.url.get_backend_name() == "sqlite"
        others = (each for each in self.writers if each is not writer)
        return not (alone and any(each.is_open for each in others))

    def commit_writers_and_compare_copies(self):
        for writer in self.writers:
            writer.commit()
        for copy in (self.prompt, self.late):
            copy.follow()
            assert copy.equals_tables()
            assert not copy.follow().providers
