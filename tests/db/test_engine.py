# SPDX-License-Identifier: Apache-2.0
"""Connections: the options of ``[placement_database]``, sessions, pools and time limits."""

import logging
import os
import re
import socket
from time import monotonic, sleep

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from placement_sched.db import transaction
from placement_sched.db.engine import build_database_url as url_of
from placement_sched.errors import ConfigurationError, Unavailable
from placement_sched.model.request_stats import begin_stats, get_request_stats
from placement_sched.store import change_counters
from tests.db.conftest import make_database_settings
from tests.db.connections import get_driver_connection, query_both_engines
from tests.support.servers import wait_until

pytestmark = pytest.mark.all_databases

MYSQL_URL = "mysql+pymysql://u:p@db/placement"
#: Statements that list the other connections to the database, and that close a connection.
OTHER_CONNECTIONS_QUERIES = {
    "postgresql": "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
    "AND pid <> pg_backend_pid()",
    "mysql": "SELECT id FROM information_schema.processlist WHERE db = DATABASE() "
    "AND id <> CONNECTION_ID()",
}
KILL_STATEMENTS = {"postgresql": "SELECT pg_terminate_backend({})", "mysql": "KILL {}"}
#: The error of MariaDB if a connection has ended before KILL.
NO_SUCH_THREAD_ERROR = 1094
#: The query for the isolation level of a session, and its result for READ COMMITTED.
ISOLATION_LEVEL_QUERIES = {
    "postgresql": ("SHOW transaction_isolation", "read committed"),
    # A column with the name of the variable, tx_isolation in MariaDB 10.11, precedes the value.
    "mysql": (
        "SHOW VARIABLES WHERE variable_name IN ('tx_isolation', 'transaction_isolation')",
        "READ-COMMITTED",
    ),
}
#: A count of more rows than a machine can count during a test, and a query of its executions.
#: MySQL would multiply the numbers of rows if there were no condition.
ENDLESS_QUERY = (
    "SELECT COUNT(*) FROM traits AS a, traits AS b, traits AS c, traits AS d, traits AS e "
    "WHERE a.id + b.id + c.id + d.id + e.id > 0"
)
RUNNING_ENDLESS_QUERIES = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND state = 'active' AND query LIKE '%e.id > 0'",
    "mysql": "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() "
    "AND info LIKE '%e.id > 0'",
    "sqlite": "SELECT 0",
}
on_postgresql_and_mariadb = pytest.mark.parametrize("kind", ["postgresql_server", "mysql_server"])
on_every_database = pytest.mark.parametrize(
    "kind", ["sqlite_url", "postgresql_server", "mysql_server"]
)


@pytest.fixture
def sqlalchemy_log(caplog):
    """Restore the level of SQLAlchemy's log at the end."""
    logger = logging.getLogger("sqlalchemy.engine")
    level = logger.level
    yield caplog
    logger.setLevel(level)


def execute_select_one(connection):
    return connection.exec_driver_sql("SELECT 1").scalar_one()


def close_other_connections(database):
    """Close all connections but this, and wait until they are gone."""
    backend = database.url.get_backend_name()
    with database.read() as connection:
        for number in connection.scalars(text(OTHER_CONNECTIONS_QUERIES[backend])).all():
            try:
                connection.exec_driver_sql(KILL_STATEMENTS[backend].format(number))
            except OperationalError as failure:
                if failure.orig.args[0] != NO_SUCH_THREAD_ERROR:
                    raise
        assert wait_until(
            lambda: not connection.scalars(text(OTHER_CONNECTIONS_QUERIES[backend])).all()
        )


@pytest.mark.parametrize(
    ("url", "parameters", "expected"),
    [
        (MYSQL_URL, "read_timeout=7&charset=utf8", {"read_timeout": "7", "charset": "utf8"}),
        (
            f"{MYSQL_URL}?read_timeout=3",
            "program_name=x",
            {"read_timeout": "3", "program_name": "x", "charset": "utf8mb4"},
        ),
    ],
)
def test_option_connection_parameters_is_appended_to_the_database_url(url, parameters, expected):
    assert (
        dict(url_of(make_database_settings(url, connection_parameters=parameters)).query)
        == expected
    )


