# SPDX-License-Identifier: Apache-2.0
"""Execution of plans: drains, failures and resumed runs."""

import json
import re
import signal

import pytest

from placement_sched.extensions.what_if import plan_runs
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
from tests.extensions.what_if.plan_moves import execute_move
from tests.support.scheduling import make_flavor, make_spec, make_uuid, select_hosts
from tests.support.statements import execute_statements

pytestmark = pytest.mark.slow

DRAIN_CN7 = ("host", "drain", "cn7")


def test_host_is_drained_and_undrained(run_nova_cli, run_cli, cloud, nova):
    status, out, err = run_nova_cli(*DRAIN_CN7, "--execute", "--reason", "new fan")
    assert (status, err) == (0, "")
    assert out.startswith("host cn7 is disabled: new fan\n")
    assert out.count("-> cn8  done") + out.count("-> cn9  done") == 6
    assert "is done: 0 planned, 0 started, 6 done, 0 failed, 0 skipped" in out
    assert find_hosts_of_instances(cloud) == {"cn8", "cn9"}
    assert nova.count_migrations() == 6
    assert nova.max_moving == 1
    assert nova.services["cn7"]["disabled_reason"] == "new fan"
    run = read_plan_run(cloud)
    assert (run["kind"], run["state"], run["method"]) == ("drain", "done", "live")
    assert nova.list_actions() == [(move["instance"], "os-migrateLive") for move in run["moves"]]
    assert all(move["started_at"] <= move["finished_at"] for move in run["moves"])
    # Each start is a decision of the kind move.
    decisions = cloud.get("/scheduler/v1/decisions?kind=move").json["decisions"]
    by_uuid = {decision["uuid"]: decision["instances"][0] for decision in decisions}
    places = [by_uuid[move["decision"]] for move in run["moves"]]
    assert [(place["uuid"], place["host"]) for place in places] == [
        (move["instance"], move["to"]) for move in run["moves"]
    ]
    # The run is listed and shown.
    assert run["uuid"] in run_cli("plan-run", "list", "--state", "done")[1]
    out = run_cli("plan-run", "list", "--state", "failed", "-f", "json")[1]
    assert json.loads(out)["plan_runs"] == []
    _, out, _ = run_cli("plan-run", "show", run["uuid"])
    assert all(uuid in out for uuid in INSTANCES)
    assert f"run {run['uuid']} is done" in out
    status, out, _ = run_nova_cli("host", "undrain", "cn7")
    assert (status, "new fan" in out) == (0, True)
    assert nova.services["cn7"]["status"] == "enabled"


@pytest.mark.parametrize(
    "command",
    [
        DRAIN_CN7,
        ("plan", "--change", "drain=cn7"),
        ("rebalance", "--goal", "spread", "--moves", "3"),
    ],
    ids=" ".join,
)
def test_nothing_is_sent_to_nova_without_execute(run_nova_cli, cloud, nova, command):
    status, out, err = run_nova_cli(*command)
    assert (status, err) == (0, "")
    assert "cn7" in out
    assert [request for request in nova.seen if request[0] != "GET"] == []
    assert cloud.get("/scheduler/v1/plan_runs").json["plan_runs"] == []


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (("plan", "--change", "drain=cn7"), "plan"),
        (("rebalance", "--goal", "spread", "--moves", "3"), "rebalance"),
    ],
    ids=["plan", "rebalance"],
)
def test_executed_plan_and_rebalance_make_exactly_the_printed_moves(
    run_nova_cli, cloud, nova, command, kind
):
    moves = json.loads(run_nova_cli(*command, "-f", "json")[1])["moves"]
    status, out, err = run_nova_cli(*command, "--execute", "-f", "json")
    assert (status, err) == (0, "")
    run = json.loads(out)
    keys = ("instance", "from", "to")
    assert [[move[key] for key in keys] for move in run["moves"]] == [
        [move[key] for key in keys] for move in moves
    ]
    assert (run["kind"], set(list_move_states(run))) == (kind, {"done"})
    assert nova.count_migrations() == len(moves)
    assert all(nova.host(move["instance"]) == move["to"] for move in moves)


