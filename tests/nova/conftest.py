# SPDX-License-Identifier: Apache-2.0
"""A nova in SQLite files, its follower on each kind of database, and a message bus."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.model.compute_node import ComputeNode
from placement_sched.nova.sync.follower import Follower
from placement_sched.store.compute import compute_nodes
from tests.nova.scheduling import (
    NovaDeployment,
    SharedSchedulerService,
    create_private_bus,
    open_nova_deployment_with_two_hosts,
    run_shared_scheduler_service,
)
from tests.support.nova_clouds import NovaCloud, create_sqlite_nova


@pytest.fixture(scope="module")
def bus(broker: str) -> Iterator[str]:
    with create_private_bus(broker) as url:
        yield url


@pytest.fixture
def two_host_nova(tmp_path: Path, bus: str, sqlite_template: Path) -> Iterator[NovaDeployment]:
    with open_nova_deployment_with_two_hosts(tmp_path, bus, sqlite_template) as site:
        yield site


@pytest.fixture(scope="module")
def shared_scheduler(
    broker: str, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedSchedulerService]:
    with run_shared_scheduler_service(
        tmp_path_factory.mktemp("shared"), broker, sqlite_template
    ) as service:
        yield service


@pytest.fixture
def nova(tmp_path: Path) -> Iterator[NovaCloud]:
    cloud = create_sqlite_nova(tmp_path, "one")
    yield cloud
    cloud.close()


@pytest.fixture
def make_follower(database: Database, settings: Settings) -> Iterator[Callable[..., Follower]]:
    followers: list[Follower] = []

    def build_follower(cloud: NovaCloud, **options: object) -> Follower:
        own = {"api_database.connection": cloud.api.url, "DEFAULT.service_down_time": 60}
        followers.append(Follower(database, settings.with_overrides({**own, **options})))
        return followers[-1]

    yield build_follower
    for follower in followers:
        follower.close()


@pytest.fixture
def follower(make_follower: Callable[..., Follower], nova: NovaCloud) -> Follower:
    return make_follower(nova)


@pytest.fixture
def read_compute_nodes(database: Database) -> Callable[[], dict[str, ComputeNode]]:
    def read_nodes_by_name() -> dict[str, ComputeNode]:
        with database.read() as connection:
            return {node.hypervisor_hostname: node for node in compute_nodes.search(connection)}

    return read_nodes_by_name
