# SPDX-License-Identifier: Apache-2.0
"""Marks in the database show whether a transaction has committed, and a query decides it."""

from datetime import timedelta

import pytest
from sqlalchemy import insert, select
from sqlalchemy.exc import DBAPIError

from placement_sched.db import commit_marks
from placement_sched.db.commit_marks import create_mark, is_done, mark_commit
from placement_sched.db.tables import commit_marks as table
from placement_sched.db.tables import placement_aggregates
from placement_sched.errors import CommitUnknown
from placement_sched.model.clock import utcnow
from placement_sched.operations import periodic
from placement_sched.operations.periodic import PAUSE, OldRowDeletion
from tests.conftest import make_settings
from tests.db.database_time import read_database_time
from tests.support.clouds import uuid_of
from tests.support.concurrency import join_threads

pytestmark = pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)


def add_aggregate(connection, name):
    connection.execute(insert(placement_aggregates), {"uuid": uuid_of(name)})


def list_aggregate_uuids(database):
    with database.read() as connection:
        return set(connection.scalars(select(placement_aggregates.c.uuid)))


def read_commit_marks(database):
    with database.read() as connection:
        return dict(connection.execute(select(table.c.id, table.c.done)).all())


def test_committed_transaction_is_reported_committed(database):
    mark = create_mark()
    with database.writer.begin() as connection:
        add_aggregate(connection, "one")
        mark_commit(connection, mark)
    assert is_done(database.read, mark)
    assert is_done(database.read, mark)


@pytest.mark.parametrize(
    "is_writing", [True, False], ids=["write before the query", "write after the query"]
)
def test_transaction_reported_as_uncommitted_cannot_commit_later(database, is_writing):
    mark = create_mark()
    if not is_writing:
        assert not is_done(database.read, mark)
    with database.writer.connect() as connection:
        add_aggregate(connection, "one")
        mark_commit(connection, mark)
        if is_writing:
            assert not is_done(database.read, mark)
        with pytest.raises(DBAPIError):
            connection.commit()
    # The connection is reused, and commits only the next transaction.
    database.write(lambda connection: add_aggregate(connection, "two"))
    assert list_aggregate_uuids(database) == {uuid_of("two")}
    assert not is_done(database.read, mark)


def test_rollback_removes_the_commit_mark(database):
    mark = create_mark()
    with database.writer.connect() as connection:
        add_aggregate(connection, "one")
        mark_commit(connection, mark)
        connection.rollback()
        add_aggregate(connection, "two")
        connection.commit()
    assert list_aggregate_uuids(database) == {uuid_of("two")}
    assert read_commit_marks(database) == {}


# The triggers of the change log let a statement write rows although it matches no row.
@pytest.mark.parametrize("statement", ["SELECT 1", "DELETE FROM sched_commit_marks"])
def test_read_only_transaction_leaves_no_commit_mark(database, statement):
    with database.writer.begin() as connection:
        connection.exec_driver_sql(statement)
        mark_commit(connection, create_mark())
    assert read_commit_marks(database) == {}


def test_result_of_a_running_transaction_is_unknown(database, monkeypatch):
    monkeypatch.setattr(commit_marks, "MAX_COMMIT_QUERY_TIME", 0.0)
    mark = create_mark()
    with database.writer.connect() as other:
        other.execute(insert(table), {"id": mark, "created_at": utcnow(), "done": 1})
        with database.read() as connection:
            wait = {
                "postgresql": "SET lock_timeout = 200",
                "mysql": "SET innodb_lock_wait_timeout = 1",
            }
            connection.exec_driver_sql(wait[connection.dialect.name])
        with pytest.raises(CommitUnknown, match="not known whether the transaction was committed"):
            is_done(database.read, mark)
        other.commit()
    assert is_done(database.read, mark)


def test_commit_marks_are_unique_and_ascending(database_url):
    marks = [create_mark() for _ in range(1000)]
    assert len(set(marks)) == 1000
    assert {len(mark) for mark in marks} == {32}
    assert [mark[:12] for mark in marks] == sorted(mark[:12] for mark in marks)


def delete_old_commit_marks(database, last):
    """Delete old marks, and return the database's time, for the next call."""
    with database.read() as connection:
        return commit_marks.forget_old_marks(connection, last)


def insert_commit_marks_of_ages(database, minutes):
    """Insert marks of these ages. A name with ``refused`` is a mark that prevented a COMMIT."""

    def insert_commit_marks(connection):
        now = read_database_time(connection)
        for name, age in minutes.items():
            then = now - timedelta(minutes=age)
            row = {"id": name, "created_at": then, "done": int(not name.startswith("refused"))}
            connection.execute(insert(table), row)

    database.write(insert_commit_marks)


def test_old_commit_marks_are_deleted(database):
    past = {"young": 14, "old": 16, "refused": 16, "refused_old": 1441}
    future = {"tomorrow": -1439, "next_year": -525_600, "refused_next_year": -525_600}
    ages = past | future
    insert_commit_marks_of_ages(database, ages)
    now = delete_old_commit_marks(database, None)
    assert ages.keys() == read_commit_marks(database).keys()
    delete_old_commit_marks(database, now)
    assert read_commit_marks(database).keys() == {"young", "refused", "tomorrow"}


def test_new_commit_marks_are_kept_after_a_clock_change(database):
    now = delete_old_commit_marks(database, None)
    # The clock is set forward or back by two days, so these marks are new.
    ages = {"before": 2880, "refused_before": 2880}
    insert_commit_marks_of_ages(database, ages)
    assert delete_old_commit_marks(database, now - timedelta(minutes=2881)) >= now
    assert ages.keys() == read_commit_marks(database).keys()
    insert_commit_marks_of_ages(database, {"after": -2880})
    delete_old_commit_marks(database, now + timedelta(minutes=2879))
    assert "after" in read_commit_marks(database)
    delete_old_commit_marks(database, now)
    assert read_commit_marks(database) == {}


def test_periodic_task_of_a_server_deletes_old_commit_marks(database, monkeypatch):
    database.enable_commit_marks()
    insert_commit_marks_of_ages(database, {"old": 16})
    moments = iter(PAUSE * number + number for number in range(100))
    monkeypatch.setattr(periodic, "monotonic", lambda: next(moments))
    settings = make_settings("sqlite://", scheduler__decision_retention=0)
    retention = OldRowDeletion(database, settings, utcnow)
    retention()
    assert "old" in read_commit_marks(database)
    for _ in range(2):
        retention()
        join_threads(periodic.OLD_ROWS_THREAD)
    assert "old" not in read_commit_marks(database)
