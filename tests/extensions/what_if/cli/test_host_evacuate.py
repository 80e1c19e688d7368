# SPDX-License-Identifier: Apache-2.0
"""``host evacuate``: its plan, its execution in nova, and resumed runs."""

import json

import pytest

from tests.extensions.what_if.cli.executed_plans import (
    INSTANCES,
    find_hosts_of_instances,
    list_move_states,
    read_plan_run,
    start_execution,
)
from tests.extensions.what_if.cli.executed_plans import cloud as cloud  # noqa: PLC0414 - a fixture
from tests.extensions.what_if.cli.executed_plans import nova as nova  # noqa: PLC0414 - a fixture
from tests.extensions.what_if.cli.executed_plans import run_nova_cli as run_nova_cli  # noqa: PLC0414 - a fixture
from tests.extensions.what_if.cli.executed_plans import sqlite_template as sqlite_template  # noqa: PLC0414 - a fixture
from tests.extensions.what_if.evacuations import execute_evacuation, force_down
from tests.support.clouds import uuid_of
from tests.support.scheduling import make_flavor, make_spec, make_uuid, select_hosts
from tests.support.versions import LATEST_HEADERS
from tests.verifier.verify import assert_invariants

pytestmark = pytest.mark.slow

EVACUATE_CN7 = ("host", "evacuate", "cn7")
EXECUTE = (*EVACUATE_CN7, "--execute", "--fenced")
NOT_FENCED = (
    "--execute needs --fenced: switch cn7 off, or cut it off from storage and networks, since a "
    "disk with two writers is lost"
)


@pytest.fixture
def dead_cloud(cloud, nova):
    """The cloud after the death of cn7, whose service is forced down."""
    force_down(cloud, "cn7")
    nova.force_down("cn7")

    def record_arrival(uuid: str, source: str, target: str) -> None:
        execute_evacuation(cloud, {"instance": uuid, "from": source, "to": target})

    nova.arrived = record_arrival
    return cloud


def read_allocated_providers(app, uuid):
    return app.get(f"/placement/allocations/{uuid}", headers=LATEST_HEADERS).json["allocations"]


def test_host_is_evacuated_and_instances_arrive_stopped(run_nova_cli, run_cli, dead_cloud, nova):
    nova.servers[INSTANCES[4]]["status"] = "ERROR"
    nova.servers[INSTANCES[5]]["OS-EXT-STS:task_state"] = "powering-off"
    status, out, err = run_nova_cli(*EXECUTE)
    assert (status, err) == (0, "")
    assert out.count("-> cn8  done") + out.count("-> cn9  done") == 6
    assert "is done: 0 planned, 0 started, 6 done, 0 failed, 0 skipped" in out
    assert out.startswith("active instances arrive stopped: start them afterwards\n")
    assert find_hosts_of_instances(dead_cloud) == {"cn8", "cn9"}
    statuses = [nova.servers[uuid]["status"] for uuid in INSTANCES]
    # nova stops no instance whose state was error.
    assert statuses == ["SHUTOFF"] * 4 + ["ACTIVE", "SHUTOFF"]
    run = read_plan_run(dead_cloud)
    assert (run["kind"], run["state"], run["method"]) == ("evacuation", "done", "evacuate")
    assert run["request"] == {"host": "cn7", "fenced": True, "running": False}
    assert nova.list_actions() == [(move["instance"], "evacuate") for move in run["moves"]]
    targets = {move["instance"]: move["to"] for move in run["moves"]}
    assert targets == {uuid: nova.host(uuid) for uuid in INSTANCES}
    decisions = dead_cloud.get("/scheduler/v1/decisions?kind=move").json["decisions"]
    assert len(decisions) == 6
    assert run["uuid"] in run_cli("plan-run", "list", "--kind", "evacuation")[1]
    assert nova.services["cn7"]["status"] == "enabled"


