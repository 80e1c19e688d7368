"""The tally of a database: what the current thread did, and nobody else."""

from threading import Thread

import pytest

from placement_sched.db.transaction import Database
from placement_sched.errors import Conflict
from tests.conftest import make_settings

pytestmark = pytest.mark.all_databases


def ask(connection):
    return connection.exec_driver_sql("SELECT 1").scalar_one()


def test_tally_counts_statements_of_reads_and_writes(database):
    database.tally.reset()
    with database.read() as connection:
        ask(connection)
    database.write(lambda connection: (ask(connection), ask(connection)))
    assert database.tally.statements == 3


def test_tally_begins_again_at_a_reset(sqlite_database):
    sqlite_database.write(ask)
    sqlite_database.tally.candidates = 7
    sqlite_database.tally.reset()
    assert (sqlite_database.tally.statements, sqlite_database.tally.candidates) == (0, None)


def test_tally_is_of_the_own_thread(sqlite_database):
    sqlite_database.tally.reset()
    other = Thread(target=sqlite_database.write, args=(ask,))
    other.start()
    other.join(timeout=60)
    assert sqlite_database.tally.statements == 0


def test_tally_is_of_the_own_database(sqlite_settings, sqlite_database):
    other = Database(sqlite_settings)
    other.write(ask)
    other.dispose()
    assert sqlite_database.tally.statements == 0


def test_claim_is_won_or_lost(sqlite_database):
    def fail(_connection):
        raise Conflict("no room")

    assert sqlite_database.claim(ask) == 1
    with pytest.raises(Conflict):
        sqlite_database.claim(fail)
    tally = sqlite_database.tally
    assert (tally.claims_won, tally.claims_lost, tally.claims_retried) == (1, 1, 0)


def test_claim_that_starts_again_is_tallied(postgresql_server):
    database = Database(make_settings(postgresql_server))
    calls = []

    def work(connection):
        calls.append(1)
        if len(calls) < 3:
            connection.exec_driver_sql("SELECT pg_terminate_backend(pg_backend_pid())")
        return ask(connection)

    assert database.claim(work) == 1
    assert (len(calls), database.tally.claims_retried, database.tally.claims_won) == (3, 2, 1)
    database.dispose()