def test_servers_leave_a_host_that_rejects_them(run_nova_cli, cloud, nova):
    """The host has the capacity for three of its six servers."""
    execute_statements(
        cloud.app.services.database,
        "UPDATE inventories SET reserved = total - 12288 WHERE resource_class_id = 1 AND "
        "resource_provider_id = (SELECT id FROM resource_providers WHERE name = 'cn7')",
    )
    command = ("rebalance", "--goal", "comply")
    first = json.loads(run_nova_cli(*command, "-f", "json")[1])["moves"][0]["instance"]
    nova.rejecting[first] = "not now"
    assert run_nova_cli(*command, "--execute")[0] == 1
    run = read_plan_run(cloud)
    assert sorted(list_move_states(run)) == ["done", "done", "failed"]
    nova.rejecting.clear()
    status, _, err = run_nova_cli("rebalance", "--resume", run["uuid"])
    assert (status, err) == (0, "")
    moves = read_plan_run(cloud)["moves"]
    assert [move["state"] for move in moves] == ["done"] * 3
    assert {nova.host(move["instance"]) for move in moves} <= {"cn8", "cn9"}
    assert run_nova_cli(*command)[1] == "no server violates a rule\n"


def test_cold_migrations_of_a_drain_are_confirmed(run_nova_cli, cloud, nova):
    assert run_nova_cli(*DRAIN_CN7, "--execute", "--cold")[0] == 0
    names = [name for _, name in nova.list_actions()]
    assert names == ["migrate", "confirmResize"] * 6
    assert {server["status"] for server in nova.servers.values()} == {"ACTIVE"}
    assert read_plan_run(cloud)["method"] == "cold"


def test_stopped_instance_is_cold_migrated(run_nova_cli, nova):
    nova.servers[INSTANCES[3]]["status"] = "SHUTOFF"
    assert run_nova_cli(*DRAIN_CN7, "--execute")[0] == 0
    assert [name for uuid, name in nova.list_actions() if uuid == INSTANCES[3]] == [
        "migrate",
        "confirmResize",
    ]
    assert nova.servers[INSTANCES[3]]["status"] == "SHUTOFF"


def test_paused_instance_moves_live_even_in_a_cold_run(run_nova_cli, nova):
    nova.servers[INSTANCES[3]]["status"] = "PAUSED"
    assert run_nova_cli(*DRAIN_CN7, "--execute", "--cold")[0] == 0
    assert [name for uuid, name in nova.list_actions() if uuid == INSTANCES[3]] == [
        "os-migrateLive"
    ]


def test_locked_instance_is_moved_and_named(run_nova_cli, nova):
    nova.servers[INSTANCES[3]]["locked"] = True
    status, out, _ = run_nova_cli(*DRAIN_CN7, "--execute")
    assert status == 0
    (line,) = [line for line in out.splitlines() if "it is locked" in line]
    assert line.startswith(INSTANCES[3])
    assert line.endswith("started: it is locked, which binds only other users")


def test_instances_in_states_that_nova_does_not_migrate_fail_alone(run_nova_cli, cloud, nova):
    statuses = dict(
        zip(INSTANCES, ["SUSPENDED", "RESCUE", "VERIFY_RESIZE", "SHELVED"], strict=False)
    )
    for uuid, status in statuses.items():
        nova.servers[uuid]["status"] = status
    assert run_nova_cli(*DRAIN_CN7, "--execute")[0] == 1
    run = read_plan_run(cloud)
    assert list_move_states(run) == [*["failed"] * 4, *["done"] * 2]
    assert [move["error"] for move in run["moves"][:4]] == [
        "it is suspended: resume it first",
        "it is in rescue mode: unrescue it first",
        "its resize is not confirmed: confirm or revert the resize first",
        "it is shelved but not offloaded, and holds its host: offload it",
    ]
    assert nova.count_migrations() == 2


def test_plan_run_goes_on_after_a_conflict_and_fails_at_its_end(run_nova_cli, cloud, nova):
    nova.rejecting[INSTANCES[2]] = "not now"
    status, out, _ = run_nova_cli(*DRAIN_CN7, "--execute")
    assert status == 1
    run = read_plan_run(cloud)
    assert list_move_states(run) == [*["done"] * 2, "failed", *["done"] * 3]
    assert run["moves"][2]["error"] == "nova answered 409 Conflict (not now)"
    assert f"run {run['uuid']} is failed: 0 planned, 0 started, 5 done, 1 failed" in out
    nova.rejecting.clear()
    assert run_nova_cli("plan", "--resume", run["uuid"])[0] == 0
    assert set(list_move_states(read_plan_run(cloud))) == {"done"}


