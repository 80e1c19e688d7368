# SPDX-License-Identifier: Apache-2.0
"""``db sync`` through all nodes concurrently, as servers that start together run it."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Event, Thread
from uuid import uuid4

import pytest

from placement_sched.db.migrate import get_newest_revision
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.prepare import sync
from tests.conftest import make_settings
from tests.galera.nodes import ROUNDS_PER_RACE
from tests.support import program
from tests.support.concurrency import run_concurrently
from tests.support.servers import build_environment
from tests.verifier.verify import assert_invariants

pytestmark = pytest.mark.exhaustive

#: Rounds that each create a database, which takes seconds.
NEW_DATABASE_COUNT = max(2, ROUNDS_PER_RACE // 5)
SYNC_REPETITIONS = 10 * NEW_DATABASE_COUNT
COLUMNS_QUERY = (
    "SELECT table_name, column_name FROM information_schema.columns "
    "WHERE table_schema = '{}' ORDER BY 1, 2"
)


@pytest.fixture
def make_database(cluster):
    """Give a function that creates a database, and returns its name and its URL at each node."""
    with ExitStack() as stack:

        def create_database():
            name = f"ps_{uuid4().hex[:12]}"
            cluster.nodes[0].query(f"CREATE DATABASE {name}")
            stack.callback(cluster.nodes[0].query, f"DROP DATABASE {name}")
            cluster.wait_until_nodes_applied_all_commits()
            return name, [node.url(name) for node in cluster.nodes]

        yield create_database


@pytest.fixture
def sync_concurrently(cluster, tmp_path):
    """Give a function that runs ``db sync`` on these databases concurrently."""

    def run_db_sync_at_urls(urls):
        def run_db_sync(url):
            variables = build_environment(OS_PLACEMENT_DATABASE__CONNECTION=url)
            return program.run_program("db", "sync", cwd=tmp_path, env=variables)

        for result in run_concurrently(*(partial(run_db_sync, url) for url in urls)):
            assert result.returncode == 0, result.stderr
        cluster.wait_until_nodes_applied_all_commits()

    return run_db_sync_at_urls


@pytest.fixture
def check_schemas(cluster):
    """Give a function that checks the tables, revision and traits of a database."""

    def check_schema(name, expected):
        for node in cluster.nodes:
            assert node.query(COLUMNS_QUERY.format(name)) == expected
        revisions = cluster.nodes[0].query("SELECT * FROM placement_sched_alembic_version", name)
        assert revisions == [(get_newest_revision(),)]
        (names,) = cluster.nodes[0].query("SELECT count(*), count(DISTINCT name) FROM traits", name)
        assert names[0] == names[1] > 100
        settings = make_settings(cluster.nodes[0].url(name))
        database = Database(settings)
        assert_invariants(database)
        database.dispose()

    return check_schema


def test_concurrent_sync_on_all_nodes_makes_the_schema_once(
    cluster, make_database, sync_concurrently, check_schemas, prepared_database_name
):
    expected = cluster.nodes[0].query(COLUMNS_QUERY.format(prepared_database_name))
    for _round in range(NEW_DATABASE_COUNT):
        name, urls = make_database()
        for statements in (
            [],
            ["DROP TABLE sched_commit_marks", "DELETE FROM placement_sched_alembic_version"],
        ):
            for statement in statements:
                cluster.nodes[0].query(statement, name)
            cluster.wait_until_nodes_applied_all_commits()
            sync_concurrently(urls)
            check_schemas(name, expected)


def test_repeated_sync_succeeds_while_another_node_changes_tables(
    cluster, make_database, check_schemas, prepared_database_name
):
    name, urls = make_database()
    database = Database(make_settings(urls[0]))
    sync(database, utcnow)
    cluster.wait_until_nodes_applied_all_commits()
    expected = cluster.nodes[0].query(COLUMNS_QUERY.format(prepared_database_name))
    done, changes = Event(), []

    def change_tables_until_done() -> None:
        while not done.is_set():
            for table in ("placement_sched_alembic_version", "allocations", "traits"):
                cluster.nodes[1].query(f"ALTER TABLE {table} COMMENT = '{len(changes)}'", name)
                changes.append(table)

    with ThreadPoolExecutor() as executor:
        changing = executor.submit(change_tables_until_done)
        try:
            for _round in range(SYNC_REPETITIONS):
                sync(database, utcnow)
        finally:
            done.set()
        changing.result()
    assert changes
    database.dispose()
    cluster.wait_until_nodes_applied_all_commits()
    check_schemas(name, expected)


@pytest.mark.parametrize("is_running", [False, True], ids=["killed", "running"])
def test_sync_waits_for_another_sync_until_its_lease_ends(
    cluster, make_database, sync_concurrently, check_schemas, prepared_database_name, is_running
):
    name, urls = make_database()
    first = cluster.nodes[0]
    first.query(f"CREATE TABLE {name}.sched_leases LIKE {prepared_database_name}.sched_leases")
    end = datetime.now(UTC) + timedelta(seconds=60 if is_running else -1)
    first.query(f"INSERT INTO sched_leases VALUES ('schema', 'a/1', '{end:%Y-%m-%d %T}')", name)
    cluster.wait_until_nodes_applied_all_commits()
    syncing = Thread(target=sync_concurrently, args=(urls,))
    syncing.start()
    if is_running:
        syncing.join(timeout=5)
        assert syncing.is_alive()
        assert first.query("SHOW TABLES", name) == [("sched_leases",)]
        first.query("DELETE FROM sched_leases", name)
    syncing.join(timeout=120)
    check_schemas(name, first.query(COLUMNS_QUERY.format(prepared_database_name)))
