# SPDX-License-Identifier: Apache-2.0
"""A single process holds a lease until it no longer renews it."""

import time
from datetime import timedelta

import pytest
from sqlalchemy import select, update

from placement_sched.db import leases as module
from placement_sched.db.leases import Lease
from placement_sched.db.tables import leases
from placement_sched.db.transaction import Database
from tests.conftest import make_settings
from tests.db.database_time import read_database_time
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases

LEASE_NAME = "work"
#: Seconds that no test outlives.
LEASE_SECONDS = 10_000


def move_lease_end(database, **by):
    """Move the end of the lease, as the database's clock does when it is set."""
    with database.read() as connection:
        (row,) = connection.execute(select(leases)).all()
    end = row.expires_at + timedelta(**by)
    database.write(lambda connection: connection.execute(update(leases).values(expires_at=end)))


def test_first_process_acquires_and_keeps_a_lease(database):
    first, other = (Lease(database, LEASE_NAME, LEASE_SECONDS) for _ in range(2))
    assert first.is_held()
    assert not other.is_held()
    assert first.is_held()
    assert Lease(database, "other work", LEASE_SECONDS).is_held()


def test_expired_lease_is_acquired_by_another_process(database, monkeypatch):
    first, other = (Lease(database, LEASE_NAME, LEASE_SECONDS) for _ in range(2))
    with database.read() as connection:
        before = read_database_time(connection)
        assert first.is_held()
        expires_at = connection.scalar(select(leases.c.expires_at))
        after = read_database_time(connection)
    assert before <= expires_at - timedelta(seconds=LEASE_SECONDS) <= after
    move_lease_end(database, seconds=-LEASE_SECONDS - 3600)
    assert other.is_held()
    later = time.monotonic() + LEASE_SECONDS
    monkeypatch.setattr(module, "monotonic", lambda: later)
    assert not first.is_held()


def test_lease_that_expires_too_far_in_the_future_is_free(database):
    first, other = (Lease(database, LEASE_NAME, LEASE_SECONDS) for _ in range(2))
    assert first.is_held()
    move_lease_end(database, seconds=LEASE_SECONDS / 2)
    assert not other.is_held()
    move_lease_end(database, days=365)
    assert other.is_held()
    assert not Lease(database, LEASE_NAME, LEASE_SECONDS).is_held()


def test_lease_is_renewed_after_half_its_time(database, monkeypatch):
    lease, moment = Lease(database, LEASE_NAME, LEASE_SECONDS), [1000.0]
    monkeypatch.setattr(module, "monotonic", lambda: moment[0])
    assert lease.is_held()
    moment[0] += LEASE_SECONDS / 2 - 1
    with record_statements(database) as statements:
        assert lease.is_held()
    assert statements == []
    moment[0] += 2
    with record_statements(database) as statements:
        assert lease.is_held()
    assert len(statements) == 1


def test_released_lease_is_free_immediately(database):
    first, other = (Lease(database, LEASE_NAME, LEASE_SECONDS) for _ in range(2))
    assert first.is_held()
    other.release()
    assert not other.is_held()
    first.release()
    assert other.is_held()
    assert not first.is_held()


def test_lease_is_not_held_while_the_database_is_unavailable():
    database = Database(make_settings("postgresql+psycopg://nobody@127.0.0.1:1/none"))
    lease = Lease(database, LEASE_NAME, LEASE_SECONDS)
    assert not lease.is_held()
    lease.release()
    database.dispose()
