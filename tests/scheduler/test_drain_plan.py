# SPDX-License-Identifier: Apache-2.0
"""Plans of changes, and their moves carried out."""

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings

from tests.conftest import make_settings
from tests.exploring import draws
from tests.scheduler.plan_moves import (
    COMPUTE,
    FLAVORS,
    carry_out_move,
    disable_host,
    fill_random_cloud,
    fill_small_cloud,
    host_of,
    make_application,
    read_usage,
    small_clouds,
)
from tests.scheduler.test_scheduler import explain, select
from tests.scheduler.test_simulation import dump_tables
from tests.support.fleets import load_fleet
from tests.support.scheduling import flavor, instance, report, spec


def request_plan(app, *changes, status=200, **more):
    body = {"changes": list(changes), **more}
    return app.post_json("/scheduler/v1/plan", body, status=status).json


def request_capacity(app, name):
    body = {"request_spec": {"flavor": name}}
    return app.post_json("/scheduler/v1/capacity", body).json["capacity"]


@pytest.fixture
def app_without_timeout(database_url, make_app):
    """An application with a long timeout, because the test machine may be busy."""
    long = {"scheduler.what_if_timeout": 600}
    return make_app(make_settings(database_url).with_overrides(long))


@pytest.mark.slow
@pytest.mark.all_databases
@pytest.mark.parametrize("seed", range(4))
def test_plan_of_a_random_cloud_can_be_carried_out(app_without_timeout, seed):
    app, random = app_without_timeout, Random(seed)
    uuids = fill_random_cloud(app, random, hosts=6, number=16)
    drained = random.sample([f"cn{number}" for number in range(1, 7)], 2)
    for size in FLAVORS.values():
        stored = {"name": size["name"], "vcpus": 1, "ram": size["memory_mb"], "disk": 1}
        app.post_json("/compute/v2.1/flavors", {"flavor": stored}, headers=COMPUTE)
    before = dump_tables(app)
    answer = request_plan(app, {"drain": drained})
    assert dump_tables(app) == before
    counts = answer["capacity"]
    assert {count["flavor"] for count in counts} == FLAVORS.keys()
    assert all(count["before"] == request_capacity(app, count["flavor"]) for count in counts)
    on_drained = {uuid for uuid in uuids if host_of(app, uuid) in drained}
    moving = {move["instance"] for move in answer["moves"]}
    stuck = {entry["instance"] for entry in answer["stuck"]}
    assert (moving | stuck, moving & stuck) == (on_drained, set())
    for host in drained:
        disable_host(app, host)
    for move in answer["moves"]:
        assert move["to"] not in drained
        carry_out_move(app, move)
    for entry in answer["stuck"]:
        assert host_of(app, entry["instance"]) == entry["host"]
        assert entry["reason"]
    assert all(count["after"] == request_capacity(app, count["flavor"]) for count in counts)
    # The second plan has no moves, and the other instances are still stuck.
    second_plan = request_plan(app, {"drain": drained})
    assert second_plan["moves"] == []
    assert {entry["instance"] for entry in second_plan["stuck"]} == stuck


