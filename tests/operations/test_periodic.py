# SPDX-License-Identifier: Apache-2.0
"""Work that a process repeats."""

from datetime import timedelta
from threading import Event, Thread

import pytest
from sqlalchemy import func, insert, select, update

from placement_sched.db.tables import allocations, provider_changes
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations import periodic
from placement_sched.operations.periodic import PAUSE, LogRetention, PeriodicTask
from placement_sched.store.placement import change_log
from tests.conftest import make_settings
from tests.support.statements import record_statements


class CountingTask(PeriodicTask):
    """A task that counts its rounds, and lets a test hold a caller before its round."""

    failure = "counting failed"

    def __init__(self, held=()):
        super().__init__()
        self.rounds = 0
        self._held = list(held)

    def is_due(self):
        if self._held:
            reached, go_on = self._held.pop()
            reached.set()
            assert go_on.wait(30)
        return True

    def run_round(self):
        self.rounds += 1


class CountingTaskInThread(CountingTask):
    thread_name = "counting"


def test_delayed_caller_does_not_repeat_a_round_of_a_periodic_task():
    reached, go_on = Event(), Event()
    task = CountingTask([(reached, go_on)])
    late = Thread(target=task)
    late.start()
    assert reached.wait(30)
    task()
    go_on.set()
    late.join(30)
    assert task.rounds == 1


def test_round_of_a_periodic_task_runs_after_a_failed_start_of_its_thread(monkeypatch):
    task = CountingTaskInThread()

    def fail(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(periodic.Thread, "start", fail)
        with pytest.raises(RuntimeError):
            task()
    threads = replace_thread_by_recorder(monkeypatch)
    task()
    threads.pop().join(30)
    assert task.rounds == 1


def replace_thread_by_recorder(monkeypatch):
    """Return a list that receives the threads of tasks."""
    threads = []

    class RecordedThread(Thread):
        def start(self):
            threads.append(self)
            super().start()

    monkeypatch.setattr(periodic, "Thread", RecordedThread)
    return threads


@pytest.fixture
def changed_time(monkeypatch):
    moment = [0.0]
    monkeypatch.setattr(periodic, "monotonic", lambda: moment[0])
    return moment


def _count_rows(database, table):
    with database.read() as connection:
        return connection.scalars(select(func.count()).select_from(table)).one()


def _write_allocations(database, consumer):
    rows = [
        {"resource_provider_id": number, "resource_class_id": 0, "consumer_id": consumer, "used": 1}
        for number in range(1, 9)
    ]
    database.write(lambda connection: connection.execute(insert(allocations), rows))


def _make_rows_old(connection):
    old = utcnow() - change_log.KEEP - timedelta(minutes=1)
    connection.execute(update(provider_changes).values(created_at=old))


@pytest.mark.usefixtures("change_log_triggers")
def test_old_rows_are_deleted_once_a_minute(database_url, changed_time):
    database = Database(make_settings(database_url, placement__providers_in_memory=True))
    upkeep = LogRetention(database)
    for consumer in ("one", "two"):
        _write_allocations(database, consumer)
        changed_time[0] += PAUSE + 1
        upkeep()
        database.write(_make_rows_old)
    before = _count_rows(database, provider_changes)
    with record_statements(database) as seen:
        upkeep()
    assert seen == []
    changed_time[0] += PAUSE + 1
    upkeep()
    assert _count_rows(database, provider_changes) < before
    database.dispose()


def test_retention_without_a_log_takes_no_statement(database, changed_time):
    upkeep = LogRetention(database)
    changed_time[0] += PAUSE + 1
    with record_statements(database) as seen:
        upkeep()
    assert seen == []


@pytest.mark.all_databases
@pytest.mark.usefixtures("change_log_triggers")
def test_old_rows_are_deleted_by_a_single_process(database_url, changed_time):
    databases = [
        Database(make_settings(database_url, placement__providers_in_memory=True)) for _ in range(2)
    ]
    upkeeps = [LogRetention(database) for database in databases]
    changed_time[0] += PAUSE + 1
    rows = []
    for upkeep, database in zip(upkeeps, databases, strict=True):
        _write_allocations(database, str(len(rows)))
        database.write(_make_rows_old)
        upkeep()
        rows.append(_count_rows(database, provider_changes))
    assert rows[0] == 1
    assert rows[1] > 1
    for database in databases:
        database.dispose()
