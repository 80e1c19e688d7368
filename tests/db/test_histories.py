# SPDX-License-Identifier: Apache-2.0
"""The history of each connection, and the replacement of connections of a past history."""

import pytest
from sqlalchemy import text

from placement_sched.db.engine import database_url, make_engine
from placement_sched.db.failover import HISTORY, Histories, epoch_of
from placement_sched.db.transaction import Database
from placement_sched.model.request_stats import begin_stats, request_stats
from tests.conftest import make_settings

pytestmark = pytest.mark.all_databases


@pytest.fixture(params=["postgresql_server", "mysql_server"])
def settings(request):
    return make_settings(request.getfixturevalue(request.param))


@pytest.fixture(params=[True, False], ids=["reader", "writer"])
def engine(request, settings):
    engine = make_engine(database_url(settings), settings, autocommit=request.param)
    yield engine
    engine.dispose()


@pytest.fixture
def histories(engine):
    histories = Histories()
    histories.follow(engine)
    return histories


def driver_of(connection):
    return connection.connection.driver_connection


def test_connections_read_their_epoch_without_a_statement(settings):
    database = Database(settings)
    begin_stats()
    assert database.history is None
    with database.read() as first, database.read() as second:
        assert epoch_of(first) == epoch_of(second) == database.history is not None
    assert database.write(epoch_of) == database.history
    assert request_stats().statements == 0
    database.dispose()


def test_sqlite_file_has_no_epoch(sqlite_database):
    with sqlite_database.read() as connection:
        assert epoch_of(connection) is None


def test_new_connection_has_no_transaction_open(engine, histories):
    with engine.connect() as connection:
        assert histories.current == epoch_of(connection)
        if engine.dialect.name == "postgresql":
            assert driver_of(connection).info.transaction_status.name == "IDLE"


def test_connection_of_a_past_epoch_is_replaced(engine, histories, caplog):
    with engine.connect() as connection:
        old, current = driver_of(connection), histories.current
    histories.current = ("another server",)
    with engine.connect() as connection:
        assert driver_of(connection) is not old
        assert epoch_of(connection) == histories.current == current
    assert "another server has taken over" in caplog.text


def test_epoch_of_a_connection_follows_a_pooler_server_change(engine, histories):
    with engine.connect() as connection:
        driver, current = driver_of(connection), histories.current
        connection.info[HISTORY] = histories.current = ("former server",)
        histories.read_again(engine.dialect.name, driver, connection.info)
        assert epoch_of(connection) == histories.current == current


def test_epoch_is_readable_by_any_postgresql_user(postgresql_server):
    database = Database(make_settings(postgresql_server))
    query = "SELECT has_function_privilege('public', 'pg_postmaster_start_time()', 'execute')"
    with database.read() as connection:
        assert connection.scalar(text(query))
        assert connection.info[HISTORY] == database.history
    database.dispose()


def test_recreated_database_has_another_epoch(postgresql_server):
    database = Database(make_settings(postgresql_server))
    histories = set()
    with database.read() as connection:
        for _ in range(2):
            connection.execute(text("DROP DATABASE IF EXISTS placement_sched_restored"))
            connection.execute(text("CREATE DATABASE placement_sched_restored"))
            url = database_url(make_settings(postgresql_server))
            restored = url.set(database="placement_sched_restored")
            other = Database(make_settings(restored.render_as_string(hide_password=False)))
            with other.read() as opened:
                histories.add(epoch_of(opened))
            other.dispose()
        connection.execute(text("DROP DATABASE placement_sched_restored"))
    database.dispose()
    assert len(histories) == 2
