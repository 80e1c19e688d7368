# SPDX-License-Identifier: Apache-2.0
"""The options of ``[placement_database]``: URL, sessions, pool and log."""

import logging
import re

import pytest

from placement_sched.db.engine import database_url
from placement_sched.db.transaction import Database
from placement_sched.errors import ConfigurationError, Unavailable
from placement_sched.model.request_stats import begin_stats, request_stats
from placement_sched.store import change_counters
from tests.conftest import make_settings

pytestmark = pytest.mark.all_databases

MYSQL = "mysql+pymysql://u:p@db/placement"


def engine_settings(url: str, **values: object):
    return make_settings(
        url, **{f"placement_database__{name}": value for name, value in values.items()}
    )


@pytest.fixture
def open_database():
    databases = []

    def open_with_options(url: str, **values: object) -> Database:
        databases.append(Database(engine_settings(url, **values)))
        return databases[-1]

    yield open_with_options
    for database in databases:
        database.dispose()


@pytest.fixture
def sql_log(caplog):
    """Restore the level of SQLAlchemy's log at the end."""
    logger = logging.getLogger("sqlalchemy.engine")
    level = logger.level
    yield caplog
    logger.setLevel(level)


def query_value(database: Database, sql: str) -> object:
    """Return the value of a query, which must be equal for reads and writes."""
    with database.read() as connection:
        read = connection.exec_driver_sql(sql).scalar()
    assert database.write(lambda connection: connection.exec_driver_sql(sql).scalar()) == read
    return read


def test_connection_parameters_are_appended_to_the_url():
    url = database_url(engine_settings(MYSQL, connection_parameters="read_timeout=7&charset=utf8"))
    assert dict(url.query) == {"read_timeout": "7", "charset": "utf8"}


def test_url_parameters_override_connection_parameters():
    url = database_url(
        engine_settings(f"{MYSQL}?read_timeout=3", connection_parameters="program_name=x")
    )
    assert url.query["read_timeout"] == "3"
    assert url.query["program_name"] == "x"


def test_sql_mode_is_strict_by_default(open_database, mysql_server):
    assert "STRICT_ALL_TABLES" in query_value(open_database(mysql_server), "SELECT @@sql_mode")


def test_sql_mode_option_is_used(open_database, mysql_server):
    database = open_database(mysql_server, mysql_sql_mode="ANSI_QUOTES")
    assert query_value(database, "SELECT @@sql_mode") == "ANSI_QUOTES"


def test_empty_sql_mode_keeps_the_mode_of_the_server(open_database, mysql_server):
    database = open_database(mysql_server, mysql_sql_mode="")
    assert query_value(database, "SELECT @@sql_mode = @@global.sql_mode") == 1


@pytest.mark.parametrize(("value", "mode"), [(True, 1), (False, 0)])
def test_sqlite_synchronous_is_full_by_default(open_database, sqlite_url, value, mode):
    database = open_database(sqlite_url, sqlite_synchronous=value)
    assert query_value(database, "PRAGMA synchronous") == mode


@pytest.mark.parametrize("kind", ["sqlite_url", "postgresql_server", "mysql_server"])
def test_pool_size_option_is_used(open_database, request, kind):
    url = request.getfixturevalue(kind)
    database = open_database(url, max_pool_size=1, max_overflow=1, pool_timeout=0)
    with (
        database.read(),
        database.read(),
        pytest.raises(Unavailable, match="no free connection"),
        database.read(),
    ):
        pass


def test_pool_size_of_zero_is_unlimited(open_database, sqlite_url):
    database = open_database(sqlite_url, max_pool_size=0, max_overflow=0, pool_timeout=0)
    with database.read(), database.read(), database.read():
        assert query_value(database, "SELECT 1") == 1


@pytest.mark.parametrize("kind", ["sqlite_url", "postgresql_server", "mysql_server"])
@pytest.mark.parametrize("traced", [True, False])
def test_traced_statement_names_the_caller(open_database, sql_log, request, kind, traced):
    url = request.getfixturevalue(kind)
    database = open_database(url, connection_trace=traced, connection_debug=50)
    with database.read() as connection:
        change_counters.version(connection, "any")
    signed = re.compile(r"SELECT .*/\* store/change_counters\.py:\d+ version \*/", re.DOTALL)
    messages = [record.getMessage() for record in sql_log.records]
    assert any(signed.search(message) for message in messages) == traced


@pytest.mark.parametrize(
    ("verbosity", "statement", "row"),
    [(0, False, False), (49, False, False), (50, True, False), (100, True, True)],
)
def test_connection_debug_controls_the_sql_log(
    open_database, sql_log, sqlite_url, verbosity, statement, row
):
    database = open_database(sqlite_url, connection_debug=verbosity)
    query_value(database, "SELECT 40 + 2")
    messages = [record.getMessage() for record in sql_log.records if "sqlalchemy" in record.name]
    assert any("SELECT 40 + 2" in message for message in messages) == statement
    assert any("Row (42,)" in message for message in messages) == row


def test_unknown_database_type_is_rejected():
    with pytest.raises(ConfigurationError, match="not supported"):
        database_url(engine_settings("oracle://u@h/db"))


def test_postgresql_url_options_are_merged(open_database, postgresql_server):
    url = f"{postgresql_server}?options=-csearch_path%3Delsewhere&connect_timeout=3"
    database = open_database(url, lock_timeout=7)
    assert query_value(database, "SHOW search_path") == "elsewhere"
    assert query_value(database, "SHOW lock_timeout") == "7s"
    with database.reader.connect() as connection:
        assert (
            connection.connection.driver_connection.info.get_parameters()["connect_timeout"] == "3"
        )


def test_mariadb_url_options_are_merged(open_database, mysql_server):
    more = "init_command=SET%20SESSION%20wait_timeout%3D99&sql_mode=ANSI"
    database = open_database(
        f"{mysql_server}{'&' if '?' in mysql_server else '?'}{more}", lock_timeout=7
    )
    assert query_value(database, "SELECT @@SESSION.wait_timeout") == 99
    assert query_value(database, "SELECT @@SESSION.innodb_lock_wait_timeout") == 7
    assert "ANSI_QUOTES" in query_value(database, "SELECT @@SESSION.sql_mode")


def test_exhausted_pool_is_counted(open_database, sqlite_url):
    database = open_database(sqlite_url, max_pool_size=1, max_overflow=0, pool_timeout=0)
    begin_stats()
    with database.read():
        assert request_stats().pool_timeouts == 0
        with pytest.raises(Unavailable), database.read():
            pytest.fail("there was a second connection")
    assert request_stats().pool_timeouts == 1
