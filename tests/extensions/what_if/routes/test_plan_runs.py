# SPDX-License-Identifier: Apache-2.0
"""Runs of plans: moves with their checks and results, and the executors that may write."""

import pytest

from tests.extensions.what_if.evacuations import execute_evacuation, force_down
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid, select_hosts
from tests.support.statements import record_statements

RUNS_PATH = "/scheduler/v1/plan_runs"
EXECUTOR, OTHER_EXECUTOR = make_uuid(101), make_uuid(102)


def build_run_body(*moves, **changes):
    return {
        "kind": "plan",
        "method": "live",
        "parallel": 2,
        "executor": EXECUTOR,
        "moves": [dict(zip(("instance", "from", "to"), move, strict=True)) for move in moves],
        **changes,
    }


FIRST_MOVE = (make_uuid(1), "cn1", "cn2")
SECOND_MOVE = (make_uuid(2), "cn1", "cn3")


@pytest.fixture
def cloud_app(app):
    """Three hosts of 8 GB, with two instances of 3 GB on cn1."""
    reports = [make_report(f"cn{number}", memory_mb=8192) for number in (1, 2, 3)]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    for number in (1, 2):
        size = make_flavor(memory_mb=3072)
        select_hosts(app, make_spec(make_uuid(number), flavor=size, force_hosts=["cn1"]))
    return app


def create_run(app, *moves, **changes):
    return app.post_json(RUNS_PATH, build_run_body(*moves, **changes), status=201).json


def change_move(app, run, uuid, state, status=200, executor=EXECUTOR, **more):
    body = {"executor": executor, "state": state, **more}
    return app.put_json(f"{RUNS_PATH}/{run['uuid']}/moves/{uuid}", body, status=status).json


def read_error_detail(response):
    return response["errors"][0]["detail"]


@pytest.mark.all_databases
def test_plan_run_is_recorded_with_its_moves_in_order(cloud_app):
    stuck = [{"instance": make_uuid(9), "host": "cn1", "reason": "no space for \N{SNOWMAN}"}]
    request = {"changes": [{"drain": ["cn1"]}]}
    run = create_run(cloud_app, SECOND_MOVE, FIRST_MOVE, stuck=stuck, request=request)
    assert [(move["instance"], move["from"], move["to"]) for move in run["moves"]] == [
        SECOND_MOVE,
        FIRST_MOVE,
    ]
    assert {move["state"] for move in run["moves"]} == {"planned"}
    assert (run["state"], run["user_id"], run["request"]) == ("running", "admin", request)
    assert run["stuck"] == [{**stuck[0], "name": None}]
    assert run["moves"][0]["name"] is not None
    assert cloud_app.get(f"{RUNS_PATH}/{run['uuid']}").json == run
    assert "executor" not in run


@pytest.mark.all_databases
def test_move_of_a_plan_run_can_be_started_and_finished(cloud_app):
    run = create_run(cloud_app, FIRST_MOVE, SECOND_MOVE)
    move = change_move(cloud_app, run, make_uuid(1), "started")
    assert (move["state"], move["rejection"], move["finished_at"]) == ("started", None, None)
    decision = cloud_app.get(f"/scheduler/v1/decisions/{move['decision']}").json
    assert (decision["kind"], decision["outcome"]) == ("move", "selected")
    assert decision["instances"][0]["host"] == "cn2"
    done = change_move(cloud_app, run, make_uuid(1), "done")
    assert done["state"] == "done"
    assert done["finished_at"] >= done["started_at"]
    failed = change_move(cloud_app, run, make_uuid(2), "failed", error="broken \N{SNOWMAN}")
    assert failed["error"].startswith("broken ")
    assert change_move(cloud_app, run, make_uuid(2), "started")["error"] is None
    counts = cloud_app.get(f"{RUNS_PATH}/{run['uuid']}").json["counts"]
    assert counts == {"planned": 0, "started": 1, "done": 1, "failed": 0, "skipped": 0}


