"""Connections for reading stay open for the next request."""

from contextlib import suppress
from time import monotonic

import pytest
from sqlalchemy import event

from placement_sched.db import kept_connections
from placement_sched.db.engine import is_open
from placement_sched.db.transaction import Database
from tests.conftest import make_settings

pytestmark = pytest.mark.all_databases


@pytest.fixture(params=["postgresql_server", "mysql_server"])
def opened(request):
    """Open databases: of SQLite, which has listeners, nothing is kept."""
    url = request.getfixturevalue(request.param)
    made = []

    def opened(**options):
        made.append(Database(make_settings(url, **options)))
        return made[-1]

    yield opened
    for one in made:
        one.dispose()


@pytest.fixture
def database(opened):
    return opened()


def driver_of(connection):
    return connection.connection.driver_connection


def test_the_one_that_was_read_on_last_is_read_on_again(database):
    with database.read() as first, database.read() as second:
        assert driver_of(first) is not driver_of(second)
        assert database.held == 2
        last = driver_of(first)
    assert database.held == 0
    with database.read() as again:
        assert driver_of(again) is last
        assert not again.in_transaction()


def test_one_that_leads_to_a_database_without_writes_is_replaced(database, monkeypatch):
    with database.read() as first:
        before = driver_of(first)
    with database.read() as again:  # not checked again yet
        assert driver_of(again) is before
    monkeypatch.setattr(kept_connections, "CHECK_AGAIN", 0.0)
    with database.read() as again:
        assert driver_of(again) is before
        session = {"mysql": "SET SESSION tx_read_only = 1"}
        default = "SET default_transaction_read_only = on"
        again.exec_driver_sql(session.get(again.dialect.name, default))
    with database.read() as other:
        assert driver_of(other) is not before


def test_one_on_which_something_failed_goes_back_to_the_pool(database):
    with pytest.raises(ZeroDivisionError), database.read():
        raise ZeroDivisionError
    assert database.held == 0
    assert database.reader.pool.checkedout() == 0


def test_no_more_are_kept_than_the_pool_is_large(opened):
    database = opened(placement_database__max_pool_size=1)
    with database.read(), database.read():
        pass
    assert database.reader.pool.checkedout() == 1


def test_an_old_one_is_replaced(opened, monkeypatch):
    database = opened(placement_database__connection_recycle_time=60)
    with database.read() as first:
        old = driver_of(first)
    later = monotonic() + 61
    monkeypatch.setattr(kept_connections, "monotonic", lambda: later)
    with database.read() as second:
        assert driver_of(second) is not old


def test_one_on_which_something_failed_after_all_were_closed_is_closed(database):
    with suppress(ZeroDivisionError), database.read() as connection:
        driver = driver_of(connection)
        database.dispose()
        raise ZeroDivisionError
    assert not is_open(connection.dialect, driver)


def test_one_that_is_opened_while_all_are_closed_is_closed_when_it_is_given_back(
    database, monkeypatch
):
    connected = kept_connections.connected

    def connected_meanwhile(engine):
        connection = connected(engine)
        database.dispose()
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(kept_connections, "connected", connected_meanwhile)
        with database.read() as connection:
            driver = driver_of(connection)
    assert not is_open(connection.dialect, driver)


def test_one_that_is_kept_is_closed_with_the_others_though_its_pool_is_gone(database):
    with database.read() as connection:
        driver = driver_of(connection)
    database.reader.dispose()
    database.dispose()
    assert not is_open(connection.dialect, driver)


def test_one_in_use_when_all_are_closed_is_closed_when_it_is_given_back(database):
    with database.read() as connection:
        driver = driver_of(connection)
        database.dispose()
    assert not is_open(connection.dialect, driver)
    with database.read() as again:
        assert driver_of(again) is not driver


def test_one_that_comes_back_while_all_are_closed_is_not_read_on_again(database):
    with database.read() as connection:
        driver = driver_of(connection)
    kept = database._kept._idle.pop()
    database._kept.close()
    database._kept._idle.append(kept)  # as by a thread that had looked before they were closed
    with database.read() as again:
        assert driver_of(again) is not driver


def test_a_child_process_does_not_read_on_those_of_its_parent(database, monkeypatch):
    with database.read() as first:
        parents = driver_of(first)
    monkeypatch.setattr(kept_connections.os, "getpid", lambda: 0)
    with database.read() as second:
        assert driver_of(second) is not parents
    parents.close()


def test_who_listens_later_hears_all_that_is_read(database):
    with database.read() as connection:
        connection.exec_driver_sql("SELECT 1")
    heard = []
    event.listen(database.reader, "before_cursor_execute", lambda *given: heard.append(given[2]))
    with database.read() as connection:
        connection.exec_driver_sql("SELECT 2")
    assert heard == ["SELECT 2"]


@pytest.mark.parametrize("most", [0, 1])
def test_none_is_kept_where_a_listener_would_not_hear_it(sqlite_url, most):
    options = {"placement_database__max_pool_size": most, "placement_database__max_overflow": 0}
    database = Database(make_settings(sqlite_url, **options))
    for _ in range(3):
        with database.read() as connection:
            connection.exec_driver_sql("SELECT 1")
    assert database.reader.pool.checkedout() == 0
    database.dispose()


def test_none_is_kept_once_someone_listens(database):
    event.listen(database.reader, "before_cursor_execute", lambda *_given: None)
    for _ in range(3):
        with database.read() as connection:
            connection.exec_driver_sql("SELECT 1")
    assert database.held == 0
    assert database.reader.pool.checkedout() == 0
