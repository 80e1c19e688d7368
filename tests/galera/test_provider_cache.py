# SPDX-License-Identifier: Apache-2.0
"""The provider cache of each node applies the writes through all nodes."""

from itertools import count
from random import Random

import pytest
from sqlalchemy import insert

from placement_sched.candidates.cache import ProviderCache
from placement_sched.db import tables
from placement_sched.db.migrate import sync_schema
from placement_sched.db.transaction import Database
from placement_sched.store.placement import change_log
from tests.conftest import make_settings
from tests.store.placement.change_log_copy import ChangeLogCopy

pytestmark = pytest.mark.system

NEW_ALLOCATION_IDS = count(1_000_000)
STEP_COUNT = 150


@pytest.fixture
def databases_of_nodes(cluster, database_name):
    """Give the database through each node, with the triggers of the change log."""
    databases_of_nodes = [
        Database(make_settings(node.url(database_name))) for node in cluster.nodes
    ]
    sync_schema(databases_of_nodes[0])
    cluster.wait_until_nodes_applied_all_commits()
    yield databases_of_nodes
    for database in databases_of_nodes:
        database.dispose()


def insert_allocation(connection, provider):
    """Insert an allocation on a provider that no other transaction writes."""
    row = {"id": next(NEW_ALLOCATION_IDS), "resource_provider_id": provider, "resource_class_id": 0}
    connection.execute(insert(tables.allocations), {**row, "consumer_id": "c", "used": 1})


def test_copies_from_the_change_log_equal_tables_after_writes_on_all_nodes(
    cluster, databases_of_nodes
):
    random = Random(1)
    copies = [ChangeLogCopy(database) for database in databases_of_nodes]
    writers = [database.writer.connect() for database in databases_of_nodes for _ in range(2)]
    for step in range(STEP_COUNT):
        writer = random.choice(writers)
        action = random.choice(["write", "write", "commit", "commit", "roll back", "follow"])
        if action == "write":
            insert_allocation(writer, 1 + step)
        elif action == "commit":
            writer.commit()
        elif action == "roll back":
            writer.rollback()
        else:
            cluster.wait_until_nodes_applied_all_commits()
            for copy in copies:
                copy.follow()
                assert copy.equals_tables()
    for writer in writers:
        writer.commit()
        writer.close()
    cluster.wait_until_nodes_applied_all_commits()
    for copy in copies:
        copy.follow()
        assert copy.equals_tables()
        assert not copy.follow().providers
        assert copy.doubts == 0


def test_cache_is_current_after_its_node_was_killed_and_rejoined(cluster, databases_of_nodes):
    """The change log of a rejoined node has the writes of the other nodes in its absence."""
    node, database = cluster.nodes[2], databases_of_nodes[2]
    cache = ProviderCache(change_log)
    with database.read() as connection:
        assert cache.refresh(connection)
    node.kill()
    for step in range(40):
        databases_of_nodes[step % 2].write(
            lambda writing, step=step: insert_allocation(writing, 1 + step % 7)
        )
    cluster.rejoin(node)
    cluster.wait_until_nodes_applied_all_commits()
    database.dispose()
    with database.read() as connection:
        for step in range(6):
            databases_of_nodes[step % 3].write(
                lambda writing, step=step: insert_allocation(writing, 1 + step % 7)
            )
        cluster.wait_until_nodes_applied_all_commits()
        assert cache.refresh(connection)
        assert cache.compare(connection) == frozenset()
        assert cache.figures.full_readings == 1
