# SPDX-License-Identifier: Apache-2.0
"""POST /plan: what changes come to, and moves that hold when they are carried out."""

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings

from tests.conftest import make_settings
from tests.exploring import draws
from tests.scheduler.carrying_out import (
    COMPUTE,
    FLAVORS,
    application,
    carry_out,
    disable,
    fill,
    host_of,
    made,
    small_clouds,
    usage,
)
from tests.scheduler.test_scheduler import select
from tests.scheduler.test_simulation import dumped
from tests.support.scheduling import flavor, instance, report, spec


def plan(app, *changes, status=200, **more):
    body = {"changes": list(changes), **more}
    return app.post_json("/scheduler/v1/plan", body, status=status).json


def capacity(app, name):
    body = {"request_spec": {"flavor": name}}
    return app.post_json("/scheduler/v1/capacity", body).json["capacity"]


@pytest.fixture
def unhurried(database_url, make_app):
    """An application whose questions may take long: the tests' machine may be busy."""
    long = {"scheduler.what_if_timeout": 600}
    return make_app(make_settings(database_url).with_overrides(long))


@pytest.mark.slow
@pytest.mark.all_databases
@pytest.mark.parametrize("seed", range(4))
def test_what_a_plan_says_holds_when_it_is_carried_out(unhurried, seed):
    app = unhurried
    random = Random(seed)
    uuids = fill(app, random, hosts=6, number=16)
    drained = random.sample([f"cn{at}" for at in range(1, 7)], 2)
    for one in FLAVORS.values():
        stored = {"name": one["name"], "vcpus": 1, "ram": one["memory_mb"], "disk": 1}
        app.post_json("/compute/v2.1/flavors", {"flavor": stored}, headers=COMPUTE)
    before = dumped(app)
    told = plan(app, {"drain": drained})
    assert dumped(app) == before
    capacities = {one["flavor"]: (one["before"], one["after"]) for one in told["capacity"]}
    assert capacities.keys() == FLAVORS.keys()
    assert [one for one, _ in capacities.values()] == [capacity(app, one) for one in capacities]
    on_drained = {uuid for uuid in uuids if host_of(app, uuid) in drained}
    moving = {one["instance"] for one in told["moves"]}
    stuck = {one["instance"] for one in told["stuck"]}
    assert moving | stuck == on_drained
    assert not moving & stuck
    for host in drained:
        disable(app, host)
    for move in told["moves"]:
        assert move["to"] not in drained
        carry_out(app, move)
    for one in told["stuck"]:
        assert host_of(app, one["instance"]) == one["host"]
        assert one["reason"]
    assert [one for _, one in capacities.values()] == [capacity(app, one) for one in capacities]
    # Nothing more is to be done, and what was stuck still is.
    again = plan(app, {"drain": drained})
    assert again["moves"] == []
    assert {one["instance"] for one in again["stuck"]} == stuck