def test_evacuated_instances_have_allocations_on_both_hosts_until_the_host_is_back(
    run_nova_cli, run_cli, dead_cloud
):
    assert run_nova_cli(*EXECUTE)[0] == 0
    for uuid in INSTANCES:
        host = dead_cloud.get(f"/scheduler/v1/instances/{uuid}").json["host"]
        providers = {uuid_of("cn7"), uuid_of(host)}
        assert read_allocated_providers(dead_cloud, uuid).keys() == providers
    assert_invariants(dead_cloud.app.services.database)
    # They do not hold the dead host a second time, and an audit frees exactly their old places.
    assert "no instance has to move" in run_nova_cli(*EVACUATE_CN7)[1]
    _, out, _ = run_cli("placement", "audit", "--delete", "--format", "json")
    orphans = json.loads(out)["orphaned"]
    assert {orphan["consumer"] for orphan in orphans} == set(INSTANCES)
    assert {orphan["resource_provider"] for orphan in orphans} == {uuid_of("cn7")}
    assert {len(read_allocated_providers(dead_cloud, uuid)) for uuid in INSTANCES} == {1}


def test_running_instances_run_on_arrival_if_requested(run_nova_cli, dead_cloud, nova):
    nova.newest = 94
    nova.servers[INSTANCES[5]]["status"] = "SHUTOFF"
    status, out, err = run_nova_cli(*EXECUTE, "--running")
    assert (status, err) == (0, "")
    assert "start them" not in out
    statuses = [nova.servers[uuid]["status"] for uuid in INSTANCES]
    assert statuses == ["ACTIVE"] * 5 + ["SHUTOFF"]


def test_nova_that_stops_no_evacuated_instances_evacuates_nothing(run_nova_cli, dead_cloud, nova):
    nova.newest = 94
    status, _, err = run_nova_cli(*EXECUTE)
    assert status == 1
    assert "compute microversion 2.95 (2023.1 Antelope) is needed" in err
    assert nova.list_actions() == []
    assert dead_cloud.get("/scheduler/v1/plan_runs").json["plan_runs"] == []


