# SPDX-License-Identifier: Apache-2.0
"""Errors of drivers: about the database, about a statement, or about the input."""

import psycopg
import pymysql
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError, OperationalError, PendingRollbackError, ProgrammingError

from placement_sched.db.engine import build_database_url, parse_url
from placement_sched.db.errors import connect, is_worth_retrying, translate_errors
from placement_sched.db.mysql import MariaDBConnection
from placement_sched.db.transaction import Database
from placement_sched.errors import ConfigurationError, Invalid, Unavailable
from placement_sched.nova.databases import NovaDatabase, NovaDatabaseUnavailable
from tests.conftest import make_settings

pytestmark = pytest.mark.all_databases

CONNECTION_OPTION = "[placement_database] connection"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://u@h/d?ssl_mode=REQUIRED", "unexpected keyword argument 'ssl_mode'"),
        ("mysql://u@h/d?ssl_ca=/none.pem", r"there is no file /none.pem \(ssl_ca\)"),
        ("mysql://u@h/d?ssl_ca=/etc/passwd", "no certificate"),
        ("mysql://u@h/d?connect_timeout=abc", "invalid literal .*'abc'"),
        ("mysql://u@h/d?port=99999", "port 99999 is not between 1 and 65535"),
        ("postgresql://u@h:99999/d", "port 99999 is not between 1 and 65535"),
        ("postgresql://u@h/d?ssl_mode=require", 'invalid connection option "ssl_mode"'),
        ("postgresql://u@h/d?sslcert=/none.pem", r"there is no file /none.pem \(sslcert\)"),
        ("sqlite://u@h/file.db", "Invalid SQLite URL"),
        ("sqlite:///file.db?timeout=abc", "could not convert string to float: 'abc'"),
        ("oracle://u@h/db", "not supported"),
    ],
)
def test_parameters_of_a_database_url_are_checked_without_connecting(url, words):
    with pytest.raises(ConfigurationError, match=words) as wrong:
        parse_url(url, CONNECTION_OPTION)
    assert wrong.value.detail.startswith(f"{CONNECTION_OPTION}: ")


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u@h/d?connect_timeout=5&charset=utf8&unix_socket=/a&ssl_check_hostname=false",
        "postgresql://u@h/d?host=a:1&host=b:2&target_session_attrs=read-write&sslmode=require",
        "postgresql://u@h/d?sslmode=verify-full&sslrootcert=system&application_name=x",
        "postgresql://u@h:7/d?hostaddr=127.0.0.1&options=-c%20jit%3Doff&keepalives=1",
        "sqlite:///file:file.db?uri=true&mode=rwc",
    ],
)
def test_supported_parameters_of_a_database_url_are_accepted(url):
    assert (
        dict(make_url(url).query).items() <= dict(parse_url(url, CONNECTION_OPTION).query).items()
    )


def test_option_connection_parameters_is_checked_like_parameters_of_a_url():
    settings = make_settings("mysql://u@h/d", placement_database__connection_parameters="ssl=on")
    with pytest.raises(ConfigurationError, match="connection_parameters: the driver does not"):
        build_database_url(settings)


@pytest.fixture
def missing_package_of_pymysql(monkeypatch):
    """Let PyMySQL fail as for an authentication whose package is not installed."""

    def fail_to_connect(*_arguments):
        raise RuntimeError("'pynacl' package is required for ed25519_password auth method")

    for connection in (pymysql.connections.Connection, MariaDBConnection):
        monkeypatch.setattr(connection, "connect", fail_to_connect)


@pytest.mark.usefixtures("missing_package_of_pymysql")
def test_missing_package_of_the_database_driver_is_503_with_reason(make_app):
    url = "mysql+pymysql://u@127.0.0.1/d"
    app = make_app(make_settings(url))
    for path in ("/placement/resource_providers", "/healthz/ready"):
        response = app.get(path, status=503)
        assert "no connection to the database can be made as configured" in response.text
        assert "pynacl" in response.text
    database = NovaDatabase("a cell", make_url(url))
    with pytest.raises(NovaDatabaseUnavailable, match="can be made as configured"), database.read():
        pytest.fail("there was a connection")
    database.close()


UNKNOWN_USER = {"username": "nobody", "password": "wrong"}


@pytest.mark.parametrize(
    ("server", "part", "parameters", "reason"),
    [
        ("mysql_server", UNKNOWN_USER, {}, "rejects the user of the connection"),
        ("mysql_server", {"database": "ps_absent"}, {}, "the connection names does not exist"),
        ("mysql_server", {}, {"collation": "nonsense"}, "Unknown collation"),
        ("mysql_server", {}, {"sql_mode": "NONSENSE"}, "'sql_mode' can't be set"),
        ("postgresql_server", UNKNOWN_USER, {}, "rejects the user of the connection"),
        ("postgresql_server", {"database": "ps_absent"}, {}, "the connection names does not exist"),
        ("postgresql_server", {}, {"client_encoding": "nonsense"}, "client_encoding"),
        ("postgresql_server", {}, {"options": "-c nonsense=1"}, "nonsense"),
        ("postgresql_server", {}, {"channel_binding": "require"}, "channel binding"),
        ("postgresql_server", {}, {"target_session_attrs": "standby"}, "hot standby"),
    ],
)
def test_rejected_database_connection_is_503_with_the_reason(
    request, make_app, server, part, parameters, reason
):
    url = make_url(request.getfixturevalue(server)).set(**part).update_query_dict(parameters)
    settings = make_settings(url.render_as_string(hide_password=False))
    response = make_app(settings).get("/healthz/ready", status=503)
    assert reason in response.text
    assert ("can be made as configured" in response.text) is bool(parameters)
    assert "does not answer" not in response.text


