# SPDX-License-Identifier: Apache-2.0
"""The pages of runs of plans: the list, the moves of a run, and links to them."""

import pytest

from tests.support.scheduling import make_report, make_spec, make_uuid, select_hosts

PLAN_RUNS_PAGE_PATH = "/console/plan_runs"
PLAN_RUNS_API_PATH = "/scheduler/v1/plan_runs"
EXECUTOR_UUID = make_uuid(101)


@pytest.fixture
def failed_run(sqlite_app) -> dict:
    """A failed run of two moves. The first is done."""
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    moves = []
    for number in (1, 2):
        select_hosts(sqlite_app, make_spec(make_uuid(number), force_hosts=["cn1"]))
        moves.append({"instance": make_uuid(number), "from": "cn1", "to": "cn2"})
    body = {"kind": "drain", "method": "live", "parallel": 1, "executor": EXECUTOR_UUID}
    stuck = [{"instance": make_uuid(3), "host": "cn1", "reason": "no space <b>at all</b>"}]
    failed_run = sqlite_app.post_json(
        PLAN_RUNS_API_PATH, {**body, "moves": moves, "stuck": stuck}
    ).json
    path = f"{PLAN_RUNS_API_PATH}/{failed_run['uuid']}"
    for number, state, error in ((1, "started", None), (1, "done", None), (2, "failed", "<i>x")):
        change = {"executor": EXECUTOR_UUID, "state": state, "error": error}
        sqlite_app.put_json(f"{path}/moves/{make_uuid(number)}", change)
    return sqlite_app.put_json(path, {"executor": EXECUTOR_UUID, "state": "failed"}).json


def test_plan_runs_are_listed_with_their_states_and_counts(browser, failed_run):
    page = browser.get(PLAN_RUNS_PAGE_PATH)
    (row,) = page.html.select("tbody tr")
    words = row.get_text(" ", strip=True)
    assert words.endswith("drain failed 2 1 0 1 admin")
    assert row.a["href"] == f"{PLAN_RUNS_PAGE_PATH}/{failed_run['uuid']}"
    assert len(browser.get(f"{PLAN_RUNS_PAGE_PATH}?state=failed").html.select("tbody tr")) == 1
    assert "No run is done." in browser.get(f"{PLAN_RUNS_PAGE_PATH}?state=done").text


def test_empty_list_of_plan_runs_states_that_no_plan_was_executed(browser):
    assert "No plan has been carried out." in browser.get(PLAN_RUNS_PAGE_PATH).text


def test_plan_run_shows_moves_errors_stuck_instances_and_how_to_continue(browser, failed_run):
    page = browser.get(f"{PLAN_RUNS_PAGE_PATH}/{failed_run['uuid']}")
    text = " ".join(page.html.main.get_text(" ", strip=True).split())
    assert "The run is failed: 0 planned, 0 started, 1 done, 1 failed" in text
    assert f"placement-sched plan --resume {failed_run['uuid']}" in text
    assert "<i>x" in text
    assert "no space <b>at all</b>" in text
    decision = failed_run["moves"][0]["decision"]
    assert page.html.find("a", string="done")["href"] == f"/console/decisions/{decision}"
    assert page.html.find("form", method="post") is None


def test_running_drain_is_shown_on_overview_host_and_map(browser, sqlite_app):
    """A running drain was visible on its own page only."""
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    for path in ("/console/", "/console/hosts/cn1"):
        assert "moves done" not in browser.get(path)
    moves = []
    for number in (1, 2):
        select_hosts(sqlite_app, make_spec(make_uuid(number), force_hosts=["cn1"]))
        moves.append({"instance": make_uuid(number), "from": "cn1", "to": "cn2"})
    body = {"kind": "drain", "method": "live", "parallel": 1, "executor": EXECUTOR_UUID}
    run = sqlite_app.post_json(PLAN_RUNS_API_PATH, {**body, "moves": moves}).json
    for state in ("started", "done"):
        sqlite_app.put_json(
            f"{PLAN_RUNS_API_PATH}/{run['uuid']}/moves/{make_uuid(1)}",
            {"executor": EXECUTOR_UUID, "state": state},
        )
    for path in ("/console/", "/console/hosts/cn1"):
        link = browser.get(path).html.find("a", href=f"{PLAN_RUNS_PAGE_PATH}/{run['uuid']}")
        assert link.text == "1 of 2 moves done"
        assert "Drain of cn1" in link.parent.text
    assert "moves done" not in browser.get("/console/hosts/cn2")
    (plan,) = browser.get("/console/cloud/running").json["running"]
    assert (plan["uuid"], plan["hosts"]) == (run["uuid"], ["cn1"])
    assert (plan["done"], plan["failed"], plan["total"]) == (1, 0, 2)


def test_unknown_plan_run_is_404(browser):
    assert (
        "No run with uuid" in browser.get(f"{PLAN_RUNS_PAGE_PATH}/{make_uuid(9)}", status=404).text
    )


def test_advice_on_moves_and_decisions_link_to_the_plan_runs(browser):
    for path in ("/console/capacity/moves", "/console/decisions?kind=move"):
        assert browser.get(path).html.find("a", href=PLAN_RUNS_PAGE_PATH) is not None