def test_nothing_is_sent_to_nova_without_execute(run_nova_cli, dead_cloud, nova):
    status, out, err = run_nova_cli(*EVACUATE_CN7)
    assert (status, err) == (0, "")
    assert "6 instances would move to 2 hosts, 0 could not" in out
    assert out.endswith("nothing was changed: --execute --fenced evacuates the instances\n")
    assert nova.seen == []
    document = json.loads(run_nova_cli(*EVACUATE_CN7, "-f", "json")[1])
    assert document.keys() == {"moves", "stuck", "other_consumers", "unknown"}
    assert [move["from"] for move in document["moves"]] == ["cn7"] * 6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*EVACUATE_CN7, "--execute"), NOT_FENCED),
        ((*EVACUATE_CN7, "--fenced"), "--fenced needs --execute"),
        ((*EVACUATE_CN7, "--running"), "--running needs --execute"),
        ((*EVACUATE_CN7, "--parallel", "2"), "--parallel needs --execute"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_evacuation_without_the_word_of_the_operator_ends_with_status_2(
    run_nova_cli, dead_cloud, nova, arguments, words
):
    assert run_nova_cli(*arguments) == (2, "", f"placement-sched: {words}\n")
    assert nova.seen == []


@pytest.mark.parametrize("options", [(), ("--execute", "--fenced")], ids=["plan", "execution"])
def test_evacuation_of_a_host_that_is_up_ends_with_status_2(run_nova_cli, cloud, nova, options):
    words = (
        "HOST: host 'cn7' is up, and only a host that is down is evacuated: force its compute "
        "service down if it is dead, else drain it"
    )
    assert run_nova_cli(*EVACUATE_CN7, *options) == (2, "", f"placement-sched: {words}\n")
    force_down(cloud, "cn7")
    if options:
        status, out, err = run_nova_cli(*EVACUATE_CN7, *options)
        assert (status, out) == (2, "")
        assert err.startswith("placement-sched: host cn7 is up in nova, which evacuates only ")
    assert nova.list_actions() == []
    assert cloud.get("/scheduler/v1/plan_runs").json["plan_runs"] == []


def test_evacuation_of_an_unknown_host_names_the_nearest_host(run_nova_cli, dead_cloud):
    status, out, err = run_nova_cli("host", "evacuate", "cn77")
    assert (status, out) == (1, "")
    assert err.startswith("placement-sched: HOST: there is no host 'cn77'. Did you mean 'cn7'?")


def test_servers_that_nova_does_not_evacuate_are_listed_before_the_start(
    run_nova_cli, dead_cloud, nova
):
    nova.shared = {INSTANCES[1]}
    status, _, err = run_nova_cli(*EXECUTE)
    run = read_plan_run(dead_cloud)
    assert (status, run["state"], list_move_states(run)) == (1, "done", ["done"] * 5)
    (stuck,) = run["stuck"]
    reason = "it has file shares, which nova does not evacuate: wait until its host is back"
    assert (stuck["instance"], stuck["reason"]) == (INSTANCES[1], reason)
    assert err == ""
    assert [uuid for uuid, _ in nova.list_actions()] == [
        uuid for uuid in INSTANCES if uuid != INSTANCES[1]
    ]


def test_nova_without_file_shares_is_not_asked_for_them_again(run_nova_cli, dead_cloud, nova):
    nova.newest, nova.shared = 96, {INSTANCES[1]}
    assert run_nova_cli(*EXECUTE)[0] == 0
    assert sum(path.endswith("/shares") for _, path, _ in nova.seen) == 1


def test_servers_whose_state_has_changed_in_nova_fail_alone(run_nova_cli, dead_cloud, nova):
    states = ("PAUSED", "SUSPENDED", "RESCUE", "VERIFY_RESIZE", "SHELVED")
    for uuid, status in zip(INSTANCES, states, strict=False):
        nova.servers[uuid]["status"] = status
    status, _, err = run_nova_cli(*EXECUTE)
    assert status == 1
    run = read_plan_run(dead_cloud)
    assert list_move_states(run) == [*["failed"] * 5, "done"]
    assert [move["error"] for move in run["moves"][:5]] == [
        "it is paused: set its state to error first",
        "it is suspended: set its state to error first",
        "it is in rescue mode: set its state to error first",
        "its resize is not confirmed: confirm the resize first",
        "it is shelved but not offloaded: wait until its host is back",
    ]
    assert nova.count_migrations() == 1
    assert err == ""


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        ("failing", "it is still on cn7: the status of nova's migration is error"),
        ("rejecting", "nova answered 409 Conflict (no)"),
        ("breaking", "its status is ERROR: no"),
    ],
)
def test_server_that_nova_fails_to_evacuate_does_not_stop_the_others(
    run_nova_cli, dead_cloud, nova, failure, error
):
    setattr(nova, failure, {INSTANCES[2]: "no"})
    assert run_nova_cli(*EXECUTE, "--parallel", "2")[0] == 1
    run = read_plan_run(dead_cloud)
    assert list_move_states(run) == [*["done"] * 2, "failed", *["done"] * 3]
    assert run["moves"][2]["error"] == error
    assert nova.max_moving == 2
    setattr(nova, failure, {})
    assert run_nova_cli("plan", "--resume", run["uuid"])[0] == 0
    assert set(list_move_states(read_plan_run(dead_cloud))) == {"done"}
    tries = {"failing": 2, "rejecting": 1, "breaking": 2}[failure]
    assert [nova.count_migrations(uuid) for uuid in INSTANCES] == [1, 1, tries, 1, 1, 1]


