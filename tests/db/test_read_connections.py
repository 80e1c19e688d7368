# SPDX-License-Identifier: Apache-2.0
"""Read connections stay open for the next request, and are checked periodically."""

import pytest

from placement_sched.db import transaction
from placement_sched.db.transaction import Database
from tests.conftest import make_settings

pytestmark = pytest.mark.all_databases


@pytest.fixture(params=["postgresql_server", "mysql_server"])
def database(request):
    database = Database(make_settings(request.getfixturevalue(request.param)))
    yield database
    database.dispose()


def driver_of(connection):
    return connection.connection.driver_connection


def test_last_used_connection_is_reused(database):
    with database.read() as first, database.read() as second:
        assert driver_of(first) is not driver_of(second)
        assert database.connections_in_use == 2
        last = driver_of(first)
    assert database.connections_in_use == 0
    with database.read() as again:
        assert driver_of(again) is last
        assert not again.in_transaction()


def test_connection_to_a_read_only_database_is_replaced(database, monkeypatch):
    with database.read() as first:
        before = driver_of(first)
    with database.read() as again:  # not checked again yet
        assert driver_of(again) is before
    monkeypatch.setattr(transaction, "CHECK_AGAIN", 0.0)
    with database.read() as again:
        assert driver_of(again) is before
        session = {"mysql": "SET SESSION tx_read_only = 1"}
        default = "SET default_transaction_read_only = on"
        again.exec_driver_sql(session.get(again.dialect.name, default))
    with database.read() as other:
        assert driver_of(other) is not before


def test_connection_of_a_failed_request_returns_to_the_pool(database):
    with pytest.raises(ZeroDivisionError), database.read():
        raise ZeroDivisionError
    assert database.connections_in_use == 0


def test_connection_in_use_during_close_is_not_reused(database):
    with database.read() as connection:
        driver = driver_of(connection)
        database.dispose()
    with database.read() as again:
        assert driver_of(again) is not driver
