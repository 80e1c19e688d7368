# SPDX-License-Identifier: Apache-2.0
"""The check of a move before its start, compared with brute force, and states of runs."""

import pytest
from hypothesis import HealthCheck, given, settings

from placement_sched.errors import Conflict
from placement_sched.extensions.what_if import plan_runs
from tests.exploring import scale_example_count
from tests.extensions.what_if.plan_moves import (
    draw_small_cloud,
    fill_small_cloud,
    make_app_on_new_database,
    read_host_of_instance,
)
from tests.support.scheduling import make_uuid

PLAN_EXECUTOR_UUID = make_uuid(101)


def count_free_memory(app, hosts, sizes):
    """Return the free memory in MB of each host."""
    used = {
        host["host"]: host["resources"]["MEMORY_MB"]["used"]
        for host in app.get("/scheduler/v1/hosts").json["hosts"]
    }
    return {host: 1024 * size - used[host] for host, size in zip(hosts, sizes, strict=True)}


@pytest.mark.parametrize("state", ["stopped", "failed"])
def test_plan_run_that_ends_during_a_check_starts_no_move(sqlite_app, monkeypatch, state):
    moves = [{"instance": make_uuid(1), "from": "cn1", "to": "cn2"}]
    body = {
        "kind": "plan",
        "method": "live",
        "parallel": 1,
        "executor": PLAN_EXECUTOR_UUID,
        "moves": moves,
    }
    scheduler = sqlite_app.app.services.scheduler
    run = plan_runs.create_run(scheduler, body)

    def change_run_state(*_):
        plan_runs.change_run(scheduler, run.uuid, {"executor": PLAN_EXECUTOR_UUID, "state": state})
        return None, None

    monkeypatch.setattr(plan_runs, "check_move", change_run_state)
    started = {"executor": PLAN_EXECUTOR_UUID, "state": "started"}
    with pytest.raises(Conflict, match=f"is {state}. Moves start only in the state running"):
        plan_runs.change_move(scheduler, run.uuid, make_uuid(1), started)
    assert plan_runs.show_run(scheduler, run.uuid).moves[0].state == "planned"


@settings(
    max_examples=scale_example_count(20),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(cloud=draw_small_cloud())
def test_move_starts_exactly_if_the_target_has_capacity_zone_and_no_group_member(
    sqlite_template, tmp_path_factory, make_app, cloud
):
    sizes, requests, _ = cloud
    app = make_app_on_new_database(make_app, sqlite_template, tmp_path_factory.mktemp("checks"))
    placed = fill_small_cloud(app, sizes, requests)
    hosts = [f"cn{index}" for index in range(1, len(sizes) + 1)]
    free, zone = count_free_memory(app, hosts, sizes), set(hosts[::2])
    host_of = {uuid: read_host_of_instance(app, uuid) for uuid in placed}
    members = {uuid for uuid, fields in placed.items() if "instance_group" in fields}
    for uuid, fields in placed.items():
        record = app.get(f"/scheduler/v1/instances/{uuid}").json
        group_hosts = {host_of[other] for other in members - {uuid}} if uuid in members else set()
        for target in hosts:
            if target == host_of[uuid]:
                continue
            fits = (
                free[target] >= record["flavor"]["memory_mb"]
                and (target in zone or "availability_zone" not in fields)
                and target not in group_hosts
            )
            moves = [{"instance": uuid, "from": host_of[uuid], "to": target}]
            body = {"kind": "plan", "method": "live", "parallel": 1, "executor": PLAN_EXECUTOR_UUID}
            run = app.post_json("/scheduler/v1/plan_runs", {**body, "moves": moves}).json
            path = f"/scheduler/v1/plan_runs/{run['uuid']}/moves/{uuid}"
            move = app.put_json(path, {"executor": PLAN_EXECUTOR_UUID, "state": "started"}).json
            assert (move["rejection"] is None) is fits, (uuid, target, move)
