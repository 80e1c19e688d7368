# SPDX-License-Identifier: Apache-2.0
"""Pooled connections that the database has closed are replaced without an error."""

from time import monotonic, sleep

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from placement_sched.db.transaction import Database
from placement_sched.model.request_stats import begin_stats, request_stats
from tests.conftest import make_settings

pytestmark = pytest.mark.all_databases

IDS = {
    "postgresql": "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
    "AND pid <> pg_backend_pid()",
    "mysql": "SELECT id FROM information_schema.processlist WHERE db = DATABASE() "
    "AND id <> CONNECTION_ID()",
}
KILL = {"postgresql": "SELECT pg_terminate_backend({})", "mysql": "KILL {}"}
#: The error of MariaDB if a connection has ended before KILL.
GONE = 1094


@pytest.fixture(params=["postgresql_server", "mysql_server"])
def url(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def open_database():
    databases = []

    def open_at(url):
        databases.append(Database(make_settings(url)))
        return databases[-1]

    yield open_at
    for database in databases:
        database.dispose()


def close_other_connections(database):
    """Close all connections but this, and wait until they are gone."""
    backend = database.url.get_backend_name()
    with database.read() as connection:
        for number in connection.scalars(text(IDS[backend])).all():
            try:
                connection.exec_driver_sql(KILL[backend].format(number))
            except OperationalError as failure:
                if failure.orig.args[0] != GONE:
                    raise
        deadline = monotonic() + 60
        while connection.scalars(text(IDS[backend])).all() and monotonic() < deadline:
            sleep(0.02)


def select_one(connection):
    return connection.exec_driver_sql("SELECT 1").scalar_one()


def test_reads_continue_after_idle_connections_are_closed(open_database, url):
    database, other = open_database(url), open_database(url)
    for _ in range(2):
        with database.read() as first, database.read() as second:
            assert (select_one(first), select_one(second)) == (1, 1)
        close_other_connections(other)
        with database.read() as first, database.read() as second:
            assert (select_one(first), select_one(second)) == (1, 1)
        assert database.write(select_one) == 1


def test_read_sends_no_ping(database):
    with database.read() as connection:
        select_one(connection)
    begin_stats()
    with database.read() as connection:
        select_one(connection)
    assert request_stats().statements == 1


def test_lost_connection_is_discarded_without_a_log_line(open_database, url, caplog):
    database, other = open_database(url), open_database(url)
    # After a rejected COMMIT, SQLAlchemy leaves the ROLLBACK to the pool.
    connection = database.writer.raw_connection()
    connection.cursor().execute("SELECT 1")
    close_other_connections(other)
    connection.close()
    assert caplog.records == []
    assert database.write(select_one) == 1
