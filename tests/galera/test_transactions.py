# SPDX-License-Identifier: Apache-2.0
"""Retries of transactions that another node aborts, and the common epoch of all nodes."""

import pytest
from sqlalchemy import text

from placement_sched.db.transaction import Database
from tests.conftest import make_settings

pytestmark = pytest.mark.system


@pytest.fixture
def database_with_row(cluster, database_name):
    """The database through the first node, with a table that has a single row."""
    cluster.nodes[0].query(
        "CREATE OR REPLACE TABLE seen (id INT PRIMARY KEY, n INT)", database_name
    )
    cluster.nodes[0].query("INSERT INTO seen VALUES (1, 0)", database_name)
    cluster.wait_until_nodes_applied_all_commits()
    database_with_row = Database(make_settings(cluster.nodes[0].url(database_name)))
    yield database_with_row
    database_with_row.dispose()
    cluster.nodes[0].query("DROP TABLE seen", database_name)


def read_table_row(connection):
    return connection.execute(text("SELECT n FROM seen")).all()


def insert_table_row(connection):
    return connection.execute(text("INSERT IGNORE INTO seen VALUES (2, 0)"))


def do_nothing_before_commit(_connection):
    """Do nothing more before COMMIT."""


@pytest.mark.parametrize("finish", [read_table_row, insert_table_row, do_nothing_before_commit])
def test_transaction_aborted_by_another_node_is_retried(
    cluster, database_name, database_with_row, finish
):
    runs = []

    def update_row_in_conflict(connection):
        runs.append(finish)
        connection.execute(text("UPDATE seen SET n = n + 1 WHERE id = 1"))
        if len(runs) == 1:
            cluster.nodes[1].query("UPDATE seen SET n = 10 WHERE id = 1", database_name)
            cluster.wait_until_nodes_applied_all_commits()
        finish(connection)

    database_with_row.write(update_row_in_conflict)
    cluster.wait_until_nodes_applied_all_commits()
    assert len(runs) == 2
    assert cluster.nodes[2].query("SELECT n FROM seen WHERE id = 1", database_name) == [(11,)]


def test_database_epoch_of_each_node_is_the_cluster_state_uuid(cluster):
    epochs = []
    for node in cluster.nodes:
        database = Database(make_settings(node.url("mysql")))
        with database.read():
            epochs.append(database.epoch)
        database.dispose()
    assert len(epochs) > 1
    assert set(epochs) == {
        ("wsrep_cluster_state_uuid", cluster.nodes[0].read_status_variable("cluster_state_uuid"))
    }