@pytest.mark.parametrize(
    "error",
    [
        pymysql.err.OperationalError(1053, "Server shutdown in progress"),
        psycopg.OperationalError("connection failed: FATAL:  the database system is shutting down"),
        psycopg.OperationalError("connection failed: FATAL:  the database system is starting up"),
    ],
)
def test_database_that_shuts_down_is_not_a_matter_of_the_configuration(error, monkeypatch):
    engine = create_engine("sqlite://")

    def fail():
        raise OperationalError("", None, error)

    monkeypatch.setattr(engine, "connect", fail)
    with pytest.raises(Unavailable) as rejection:
        connect(engine)
    assert rejection.value.detail == "the database is being started or shut down. Try again"


@pytest.mark.parametrize(
    "code", [1030, 1026, 1105, 1180, 1181, 1016, 1023, 1206, 1305, 1637, 1412, 1615, 1835]
)
def test_errors_of_the_database_server_are_unavailable_errors(code):
    failure = OperationalError("SELECT 1", None, pymysql.err.OperationalError(code, "words"))
    with pytest.raises(Unavailable) as found, translate_errors():
        raise failure
    assert "does not answer" not in found.value.detail
    assert is_worth_retrying(found.value) == (code in {1305, 1412, 1615})


@pytest.fixture
def mariadb_connection_with_tables(mysql_server):
    database = Database(make_settings(mysql_server))
    with database.read() as connection:
        for name in ("ascii", "latin1", "utf8mb3"):
            columns = f"(a VARCHAR(9)) CHARACTER SET {name} COLLATE {name}_bin"
            connection.execute(text(f"DROP TABLE IF EXISTS ps_{name}"))
            connection.execute(text(f"CREATE TABLE ps_{name} {columns}"))
        yield connection
        for name in ("ascii", "latin1", "utf8mb3"):
            connection.execute(text(f"DROP TABLE ps_{name}"))
    database.dispose()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT a FROM {} WHERE a = :a",
        "SELECT a FROM {} WHERE a IN ('a', 'b', :a)",
        "INSERT INTO {} VALUES (:a)",
    ],
)
@pytest.mark.parametrize(
    ("kept", "letter"), [("ascii", "é"), ("ascii", "中"), ("latin1", "中"), ("utf8mb3", "😀")]
)
def test_character_outside_the_column_charset_is_an_input_error(
    mariadb_connection_with_tables, statement, kept, letter
):
    with pytest.raises(Invalid, match=f"cannot store the character {letter}"), translate_errors():
        mariadb_connection_with_tables.execute(
            text(statement.format(f"ps_{kept}")), {"a": f"a{letter}"}
        )
    with translate_errors():
        mariadb_connection_with_tables.execute(
            text("SELECT a FROM ps_latin1 WHERE a = :a"), {"a": "é"}
        )


@pytest.mark.parametrize("sent", ["a", "中"])
def test_invalid_statement_raises_the_error_of_sqlalchemy(mariadb_connection_with_tables, sent):
    statement = "SELECT :sent, 'a' COLLATE utf8mb4_bin = 'b' COLLATE utf8mb4_general_ci"
    with pytest.raises(OperationalError, match="1267"), translate_errors():
        mariadb_connection_with_tables.execute(text(statement), {"sent": sent})


def test_database_connection_lost_in_a_transaction_is_retried():
    with pytest.raises(Unavailable, match="lost in a transaction") as lost, translate_errors():
        raise PendingRollbackError("Can't reconnect until invalid transaction is rolled back.")
    assert is_worth_retrying(lost.value)


def build_mysql_error(statement: str, code: int, message: str) -> OperationalError:
    return OperationalError(statement, {}, pymysql.err.OperationalError(code, message))


def test_deadlock_in_a_savepoint_is_retried():
    @translate_errors()
    def insert_conflicting_row() -> None:
        try:
            raise build_mysql_error("INSERT INTO traits", 1213, "Deadlock found")
        finally:
            raise build_mysql_error("ROLLBACK TO SAVEPOINT s", 1305, "s does not exist")

    with pytest.raises(Unavailable) as raised:
        insert_conflicting_row()
    assert is_worth_retrying(raised.value)


@pytest.mark.parametrize(("key", "is_retried"), [("PRIMARY", True), ("uniq_x0uuid", False)])
def test_id_that_another_cluster_node_has_used_is_retried(key, is_retried):
    message = f"Duplicate entry '7' for key '{key}'"
    failure = IntegrityError("INSERT", {}, pymysql.err.IntegrityError(1062, message))
    with pytest.raises(Unavailable if is_retried else IntegrityError) as raised, translate_errors():
        raise failure
    assert is_worth_retrying(raised.value) is is_retried


@pytest.mark.parametrize(
    ("message", "is_retried"),
    [
        ("Unknown trigger has an error in its body: 'Query was empty'", True),
        ("You have an error in your SQL syntax near 'X' at line 1", False),
    ],
)
def test_trigger_that_another_cluster_node_replaces_is_retried(message, is_retried):
    failure = ProgrammingError("INSERT", {}, pymysql.err.ProgrammingError(1064, message))
    error = Unavailable if is_retried else ProgrammingError
    with pytest.raises(error) as raised, translate_errors():
        raise failure
    assert is_worth_retrying(raised.value) is is_retried


def test_invalid_sqlite_statement_raises_the_error_of_sqlalchemy(sqlite_database):
    wrong = text("SELECT no_such_column FROM resource_providers")
    with (
        pytest.raises(OperationalError, match="no such column"),
        sqlite_database.read() as connection,
    ):
        connection.execute(wrong)
