# SPDX-License-Identifier: Apache-2.0
"""The lock of schema changes on Galera. ``tests/galera`` has tests on real nodes."""

from datetime import UTC, datetime, timedelta
from threading import Thread
from unittest.mock import Mock

import pymysql
import pytest
from pymysql.constants import ER
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError

from placement_sched.db import migrate
from placement_sched.db.migrate import LOCK_TABLE, MAX_LOCK_AGE, migration_lock

pytestmark = pytest.mark.all_databases


class GaleraNodeStub:
    """A connection to a node that aborts or rejects the first statement with this beginning."""

    dialect = Mock()
    dialect.name = "mysql"
    connection = Mock()

    def __init__(self, beginning: str, error: int = ER.LOCK_DEADLOCK) -> None:
        self.statements: list[str] = []
        self._beginning, self._error = beginning, error

    def execute(self, statement, _parameters=None):
        self.statements.append(str(statement))
        if str(statement).startswith(self._beginning) and len(self.attempts()) == 1:
            aborted = pymysql.err.OperationalError(self._error, "Deadlock found")
            raise OperationalError(str(statement), {}, aborted)
        if str(statement).startswith("SELECT table_comment"):
            created = next(s for s in reversed(self.statements) if s.startswith("CREATE TABLE"))
            return Mock(first=Mock(return_value=(created.partition("COMMENT=")[2].strip("'"), 0)))
        return Mock(first=Mock(return_value=("wsrep_on", "ON")))

    def scalar(self, _statement) -> str:
        return "2026-01-02 03:04:05"

    def scalars(self, _statement, _parameters) -> list[str]:
        return []

    def attempts(self) -> list[str]:
        return [each for each in self.statements if each.startswith(self._beginning)]


def test_lock_attempt_is_repeated_after_a_concurrent_schema_change():
    node = GaleraNodeStub("CREATE TABLE")
    with migration_lock(node):
        assert len(node.attempts()) == 2
    assert node.statements[-1] == f"DROP TABLE IF EXISTS {LOCK_TABLE}"


@pytest.mark.parametrize("beginning", ["SELECT table_comment", "DROP TABLE"])
def test_lock_is_released_after_a_concurrent_schema_change(beginning, monkeypatch, caplog):
    monkeypatch.setattr(migrate, "_LOCK_RETRY_PAUSE", 0)
    node = GaleraNodeStub(beginning)
    with migration_lock(node):
        pass
    assert len(node.attempts()) == 2
    assert node.statements[-1] == f"DROP TABLE IF EXISTS {LOCK_TABLE}"
    assert not caplog.records


def test_failed_lock_release_is_not_repeated():
    node = GaleraNodeStub("DROP TABLE", ER.DBACCESS_DENIED_ERROR)
    with pytest.raises(OperationalError), migration_lock(node):
        pass
    assert len(node.attempts()) == 1


@pytest.mark.parametrize("database_url", ["mysql"], indirect=True)
def test_wait_for_the_lock_has_no_timeout(database_url, monkeypatch):
    monkeypatch.setattr(migrate, "_LOCK_WAIT", 1)
    engine = create_engine(database_url)
    order = order_of_two_processes(engine, 2.5)
    engine.dispose()
    assert order == ["first", "second"]


def order_of_two_processes(engine, seconds):
    """Hold the lock for some seconds while another waits, and return the order of both."""
    order = []

    def run_second_migration():
        with engine.connect() as connection, migration_lock(connection):
            order.append("second")

    with engine.connect() as connection:
        with migration_lock(connection):
            waiting = Thread(target=run_second_migration)
            waiting.start()
            waiting.join(seconds)
            order.append("first")
        waiting.join(30)
    return order


@pytest.fixture
def node(database_url, monkeypatch):
    """An engine of a server that is regarded as a Galera node. Remaining locks are removed."""
    monkeypatch.setattr(migrate, "_is_galera", lambda _connection: True)
    engine = create_engine(database_url, isolation_level="AUTOCOMMIT")
    yield engine
    for name in lock_tables(engine):
        run_statement(engine, f"DROP TABLE {name}")
    engine.dispose()


def run_statement(engine, statement):
    with engine.connect() as connection:
        result = connection.exec_driver_sql(statement)
        return list(result.scalars()) if result.returns_rows else []


def lock_tables(engine):
    return [name for name in run_statement(engine, "SHOW TABLES") if name.startswith(LOCK_TABLE)]


def leave_stale_lock(engine, seconds):
    """Create the lock of a killed process, at a time that is off by ``seconds``."""
    created = datetime.now(UTC) + timedelta(seconds=seconds)
    run_statement(
        engine, f"CREATE TABLE {LOCK_TABLE} (node INT) COMMENT='{created:%Y-%m-%d %H:%M:%S} a/1'"
    )


@pytest.mark.parametrize("database_url", ["mysql"], indirect=True)
def test_processes_with_equal_pid_and_host_name_take_turns(node):
    # Both threads have the host and number of this process.
    assert order_of_two_processes(node, 1) == ["first", "second"]
    assert lock_tables(node) == []


@pytest.mark.parametrize("database_url", ["mysql"], indirect=True)
@pytest.mark.parametrize("seconds", [-MAX_LOCK_AGE - 60, MAX_LOCK_AGE + 60, 10 * 365 * 86_400])
def test_stale_lock_of_another_boot_is_removed_at_once(node, seconds):
    leave_stale_lock(node, seconds)
    with node.connect() as connection, migration_lock(connection):
        assert len(lock_tables(node)) == 2
    assert lock_tables(node) == []


@pytest.mark.parametrize("database_url", ["mysql"], indirect=True)
def test_lock_held_too_long_is_removed_on_any_clock(node, monkeypatch):
    leave_stale_lock(node, MAX_LOCK_AGE - 60)  # it would expire in twenty minutes
    moments = []

    def monotonic():
        moments.append(MAX_LOCK_AGE / 4 * len(moments))
        return moments[-1]

    monkeypatch.setattr(migrate, "_LOCK_RETRY_PAUSE", 0.01)
    monkeypatch.setattr(migrate.time, "monotonic", monotonic)
    with node.connect() as connection, migration_lock(connection):
        pass
    assert 1 < len(moments) < 10
    assert lock_tables(node) == []


@pytest.mark.parametrize("database_url", ["mysql"], indirect=True)
def test_process_does_not_release_a_lock_taken_over_by_another(node):
    with node.connect() as connection:
        with migration_lock(connection):
            run_statement(node, f"DROP TABLE {LOCK_TABLE}")
            leave_stale_lock(node, 0)
        assert lock_tables(node) == [LOCK_TABLE]
