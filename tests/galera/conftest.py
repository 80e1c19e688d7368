# SPDX-License-Identifier: Apache-2.0
"""A cluster shared by the tests of this folder, and an application on each node."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.prepare import sync
from tests.conftest import Client, empty, make_settings
from tests.galera.cluster import Cluster, run_cluster
from tests.galera.nodes import Nodes
from tests.verifier.verify import verify


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[Cluster]:
    """Start the cluster of the tests that leave all nodes running."""
    with run_cluster() as cluster:
        yield cluster


@pytest.fixture
def galera(shared_cluster: Cluster) -> Cluster:
    """Return the cluster when all three nodes serve."""
    for node in shared_cluster.nodes:
        node.wait_for_members(len(shared_cluster.nodes))
    return shared_cluster


@pytest.fixture(scope="session")
def prepared_database(shared_cluster: Cluster) -> str:
    """Return the name of a database on the cluster that has the schema."""
    name, first = f"ps_{uuid4().hex[:12]}", shared_cluster.nodes[0]
    first.query(f"CREATE DATABASE {name}")
    database = Database(make_settings(first.url(name)))
    sync(database, utcnow)
    database.dispose()
    return name


@pytest.fixture
def galera_database(galera: Cluster, prepared_database: str) -> str:
    """Return the name of an empty database that has the schema."""
    empty(galera.nodes[0].url(prepared_database))
    galera.wait_until_nodes_applied_all_commits()
    return prepared_database


@pytest.fixture
def nodes(
    galera: Cluster, galera_database: str, make_app: Callable[..., Client]
) -> Iterator[Nodes]:
    """Start an application on each node, and verify the shared database afterwards."""
    settings = [make_settings(node.url(galera_database)) for node in galera.nodes]
    yield Nodes(galera, galera_database, tuple(make_app(values) for values in settings))
    galera.wait_until_nodes_applied_all_commits()
    database = Database(settings[0])
    report = verify(database)
    database.dispose()
    assert report.violations == ()