def test_start_of_a_move_does_not_change_the_capacity_of_hosts(cloud_app):
    before = cloud_app.get("/scheduler/v1/hosts").json
    change_move(cloud_app, create_run(cloud_app, FIRST_MOVE), make_uuid(1), "started")
    assert cloud_app.get("/scheduler/v1/hosts").json == before


def test_start_of_a_move_is_rejected_if_the_target_host_has_become_full(cloud_app):
    run = create_run(cloud_app, FIRST_MOVE)
    select_hosts(
        cloud_app, make_spec(make_uuid(3), flavor=make_flavor(memory_mb=7168), force_hosts=["cn2"])
    )
    move = change_move(cloud_app, run, make_uuid(1), "started")
    assert (move["state"], move["started_at"]) == ("planned", None)
    assert "MEMORY_MB: 1024 free of 8192, 3072 requested" in move["rejection"]
    amounts = ("capacity", "MEMORY_MB", 3072, 1024)
    keys = ("kind", "resource_class", "requested", "free")
    assert tuple(move[key] for key in keys) == amounts
    decision = cloud_app.get(f"/scheduler/v1/decisions/{move['decision']}").json
    assert (decision["kind"], decision["outcome"]) == ("move", "no_valid_host")


def test_start_of_a_move_is_rejected_unless_the_instance_is_on_its_source_host(cloud_app):
    for move, rejection in [
        ((make_uuid(1), "cn3", "cn2"), "it is recorded on cn1, not on cn3"),
        ((make_uuid(7), "cn1", "cn2"), "it is not recorded: see placement-sched nova sync"),
    ]:
        response = change_move(cloud_app, create_run(cloud_app, move), move[0], "started")
        assert (response["state"], response["rejection"]) == ("planned", rejection), rejection


def test_start_of_a_move_is_rejected_if_the_target_host_does_not_exist(cloud_app):
    response = change_move(
        cloud_app, create_run(cloud_app, (make_uuid(1), "cn1", "cn9")), make_uuid(1), "started"
    )
    assert "cn9" in response["rejection"]


@pytest.mark.all_databases
def test_change_of_a_plan_run_by_another_executor_is_409(cloud_app):
    run = create_run(cloud_app, FIRST_MOVE)
    path = f"{RUNS_PATH}/{run['uuid']}"
    words = f"Run {run['uuid']} has another executor"
    response = change_move(cloud_app, run, make_uuid(1), "started", 409, executor=OTHER_EXECUTOR)
    assert read_error_detail(response).startswith(words)
    stopped = {"executor": OTHER_EXECUTOR, "state": "stopped"}
    assert read_error_detail(cloud_app.put_json(path, stopped, status=409).json).startswith(words)
    cloud_app.put_json(path, {"executor": OTHER_EXECUTOR, "state": "running"})
    response = change_move(cloud_app, run, make_uuid(1), "started", 409)
    assert read_error_detail(response).startswith(words)
    assert (
        change_move(cloud_app, run, make_uuid(1), "started", executor=OTHER_EXECUTOR)["rejection"]
        is None
    )


@pytest.mark.all_databases
def test_finished_or_skipped_move_of_a_plan_run_cannot_be_changed(cloud_app):
    for state in ["done", "skipped"]:
        run = create_run(cloud_app, FIRST_MOVE)
        change_move(cloud_app, run, make_uuid(1), state)
        for later in ("started", "failed"):
            response = change_move(cloud_app, run, make_uuid(1), later, 409)
            assert (
                read_error_detail(response)
                == f"The move of instance {make_uuid(1)} is already done or skipped"
            ), state


def test_resumption_of_a_plan_run_that_is_done_is_409(cloud_app):
    run = create_run(cloud_app, FIRST_MOVE)
    path = f"{RUNS_PATH}/{run['uuid']}"
    change_move(cloud_app, run, make_uuid(1), "skipped")
    cloud_app.put_json(path, {"executor": EXECUTOR, "state": "done"})
    response = cloud_app.put_json(
        path, {"executor": OTHER_EXECUTOR, "state": "running"}, status=409
    ).json
    assert read_error_detail(response) == f"Run {run['uuid']} is already done"


