# SPDX-License-Identifier: Apache-2.0
"""Errors of drivers: about the database, about a statement, or about the input."""

from uuid import uuid4

import pymysql
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError, PendingRollbackError

from placement_sched.db.engine import database_url, parse_url
from placement_sched.db.errors import is_worth_retrying, translate_errors
from placement_sched.db.transaction import Database
from placement_sched.errors import ConfigurationError, Invalid, Unavailable
from placement_sched.nova.databases.connections import NovaDatabase, NovaDatabaseUnavailable
from tests.conftest import make_settings

pytestmark = pytest.mark.all_databases

PLACE = "[placement_database] connection"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://u@h/d?ssl_mode=REQUIRED", "ssl_mode: PyMySQL has no such parameter; remove it"),
        ("mysql://u@h/d?defer_connect=1", "defer_connect: PyMySQL has no such parameter"),
        ("mysql://u@h/d?ssl_ca=/none.pem", r"there is no file /none.pem \(ssl_ca\)"),
        ("mysql://u@h/d?ssl_ca=/etc/passwd", "ssl_ca: .*no certificate"),
        ("mysql://u@h/d?ssl=true", "ssl: PyMySQL does not accept this value .TLS is set by ssl_ca"),
        ("mysql://u@h/d?charset=nonsense", "charset: PyMySQL does not accept this value"),
        ("mysql://u@h/d?connect_timeout=abc", "connect_timeout: invalid literal .*'abc'"),
        ("mysql://u@h/d?connect_timeout=0", "connect_timeout: connect_timeout should be >0"),
        ("postgresql://u@h/d?connect_timeout=abc", "connect_timeout: invalid literal .*'abc'"),
        ("mysql://u@h/d?cursorclass=abc", "cursorclass: PyMySQL has no such parameter"),
        ("mysql://u@h/d?auth_plugin_map=abc", "auth_plugin_map: PyMySQL has no such"),
        ("mysql://u@h:99999/d", "port 99999 is not between 1 and 65535"),
        ("mysql://u@h/d?port=99999", "port: port 99999 is not between"),
        ("postgresql://u@h:99999/d", "port 99999 is not between 1 and 65535"),
        ("postgresql://u@h/d?keepalives_idle=abc", "keepalives_idle: invalid literal .*'abc'"),
        ("postgresql://u@h/d?tcp_user_timeout=1s", "tcp_user_timeout: invalid literal"),
        ("postgresql://u@h/d?ssl_ca=/none.pem", "there is no file /none.pem"),
        ("postgresql://u@h/d?ssl_mode=require", 'ssl_mode: invalid connection option "ssl_mode"'),
        ("postgresql://u@h/d?sslmode=foo", 'sslmode: invalid sslmode value: "foo"'),
        ("postgresql://u@h/d?target_session_attrs=x", "target_session_attrs: invalid"),
        ("postgresql://u@h/d?sslcert=/none.pem", r"there is no file /none.pem \(sslcert\)"),
        ("postgresql://u@h/d?sslmode=verify-full&sslrootcert=/none", "there is no file /none"),
        ("sqlite://u@h/file.db", "connection: Invalid SQLite URL"),
        ("sqlite:///file.db?timeout=abc", "timeout: could not convert string to float: 'abc'"),
    ],
)
def test_parameters_of_a_url_are_checked_without_connecting(url, words):
    with pytest.raises(ConfigurationError, match=words) as wrong:
        parse_url(url, PLACE)
    assert wrong.value.detail.startswith(f"{PLACE}: ")


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u@h/d?connect_timeout=5&charset=utf8&unix_socket=/a&ssl_check_hostname=false",
        "postgresql://u@h/d?host=a:1&host=b:2&target_session_attrs=read-write&sslmode=require",
        "postgresql://u@h/d?sslmode=verify-full&sslrootcert=system&application_name=x",
        "mysql://u@h/d?ssl_verify_cert=true&ssl_disabled=false&read_timeout=9&charset=utf8mb3",
        "postgresql://u@h:7/d?hostaddr=127.0.0.1&options=-c%20jit%3Doff&keepalives=1",
        "postgresql://u@/d?host=/run/postgresql&port=5433",
        "postgresql://u@h/d?gssencmode=require",
        "sqlite:///file.db?timeout=5",
        "sqlite:///file:file.db?uri=true&mode=rwc",
    ],
)
def test_parameters_that_a_driver_takes_are_kept(url):
    assert dict(make_url(url).query).items() <= dict(parse_url(url, PLACE).query).items()


def test_connection_parameters_are_checked_as_those_of_the_url_are():
    settings = make_settings("mysql://u@h/d", placement_database__connection_parameters="ssl=on")
    with pytest.raises(ConfigurationError, match="connection_parameters: ssl: PyMySQL does not"):
        database_url(settings)