@pytest.mark.slow
@settings(max_examples=draws(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cloud=small_clouds())
def test_the_promise_of_a_plan_holds_when_it_is_carried_out(
    sqlite_template, tmp_path_factory, make_app, cloud
):
    """Every move passes the filters, with all that its instance was asked with, in this order."""
    sizes, asked, drained = cloud
    app = application(make_app, sqlite_template, tmp_path_factory.mktemp("plan"))
    kept = made(app, sizes, asked)
    on_drained = {uuid for uuid in kept if host_of(app, uuid) in drained}
    before = dumped(app)
    told = plan(app, {"drain": sorted(drained)})
    assert dumped(app) == before
    moving = [one["instance"] for one in told["moves"]]
    stuck = {one["instance"] for one in told["stuck"]}
    assert len(moving) == len(set(moving))
    assert (set(moving) | stuck, set(moving) & stuck) == (on_drained, set())
    for host in drained:
        disable(app, host)
    for move in told["moves"]:
        assert move["to"] not in drained
        carry_out(app, move, **kept[move["instance"]])
    # What was stuck finds no host now either, and nothing more is to be done.
    again = plan(app, {"drain": sorted(drained)})
    assert (again["moves"], {one["instance"] for one in again["stuck"]}) == ([], stuck)


@pytest.fixture
def cloud(app):
    """Three hosts with 8 GB; two instances with 3 GB on cn1."""
    names = ("cn1", "cn2", "cn3")
    app.post_json("/scheduler/v1/compute_nodes", [report(one, memory_mb=8192) for one in names])
    for at in (1, 2):
        select(app, spec(instance(at), flavor=flavor(memory_mb=3072), force_hosts=["cn1"]))
    return app


def test_equal_instances_each_find_room(cloud):
    told = plan(cloud, {"drain": ["cn1"]})
    assert [one["from"] for one in told["moves"]] == ["cn1", "cn1"]
    assert sorted(one["to"] for one in told["moves"]) == ["cn2", "cn3"]
    assert told["stuck"] == []


def test_what_finds_no_room_is_stuck_and_told_why(cloud):
    told = plan(cloud, {"drain": ["cn1", "cn2"]}, {"remove": ["cn3"]})
    assert told["moves"] == []
    assert [one["host"] for one in told["stuck"]] == ["cn1", "cn1"]
    assert "are disabled and meet all other constraints" in told["stuck"][0]["reason"]


def test_as_many_as_there_is_room_for_move(cloud):
    gone = {"inventory": {"host": "cn3", "resource_class": "MEMORY_MB", "total": 2048}}
    told = plan(cloud, {"drain": ["cn1"]}, gone)
    assert [one["to"] for one in told["moves"]] == ["cn2", "cn2"]
    less = {"inventory": {"host": "cn2", "resource_class": "MEMORY_MB", "total": 4096}}
    told = plan(cloud, {"drain": ["cn1"]}, gone, less)
    assert [one["to"] for one in told["moves"]] == ["cn2"]
    assert [one["host"] for one in told["stuck"]] == ["cn1"]


def test_what_no_longer_fits_has_to_move_and_no_more(cloud):
    less = {"inventory": {"host": "cn1", "resource_class": "MEMORY_MB", "total": 4096}}
    (move,) = plan(cloud, less)["moves"]
    assert (move["from"], "MEMORY_MB" in move["reason"]) == ("cn1", True)
    more = {"inventory": {"host": "cn1", "resource_class": "MEMORY_MB", "total": 6144}}
    assert plan(cloud, more)["moves"] == []


def test_instances_may_move_to_hosts_that_the_changes_add(cloud):
    told = plan(cloud, {"add": {"like": "cn3"}}, {"drain": ["cn1", "cn2", "cn3"]})
    assert [one["to"] for one in told["moves"]] == ["cn3+1", "cn3+1"]


def test_hosts_are_chosen_with_the_options_that_change_with_the_cloud(cloud):
    packing = {"filter_scheduler.ram_weight_multiplier": -5.0}
    moves = plan(cloud, {"drain": ["cn1"]}, overrides=packing)["moves"]
    assert len(moves) == 2
    assert len({one["to"] for one in moves}) == 1


@pytest.mark.all_databases
def test_capacity_after_is_counted_with_the_options_that_change_with_the_cloud(cloud):
    stored = {"name": "m1.small", "vcpus": 1, "ram": 512, "disk": 1}
    cloud.post_json("/compute/v2.1/flavors", {"flavor": stored}, headers=COMPUTE)
    one_each = {
        "filter_scheduler.enabled_filters": ["NumInstancesFilter"],
        "filter_scheduler.max_instances_per_host": 1,
    }
    told = plan(cloud, {"drain": ["cn1"]}, overrides=one_each)
    assert sorted(one["to"] for one in told["moves"]) == ["cn2", "cn3"]
    (count,) = told["capacity"]
    assert count["before"] == capacity(cloud, "m1.small") > 2
    assert count["after"] == 0


def test_an_instance_without_a_known_flavor_is_stuck(cloud):
    body = {"host": "cn2", "node": "cn2", "flavor": "gone"}
    cloud.put_json(f"/scheduler/v1/instances/{instance(7)}", body)
    (one,) = plan(cloud, {"drain": ["cn2"]})["stuck"]
    assert one["reason"] == "its flavor is not recorded"


def test_a_plan_leaves_what_is_allocated_as_it_is(cloud):
    before = usage(cloud, "cn1"), usage(cloud, "cn2")
    plan(cloud, {"drain": ["cn1"]})
    assert (usage(cloud, "cn1"), usage(cloud, "cn2")) == before
