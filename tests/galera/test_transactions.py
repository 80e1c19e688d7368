# SPDX-License-Identifier: Apache-2.0
"""Retries of transactions that another node aborts, and the common epoch of all nodes."""

import pytest
from sqlalchemy import text

from placement_sched.db.transaction import Database
from tests.conftest import make_settings

pytestmark = pytest.mark.system


@pytest.fixture
def database(galera, galera_database):
    """The database through the first node, with a table that has a single row."""
    galera.nodes[0].query(
        "CREATE OR REPLACE TABLE seen (id INT PRIMARY KEY, n INT)", galera_database
    )
    galera.nodes[0].query("INSERT INTO seen VALUES (1, 0)", galera_database)
    galera.wait_until_nodes_applied_all_commits()
    database = Database(make_settings(galera.nodes[0].url(galera_database)))
    yield database
    database.dispose()
    galera.nodes[0].query("DROP TABLE seen", galera_database)


def read_row(connection):
    return connection.execute(text("SELECT n FROM seen")).all()


def insert_row(connection):
    return connection.execute(text("INSERT IGNORE INTO seen VALUES (2, 0)"))


def do_nothing_before_commit(_connection):
    """Do nothing more before COMMIT."""


@pytest.mark.parametrize("finish", [read_row, insert_row, do_nothing_before_commit])
def test_transaction_aborted_by_another_node_is_retried(galera, galera_database, database, finish):
    runs = []

    def write_rows(connection):
        runs.append(finish)
        connection.execute(text("UPDATE seen SET n = n + 1 WHERE id = 1"))
        if len(runs) == 1:
            galera.nodes[1].query("UPDATE seen SET n = 10 WHERE id = 1", galera_database)
            galera.wait_until_nodes_applied_all_commits()
        finish(connection)

    database.write(write_rows)
    galera.wait_until_nodes_applied_all_commits()
    assert len(runs) == 2
    assert galera.nodes[2].query("SELECT n FROM seen WHERE id = 1", galera_database) == [(11,)]


def test_databases_of_all_nodes_have_the_history_of_the_cluster_state_uuid(galera):
    histories = []
    for node in galera.nodes:
        database = Database(make_settings(node.url("mysql")))
        with database.read():
            histories.append(database.history)
        database.dispose()
    assert len(histories) > 1
    assert set(histories) == {
        ("wsrep_cluster_state_uuid", galera.nodes[0].status("cluster_state_uuid"))
    }
