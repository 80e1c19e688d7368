# SPDX-License-Identifier: Apache-2.0
"""A nova with two cells, and readers of the follower's records."""

import pytest

from placement_sched.store.compute import instances, services
from tests.support.nova_clouds import create_sqlite_nova


@pytest.fixture
def two_cell_cloud(tmp_path):
    cloud = create_sqlite_nova(tmp_path, "one", "two")
    yield cloud
    cloud.close()


@pytest.fixture
def read_service(database):
    def read_service(host):
        with database.read() as connection:
            return services.map_by_host(connection, [host]).get(host)

    return read_service


@pytest.fixture
def read_node_uuids(read_compute_nodes):
    return lambda: {name: node.uuid for name, node in read_compute_nodes().items()}


@pytest.fixture
def read_instances(database):
    def read_instances_by_uuid():
        with database.read() as connection:
            return {instance.uuid: instance for instance in instances.search(connection)}

    return read_instances_by_uuid
