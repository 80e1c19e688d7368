# SPDX-License-Identifier: Apache-2.0
"""The pages of runs of plans: the list, the moves of a run, and links to them."""

import pytest

from tests.scheduler.test_scheduler import select
from tests.support.scheduling import instance, report, spec

PAGE = "/console/plan_runs"
RUNS = "/scheduler/v1/plan_runs"
EXECUTOR = instance(101)


@pytest.fixture
def recorded_run(sqlite_app) -> dict:
    """A failed run of two moves. The first is done."""
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [report("cn1"), report("cn2")])
    moves = []
    for number in (1, 2):
        select(sqlite_app, spec(instance(number), force_hosts=["cn1"]))
        moves.append({"instance": instance(number), "from": "cn1", "to": "cn2"})
    body = {"kind": "drain", "method": "live", "parallel": 1, "executor": EXECUTOR}
    stuck = [{"instance": instance(3), "host": "cn1", "reason": "no space <b>at all</b>"}]
    recorded_run = sqlite_app.post_json(RUNS, {**body, "moves": moves, "stuck": stuck}).json
    path = f"{RUNS}/{recorded_run['uuid']}"
    for number, state, error in ((1, "started", None), (1, "done", None), (2, "failed", "<i>x")):
        change = {"executor": EXECUTOR, "state": state, "error": error}
        sqlite_app.put_json(f"{path}/moves/{instance(number)}", change)
    return sqlite_app.put_json(path, {"executor": EXECUTOR, "state": "failed"}).json


def test_runs_are_listed_with_their_states_and_counts(browser, recorded_run):
    page = browser.get(PAGE)
    (row,) = page.html.select("tbody tr")
    words = row.get_text(" ", strip=True)
    assert words.endswith("drain failed 2 1 0 1 admin")
    assert row.a["href"] == f"{PAGE}/{recorded_run['uuid']}"
    assert len(browser.get(f"{PAGE}?state=failed").html.select("tbody tr")) == 1
    assert "No run is done." in browser.get(f"{PAGE}?state=done").text


def test_empty_list_states_that_no_plan_was_executed(browser):
    assert "No plan has been carried out." in browser.get(PAGE).text


def test_run_shows_its_moves_errors_stuck_instances_and_the_way_to_continue(browser, recorded_run):
    page = browser.get(f"{PAGE}/{recorded_run['uuid']}")
    text = " ".join(page.html.main.get_text(" ", strip=True).split())
    assert "The run is failed: 0 planned, 0 started, 1 done, 1 failed" in text
    assert f"placement-sched plan --resume {recorded_run['uuid']}" in text
    assert "<i>x" in text
    assert "no space <b>at all</b>" in text
    decision = recorded_run["moves"][0]["decision"]
    assert page.html.find("a", string="done")["href"] == f"/console/decisions/{decision}"
    assert page.html.find("form", method="post") is None


def test_unknown_run_is_not_found(browser):
    assert "No run with uuid" in browser.get(f"{PAGE}/{instance(9)}", status=404).text


def test_advice_on_moves_and_decisions_link_to_the_runs(browser):
    for path in ("/console/capacity/moves", "/console/decisions?kind=move"):
        assert browser.get(path).html.find("a", href=PAGE) is not None
