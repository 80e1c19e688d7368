# SPDX-License-Identifier: Apache-2.0
"""Operations of the extension in the OpenAPI document."""

import pytest

from placement_sched.extensions.what_if.failover.task import store_result
from placement_sched.extensions.what_if.routes import BLUEPRINTS
from placement_sched.extensions.what_if.violations.task import VIOLATION_THREAD
from tests.api.scheduler.openapi_client import OpenApiClient
from tests.extensions.what_if.evacuations import force_down
from tests.support.concurrency import join_threads
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid


@pytest.fixture
def client(sqlite_app):
    return OpenApiClient(sqlite_app, "/scheduler/v1/openapi.json", token="admin")


def test_client_made_from_the_openapi_document_calls_every_operation_of_the_extension(
    client, sqlite_app
):
    """The client compares bodies and responses with the document."""
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    instance = {"host": "cn1", "node": "cn1", "flavor": make_flavor()}
    sqlite_app.put_json(f"/scheduler/v1/instances/{make_uuid(1)}", instance)
    one = client.capacity_count({"request_spec": make_spec(), "per": "zone"})
    several = client.capacity_count(
        {"request_spec": {}, "flavors": [make_flavor(), make_flavor(vcpus=2)]}
    )
    assert one["capacity"] == several["flavors"][0]["capacity"] > 0
    failover = client.failover_capacity_compute({"host_failures": 1, "within": None})
    store_result(sqlite_app.app.services.scheduler)
    assert client.failover_capacity_show()["failures"] == failover["failures"]
    assert "started_at" in client.violations_start({})
    join_threads(VIOLATION_THREAD)
    assert client.violations_index(host="cn1")["rules"] == []
    plan = client.plan_plan({"changes": [{"drain": ["cn1"]}]})
    assert {"capacity", "moves", "other_consumers", "stuck", "unknown"} == set(plan)
    force_down(sqlite_app, "cn1")
    evacuation = client.plan_evacuation({"host": "cn1"})
    assert {"moves", "other_consumers", "stuck", "unknown"} == set(evacuation)
    assert client.plan_rebalance({"goal": "pack"})["complete"] in {True, False}
    moves = [{"instance": make_uuid(1), "from": "cn1", "to": "cn9"}]
    run = {
        "kind": "plan",
        "method": "live",
        "parallel": 1,
        "executor": make_uuid(2),
        "moves": moves,
    }
    uuid = client.plan_runs_create(run)["uuid"]
    started = {"executor": make_uuid(2), "state": "started"}
    rejected = client.plan_runs_change_move(started, uuid=uuid, instance=make_uuid(1))
    assert "cn9" in rejected["rejection"]
    stopped = client.plan_runs_change({"executor": make_uuid(2), "state": "stopped"}, uuid=uuid)
    assert client.plan_runs_show(uuid=uuid) == stopped
    assert client.plan_runs_index(state="stopped")["plan_runs"][0]["uuid"] == uuid
    names = [blueprint.name for blueprint in BLUEPRINTS]
    assert client.calls == {name for name in client.names if name.startswith(tuple(names))}
