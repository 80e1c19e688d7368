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
    galera.nodes[0].query(
        "CREATE OR REPLACE TABLE seen (id INT PRIMARY KEY, n INT)", galera_database
    )
    galera.nodes[0].query("INSERT INTO seen VALUES (1, 0)", galera_database)
    galera.settle()
    made = Database(make_settings(galera.nodes[0].url(galera_database)))
    yield made
    made.dispose()
    galera.nodes[0].query("DROP TABLE seen", galera_database)


def executed_statements(connection):
    return connection.execute(text("SELECT n FROM seen")).all()


def insert_row(connection):
    return connection.execute(text("INSERT IGNORE INTO seen VALUES (2, 0)"))


def committed_rows(_connection):
    """Go on to COMMIT."""


@pytest.mark.parametrize("go_on", [executed_statements, insert_row, committed_rows])
def test_transaction_aborted_by_another_node_is_retried(galera, galera_database, database, go_on):
    runs = []

    def write_rows(connection):
        runs.append(go_on)
        connection.execute(text("UPDATE seen SET n = n + 1 WHERE id = 1"))
        if len(runs) == 1:
            galera.nodes[1].query("UPDATE seen SET n = 10 WHERE id = 1", galera_database)
            galera.settle()
        go_on(connection)

    database.write(write_rows)
    galera.settle()
    assert len(runs) == 2
    assert galera.nodes[2].query("SELECT n FROM seen WHERE id = 1", galera_database) == [(11,)]