@pytest.fixture
def unusable(mysql_server):
    """The URL of an account whose authentication needs a package that is not installed."""
    engine = create_engine(mysql_server, isolation_level="AUTOCOMMIT")
    name = f"ps_{uuid4().hex[:8]}"
    with engine.connect() as connection:
        try:
            connection.exec_driver_sql("INSTALL SONAME 'auth_ed25519'")
        except OperationalError as failure:
            if failure.orig.args[0] != 1968:  # it is installed already
                pytest.skip(f"MariaDB has no ed25519: {failure.orig}")
        plugin = "ed25519 USING PASSWORD('secret')"
        connection.exec_driver_sql(f"CREATE USER {name}@'%%' IDENTIFIED VIA {plugin}")
        yield engine.url.set(username=name, password="secret")
        connection.exec_driver_sql(f"DROP USER {name}@'%%'")
    engine.dispose()


def test_account_that_needs_a_missing_package_is_503_with_the_reason(unusable, make_app):
    url = unusable.render_as_string(hide_password=False)
    app = make_app(make_settings(url))
    for path in ("/placement/resource_providers", "/healthz/ready"):
        answer = app.get(path, status=503)
        assert "no connection to the database can be made as configured" in answer.text
        assert "pynacl" in answer.text.lower()


def test_database_of_nova_that_needs_a_missing_package_is_away(unusable):
    database = NovaDatabase("a cell", unusable)
    with pytest.raises(NovaDatabaseUnavailable, match="can be made as configured"), database.read():
        pytest.fail("there was a connection")
    database.close()


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ({"password": "wrong", "username": "nobody"}, "refuses the user of the connection"),
        ({"database": "ps_absent"}, "the connection names does not exist"),
    ],
)
@pytest.mark.parametrize("server", ["postgresql_server", "mysql_server"])
def test_refused_connection_is_503_with_the_reason(request, make_app, server, part, sentence):
    url = make_url(request.getfixturevalue(server)).set(**part)
    url = url.render_as_string(hide_password=False)
    answer = make_app(make_settings(url)).get("/healthz/ready", status=503)
    assert sentence in answer.text
    assert "does not answer" not in answer.text


@pytest.mark.parametrize(
    ("server", "parameters", "reason"),
    [
        ("mysql_server", {"collation": "nonsense"}, "Unknown collation"),
        ("mysql_server", {"sql_mode": "NONSENSE"}, "'sql_mode' can't be set"),
        ("postgresql_server", {"client_encoding": "nonsense"}, "client_encoding"),
        ("postgresql_server", {"options": "-c nonsense=1"}, "nonsense"),
        ("postgresql_server", {"channel_binding": "require"}, "channel binding"),
        ("postgresql_server", {"target_session_attrs": "standby"}, "hot standby"),
    ],
)
def test_parameter_that_the_server_refuses_is_named(request, make_app, server, parameters, reason):
    url = make_url(request.getfixturevalue(server)).update_query_dict(parameters)
    url = url.render_as_string(hide_password=False)
    answer = make_app(make_settings(url)).get("/healthz/ready", status=503)
    assert reason in answer.text
    assert "can be made as configured" in answer.text
    assert "does not answer" not in answer.text


@pytest.mark.parametrize("code", [1030, 1026, 1180, 1016, 1023, 1206, 1637, 1412, 1615])
def test_fault_of_a_server_is_unavailable(code):
    failure = OperationalError("SELECT 1", None, pymysql.err.OperationalError(code, "words"))
    with pytest.raises(Unavailable) as found, translate_errors():
        raise failure
    assert "does not answer" not in found.value.detail
    assert is_worth_retrying(found.value) == (code in {1412, 1615})


@pytest.fixture
def mariadb(mysql_server):
    database = Database(make_settings(mysql_server))
    with database.read() as connection:
        for name in ("ascii", "latin1", "utf8mb3"):
            columns = f"(a VARCHAR(9)) CHARACTER SET {name} COLLATE {name}_bin"
            connection.execute(text(f"CREATE OR REPLACE TABLE ps_{name} {columns}"))
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
def test_character_that_a_column_lacks_is_the_fault_of_the_input(mariadb, statement, kept, letter):
    with pytest.raises(Invalid, match=f"cannot store the character {letter}"), translate_errors():
        mariadb.execute(text(statement.format(f"ps_{kept}")), {"a": f"a{letter}"})


def test_character_that_a_column_has_is_found(mariadb):
    with translate_errors():
        mariadb.execute(text("SELECT a FROM ps_latin1 WHERE a = :a"), {"a": "é"})


@pytest.mark.parametrize("sent", ["a", "中"])
def test_statement_that_is_wrong_is_no_outage_whatever_was_sent(mariadb, sent):
    statement = "SELECT :sent, 'a' COLLATE utf8mb4_bin = 'b' COLLATE utf8mb4_general_ci"
    with pytest.raises(OperationalError, match="1267"), translate_errors():
        mariadb.execute(text(statement), {"sent": sent})


def test_lost_connection_in_a_transaction_is_unavailable_and_retried():
    with pytest.raises(Unavailable, match="lost in a transaction") as lost, translate_errors():
        raise PendingRollbackError("Can't reconnect until invalid transaction is rolled back.")
    assert is_worth_retrying(lost.value)


def test_sqlite_statement_that_is_wrong_is_no_outage(sqlite_database):
    wrong = text("SELECT no_such_column FROM resource_providers")
    with (
        pytest.raises(OperationalError, match="no such column"),
        sqlite_database.read() as connection,
    ):
        connection.execute(wrong)
