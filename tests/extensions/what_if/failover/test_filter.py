# SPDX-License-Identifier: Apache-2.0
"""FailoverCapacityFilter with computed results."""

import pytest

from placement_sched.extensions.what_if.failover.task import store_result
from tests.conftest import make_settings
from tests.support.api_clouds import SELECT_PATH, report_hosts_with_instances
from tests.support.scheduling import explain_request, make_spec, make_uuid

FILTER_NAME = "FailoverCapacityFilter"


@pytest.fixture
def cloud(sqlite_url, make_app):
    """Two hosts of 4 GiB with an instance each, and the filter."""
    settings = make_settings(sqlite_url)
    enabled = [*settings.filter_scheduler.enabled_filters, FILTER_NAME]
    app = make_app(settings.with_overrides({"filter_scheduler.enabled_filters": enabled}))
    report_hosts_with_instances(app, ["cn1", "cn2"], ["cn1", "cn2"])
    return app


def list_rejection_reasons(app, *numbers):
    request = make_spec(*map(make_uuid, numbers), flavor="small")
    stages = explain_request(app, request)["funnel"]["filters"]
    (stage,) = [stage for stage in stages if stage["name"] == FILTER_NAME]
    return {entry["reason"].partition(" (computed")[0] for entry in stage.get("rejected", ())}


def test_filter_rejects_more_instances_than_a_computed_result_allows(cloud):
    # Four instances fit on a host: two more leave the failover capacity intact.
    store_result(cloud.app.services.scheduler)
    assert list_rejection_reasons(cloud, 8, 9) == set()
    (reason,) = list_rejection_reasons(cloud, 7, 8, 9)
    assert reason in {
        "the failover capacity allows at most 2 more of flavor small: with 3, 1 or more "
        f"instances find no place if host {host} fails"
        for host in ("cn1", "cn2")
    }


def test_next_failover_result_rejects_new_instances_but_no_simulated_or_planned_moves(cloud):
    request = make_spec(make_uuid(7), make_uuid(8), flavor="small")
    cloud.post_json(SELECT_PATH, {"request_spec": request})
    store_result(cloud.app.services.scheduler)
    request = make_spec(make_uuid(9), flavor="small")
    result = cloud.post_json(SELECT_PATH, {"request_spec": request}, status=409).json
    assert result["errors"][0]["code"] == "scheduler.no_valid_host"
    assert len(list_rejection_reasons(cloud)) == 1
    changed = {"changes": [{"add": {"like": "cn1", "count": 1}}]}
    body = {"request_spec": make_spec(flavor="small"), **changed}
    result = cloud.post_json("/scheduler/v1/explain", body).json
    assert result["outcome"] == "selected"
    assert FILTER_NAME not in {stage["name"] for stage in result["funnel"]["filters"]}
    moves = [{"instance": make_uuid(1), "from": "cn1", "to": "cn2"}]
    body = {"kind": "plan", "method": "live", "parallel": 1, "executor": make_uuid(101)}
    run = cloud.post_json("/scheduler/v1/plan_runs", {**body, "moves": moves}).json
    path = f"/scheduler/v1/plan_runs/{run['uuid']}/moves/{make_uuid(1)}"
    move = cloud.put_json(path, {"executor": make_uuid(101), "state": "started"}).json
    assert move["rejection"] is None
