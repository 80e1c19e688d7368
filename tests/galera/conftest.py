# SPDX-License-Identifier: Apache-2.0
"""A cluster shared by the tests of this folder, and an application on each node."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.prepare import sync
from tests.conftest import AdminClient, delete_test_rows, make_settings
from tests.galera.cluster import GaleraCluster, run_cluster
from tests.galera.nodes import NodeApplications
from tests.verifier.verify import assert_invariants


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[GaleraCluster]:
    """Start the cluster of the tests that leave all nodes running."""
    with run_cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: GaleraCluster) -> GaleraCluster:
    """Return the cluster when all three nodes serve."""
    for node in shared_cluster.nodes:
        node.wait_for_members(len(shared_cluster.nodes))
    return shared_cluster


@pytest.fixture(scope="session")
def prepared_database_name(shared_cluster: GaleraCluster) -> str:
    """Return the name of a database on the cluster that has the schema."""
    name, first = f"ps_{uuid4().hex[:12]}", shared_cluster.nodes[0]
    first.query(f"CREATE DATABASE {name}")
    database = Database(make_settings(first.url(name)))
    sync(database, utcnow)
    database.dispose()
    return name


@pytest.fixture
def database_name(cluster: GaleraCluster, prepared_database_name: str) -> str:
    """Return the name of an empty database that has the schema."""
    delete_test_rows(cluster.nodes[0].url(prepared_database_name))
    cluster.wait_until_nodes_applied_all_commits()
    return prepared_database_name


@pytest.fixture
def nodes(
    cluster: GaleraCluster, database_name: str, make_app: Callable[..., AdminClient]
) -> Iterator[NodeApplications]:
    """Start an application on each node, and verify the shared database afterwards."""
    settings = [make_settings(node.url(database_name)) for node in cluster.nodes]
    yield NodeApplications(cluster, database_name, tuple(make_app(values) for values in settings))
    cluster.wait_until_nodes_applied_all_commits()
    database = Database(settings[0])
    assert_invariants(database)
    database.dispose()