def test_plan_run_can_end_after_the_first_failed_move(run_nova_cli, cloud, nova):
    nova.failing.add(INSTANCES[2])
    status, out, err = run_nova_cli(*DRAIN_CN7, "--execute", "--stop-on-failure")
    assert (status, err) == (1, "")
    run = read_plan_run(cloud)
    assert list_move_states(run) == [*["done"] * 2, "failed", *["planned"] * 3]
    error = "it is still on cn7: the status of nova's migration is error"
    assert run["moves"][2]["error"] == error
    assert error in out
    assert f"run {run['uuid']} is failed: 3 planned, 0 started, 2 done, 1 failed" in out
    assert out.endswith(f"continue with: placement-sched plan --resume {run['uuid']}\n")
    assert nova.count_migrations() == 3


def test_started_moves_finish_after_a_failure_and_planned_moves_do_not_start(
    run_nova_cli, cloud, nova
):
    nova.failing.add(INSTANCES[0])
    nova.polls = 2
    command = (*DRAIN_CN7, "--execute", "--parallel", "3", "--stop-on-failure")
    assert run_nova_cli(*command)[0] == 1
    assert sorted(list_move_states(read_plan_run(cloud)))[:4] == [
        "done",
        "done",
        "failed",
        "planned",
    ]
    assert nova.count_migrations() == 3


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        ("rejecting", "nova answered 409 Conflict (locked)"),
        ("breaking", "its status is ERROR: locked"),
        ("task_state", "nova works on it (task state locked): wait until the task ends"),
    ],
)
def test_move_that_nova_rejects_fails_with_its_reason(run_nova_cli, cloud, nova, failure, error):
    if failure == "task_state":
        nova.servers[INSTANCES[0]]["OS-EXT-STS:task_state"] = "locked"
    else:
        getattr(nova, failure)[INSTANCES[0]] = "locked"
    assert run_nova_cli(*DRAIN_CN7, "--execute")[0] == 1
    assert read_plan_run(cloud)["moves"][0]["error"] == error


def test_failed_plan_run_can_be_resumed_to_its_end(run_nova_cli, cloud, nova):
    nova.failing.add(INSTANCES[2])
    run_nova_cli(*DRAIN_CN7, "--execute")
    uuid = read_plan_run(cloud)["uuid"]
    nova.failing.clear()
    status, _, err = run_nova_cli("plan", "--resume", uuid)
    assert (status, err) == (0, "")
    assert set(list_move_states(read_plan_run(cloud))) == {"done"}
    assert find_hosts_of_instances(cloud) == {"cn8", "cn9"}
    assert nova.count_migrations() == 7
    assert run_nova_cli("rebalance", "--resume", uuid)[2].startswith(
        f"placement-sched: Run {uuid} is already done"
    )


def test_resumed_plan_run_can_skip_an_instance(run_nova_cli, cloud, nova):
    nova.failing.add(INSTANCES[2])
    run_nova_cli(*DRAIN_CN7, "--execute")
    uuid = read_plan_run(cloud)["uuid"]
    assert run_nova_cli("plan", "--resume", uuid, "--skip", INSTANCES[2])[0] == 0
    run = read_plan_run(cloud)
    assert run["moves"][2]["error"] == "skipped by --skip"
    assert (run["counts"]["done"], run["counts"]["skipped"]) == (5, 1)
    assert nova.count_migrations(INSTANCES[2]) == 1


