# SPDX-License-Identifier: Apache-2.0
"""A single process holds a lease until it no longer renews it."""

import os
import signal
import time
from datetime import timedelta

import pytest
from sqlalchemy import select, update

from placement_sched.db import leases as module
from placement_sched.db.leases import Lease
from placement_sched.db.tables import leases
from placement_sched.db.transaction import Database
from tests.conftest import make_settings
from tests.support.database_time import read_database_time
from tests.support.processes import PROCESSES
from tests.support.servers import wait_until
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases

NAME = "work"
#: Seconds that no test outlives.
LONG = 10_000
#: Seconds until the lease of a dead process ends, in the tests with processes.
SHORT = 3


def _expire_lease(database):
    """Move the end of the lease back by more than an hour."""
    with database.read() as connection:
        (row,) = connection.execute(select(leases)).all()
    past = row.expires_at - timedelta(seconds=LONG + 3600)
    database.write(lambda connection: connection.execute(update(leases).values(expires_at=past)))


def test_first_process_acquires_and_keeps_the_lease(database):
    first, other = (Lease(database, NAME, LONG) for _ in range(2))
    assert first.is_held()
    assert not other.is_held()
    assert first.is_held()


def test_leases_with_different_names_are_independent(database):
    assert Lease(database, NAME, LONG).is_held()
    assert Lease(database, "other work", LONG).is_held()


def test_expired_lease_is_taken_over(database, monkeypatch):
    first, other = (Lease(database, NAME, LONG) for _ in range(2))
    assert first.is_held()
    _expire_lease(database)
    assert other.is_held()
    later = time.monotonic() + LONG
    monkeypatch.setattr(module, "monotonic", lambda: later)
    assert not first.is_held()


def _move_lease_end(database, by):
    """Move the end of the lease forward, as if the database's clock had gone back."""
    with database.read() as connection:
        (row,) = connection.execute(select(leases)).all()
    later = row.expires_at + by
    database.write(lambda connection: connection.execute(update(leases).values(expires_at=later)))


def test_lease_from_before_the_clock_went_back_is_free(database):
    first, other = (Lease(database, NAME, LONG) for _ in range(2))
    assert first.is_held()
    _move_lease_end(database, timedelta(seconds=LONG / 2))
    assert not other.is_held()
    _move_lease_end(database, timedelta(days=365))
    assert other.is_held()
    assert not Lease(database, NAME, LONG).is_held()


def test_lease_is_renewed_after_half_its_time(database, monkeypatch):
    lease, moment = Lease(database, NAME, LONG), [1000.0]
    monkeypatch.setattr(module, "monotonic", lambda: moment[0])
    assert lease.is_held()
    moment[0] += LONG / 2 - 1
    with record_statements(database) as statements:
        assert lease.is_held()
    assert statements == []
    moment[0] += 2
    with record_statements(database) as statements:
        assert lease.is_held()
    assert len(statements) == 1


def test_released_lease_is_free_at_once(database):
    first, other = (Lease(database, NAME, LONG) for _ in range(2))
    assert first.is_held()
    other.release()
    assert not other.is_held()
    first.release()
    assert other.is_held()
    assert not first.is_held()


def test_lease_times_come_from_the_database(database):
    with database.read() as connection:
        before = read_database_time(connection)
    assert Lease(database, NAME, 60).is_held()
    with database.read() as connection:
        expires_at = connection.scalar(select(leases.c.expires_at))
        after = read_database_time(connection)
    assert before <= expires_at - timedelta(seconds=60) <= after


def test_lease_is_not_held_without_the_database():
    database = Database(make_settings("postgresql+psycopg://nobody@127.0.0.1:1/none"))
    lease = Lease(database, NAME, LONG)
    assert not lease.is_held()
    lease.release()
    database.dispose()


def hold_lease(url, seconds, records):
    """Record again and again whether this process holds the lease, until it is killed."""
    lease = Lease(Database(make_settings(url)), NAME, seconds)
    while True:
        start = time.monotonic()
        if lease.is_held():
            records.put((os.getpid(), start))
        time.sleep(0.05)


@pytest.mark.system
def test_another_process_takes_over_when_the_holder_is_killed(database_url):
    records = PROCESSES.Manager().Queue()
    processes = [
        PROCESSES.Process(target=hold_lease, args=(database_url, SHORT, records), daemon=True)
        for _ in range(3)
    ]
    for process in processes:
        process.start()
    try:
        seen = []

        def read_worker_pids():
            while not records.empty():
                seen.append(records.get())
            return {pid for pid, _ in seen}

        assert wait_until(lambda: len(read_worker_pids()) == 1 and len(seen) > 20)
        (first,) = read_worker_pids()
        killed = time.monotonic()
        os.kill(first, signal.SIGKILL)
        assert wait_until(lambda: len(read_worker_pids()) == 2)
        second = next(pid for pid, _ in seen if pid != first)
        assert min(at for pid, at in seen if pid == second) > killed
        count = len(seen)
        assert wait_until(lambda: read_worker_pids() and len(seen) > count + 20)
        assert read_worker_pids() == {first, second}
    finally:
        for process in processes:
            process.kill()
            process.join(timeout=60)
