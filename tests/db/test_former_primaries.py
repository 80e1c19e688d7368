"""Servers of PostgreSQL that do not follow the primary answer nothing, however far they are."""

import os
import shutil
from contextlib import contextmanager

import pytest
from sqlalchemy.engine import make_url

from placement_sched.db.standby import Standby, StandbyUnfit, has_mark, mark_of
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.prepare import sync
from tests.conftest import make_settings
from tests.postgresql import ACCOUNT, primary_and_standby
from tests.servers import wait_until

#: More of the log than the other primary writes in a test.
AHEAD = "CREATE TABLE ahead AS SELECT repeat('x', 500) FROM generate_series(1, 40000)"


@pytest.fixture
def rivals():
    """Give a former primary, which went on for a while, and the standby that took over."""
    with primary_and_standby() as (former, primary):
        database = Database(make_settings(former.url()))
        sync(database, utcnow)
        with database.read() as connection:
            assert mark_of(connection)
        database.dispose()
        position = former.ask("SELECT pg_current_wal_lsn()::text")[0]
        replayed = f"SELECT pg_last_wal_replay_lsn() >= '{position}'"
        assert wait_until(lambda: primary.ask(replayed) == [True])
        primary.promote()
        former.ask(AHEAD)
        yield former, primary


def become_a_standby(server, primary):
    """Start a server again that follows another, without pg_rewind."""
    server.stop()
    signal = server.data / "standby.signal"
    signal.touch()
    if os.geteuid() == 0:
        shutil.chown(signal, ACCOUNT, ACCOUNT)
    where = f"host=127.0.0.1 port={primary.port} user={ACCOUNT}"
    with (server.data / "postgresql.auto.conf").open("a") as file:
        file.write(f"primary_conninfo = '{where}'\nrecovery_target_timeline = 'latest'\n")
    server.start()
    assert server.ask("SELECT pg_is_in_recovery()") == [True]


@contextmanager
def standby_at(server, primary, **options):
    """Give what reads from a server as the standby of a primary."""
    settings = make_settings(primary.url(), **options)
    database = Database(settings)
    standby = Standby(make_url(server.url()), database, settings)
    yield standby
    standby.dispose()
    database.dispose()


def refuses(standby):
    """Assert that nothing is read from it."""
    with (
        pytest.raises(StandbyUnfit, match="does not follow the primary"),
        standby.recent_enough(),
        standby.read(),
    ):
        pass


@pytest.mark.exhaustive
@pytest.mark.parametrize("lag", [0.0, 30.0])
@pytest.mark.parametrize("restarted", [False, True], ids=["as it is", "as a standby"])
def test_former_primary_does_not_answer_for_the_one_that_took_over(rivals, restarted, lag):
    former, primary = rivals
    if restarted:
        become_a_standby(former, primary)
    with standby_at(former, primary, placement_database__max_replica_lag=lag) as standby:
        refuses(standby)
        with pytest.raises(StandbyUnfit, match="a moment ago"), standby.recent_enough():
            pass


@pytest.mark.slow
def test_promoted_standby_does_not_answer_for_the_primary_that_goes_on(rivals):
    primary, promoted = rivals
    promoted.ask(AHEAD.replace("ahead", "further"))
    with standby_at(promoted, primary) as standby:
        refuses(standby)


@pytest.mark.exhaustive
def test_mark_stays_until_another_server_is_the_primary(rivals):
    former, primary = rivals
    marks = []
    for server in (former, former, primary, primary):
        database = Database(make_settings(server.url()))
        with database.read() as connection:
            marks.append(mark_of(connection))
            assert has_mark(connection, marks[-1])
        database.dispose()
    first, second, third, fourth = marks
    assert first == second
    assert third == fourth
    assert first != third


@pytest.mark.slow
def test_server_in_recovery_leaves_no_mark_and_has_the_empty_one():
    with primary_and_standby() as (primary, standby):
        database = Database(make_settings(primary.url()))
        sync(database, utcnow)
        database.dispose()
        is_there = "SELECT to_regclass('sched_leases') IS NOT NULL"
        assert wait_until(lambda: standby.ask(is_there) == [True])
        database = Database(make_settings(standby.url()))
        with database.read() as connection:
            assert mark_of(connection) == ""
            assert has_mark(connection, "")
        database.dispose()