@pytest.mark.slow
@settings(max_examples=draws(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cloud=small_clouds())
def test_plan_of_any_small_cloud_can_be_carried_out(
    sqlite_template, tmp_path_factory, make_app, cloud
):
    sizes, request, drained = cloud
    app = make_application(make_app, sqlite_template, tmp_path_factory.mktemp("plan"))
    stored = fill_small_cloud(app, sizes, request)
    on_drained = {uuid for uuid in stored if host_of(app, uuid) in drained}
    before = dump_tables(app)
    answer = request_plan(app, {"drain": sorted(drained)})
    assert dump_tables(app) == before
    moving = [entry["instance"] for entry in answer["moves"]]
    stuck = {item["instance"] for item in answer["stuck"]}
    assert len(moving) == len(set(moving))
    assert (set(moving) | stuck, set(moving) & stuck) == (on_drained, set())
    for host in drained:
        disable_host(app, host)
    for move in answer["moves"]:
        assert move["to"] not in drained
        carry_out_move(app, move, **stored[move["instance"]])
    # Stuck instances still find no host, and the second plan has no moves.
    second_plan = request_plan(app, {"drain": sorted(drained)})
    assert (second_plan["moves"], {entry["instance"] for entry in second_plan["stuck"]}) == (
        [],
        stuck,
    )


@pytest.fixture
def cloud(app):
    """Three hosts with 8 GB. Two instances with 3 GB are on cn1."""
    names = ("cn1", "cn2", "cn3")
    app.post_json("/scheduler/v1/compute_nodes", [report(name, memory_mb=8192) for name in names])
    for at in (1, 2):
        select(app, spec(instance(at), flavor=flavor(memory_mb=3072), force_hosts=["cn1"]))
    return app


def test_plan_moves_equal_instances(cloud):
    answer = request_plan(cloud, {"drain": ["cn1"]})
    assert [move["from"] for move in answer["moves"]] == ["cn1", "cn1"]
    assert sorted(entry["to"] for entry in answer["moves"]) == ["cn2", "cn3"]
    assert answer["stuck"] == []


def test_instances_without_capacity_are_stuck(cloud):
    before = read_usage(cloud, "cn1"), read_usage(cloud, "cn2")
    answer = request_plan(cloud, {"drain": ["cn1", "cn2"]}, {"remove": ["cn3"]})
    assert answer["moves"] == []
    assert [entry["host"] for entry in answer["stuck"]] == ["cn1", "cn1"]
    assert "are disabled and meet all other constraints" in answer["stuck"][0]["reason"]
    full = {"inventory": {"host": "cn3", "resource_class": "MEMORY_MB", "total": 2048}}
    answer = request_plan(cloud, {"drain": ["cn1"]}, full)
    assert [move["to"] for move in answer["moves"]] == ["cn2", "cn2"]
    less = {"inventory": {"host": "cn2", "resource_class": "MEMORY_MB", "total": 4096}}
    answer = request_plan(cloud, {"drain": ["cn1"]}, full, less)
    assert [move["to"] for move in answer["moves"]] == ["cn2"]
    assert [entry["host"] for entry in answer["stuck"]] == ["cn1"]
    assert (read_usage(cloud, "cn1"), read_usage(cloud, "cn2")) == before
    body = {"host": "cn2", "node": "cn2", "flavor": "gone"}
    cloud.put_json(f"/scheduler/v1/instances/{instance(7)}", body)
    (entry,) = request_plan(cloud, {"drain": ["cn2"]})["stuck"]
    assert entry["reason"] == "its flavor is not recorded"


def test_smaller_host_loses_only_the_instances_that_do_not_fit(cloud):
    less = {"inventory": {"host": "cn1", "resource_class": "MEMORY_MB", "total": 4096}}
    (move,) = request_plan(cloud, less)["moves"]
    assert (move["from"], "MEMORY_MB" in move["reason"]) == ("cn1", True)
    more = {"inventory": {"host": "cn1", "resource_class": "MEMORY_MB", "total": 6144}}
    assert request_plan(cloud, more)["moves"] == []


def test_instances_may_move_to_added_hosts(cloud):
    answer = request_plan(cloud, {"add": {"like": "cn3"}}, {"drain": ["cn1", "cn2", "cn3"]})
    assert [move["to"] for move in answer["moves"]] == ["cn3+1", "cn3+1"]


def test_overrides_apply_to_moves(cloud):
    packing = {"filter_scheduler.ram_weight_multiplier": -5.0}
    moves = request_plan(cloud, {"drain": ["cn1"]}, overrides=packing)["moves"]
    assert len(moves) == 2
    assert len({move["to"] for move in moves}) == 1


@pytest.mark.all_databases
def test_overrides_apply_to_the_capacity_after(cloud):
    stored = {"name": "m1.small", "vcpus": 1, "ram": 512, "disk": 1}
    cloud.post_json("/compute/v2.1/flavors", {"flavor": stored}, headers=COMPUTE)
    one_each = {
        "filter_scheduler.enabled_filters": ["NumInstancesFilter"],
        "filter_scheduler.max_instances_per_host": 1,
    }
    answer = request_plan(cloud, {"drain": ["cn1"]}, overrides=one_each)
    assert sorted(move["to"] for move in answer["moves"]) == ["cn2", "cn3"]
    (count,) = answer["capacity"]
    assert count["before"] == request_capacity(cloud, "m1.small") > 2
    assert count["after"] == 0


GROUP, INSTANCE = "00000000-0000-4000-8000-0000000000b1", "00000000-0000-4000-8000-0000000000c1"
SEEN = "2099-01-01T00:00:00Z"
FLEET = f"""
hosts:
- {{host: "cn[1-3]", vcpus: 4, memory_mb: 8192, local_gb: 100, last_seen_up: {SEEN}}}
flavors:
- {{name: small, vcpus: 1, memory_mb: 1024, root_gb: 10}}
server_groups:
- {{name: together, uuid: {GROUP}, policy: affinity, project: p, user: u}}
instances:
- name: i1
  uuid: {INSTANCE}
  host: cn1
  flavor: small
  project: p
  user: u
  server_group: together
"""
MOVE = {
    "project_id": "p",
    "user_id": "u",
    "flavor": "small",
    "image": None,
    "instance_uuids": [INSTANCE],
    "ignore_hosts": ["cn1"],
}


@pytest.fixture
def group_cloud(sqlite_app):
    """Three hosts and an affinity group with a single member on cn1."""
    return load_fleet(sqlite_app, FLEET)


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [{"instance_group": GROUP}, {"scheduler_hints": {"group": [GROUP]}}],
    ids=["by the group", "by a hint"],
)
def test_only_member_of_an_affinity_group_may_move(group_cloud, fields):
    explanation = explain(group_cloud, {**MOVE, **fields})
    assert sorted(host["host"] for host in explanation["hosts"]) == ["cn2", "cn3"]


@pytest.mark.slow
def test_plan_moves_the_only_member(group_cloud):
    body = {"changes": [{"drain": ["cn1"]}]}
    answer = group_cloud.post_json("/scheduler/v1/plan", body).json
    assert [move["instance"] for move in answer["moves"]] == [INSTANCE]


@pytest.mark.slow
def test_other_members_count(group_cloud):
    new = {**MOVE, "instance_uuids": ["00000000-0000-4000-8000-0000000000c2"], "ignore_hosts": []}
    explanation = explain(group_cloud, {**new, "instance_group": GROUP})
    assert [host["host"] for host in explanation["hosts"]] == ["cn1"]
    select(group_cloud, {**new, "instance_group": GROUP})
    # Now the first member may not leave the second.
    assert explain(group_cloud, {**MOVE, "instance_group": GROUP})["outcome"] == "no_valid_host"
