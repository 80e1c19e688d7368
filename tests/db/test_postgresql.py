# SPDX-License-Identifier: Apache-2.0
"""Connections to PostgreSQL: options of the URL, and settings of the session."""

import pytest
from sqlalchemy import literal, select, text

from tests.db.connections import get_driver_connection, query_both_engines

pytestmark = pytest.mark.all_databases

#: More executions than psycopg needs to prepare a statement.
QUERY_EXECUTION_COUNT = 8


def test_options_of_a_postgresql_url_extend_the_configuration(open_database, postgresql_server):
    url = f"{postgresql_server}?options=-csearch_path%3Delsewhere&connect_timeout=3"
    database = open_database(url, lock_timeout=7)
    assert query_both_engines(database, "SHOW search_path") == "elsewhere"
    assert query_both_engines(database, "SHOW lock_timeout") == "7s"
    with database.reader.connect() as connection:
        assert get_driver_connection(connection).info.get_parameters()["connect_timeout"] == "3"


def test_postgresql_session_has_no_prepared_statements(open_database, postgresql_server):
    def count_prepared_statements(connection):
        for number in range(QUERY_EXECUTION_COUNT):
            connection.scalar(select(literal(number) + 1))
        return connection.scalar(text("SELECT count(*) FROM pg_prepared_statements"))

    database = open_database(postgresql_server)
    assert database.write(count_prepared_statements) == 0
    with database.read() as connection:
        assert count_prepared_statements(connection) == 0


def test_postgresql_transaction_restores_lost_session_settings(open_database, postgresql_server):
    names = ("lock_timeout", "jit", "statement_timeout")
    database = open_database(postgresql_server, lock_timeout=7, read_timeout=8, max_pool_size=1)

    def read_session_settings(connection):
        return [connection.scalar(text(f"SHOW {name}")) for name in names]

    with database.read() as connection:
        connection.execute(text("RESET ALL"))  # to the options of the connection
        for name in names:
            connection.execute(text(f"SET {name} TO DEFAULT"))
        connection.execute(text("SET lock_timeout = 0"))
    with database.open_snapshot() as connection:
        assert read_session_settings(connection) == ["7s", "off", "8s"]

    def reset_session_settings(connection):
        connection.execute(text("COMMIT; SET lock_timeout = 0; SET jit = on"))

    database.write(reset_session_settings)
    assert database.write(read_session_settings) == ["7s", "off", "0"]
