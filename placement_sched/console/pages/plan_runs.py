# SPDX-License-Identifier: Apache-2.0
"""Pages of plan runs: the list with states, and the moves of a run.

The pages only read the runs.
"""

from collections.abc import Callable, Mapping
from urllib.parse import urlencode

import flask

from placement_sched.console.client import join_path
from placement_sched.console.page import Share, api_client, next_page_query, page
from placement_sched.model.plan_run import FAILED, MOVE_STATES, PLANNED, RUN_STATES, STARTED

_RUNS = "/scheduler/v1/plan_runs"
#: Runs per page.
_PAGE_SIZE = 50


def index() -> flask.Response:
    """List runs, newest first."""
    args = flask.request.args
    filters = {"state": state} if (state := args.get("state", "").strip()) else {}
    query = {**filters, "limit": _PAGE_SIZE, "marker": args.get("marker")}
    document = api_client().get(_RUNS, query)
    root = f"{flask.request.root_path}/console"
    values = {
        "runs": document["plan_runs"],
        "states": RUN_STATES,
        "chosen": filters.get("state"),
        "older": next_page_query(document["links"]),
        "share": Share(
            command="placement-sched plan-run list", json=f"{root}/api{_RUNS}?{urlencode(filters)}"
        ),
    }
    return page("plan_runs.html", "Runs of plans", values)


def show(uuid: str) -> flask.Response:
    """Show a run with its moves, in the order of the plan."""
    path = join_path("scheduler", "v1", "plan_runs", uuid)
    run = api_client().get(path)
    values = {
        "run": run,
        "states": MOVE_STATES,
        "can_resume": any(run["counts"][state] for state in (PLANNED, STARTED, FAILED)),
        "share": Share(
            command=f"placement-sched plan-run show {run['uuid']}",
            json=f"{flask.request.root_path}/console/api{path}",
        ),
    }
    return page("plan_run.html", "Run of a plan", values)


VIEWS: Mapping[str, Callable[..., flask.Response]] = {
    "/plan_runs": index,
    "/plan_runs/<uuid>": show,
}