@pytest.mark.all_databases
def test_plan_run_with_planned_or_started_moves_cannot_change_to_done(cloud_app):
    run = create_run(cloud_app, FIRST_MOVE, SECOND_MOVE)
    path, done = f"{RUNS_PATH}/{run['uuid']}", {"executor": EXECUTOR, "state": "done"}
    response = cloud_app.put_json(path, done, status=409).json
    words = f"Run {run['uuid']} cannot change to done: "
    assert read_error_detail(response) == f"{words}2 moves are planned or started"
    change_move(cloud_app, run, make_uuid(1), "started")
    change_move(cloud_app, run, make_uuid(2), "skipped")
    response = cloud_app.put_json(path, done, status=409).json
    assert read_error_detail(response) == f"{words}1 move is planned or started"
    assert cloud_app.get(path).json["state"] == "running"
    change_move(cloud_app, run, make_uuid(1), "failed")
    assert cloud_app.put_json(path, done).json["state"] == "done"


@pytest.mark.all_databases
@pytest.mark.parametrize("state", ["stopped", "failed"])
def test_move_starts_only_while_its_plan_run_is_running(cloud_app, state):
    run = create_run(cloud_app, FIRST_MOVE, SECOND_MOVE)
    path = f"{RUNS_PATH}/{run['uuid']}"
    change_move(cloud_app, run, make_uuid(1), "started")
    cloud_app.put_json(path, {"executor": EXECUTOR, "state": state})
    response = change_move(cloud_app, run, make_uuid(2), "started", 409)
    words = f"Run {run['uuid']} is {state}. Moves start only in the state running: "
    assert read_error_detail(response).startswith(words)
    assert change_move(cloud_app, run, make_uuid(1), "done")["state"] == "done"
    cloud_app.put_json(path, {"executor": OTHER_EXECUTOR, "state": "running"})
    change_move(cloud_app, run, make_uuid(2), "started", executor=OTHER_EXECUTOR)


@pytest.mark.all_databases
def test_plan_runs_are_listed_newest_first_page_by_page(cloud_app):
    runs = [create_run(cloud_app, FIRST_MOVE, kind=kind) for kind in ("plan", "rebalance", "drain")]
    cloud_app.put_json(f"{RUNS_PATH}/{runs[0]['uuid']}", {"executor": EXECUTOR, "state": "failed"})
    page = cloud_app.get(f"{RUNS_PATH}?limit=2").json
    assert [run["kind"] for run in page["plan_runs"]] == ["drain", "rebalance"]
    (link,) = page["links"]
    last = cloud_app.get(link["href"]).json
    assert [run["kind"] for run in last["plan_runs"]] == ["plan"]
    assert last["links"] == []
    assert last["plan_runs"][0]["counts"]["planned"] == 1
    assert [
        run["kind"] for run in cloud_app.get(f"{RUNS_PATH}?state=failed").json["plan_runs"]
    ] == ["plan"]
    assert cloud_app.get(f"{RUNS_PATH}?kind=drain&state=done").json["plan_runs"] == []


def test_invalid_plan_run_is_400_with_the_path_of_the_error(cloud_app):
    for body, words in [
        (build_run_body(), "(at $.moves)"),
        (
            build_run_body(FIRST_MOVE, (make_uuid(1), "cn1", "cn3")),
            "has two moves (at $.moves[1].instance)",
        ),
        (build_run_body((make_uuid(1), "cn1", "cn1")), "same host: cn1 (at $.moves[0].to)"),
        (build_run_body(FIRST_MOVE, parallel=0), "(at $.parallel)"),
        (build_run_body(FIRST_MOVE, method="hot"), "'hot' is not one of"),
        (build_run_body(FIRST_MOVE, kind="plans"), "(at $.kind)"),
        (build_run_body(FIRST_MOVE, executor="me"), "(at $.executor)"),
        (build_run_body(FIRST_MOVE, moved=[]), "'moved' was unexpected"),
    ]:
        assert words in read_error_detail(cloud_app.post_json(RUNS_PATH, body, status=400).json), (
            words
        )