def test_server_that_another_client_evacuates_is_left_to_it(run_nova_cli, dead_cloud, nova):
    nova.held.add(INSTANCES[0])
    assert run_nova_cli(*EXECUTE, "--move-timeout", "0.1")[0] == 1
    # Another run finds the evacuation under way, and does not start a second.
    run_nova_cli(*EXECUTE)
    error = "nova already evacuates it: wait until this ends"
    run = read_plan_run(dead_cloud)
    assert [move["error"] for move in run["moves"]] == [error]
    assert nova.count_migrations(INSTANCES[0]) == 1


def test_instances_without_a_host_are_stuck_and_reported(run_nova_cli, dead_cloud, nova):
    for number, host in enumerate(("cn8", "cn9"), 50):
        large = make_flavor(memory_mb=56 * 1024)
        select_hosts(dead_cloud, make_spec(make_uuid(number), flavor=large, force_hosts=[host]))
    status, out, _ = run_nova_cli(*EXECUTE)
    run = read_plan_run(dead_cloud)
    assert (status, run["state"], run["counts"]["done"]) == (1, "done", 4)
    assert [stuck["instance"] for stuck in run["stuck"]] == INSTANCES[4:]
    assert "MEMORY_MB" in run["stuck"][0]["reason"]
    assert "Stuck: 2" in out
    status, out, _ = run_nova_cli(*EXECUTE)
    assert (status, "0 instances would move, 2 could not" in out) == (1, True)


def test_servers_unknown_to_the_scheduler_are_reported(run_nova_cli, dead_cloud, nova):
    nova.add_server(make_uuid(60), "cn7")
    status, _, err = run_nova_cli(*EXECUTE)
    words = f"1 instance remains on cn7 in nova: {make_uuid(60)}"
    assert (status, err) == (1, f"placement-sched: {words}\n")


def test_resumption_after_the_return_of_the_host_records_what_nova_has_done(
    run_nova_cli, dead_cloud, nova
):
    nova.held.add(INSTANCES[2])
    run_nova_cli(*EXECUTE, "--stop-on-failure", "--move-timeout", "0.1")
    run = read_plan_run(dead_cloud)
    assert list_move_states(run) == [*["done"] * 2, "failed", *["planned"] * 3]
    nova.finish(INSTANCES[2])
    nova.services["cn7"]["state"] = "up"
    status, _, err = run_nova_cli("plan", "--resume", run["uuid"], "--cold")
    assert (status, err) == (2, "placement-sched: --cold: the run evacuates a host\n")
    assert run_nova_cli("plan", "--resume", run["uuid"])[0] == 1
    run = read_plan_run(dead_cloud)
    assert (run["state"], list_move_states(run)) == ("failed", [*["done"] * 3, *["failed"] * 3])
    error = "nova answered 400 Bad Request (Compute service of cn7 is still in use.)"
    assert {move["error"] for move in run["moves"][3:]} == {error}
    assert [nova.count_migrations(uuid) for uuid in INSTANCES] == [*[1] * 3, *[0] * 3]


@pytest.mark.exhaustive
def test_resumption_of_a_killed_evacuation_evacuates_no_server_twice(
    run_nova_cli, dead_cloud, nova, sqlite_url, tmp_path
):
    with start_execution(EXECUTE, nova, sqlite_url, tmp_path) as process:
        process.kill()
        process.wait(60)
    run = read_plan_run(dead_cloud)
    assert (run["state"], list_move_states(run)[2]) == ("running", "started")
    nova.finish(INSTANCES[2])
    assert run_nova_cli("plan", "--resume", run["uuid"])[0] == 0
    assert set(list_move_states(read_plan_run(dead_cloud))) == {"done"}
    assert [nova.count_migrations(uuid) for uuid in INSTANCES] == [1] * 6
    for uuid in INSTANCES:
        assert len(read_allocated_providers(dead_cloud, uuid)) == 2
    assert_invariants(dead_cloud.app.services.database)
