# SPDX-License-Identifier: Apache-2.0
"""Driver that selects any host that is up, as in nova until 18."""

from collections import Counter
from random import Random

import pytest

from tests.conftest import make_settings
from tests.scheduler.drivers.requests import SELECT_PATH, post_request_spec
from tests.support.scheduling import get_selected_hosts, make_report, make_uuid

pytestmark = pytest.mark.slow

OLD_REPORT_TIME = "2020-01-01T00:00:00Z"


@pytest.fixture
def cloud(database_url, make_app):
    settings = make_settings(
        database_url,
        scheduler__driver="chance_scheduler",
        filter_scheduler__enabled_filters=["JsonFilter"],
    )
    app = make_app(settings, random=Random(7))
    reports = [make_report(f"cn{number}") for number in range(1, 6)]
    reports[4]["last_seen_up"] = OLD_REPORT_TIME
    app.post_json("/scheduler/v1/compute_nodes", reports)
    return app


def test_chance_scheduler_may_select_any_host_that_is_up(cloud):
    hosts = {get_selected_hosts(post_request_spec(cloud))[0] for _ in range(40)}
    assert hosts == {"cn1", "cn2", "cn3", "cn4"}
    body = {"host": "cn2", "binary": "nova-compute"}
    cloud.put_json("/compute/v2.1/os-services/disable", body)
    hosts = {
        get_selected_hosts(post_request_spec(cloud, ignore_hosts=["cn1"]))[0] for _ in range(10)
    }
    assert hosts == {"cn3", "cn4"}


def test_chance_scheduler_runs_no_enabled_filters_and_weighers(cloud):
    result = post_request_spec(cloud, scheduler_hints={"query": '["=", "$host", "cn1"]'})
    response = {stage["name"]: stage["rejected"] for stage in result["funnel"]["filters"]}
    assert list(response) == ["ComputeFilter"]
    assert [entry["host"] for entry in response["ComputeFilter"]] == ["cn5"]
    assert result["funnel"]["weighers"] == []
    assert {host["weight"] for host in result["hosts"]} == {0.0}


def test_chance_scheduler_selects_different_hosts_for_instances_if_possible(cloud):
    for _ in range(3):
        hosts = get_selected_hosts(post_request_spec(cloud, *map(make_uuid, range(1, 5))))
        assert sorted(hosts) == ["cn1", "cn2", "cn3", "cn4"]
    five = Counter(get_selected_hosts(post_request_spec(cloud, *map(make_uuid, range(1, 6)))))
    assert sorted(five.values()) == [1, 1, 1, 2]


def test_chance_scheduler_claims_the_selected_host(cloud):
    result = post_request_spec(cloud, make_uuid(1), path=SELECT_PATH)
    allocated = cloud.get(f"/placement/allocations/{make_uuid(1)}").json["allocations"]
    assert list(allocated) == [result["selections"][0][0]["compute_node_uuid"]]