def test_unknown_plan_run_or_move_or_state_is_an_error(cloud_app):
    run = create_run(cloud_app, FIRST_MOVE)
    path = f"{RUNS_PATH}/{run['uuid']}"
    started = {"executor": EXECUTOR, "state": "started"}
    assert cloud_app.get(f"{RUNS_PATH}/{make_uuid(5)}", status=404)
    response = cloud_app.put_json(f"{path}/moves/{make_uuid(5)}", started, status=404).json
    assert f"Run {run['uuid']} has no move of instance {make_uuid(5)}" in read_error_detail(
        response
    )
    wrong = {"executor": EXECUTOR, "state": "planned"}
    response = cloud_app.put_json(f"{path}/moves/{make_uuid(1)}", wrong, status=400).json
    assert "(at $.state)" in read_error_detail(response)
    assert "marker" in read_error_detail(cloud_app.get(f"{RUNS_PATH}?marker=x", status=400).json)


def test_sql_statement_count_does_not_grow_with_moves(sqlite_app):
    counts = []
    for number in (1, 50):
        moves = [(make_uuid(each), "cn1", "cn2") for each in range(number)]
        run = create_run(sqlite_app, *moves)
        with record_statements(sqlite_app.app.services.database) as statements:
            sqlite_app.get(RUNS_PATH)
            sqlite_app.get(f"{RUNS_PATH}/{run['uuid']}")
            change_move(sqlite_app, run, moves[0][0], "done")
        counts.append(len(statements))
    assert counts[0] == counts[1]


FENCED = {"kind": "evacuation", "method": "evacuate", "request": {"fenced": True}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"kind": "evacuation"},
            "the method of a run of kind evacuation cannot be live (at $.method)",
        ),
        (
            {"method": "evacuate"},
            "the method of a run of kind plan cannot be evacuate (at $.method)",
        ),
        ({**FENCED, "request": {}}, "fenced must be true: switch the host off first"),
        ({**FENCED, "request": {"fenced": "yes"}}, "(at $.request.fenced)"),
        (
            {**FENCED, "moves": [{"instance": make_uuid(1), "from": "cn11", "to": "cn2"}]},
            "there is no host 'cn11'. Did you mean 'cn1'? (at $.moves)",
        ),
    ],
)
def test_invalid_run_of_an_evacuation_is_400(cloud_app, changes, words):
    force_down(cloud_app, "cn1")
    body = build_run_body(FIRST_MOVE, **changes)
    assert words in read_error_detail(cloud_app.post_json(RUNS_PATH, body, status=400).json)
    assert cloud_app.get(RUNS_PATH).json["plan_runs"] == []


def test_run_of_an_evacuation_needs_a_host_that_is_down(cloud_app):
    body = build_run_body(FIRST_MOVE, **FENCED)
    response = cloud_app.post_json(RUNS_PATH, body, status=409).json
    assert response["errors"][0]["code"] == "scheduler.host_is_up"
    force_down(cloud_app, "cn1")
    run = create_run(cloud_app, FIRST_MOVE, SECOND_MOVE, **FENCED)
    assert (run["kind"], run["method"]) == ("evacuation", "evacuate")
    # The instance keeps its allocations of the host that is down while its target is checked.
    assert change_move(cloud_app, run, make_uuid(1), "started")["rejection"] is None
    execute_evacuation(cloud_app, {"instance": make_uuid(1), "from": "cn1", "to": "cn2"})
    assert change_move(cloud_app, run, make_uuid(1), "done")["state"] == "done"
    assert change_move(cloud_app, run, make_uuid(2), "started")["rejection"] is None
