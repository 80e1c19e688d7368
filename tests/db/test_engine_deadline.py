# SPDX-License-Identifier: Apache-2.0
"""A statement that exceeds the read timeout is stopped on the server."""

from time import monotonic, sleep

import pytest
from sqlalchemy import text

from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable
from tests.support.servers import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.all_databases]

#: The read timeout in seconds. Short statements take less even on a slow machine.
SECONDS = 2
#: A count of more rows than a machine can count during a test.
ENDLESS = "SELECT COUNT(*) FROM traits AS a, traits AS b, traits AS c, traits AS d, traits AS e"
RUNNING = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND state = 'active' AND query LIKE '%traits AS e'",
    "mysql": "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() "
    "AND info LIKE '%traits AS e'",
}


@pytest.fixture
def short_timeout_database(settings):
    database = Database(settings.with_overrides({"placement_database.read_timeout": SECONDS}))
    yield database
    database.dispose()


def _running(database):
    backend = database.url.get_backend_name()
    if backend == "sqlite":
        return 0  # SQLite runs in this process, so the statement has ended
    with database.read() as connection:
        return connection.scalar(text(RUNNING[backend]))


def test_endless_statement_is_stopped_and_unavailable(short_timeout_database, database):
    start = monotonic()
    with (
        pytest.raises(Unavailable, match="read_timeout"),
        short_timeout_database.read() as connection,
    ):
        connection.scalar(text(ENDLESS))
    assert monotonic() - start < 60
    # This query has the default timeout, because it may be slow.
    assert wait_until(lambda: not _running(database))


def test_connection_is_usable_after_a_stopped_statement(short_timeout_database):
    with pytest.raises(Unavailable), short_timeout_database.read() as connection:
        connection.scalar(text(ENDLESS))
    sleep(SECONDS + 0.1)  # the timeout of a statement starts with the statement
    with short_timeout_database.read() as connection:
        assert connection.scalar(text("SELECT COUNT(*) FROM traits"))


@pytest.mark.parametrize("timeout", [0, 60], ids=["no timeout", "the default"])
def test_short_statement_is_not_stopped(settings, timeout):
    database = Database(settings.with_overrides({"placement_database.read_timeout": timeout}))
    with database.read() as connection:
        assert connection.scalar(text("SELECT COUNT(*) FROM traits"))
    database.dispose()