@pytest.mark.parametrize(
    ("instance_to_skip", "words"),
    [
        (INSTANCES[2][:-1] + "f", f"has no move of instance {INSTANCES[2][:-1]}f. Did you mean "),
        (INSTANCES[0].upper(), f"--skip: the move of instance {INSTANCES[0]} is already done"),
    ],
    ids=["unknown", "done"],
)
def test_resumption_that_skips_an_invalid_instance_fails(
    run_nova_cli, cloud, nova, instance_to_skip, words
):
    nova.failing.add(INSTANCES[2])
    run_nova_cli(*DRAIN_CN7, "--execute", "--stop-on-failure")
    run = read_plan_run(cloud)
    status, out, err = run_nova_cli(
        "plan", "--resume", run["uuid"], "--skip", INSTANCES[3], "--skip", instance_to_skip
    )
    assert (status, out) == (1, "")
    assert words in err
    assert read_plan_run(cloud) == run


def test_instances_that_another_client_moved_or_deleted_are_skipped(run_nova_cli, cloud, nova):
    def move_and_delete_servers_in_nova(method: str, path: str) -> None:
        if method == "POST" and INSTANCES[0] in path:
            nova.servers[INSTANCES[2]]["OS-EXT-SRV-ATTR:host"] = "cn9"
            del nova.servers[INSTANCES[3]]
            nova.servers[INSTANCES[4]]["status"] = "ERROR"

    nova.watch = move_and_delete_servers_in_nova
    status, out, err = run_nova_cli(*DRAIN_CN7, "--execute")
    assert status == 1
    assert err == f"placement-sched: 1 instance remains on cn7 in nova: {INSTANCES[4]}\n"
    errors = {
        move["instance"]: move["error"]
        for move in read_plan_run(cloud)["moves"]
        if move["state"] == "skipped"
    }
    assert errors == {
        INSTANCES[2]: "it is on cn9 now, not on cn7",
        INSTANCES[3]: "nova has no such instance any more",
        INSTANCES[4]: "nova cannot move it: its status is ERROR",
    }
    assert "skipped: it is on cn9 now, not on cn7" in out


def test_move_fails_before_its_start_if_its_target_is_full(run_nova_cli, cloud, nova):
    def fill_other_hosts_at_migration(uuid: str, source: str, target: str) -> None:
        execute_move(cloud, {"instance": uuid, "from": source, "to": target})
        if uuid == INSTANCES[1]:
            for number, host in enumerate(("cn8", "cn9"), 50):
                large = make_flavor(memory_mb=56 * 1024)
                select_hosts(cloud, make_spec(make_uuid(number), flavor=large, force_hosts=[host]))

    nova.arrived = fill_other_hosts_at_migration
    assert run_nova_cli(*DRAIN_CN7, "--execute")[0] == 1
    run = read_plan_run(cloud)
    failed = next(move for move in run["moves"] if move["state"] == "failed")
    assert re.match(rf"{failed['to']} rejects it now: .*MEMORY_MB", failed["error"])
    assert nova.count_migrations() == run["counts"]["done"]
    decision = cloud.get(f"/scheduler/v1/decisions/{failed['decision']}").json
    assert (decision["kind"], decision["outcome"]) == ("move", "no_valid_host")


def test_move_that_does_not_end_in_time_is_a_failure(run_nova_cli, cloud, nova, monkeypatch):
    monkeypatch.setattr(plan_runs, "POLL_SECONDS", 0.5)
    nova.held.add(INSTANCES[0])
    command = (*DRAIN_CN7, "--execute", "--move-timeout", "1", "--stop-on-failure")
    assert run_nova_cli(*command)[0] == 1
    run = read_plan_run(cloud)
    assert run["moves"][0]["error"] == "nova has not finished it after 1 s"
    nova.finish(INSTANCES[0])
    others = [word for uuid in INSTANCES[1:] for word in ("--skip", uuid)]
    assert run_nova_cli("plan", "--resume", run["uuid"], *others)[0] == 0
    assert list_move_states(read_plan_run(cloud)) == ["done", *["skipped"] * 5]


def test_plan_execution_polls_nova_again_after_two_503_responses(run_nova_cli, cloud, nova):
    polls = []

    def fail_first_two_requests(method: str, path: str) -> None:
        if (INSTANCES[0], "os-migrateLive") in nova.list_actions():
            polls.append(path)
        nova.failure = ("503 Service Unavailable", None) if len(polls) in {2, 3} else None

    nova.watch = fail_first_two_requests
    assert run_nova_cli(*DRAIN_CN7, "--execute")[0] == 0
    assert nova.count_migrations() == 6


