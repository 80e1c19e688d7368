# SPDX-License-Identifier: Apache-2.0
"""Connections of the drivers: session settings, prepared statements and lost results."""

import pytest
from pymysql.connections import MySQLResult
from pymysql.constants import COMMAND
from pymysql.err import OperationalError
from pymysql.protocol import MysqlPacket
from sqlalchemy import literal, select, text

from placement_sched.db.mysql import MariaDBConnection
from placement_sched.db.transaction import Database
from tests.conftest import make_settings

pytestmark = pytest.mark.all_databases

#: More executions than psycopg needs to prepare a statement.
OFTEN = 8
#: The packet that ends a result.
ENDING = b"\xfe\x00\x00\x02\x00"


@pytest.fixture(params=["postgresql_server", "mysql_server"])
def database(request):
    database = Database(make_settings(request.getfixturevalue(request.param)))
    yield database
    database.dispose()


@pytest.fixture
def mariadb(mysql_server):
    """The driver's connection to MariaDB of an engine for writes."""
    database = Database(make_settings(mysql_server))
    with database.writer.connect() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, MariaDBConnection)
        yield driver
        connection.invalidate()
    database.dispose()


def send_statement(driver, statement):
    driver._execute_command(COMMAND.COM_QUERY, statement)


@pytest.mark.parametrize("writes", [False, True], ids=["reads", "writes"])
def test_postgresql_session_has_no_prepared_statements(postgresql_server, writes):
    database = Database(make_settings(postgresql_server))

    def count_prepared(connection):
        for number in range(OFTEN):
            connection.scalar(select(literal(number) + 1))
        return connection.scalar(text("SELECT count(*) FROM pg_prepared_statements"))

    if writes:
        assert database.write(count_prepared) == 0
    else:
        with database.read() as connection:
            assert count_prepared(connection) == 0
    database.dispose()


def test_transaction_restores_lost_session_settings(postgresql_server):
    settings = make_settings(
        postgresql_server,
        placement_database__lock_timeout=7,
        placement_database__read_timeout=8,
        placement_database__max_pool_size=1,
    )
    database = Database(settings)

    def settings_of(connection):
        names = ("lock_timeout", "jit", "statement_timeout")
        return [connection.scalar(text(f"SHOW {name}")) for name in names]

    with database.read() as connection:
        connection.execute(text("RESET ALL"))  # to the options of the connection
        for name in ("lock_timeout", "jit", "statement_timeout"):
            connection.execute(text(f"SET {name} TO DEFAULT"))
        connection.execute(text("SET lock_timeout = 0"))
    with database.snapshot() as connection:
        assert settings_of(connection) == ["7s", "off", "8s"]

    def reset_session_settings(connection):
        connection.execute(text("COMMIT; SET lock_timeout = 0; SET jit = on"))

    database.write(reset_session_settings)
    assert database.write(settings_of) == ["7s", "off", "0"]
    database.dispose()


def test_read_only_commit_leaves_no_mark(mariadb):
    mariadb.commit_with = "SELECT no_such_column; COMMIT"
    mariadb.query("SELECT 1")
    mariadb.commit()
    assert mariadb.commit_with is None


def test_truncated_result_is_a_lost_connection(mariadb, monkeypatch):
    monkeypatch.setattr(
        MySQLResult, "read", lambda self: self._read_result_packet(MysqlPacket(ENDING, "utf8"))
    )
    with pytest.raises(OperationalError, match="Lost connection"):
        mariadb.query("SELECT 1")
    assert not mariadb.open


def test_second_end_of_result_is_not_the_next_result(mariadb):
    send_statement(mariadb, "SELECT 1")
    for _ in range(2):  # the remaining packets have the numbers of this result
        mariadb._read_packet()
    with pytest.raises(OperationalError, match="Lost connection"):
        mariadb.query("SELECT 2")
    assert not mariadb.open
