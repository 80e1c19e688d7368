# SPDX-License-Identifier: Apache-2.0
"""Transactions that a writer on another node has ended start again, whatever they do next."""

import pytest
from sqlalchemy import text

from placement_sched.db.transaction import Database
from tests.conftest import make_settings

pytestmark = pytest.mark.system


@pytest.fixture
def database(galera, galera_database):
    """A database as the first node serves it, with a table of one row."""
    galera.nodes[0].ask("CREATE OR REPLACE TABLE seen (id INT PRIMARY KEY, n INT)", galera_database)
    galera.nodes[0].ask("INSERT INTO seen VALUES (1, 0)", galera_database)
    galera.settle()
    made = Database(make_settings(galera.nodes[0].url(galera_database)))
    yield made
    made.dispose()
    galera.nodes[0].ask("DROP TABLE seen", galera_database)


def executed(connection):
    return connection.execute(text("SELECT n FROM seen")).all()


def inserted(connection):
    return connection.execute(text("INSERT IGNORE INTO seen VALUES (2, 0)"))


def committed(_connection):
    """Go on to COMMIT."""


@pytest.mark.parametrize("go_on", [executed, inserted, committed])
def test_transaction_that_another_node_has_ended_is_run_again_whole(
    galera, galera_database, database, go_on
):
    runs = []

    def work(connection):
        runs.append(go_on)
        connection.execute(text("UPDATE seen SET n = n + 1 WHERE id = 1"))
        if len(runs) == 1:
            galera.nodes[1].ask("UPDATE seen SET n = 10 WHERE id = 1", galera_database)
            galera.settle()
        go_on(connection)

    database.write(work)
    galera.settle()
    assert len(runs) == 2
    assert galera.nodes[2].ask("SELECT n FROM seen WHERE id = 1", galera_database) == [(11,)]
