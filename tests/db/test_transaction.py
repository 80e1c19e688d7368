# SPDX-License-Identifier: Apache-2.0
"""Errors of too large statements, and the limit on writers that wait for SQLite's lock."""

from threading import Semaphore

import pytest
from sqlalchemy import text

from placement_sched.db import transaction
from placement_sched.db.transaction import Database, WriteGate
from placement_sched.errors import Forbidden, TooComplex, Unavailable
from tests.conftest import make_settings

pytestmark = pytest.mark.all_databases


def test_too_long_sql_statement_is_rejected_as_too_complex(database):
    columns = ", ".join(str(number) for number in range(5_000))
    tables = ", ".join(f"resource_classes t{number}" for number in range(70))
    with (
        pytest.raises(TooComplex, match="too large for one SQL statement"),
        database.read() as connection,
    ):
        connection.execute(text(f"SELECT {columns} FROM {tables} WHERE 1 = 0"))


def test_too_many_sql_parameters_are_rejected_as_too_complex(database):
    markers = {"sqlite": "?", "postgresql": "%s"}
    kind = database.url.get_backend_name()
    if kind not in markers:
        pytest.skip("its driver sends parameters in the text, of any number")
    number = {"sqlite": 300_000, "postgresql": 70_000}[kind]
    statement = f"SELECT 1 WHERE 1 IN ({','.join([markers[kind]] * number)})"
    with pytest.raises(TooComplex), database.read() as connection:
        connection.exec_driver_sql(statement, tuple(range(number)))


class RecordingSemaphore(Semaphore):
    """A semaphore that records the timeout of each wait."""

    def __init__(self, value):
        super().__init__(value)
        self.timeouts = []

    def acquire(self, blocking=True, timeout=None):
        self.timeouts.append(timeout)
        return super().acquire(blocking, timeout)


def test_sqlite_writers_beyond_the_limit_wait_and_are_then_rejected(monkeypatch):
    gate = WriteGate(places=2, patience=0.05)
    monkeypatch.setattr(gate, "_places", RecordingSemaphore(2))
    for _ in range(2):
        with gate:
            with gate:
                for _ in range(2):
                    with pytest.raises(Unavailable, match="locked by another writer"), gate:
                        pytest.fail("three writers were admitted")
            with pytest.raises(ZeroDivisionError), gate:
                raise ZeroDivisionError
    assert gate._places.timeouts == [0.05, 0.05, 0.05, 0, 0.05] * 2


@pytest.mark.parametrize("url", ["postgresql://u@db/placement", "mysql://u@db/placement"])
def test_postgresql_and_mysql_have_no_limit_of_waiting_writers(url):
    database = Database(make_settings(url))
    assert not isinstance(database._gate, WriteGate)
    database.dispose()


def test_database_in_a_read_only_sqlite_file_is_not_ready(sqlite_database, monkeypatch):
    sqlite_database.ping()
    monkeypatch.setattr(transaction.os, "access", lambda _file, _mode: False)
    with pytest.raises(Unavailable, match="read-only"):
        sqlite_database.ping()


def test_database_with_the_content_of_a_file_rejects_writes_and_answers_reads(sqlite_database):
    settings = make_settings(
        sqlite_database.url.render_as_string(), placement_database__shown_at=1_577_880_000
    )
    with Database(settings) as database:
        with pytest.raises(Forbidden, match="this server shows a file"):
            database.write(lambda _: pytest.fail("a transaction began"))
        with database.read() as connection:
            assert connection.exec_driver_sql("SELECT 1").scalar_one() == 1
