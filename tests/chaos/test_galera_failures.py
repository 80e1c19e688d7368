# SPDX-License-Identifier: Apache-2.0
"""Failures of nodes of a Galera cluster while applications write to the other nodes."""

import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.prepare import sync
from tests.chaos.galera_writers import PROVIDERS_PATH, NodeWriters
from tests.chaos.run_length import TRIED_KEY, choose_count
from tests.conftest import make_settings
from tests.galera.cluster import IS_GALERA_REQUIRED, NODE_CONFIGURATION
from tests.support.loopback import reserve_port
from tests.support.servers import wait_until
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.chaos

#: Number of acknowledged writes.
WRITE_COUNT = choose_count(240, 2000)
GALERA_GUIDE_PAGE = NODE_CONFIGURATION.parents[2] / "doc/source/galera.rst"
HAPROXY_CONFIGURATION = NODE_CONFIGURATION.with_name("haproxy.cfg")


@contextmanager
def run_haproxy(cluster, folder: Path):
    """Run HAProxy with the configuration of the guide, and yield its port."""
    program = shutil.which("haproxy")
    if program is None:
        (pytest.fail if IS_GALERA_REQUIRED else pytest.skip)("HAProxy is not installed")
    with reserve_port() as holder:
        port = holder.getsockname()[1]
        text = HAPROXY_CONFIGURATION.read_text().replace("127.0.0.1:3307", f"127.0.0.1:{port}")
        for number, node in enumerate(cluster.nodes, start=1):
            text = text.replace(f"db{number}:3306", f"127.0.0.1:{node.port}")
        assert not re.search(r"\bdb\d:", text)
        if os.geteuid() != 0:  # only root may become another user
            text = re.sub(r"    (user|group) haproxy\n", "", text)
        config = folder / "haproxy.cfg"
        config.write_text(text)
        with subprocess.Popen([program, "-f", str(config)], stderr=subprocess.DEVNULL) as process:
            try:
                yield port
            finally:
                process.kill()


def read_readiness_status(client) -> int:
    return client.get("/healthz/ready", expect_errors=True).status_int


def create_shared_provider(nodes) -> str:
    uuid = nodes.create_and_replicate("POST", PROVIDERS_PATH, {"name": "shared"})["uuid"]
    inventories = {"VCPU": {"total": 1_000_000}}
    body = {"resource_provider_generation": 0, "inventories": inventories}
    nodes.create_and_replicate("PUT", f"{PROVIDERS_PATH}/{uuid}/inventories", body)
    return uuid


def read_providers_and_claims(nodes) -> set[str]:
    """Return the providers and claims, which must be equal on all nodes."""
    nodes.cluster.wait_until_nodes_applied_all_commits()
    providers = nodes.read_rows("SELECT uuid FROM resource_providers ORDER BY uuid")
    consumers = nodes.read_rows("SELECT consumer_id FROM allocations ORDER BY consumer_id")
    return {f"provider {p}" for (p,) in providers} | {f"claim {c}" for (c,) in consumers}


@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_acknowledged_writes_remain_after_a_node_ends_and_rejoins(
    nodes, cluster, database_name, make_app, tmp_path, ending, record_property
):
    first_node = cluster.nodes[0]
    with run_haproxy(cluster, tmp_path) as port:
        url = first_node.url(database_name).replace(f":{first_node.port}/", f":{port}/")
        proxied = make_app(make_settings(url))
        assert wait_until(lambda: read_readiness_status(proxied) == 200)
        shared = create_shared_provider(nodes)
        with NodeWriters([proxied, *nodes.clients[1:]], shared) as writers:
            writers.wait_for_writes(WRITE_COUNT // 3)
            getattr(first_node, ending)()
            writers.wait_for_writes(2 * WRITE_COUNT // 3)
            cluster.rejoin(first_node)
            writers.wait_for_writes(WRITE_COUNT)
    assert set(writers.acknowledged) <= read_providers_and_claims(nodes)
    # The other nodes reject no write. The proxy returns 503 until it notices the failure.
    assert {status for _, status in writers.statuses} <= {200, 204, 503}
    assert {**writers.statuses}.get(("claim", 503), 0) <= WRITE_COUNT // 10
    (used,) = nodes.read_rows("SELECT sum(used), count(*) FROM allocations")
    assert used[0] == used[1]
    record_property(TRIED_KEY, f"{len(writers.acknowledged)} writes, 1 node of 3 ended by {ending}")


def test_node_without_quorum_rejects_requests_until_it_rejoins(nodes, cluster):
    last = cluster.nodes[2]
    for node in cluster.nodes[:2]:
        node.kill()
    try:
        assert wait_until(lambda: last.read_status_variable("cluster_status") != "Primary")
        response = nodes.send_request(2, "POST", PROVIDERS_PATH, {"name": "refused"})
        assert response.status_int == 503
        assert "quorum" in response.text
        assert read_readiness_status(nodes.clients[2]) == 503
    finally:
        last.query("SET GLOBAL wsrep_provider_options = 'pc.bootstrap=true'")
        for node in cluster.nodes[:2]:
            cluster.rejoin(node)
    assert nodes.send_request(2, "POST", PROVIDERS_PATH, {"name": "taken"}).status_int == 200
    assert nodes.read_rows("SELECT name FROM resource_providers") == [("taken",)]


def test_schema_can_be_upgraded_during_writes_through_other_nodes(nodes, cluster):
    last_table = "sched_commit_marks"
    shared = create_shared_provider(nodes)
    for node, client in enumerate(nodes.clients):
        assert nodes.send_request(node, "GET", PROVIDERS_PATH).status_int == 200
        # As a release without that table writes.
        client.app.services.database.marks_commits = False
    first_node = cluster.nodes[0]
    for statement in (f"DROP TABLE {last_table}", "DELETE FROM placement_sched_alembic_version"):
        first_node.query(statement, nodes.database)
    cluster.wait_until_nodes_applied_all_commits()
    with NodeWriters(nodes.clients[1:], shared) as writers:
        writers.wait_for_writes(WRITE_COUNT // 6)
        database = Database(make_settings(first_node.url(nodes.database)))
        sync(database, utcnow)
        database.dispose()
        writers.wait_for_writes(len(writers.acknowledged) + WRITE_COUNT // 6)
    assert set(writers.statuses) == {("provider", 200), ("claim", 204)}
    assert set(writers.acknowledged) <= read_providers_and_claims(nodes)
    assert nodes.read_rows(f"SELECT count(*) FROM {last_table}") == [(0,)]


def test_documented_causal_reads_see_writes_of_other_nodes(cluster, database_name, make_app):
    (parameters,) = re.findall(r"connection_parameters = (.*)", GALERA_GUIDE_PAGE.read_text())
    clients = [
        make_app(
            make_settings(
                node.url(database_name), placement_database__connection_parameters=parameters
            )
        )
        for node in cluster.nodes
    ]
    for number in range(60):
        writer, reader = clients[number % 3], clients[(number + 1) % 3]
        body = {"name": f"p{number}"}
        created = writer.post_json(PROVIDERS_PATH, body, headers=LATEST_HEADERS).json
        reader.get(f"{PROVIDERS_PATH}/{created['uuid']}", headers=LATEST_HEADERS)