@pytest.mark.parametrize(
    "url",
    [
        "mysql+pymysql://nova:gehe@im@db/nova",
        "mysql+pymysql://nova:gehe@im@db:3306/nova",
        "postgresql://nova:gehe@im:5@db/nova",
        "mysql://nova:gehe/@im@db/nova",
    ],
)
def test_unescaped_at_sign_in_a_url_is_an_error_without_the_password(url):
    with pytest.raises(ConfigurationError, match="write it as %40") as rejection:
        url_of(make_database_settings(url))
    assert "gehe" not in rejection.value.detail
    escaped = url_of(make_database_settings("mysql://nova:gehe%40im@db/nova"))
    assert (escaped.password, escaped.host) == ("gehe@im", "db")


@pytest.mark.parametrize(("value", "mode"), [(True, 1), (False, 0)])
def test_sqlite_synchronous_option_is_used(open_database, value, mode):
    database = open_database("sqlite_url", sqlite_synchronous=value)
    assert query_both_engines(database, "PRAGMA synchronous") == mode


@on_every_database
def test_exhausted_connection_pool_is_an_error_and_counted(open_database, kind):
    database = open_database(kind, max_pool_size=1, max_overflow=1, pool_timeout=0)
    begin_stats()
    with (
        database.read(),
        database.read(),
        pytest.raises(Unavailable, match="no free connection"),
        database.read(),
    ):
        pytest.fail("there was a third connection")
    assert get_request_stats().pool_timeouts == 1


@on_every_database
@pytest.mark.parametrize(("size", "overflow"), [(0, 0), (-1, 0), (1, -1), (-1, -1)])
def test_connection_pool_without_a_maximum_is_never_exhausted(open_database, kind, size, overflow):
    unlimited = open_database(kind, max_pool_size=size, max_overflow=overflow, pool_timeout=-1)
    with unlimited.read(), unlimited.read(), unlimited.read():
        assert query_both_engines(unlimited, "SELECT 1") == 1


@on_every_database
@pytest.mark.parametrize("traced", [True, False])
def test_traced_statement_has_its_caller_in_a_comment(open_database, sqlalchemy_log, kind, traced):
    database = open_database(kind, connection_trace=traced, connection_debug=50)
    with database.read() as connection:
        change_counters.get_version(connection, "any")
    signed = re.compile(r"SELECT .*/\* store/change_counters\.py:\d+ get_version \*/", re.DOTALL)
    messages = [record.getMessage() for record in sqlalchemy_log.records]
    assert any(signed.search(message) for message in messages) == traced


@pytest.mark.parametrize(
    ("verbosity", "statement", "row"),
    [(0, False, False), (49, False, False), (50, True, False), (100, True, True)],
)
def test_option_connection_debug_controls_the_sql_log(
    open_database, sqlalchemy_log, verbosity, statement, row
):
    database = open_database("sqlite_url", connection_debug=verbosity)
    query_both_engines(database, "SELECT 40 + 2")
    messages = [
        record.getMessage() for record in sqlalchemy_log.records if "sqlalchemy" in record.name
    ]
    assert any("SELECT 40 + 2" in message for message in messages) == statement
    assert any("Row (42,)" in message for message in messages) == row


@on_postgresql_and_mariadb
def test_writes_use_the_isolation_level_read_committed(open_database, kind):
    """At REPEATABLE READ, MariaDB's default, a write reads a snapshot older than its lock."""
    query, expected = ISOLATION_LEVEL_QUERIES[kind.removesuffix("_server")]
    row = open_database(kind).write(lambda connection: connection.execute(text(query)).one())
    assert row[-1] == expected


