# SPDX-License-Identifier: Apache-2.0
"""Connections to MariaDB: the SQL mode, options of the URL, and malformed results."""

import pymysql
import pytest
from pymysql.connections import MySQLResult
from pymysql.constants import COMMAND
from pymysql.protocol import MysqlPacket
from sqlalchemy.exc import DBAPIError

from tests.db.connections import get_driver_connection, query_both_engines

pytestmark = pytest.mark.all_databases

#: The packet that ends a result.
EOF_PACKET = b"\xfe\x00\x00\x02\x00"


@pytest.mark.parametrize(
    ("mode", "query", "expected"),
    [
        (None, "SELECT @@sql_mode LIKE '%STRICT_ALL_TABLES%'", 1),
        ("ANSI_QUOTES", "SELECT @@sql_mode", "ANSI_QUOTES"),
        ("", "SELECT @@sql_mode = @@global.sql_mode", 1),
    ],
    ids=["default", "other", "empty"],
)
def test_option_mysql_sql_mode_is_applied(open_database, mysql_server, mode, query, expected):
    options = {} if mode is None else {"mysql_sql_mode": mode}
    database = open_database(mysql_server, **options)
    assert query_both_engines(database, query.replace("%", "%%")) == expected


def test_options_of_a_mariadb_url_extend_the_configuration(open_database, mysql_server):
    more = "init_command=SET%20SESSION%20wait_timeout%3D99&sql_mode=ANSI"
    url = f"{mysql_server}{'&' if '?' in mysql_server else '?'}{more}"
    database = open_database(url, lock_timeout=7)
    assert query_both_engines(database, "SELECT @@SESSION.wait_timeout") == 99
    assert query_both_engines(database, "SELECT @@SESSION.innodb_lock_wait_timeout") == 7
    assert "ANSI_QUOTES" in query_both_engines(database, "SELECT @@SESSION.sql_mode")


@pytest.fixture
def mariadb_connection(open_database, mysql_server):
    """The driver's connection to MariaDB of an engine for writes."""
    with open_database(mysql_server).writer.connect() as connection:
        yield get_driver_connection(connection)
        connection.invalidate()


@pytest.mark.parametrize(
    "read",
    [
        lambda self: self._read_result_packet(MysqlPacket(EOF_PACKET, "utf8")),
        lambda _: b"\xff".decode("utf8"),
    ],
)
def test_malformed_mariadb_result_is_a_lost_connection(mariadb_connection, monkeypatch, read):
    monkeypatch.setattr(MySQLResult, "read", read)
    with pytest.raises(pymysql.err.OperationalError, match="Lost connection"):
        mariadb_connection.query("SELECT 1")
    assert not mariadb_connection.open


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_malformed_response_to_the_end_of_a_transaction_is_a_lost_connection(
    mariadb_connection, monkeypatch, end
):
    monkeypatch.setattr(MysqlPacket, "is_ok_packet", lambda _self: b"\xff".decode("utf8"))
    with pytest.raises(pymysql.err.OperationalError, match="Lost connection"):
        getattr(mariadb_connection, end)()
    assert not mariadb_connection.open


def test_repeated_mariadb_end_packet_is_not_read_as_the_next_result(open_database, mysql_server):
    with open_database(mysql_server).writer.connect() as connection:
        driver = get_driver_connection(connection)
        driver._execute_command(COMMAND.COM_QUERY, "SELECT 1")
        for _ in range(2):  # the remaining packets have the numbers of this result
            driver._read_packet()
        with pytest.raises(DBAPIError) as failure:
            connection.exec_driver_sql("SELECT 2")
        assert failure.value.connection_invalidated
        assert connection.invalidated
        assert not driver.open
