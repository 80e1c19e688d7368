"""Errors of drivers: about the database, about a statement, or about the input."""

from uuid import uuid4

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError, PendingRollbackError

from placement_sched.db.engine import served_url
from placement_sched.db.failures import is_worth_retrying, translated
from placement_sched.db.transaction import Database
from placement_sched.errors import ConfigurationError, Invalid, Unavailable
from placement_sched.nova.databases.connections import NovaAway, NovaDatabase
from tests.conftest import make_settings

pytestmark = pytest.mark.all_databases

PLACE = "[placement_database] connection"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://u@h/d?ssl_mode=REQUIRED", "PyMySQL has no parameter ssl_mode"),
        ("mysql://u@h/d?ssl_ca=/none.pem", r"there is no file /none.pem \(ssl_ca\)"),
        ("mysql://u@h/d?connect_timeout=abc", "a parameter is not a number: 'abc'"),
        ("postgresql://u@h/d?connect_timeout=abc", "a parameter is not a number: 'abc'"),
        ("postgresql://u@h/d?ssl_ca=/none.pem", 'invalid connection option "ssl_ca"'),
        ("postgresql://u@h/d?sslcert=/none.pem", r"there is no file /none.pem \(sslcert\)"),
        ("postgresql://u@h/d?sslmode=verify-full&sslrootcert=/none", "there is no file /none"),
    ],
)
def test_parameters_of_a_url_are_checked_without_connecting(url, words):
    with pytest.raises(ConfigurationError, match=words) as wrong:
        served_url(url, PLACE)
    assert wrong.value.detail.startswith(f"{PLACE}: ")


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u@h/d?connect_timeout=5&charset=utf8&unix_socket=/a&ssl_check_hostname=false",
        "postgresql://u@h/d?host=a:1&host=b:2&target_session_attrs=read-write&sslmode=require",
        "postgresql://u@h/d?sslmode=verify-full&sslrootcert=system&application_name=x",
        "sqlite:///file.db?timeout=5",
    ],
)
def test_parameters_that_a_driver_takes_are_kept(url):
    assert dict(make_url(url).query).items() <= dict(served_url(url, PLACE).query).items()


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
    with pytest.raises(NovaAway, match="can be made as configured"), database.read():
        pytest.fail("there was a connection")
    database.close()


@pytest.fixture
def mariadb(mysql_server):
    database = Database(make_settings(mysql_server))
    with database.read() as connection:
        connection.execute(text("DROP TABLE IF EXISTS ps_latin1"))
        connection.execute(
            text("CREATE TABLE ps_latin1 (a VARCHAR(9)) CHARACTER SET latin1 COLLATE latin1_bin")
        )
        yield connection
        connection.execute(text("DROP TABLE ps_latin1"))
    database.dispose()


def test_character_that_a_column_lacks_is_the_fault_of_the_input(mariadb):
    found = text("SELECT a FROM ps_latin1 WHERE a = :a")
    with pytest.raises(Invalid, match="cannot keep the character 中"), translated():
        mariadb.execute(found, {"a": "中"})
    with translated():
        mariadb.execute(found, {"a": "é"})


def test_statement_that_is_wrong_is_no_outage(mariadb):
    statement = text("SELECT 'a' COLLATE utf8mb4_bin = 'b' COLLATE utf8mb4_general_ci")
    with pytest.raises(OperationalError, match="1267"), translated():
        mariadb.execute(statement)


def test_lost_connection_in_a_transaction_is_unavailable_and_retried():
    with pytest.raises(Unavailable, match="lost in a transaction") as lost, translated():
        raise PendingRollbackError("Can't reconnect until invalid transaction is rolled back.")
    assert is_worth_retrying(lost.value)


def test_sqlite_statement_that_is_wrong_is_no_outage(sqlite_database):
    wrong = text("SELECT no_such_column FROM resource_providers")
    with (
        pytest.raises(OperationalError, match="no such column"),
        sqlite_database.read() as connection,
    ):
        connection.execute(wrong)