@on_postgresql_and_mariadb
def test_database_connections_use_tcp_keepalive(open_database, kind):
    """A machine that does not respond is given up after seconds."""

    def read_socket_options(connection):
        driver = get_driver_connection(connection)
        names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
        with socket.socket(fileno=os.dup(driver.fileno())) as sock:
            alive = sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            options = (getattr(socket, name) for name in names)
            return [alive, *(sock.getsockopt(socket.IPPROTO_TCP, option) for option in options)]

    database = open_database(kind)
    with database.read() as connection:
        assert read_socket_options(connection) == [1, 5, 2, 3, 10_000]
    assert database.write(read_socket_options) == [1, 5, 2, 3, 10_000]


@on_postgresql_and_mariadb
def test_last_used_database_connection_is_reused_until_it_is_closed(open_database, kind):
    database = open_database(kind)
    with database.read() as first, database.read() as second:
        assert get_driver_connection(first) is not get_driver_connection(second)
        assert database.reader.pool.checkedout() == 2
        last = get_driver_connection(first)
    with pytest.raises(ZeroDivisionError), database.read():
        raise ZeroDivisionError
    assert database.reader.pool.checkedout() == 0
    with database.read() as again:
        assert get_driver_connection(again) is last
        assert not again.in_transaction()
    with database.read():
        database.dispose()
    with database.read() as again:
        assert get_driver_connection(again) is not last


@on_postgresql_and_mariadb
def test_connection_to_a_read_only_database_is_replaced(open_database, kind, monkeypatch):
    database = open_database(kind)
    with database.read() as first:
        before = get_driver_connection(first)
    with database.read() as again:  # not checked again yet
        assert get_driver_connection(again) is before
    monkeypatch.setattr(transaction, "CHECK_AGAIN", 0.0)
    with database.read() as again:
        assert get_driver_connection(again) is before
        session = {"mysql": "SET SESSION TRANSACTION READ ONLY"}
        default = "SET default_transaction_read_only = on"
        again.exec_driver_sql(session.get(again.dialect.name, default))
    with database.read() as other:
        assert get_driver_connection(other) is not before


@on_postgresql_and_mariadb
def test_reads_succeed_after_the_server_closed_idle_connections(open_database, kind):
    database, other = open_database(kind), open_database(kind)
    for _ in range(2):
        with database.read() as first, database.read() as second:
            assert (execute_select_one(first), execute_select_one(second)) == (1, 1)
        close_other_connections(other)
    assert database.write(execute_select_one) == 1


def test_database_read_sends_no_ping_before_its_query(database):
    with database.read() as connection:
        execute_select_one(connection)
    begin_stats()
    with database.read() as connection:
        execute_select_one(connection)
    assert get_request_stats().statements == 1


@on_postgresql_and_mariadb
def test_lost_database_connection_is_discarded_without_a_log_line(open_database, kind, caplog):
    database, other = open_database(kind), open_database(kind)
    # After a rejected COMMIT, SQLAlchemy leaves the ROLLBACK to the pool.
    connection = database.writer.raw_connection()
    connection.cursor().execute("SELECT 1")
    close_other_connections(other)
    connection.close()
    assert caplog.records == []
    assert database.write(execute_select_one) == 1


@pytest.mark.slow
@on_every_database
def test_statement_is_stopped_at_read_timeout(open_database, kind):
    database, patient = open_database(kind, read_timeout=1), open_database(kind, read_timeout=0)
    start = monotonic()
    with pytest.raises(Unavailable, match="read_timeout"), database.read() as connection:
        connection.scalar(text(ENDLESS_QUERY))
    assert monotonic() - start < 60
    with patient.read() as connection:
        running = text(RUNNING_ENDLESS_QUERIES[connection.dialect.name])
        assert wait_until(lambda: not connection.scalar(running))
    sleep(1.1)  # the timeout of a statement starts with the statement
    with database.read() as connection:
        assert connection.scalar(text("SELECT COUNT(*) FROM traits"))