def test_plan_run_stops_if_nova_is_unavailable_and_can_be_resumed(run_nova_cli, cloud, nova):
    def fail_requests_after_three_migrations(*_request: str) -> None:
        is_away = len(nova.list_actions()) == 3
        nova.failure = ("503 Service Unavailable", None) if is_away else None

    nova.watch = fail_requests_after_three_migrations
    status, _, err = run_nova_cli(*DRAIN_CN7, "--execute")
    run = read_plan_run(cloud)
    assert (status, run["state"], list_move_states(run)[2]) == (1, "stopped", "started")
    assert f"continue with: placement-sched plan --resume {run['uuid']}" in err
    nova.watch, nova.failure = lambda *_: None, None
    assert run_nova_cli("plan", "--resume", run["uuid"])[0] == 0
    assert [nova.count_migrations(uuid) for uuid in INSTANCES] == [1] * 6


def test_instances_that_a_drain_cannot_move_are_shown_with_reasons(run_nova_cli, cloud, nova):
    for number, host in enumerate(("cn8", "cn9"), 50):
        large = make_flavor(memory_mb=56 * 1024)
        select_hosts(cloud, make_spec(make_uuid(number), flavor=large, force_hosts=[host]))
    status, out, _ = run_nova_cli(*DRAIN_CN7, "--execute")
    run = read_plan_run(cloud)
    assert (status, run["state"], run["counts"]["done"]) == (1, "done", 4)
    assert [stuck["instance"] for stuck in run["stuck"]] == INSTANCES[4:]
    assert "Stuck: 2" in out
    assert run["stuck"][0]["reason"] in " ".join(out.split())


def test_instances_unknown_to_the_scheduler_are_reported_after_a_drain(run_nova_cli, cloud, nova):
    unknown = [make_uuid(60), make_uuid(61)]
    for uuid in unknown:
        nova.add_server(uuid, "cn7")
    words = f"placement-sched: 2 instances remain on cn7 in nova: {', '.join(unknown)}\n"
    status, out, err = run_nova_cli(*DRAIN_CN7, "--execute", "-f", "json")
    assert (status, err, json.loads(out)["state"]) == (1, words, "done")
    # The plan has no moves left.
    status, _, err = run_nova_cli(*DRAIN_CN7, "--execute")
    assert (status, err) == (1, words)
    for uuid in unknown:
        del nova.servers[uuid]
    status, _, err = run_nova_cli(*DRAIN_CN7, "--execute")
    assert (status, err) == (0, "")


