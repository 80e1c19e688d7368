# SPDX-License-Identifier: Apache-2.0
"""Simulated changes, a cloud for them, and the rows of its tables."""

import pytest
from sqlalchemy import select as query

from placement_sched.db.tables import metadata
from placement_sched.limits import MAX_EXPENSIVE_QUERIES
from tests.support.scheduling import explain_request, make_report, make_spec

COMPUTE_HEADERS = {"X-OpenStack-Nova-API-Version": "2.96", "X-Auth-Token": "admin"}


@pytest.fixture
def cloud(app):
    """Three hosts and a zone with cn3. cn2 is the largest host."""
    return report_hosts(app)


def report_hosts(app):
    app.post_json(
        "/scheduler/v1/compute_nodes",
        [
            make_report("cn1"),
            make_report("cn2", memory_mb=131072),
            make_report("cn3", memory_mb=32768),
        ],
    )
    body = {"aggregate": {"name": "gpu", "availability_zone": "az1"}}
    aggregate = app.post_json("/compute/v2.1/os-aggregates", body, headers=COMPUTE_HEADERS).json[
        "aggregate"
    ]
    post_aggregate_action(app, aggregate["id"], {"add_host": {"host": "cn3"}})
    return app


def post_aggregate_action(app, number, action):
    app.post_json(f"/compute/v2.1/os-aggregates/{number}/action", action, headers=COMPUTE_HEADERS)


def dump_tables(app):
    """Return every row of every table."""
    with app.app.services.database.read() as connection:
        return {
            table.name: sorted(map(repr, connection.execute(query(table)).all()))
            for table in metadata.sorted_tables
        }


def check_query_slots(cloud, path, body):
    """Check that a whole-cloud query is limited and releases its slot."""
    slots = cloud.app.services.scheduler.query_slots
    for _ in range(MAX_EXPENSIVE_QUERIES):
        assert slots.acquire(blocking=False)
    response = cloud.post_json(path, body, status=503)
    assert response.headers["Retry-After"] == "1"
    assert "queries about the whole cloud" in response.json["errors"][0]["detail"]
    hosts = [host["host"] for host in explain_request(cloud, make_spec())["hosts"]]
    assert hosts == ["cn2", "cn1", "cn3"]
    slots.release()
    for _ in range(2):  # each releases its slot
        cloud.post_json(path, body, status=200)
