# SPDX-License-Identifier: Apache-2.0
"""ChanceScheduler: any host that is up, as nova had it until 18 (Rocky)."""

from collections import Counter

import pytest

from tests.conftest import make_settings
from tests.support.scheduling import hosts_of, instance, report, spec

pytestmark = pytest.mark.slow

SELECT = "/scheduler/v1/select_destinations"
EXPLAIN = "/scheduler/v1/explain"
OLD = "2020-01-01T00:00:00Z"


@pytest.fixture
def cloud(database_url, make_app):
    settings = make_settings(
        database_url,
        scheduler__driver="chance_scheduler",
        filter_scheduler__enabled_filters=["JsonFilter"],
    )
    app = make_app(settings)
    reports = [report(f"cn{number}") for number in range(1, 6)]
    reports[4]["last_seen_up"] = OLD
    app.post_json("/scheduler/v1/compute_nodes", reports)
    return app


def ask(app, *instances, path=EXPLAIN, **changes):
    return app.post_json(path, {"request_spec": spec(*instances, **changes)}).json


def test_any_host_that_is_up_is_taken(cloud):
    taken = Counter(hosts_of(ask(cloud))[0] for _ in range(100))
    assert set(taken) == {"cn1", "cn2", "cn3", "cn4"}


def test_filters_that_are_enabled_do_not_run_and_nothing_is_weighed(cloud):
    answer = ask(cloud, scheduler_hints={"query": '["=", "$host", "cn1"]'})
    told = {one["name"]: one["rejected"] for one in answer["funnel"]["filters"]}
    assert list(told) == ["ComputeFilter"]
    assert [one["host"] for one in told["ComputeFilter"]] == ["cn5"]
    assert answer["funnel"]["weighers"] == []
    assert {one["weight"] for one in answer["hosts"]} == {0.0}


def test_ignored_and_disabled_hosts_are_left_out(cloud):
    body = {"host": "cn2", "binary": "nova-compute"}
    cloud.put_json("/compute/v2.1/os-services/disable", body)
    seen = {hosts_of(ask(cloud, ignore_hosts=["cn1"]))[0] for _ in range(60)}
    assert seen == {"cn3", "cn4"}


def test_instances_of_one_request_go_to_different_hosts_while_there_are_enough(cloud):
    for _ in range(10):
        assert set(hosts_of(ask(cloud, *map(instance, range(1, 5))))) == {
            "cn1",
            "cn2",
            "cn3",
            "cn4",
        }
    five = Counter(hosts_of(ask(cloud, *map(instance, range(1, 6)))))
    assert sorted(five.values()) == [1, 1, 1, 2]


def test_what_is_chosen_is_claimed(cloud):
    answer = ask(cloud, instance(1), path=SELECT)
    allocated = cloud.get(f"/placement/allocations/{instance(1)}").json["allocations"]
    assert list(allocated) == [answer["selections"][0][0]["compute_node_uuid"]]