def test_drain_of_a_host_disabled_before_keeps_the_reason(run_nova_cli, nova):
    nova.add_service("cn7", reason="broken fan")
    assert "host cn7 is disabled: broken fan" in run_nova_cli(*DRAIN_CN7, "--execute")[1]
    assert [request for request in nova.seen if request[0] == "PUT"] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        *(
            (words, "HOST: there is no host 'cn77'. Did you mean 'cn7'?")
            for words in (("host", "drain", "cn77"), ("host", "drain", "cn77", "--execute"))
        ),
        (
            ("host", "undrain", "cn77"),
            "nova has no compute service on host 'cn77'. Did you mean 'cn7'?",
        ),
        (("plan", "--resume", make_uuid(1)), f"No run with uuid {make_uuid(1)} found"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_plan_execution_error_is_reported_in_one_line(run_nova_cli, arguments, words):
    status, out, err = run_nova_cli(*arguments)
    assert (status, out) == (1, "")
    assert err == f"placement-sched: {words}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("plan", "--change", "add=cn7*2", "--execute"),
            "--execute does not accept add: the added hosts do not exist",
        ),
        (
            ("plan", "--resume", make_uuid(1), "--change", "drain=cn7"),
            "--resume does not accept --change",
        ),
        (("plan", "--resume", make_uuid(1), "--flavor", "m1"), "--resume does not accept --flavor"),
        (("plan", "--change", "drain=cn7", "--skip", make_uuid(1)), "--skip needs --resume"),
        (("rebalance", "--cold"), "--cold needs --execute"),
        (("rebalance", "--stop-on-failure"), "--stop-on-failure needs --execute"),
        (("host", "drain", "cn7", "--parallel", "2"), "--parallel needs --execute"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_arguments_of_plan_execution_end_with_status_2(run_nova_cli, arguments, words):
    assert run_nova_cli(*arguments) == (2, "", f"placement-sched: {words}\n")


def test_host_unknown_to_the_scheduler_is_not_disabled(run_nova_cli, nova):
    nova.add_service("cn77")
    status, out, err = run_nova_cli("host", "drain", "cn77", "--execute")
    assert (status, out) == (1, "")
    assert err == "placement-sched: HOST: there is no host 'cn77'. Did you mean 'cn7'?\n"
    assert nova.services["cn77"]["status"] == "enabled"


def test_host_without_a_compute_service_in_nova_is_not_drained(run_nova_cli, nova):
    nova.services = {"cn70": {**nova.services["cn7"], "host": "cn70"}}
    status, out, err = run_nova_cli(*DRAIN_CN7, "--execute")
    assert (status, out, nova.list_actions()) == (1, "", [])
    words = "nova has no compute service on host 'cn7'. Did you mean 'cn70'?"
    assert err == f"placement-sched: {words}\n"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        *(
            (words, f"argument HOST: expected the name of a host, not {words[2]!r}")
            for words in (
                ("host", "drain", "", "--execute"),
                ("host", "drain", " "),
                ("host", "undrain", ""),
            )
        ),
        *(
            ((*DRAIN_CN7, "--parallel", value), f"expected a number of 1 or more, not '{value}'")
            for value in ("0", "x")
        ),
    ],
)
def test_invalid_option_of_a_plan_execution_is_a_usage_error(run_nova_cli, nova, command, words):
    status, _, err = run_nova_cli(*command)
    assert (status, words in err) == (2, True)
    assert nova.seen == []


def test_plan_execution_without_the_address_of_nova_is_an_error(cloud, run_cli):
    words = "nova's compute API is not set: add --os-cloud or --nova-url, or set $OS_AUTH_URL"
    assert run_cli(*DRAIN_CN7, "--execute") == (1, "", f"placement-sched: {words}\n")


@pytest.fixture
def drain_process(cloud, nova, sqlite_url, tmp_path):
    with start_execution([*DRAIN_CN7, "--execute"], nova, sqlite_url, tmp_path) as process:
        yield process, tmp_path / "out"


def test_sigint_stops_a_plan_run_that_can_be_resumed(drain_process, run_nova_cli, cloud, nova):
    process, out = drain_process
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    run = read_plan_run(cloud)
    assert (run["state"], list_move_states(run)[:4]) == (
        "stopped",
        ["done", "done", "started", "planned"],
    )
    assert f"run {run['uuid']} is stopped: 3 planned, 1 started, 2 done" in out.read_text()
    nova.finish(INSTANCES[2])
    assert run_nova_cli("plan", "--resume", run["uuid"])[0] == 0
    assert [nova.count_migrations(uuid) for uuid in INSTANCES] == [1] * 6


@pytest.mark.exhaustive
def test_resumption_of_a_killed_plan_run_repeats_no_move(drain_process, run_nova_cli, cloud, nova):
    process, _ = drain_process
    process.kill()
    process.wait(60)
    run = read_plan_run(cloud)
    assert (run["state"], list_move_states(run)[2]) == ("running", "started")
    nova.finish(INSTANCES[2])
    assert run_nova_cli("plan", "--resume", run["uuid"])[0] == 0
    assert set(list_move_states(read_plan_run(cloud))) == {"done"}
    assert [nova.count_migrations(uuid) for uuid in INSTANCES] == [1] * 6


@pytest.mark.exhaustive
def test_plan_run_ends_when_another_process_resumes_it(drain_process, run_nova_cli, cloud, nova):
    process, out = drain_process
    run = read_plan_run(cloud)
    nova.failing.add(INSTANCES[4])
    nova.finish(INSTANCES[2])
    run_nova_cli("plan", "--resume", run["uuid"])
    assert process.wait(60) == 1
    assert f"Run {run['uuid']} has another executor" in out.read_text()
    # Each instance is moved once. The failed move does not end the resumed run.
    assert [nova.count_migrations(uuid) for uuid in INSTANCES] == [1] * 6
