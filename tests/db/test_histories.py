# SPDX-License-Identifier: Apache-2.0
"""The history of each connection, and the replacement of connections of a past history."""

from uuid import uuid4

import pytest
from sqlalchemy import create_engine, text

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


def test_connections_read_their_epoch_without_a_statement(settings, sqlite_database):
    database = Database(settings)
    begin_stats()
    assert database.history is None
    with database.read() as first, database.read() as second:
        assert epoch_of(first) == epoch_of(second) == database.history is not None
    assert database.write(epoch_of) == database.history
    assert request_stats().statements == 0
    database.dispose()
    with sqlite_database.read() as connection:
        assert epoch_of(connection) is None


def test_connection_of_a_past_epoch_is_replaced(engine, histories, caplog):
    with engine.connect() as connection:
        old, current = driver_of(connection), histories.current
        assert current == epoch_of(connection)
        if engine.dialect.name == "postgresql":
            assert old.info.transaction_status.name == "IDLE"
    histories.current = ("another server",)
    with engine.connect() as connection:
        assert driver_of(connection) is not old
        assert epoch_of(connection) == histories.current == current
        assert "another server has taken over" in caplog.text
        # A pooler may change the server of an open connection.
        connection.info[HISTORY] = histories.current = ("former server",)
        histories.read_again(engine.dialect.name, driver_of(connection), connection.info)
        assert epoch_of(connection) == histories.current == current


def test_recreated_database_has_another_epoch(postgresql_server):
    name, histories = f"ps_restored_{uuid4().hex[:8]}", set()
    readable = "SELECT has_function_privilege('public', 'pg_postmaster_start_time()', 'execute')"
    engine = create_engine(postgresql_server, isolation_level="AUTOCOMMIT")
    restored = engine.url.set(database=name).render_as_string(hide_password=False)
    with engine.connect() as connection:
        assert connection.scalar(text(readable))
        for _ in range(2):
            connection.execute(text(f"CREATE DATABASE {name}"))
            database = Database(make_settings(restored))
            with database.read() as opened:
                histories.add(epoch_of(opened))
            database.dispose()
            connection.execute(text(f"DROP DATABASE {name}"))
    engine.dispose()
    assert len(histories) == 2
