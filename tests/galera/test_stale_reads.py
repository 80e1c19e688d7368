# SPDX-License-Identifier: Apache-2.0
"""Writes through a node that has not applied an acknowledged write yet."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

import pymysql
import pytest

from tests.galera.cluster import DATABASE_ACCOUNT, DATABASE_PASSWORD, GaleraNode
from tests.galera.nodes import NodeApplications
from tests.support.scheduling import make_uuid

pytestmark = pytest.mark.system

#: Pause of the applier of writes of other nodes, in seconds.
HELD_BACK_SECONDS = 1.5
PROVIDER, CONSUMER = make_uuid(1), make_uuid(2)
PROVIDER_PATH, CONSUMER_PATH = (
    f"/placement/{path}" for path in (f"resource_providers/{PROVIDER}", f"allocations/{CONSUMER}")
)
ALLOCATIONS = {
    "allocations": {PROVIDER: {"resources": {"VCPU": 1}}},
    "project_id": "p",
    "user_id": "u",
    "consumer_generation": None,
    "consumer_type": "INSTANCE",
}


@contextmanager
def hold_back_applier(node: GaleraNode) -> Iterator[None]:
    """Stop the applier of a node, and start it again after a pause."""
    connection = pymysql.connect(
        host="127.0.0.1",
        port=node.port,
        user=DATABASE_ACCOUNT,
        password=DATABASE_PASSWORD,
        ssl_disabled=True,
    )
    with connection, connection.cursor() as cursor:
        for stage in ("START", "FLUSH", "BLOCK_DDL"):
            cursor.execute(f"BACKUP STAGE {stage}")
        timer = Timer(HELD_BACK_SECONDS, cursor.execute, ["BACKUP STAGE END"])
        timer.start()
        try:
            yield
        finally:
            timer.join(timeout=60)


@pytest.fixture
def nodes_with_provider(nodes: NodeApplications) -> NodeApplications:
    """The applications, with a provider of two VCPUs."""
    nodes.create_and_replicate(
        "POST", "/placement/resource_providers", {"name": "cn1", "uuid": PROVIDER}
    )
    body = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 2}}}
    nodes.create_and_replicate("PUT", f"{PROVIDER_PATH}/inventories", body)
    for node in range(len(nodes.clients)):  # each opens its connections
        nodes.send_request(node, "DELETE", CONSUMER_PATH)
    return nodes


def send_while_held_back(nodes, first, second):
    """Send a write through node 1 while this node lacks a write of node 0."""
    with hold_back_applier(nodes.cluster.nodes[1]):
        acknowledged = nodes.send_request(0, *first)
        assert acknowledged.status_int < 300, acknowledged.text
        began = time.monotonic()
        response = nodes.send_request(1, *second)
        waited = time.monotonic() - began
    return response, waited


def test_allocations_are_deleted_through_a_node_that_has_not_applied_them(nodes_with_provider):
    nodes = nodes_with_provider
    response, _ = send_while_held_back(
        nodes, ("PUT", CONSUMER_PATH, ALLOCATIONS), ("DELETE", CONSUMER_PATH)
    )
    assert response.status_int == 204
    assert nodes.read_rows("SELECT COUNT(*) FROM allocations") == [(0,)]


def test_generation_that_a_node_has_not_applied_is_no_conflict(nodes_with_provider):
    nodes = nodes_with_provider
    inventories = {"VCPU": {"total": 4}}
    first = {"resource_provider_generation": 1, "inventories": inventories}
    second = {"resource_provider_generation": 2, "inventories": inventories}
    path = f"{PROVIDER_PATH}/inventories"
    response, _ = send_while_held_back(nodes, ("PUT", path, first), ("PUT", path, second))
    assert response.status_int == 200, response.text


def test_trait_that_a_node_has_not_applied_is_not_unknown(nodes_with_provider):
    body = {"resource_provider_generation": 1, "traits": ["CUSTOM_NEW"]}
    response, _ = send_while_held_back(
        nodes_with_provider,
        ("PUT", "/placement/traits/CUSTOM_NEW", {}),
        ("PUT", f"{PROVIDER_PATH}/traits", body),
    )
    assert response.status_int == 200, response.text


def test_missing_allocations_are_404_once_the_node_is_current(nodes_with_provider):
    response, waited = send_while_held_back(
        nodes_with_provider, ("PUT", "/placement/traits/CUSTOM_NEW", {}), ("DELETE", CONSUMER_PATH)
    )
    assert response.status_int == 404
    assert waited > HELD_BACK_SECONDS / 2
    response = nodes_with_provider.send_request(1, "DELETE", CONSUMER_PATH)
    assert response.status_int == 404
