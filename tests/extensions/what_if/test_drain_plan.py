# SPDX-License-Identifier: Apache-2.0
"""Plans of changes, and their moves carried out."""

import pytest
from hypothesis import HealthCheck, given, settings

from tests.conftest import make_settings
from tests.exploring import scale_example_count
from tests.extensions.what_if.plan_clouds import add_container, record_nova_cell, record_state
from tests.extensions.what_if.plan_clouds import cloud as cloud  # noqa: PLC0414 - a fixture
from tests.extensions.what_if.plan_moves import (
    FLAVORS_BY_NAME,
    draw_small_cloud,
    execute_move,
    fill_small_cloud,
    read_host_of_instance,
    read_usage_of_host,
)
from tests.extensions.what_if.purged_decisions import REQUESTS_AND_TARGETS, place_without_decision
from tests.extensions.what_if.purged_decisions import mixed_cloud as mixed_cloud  # noqa: PLC0414 - a fixture
from tests.scheduler.server_groups import create_group
from tests.support.api_clouds import COMPUTE_HEADERS, disable_host
from tests.support.scheduling import (
    explain_request,
    make_flavor,
    make_spec,
    make_uuid,
    select_hosts,
)
from tests.support.simulations import dump_tables


def request_drain_plan(app, *changes, status=200, **more):
    body = {"changes": list(changes), **more}
    return app.post_json("/scheduler/v1/plan", body, status=status).json


def request_capacity_of_flavor(app, name):
    body = {"request_spec": {"flavor": name}}
    return app.post_json("/scheduler/v1/capacity", body).json["capacity"]


@pytest.fixture
def app_with_long_timeout(database_url, make_app):
    """An application with a long timeout, because the test machine may be busy."""
    long = {"scheduler.what_if_timeout": 600}
    return make_app(make_settings(database_url).with_overrides(long))


def check_plan_by_executing_its_moves(app, cloud):
    """Plan to drain hosts, carry out the moves, and plan again."""
    sizes, requests, drained = cloud
    stored = fill_small_cloud(app, sizes, requests)
    on_drained = {uuid for uuid in stored if read_host_of_instance(app, uuid) in drained}
    for size in FLAVORS_BY_NAME.values():
        stored_flavor = {"name": size["name"], "vcpus": 1, "ram": size["memory_mb"], "disk": 1}
        app.post_json("/compute/v2.1/flavors", {"flavor": stored_flavor}, headers=COMPUTE_HEADERS)
    before = dump_tables(app)
    result = request_drain_plan(app, {"drain": sorted(drained)})
    assert dump_tables(app) == before
    counts = result["capacity"]
    assert {count["flavor"] for count in counts} == FLAVORS_BY_NAME.keys()
    assert all(
        count["before"] == request_capacity_of_flavor(app, count["flavor"]) for count in counts
    )
    moving = [entry["instance"] for entry in result["moves"]]
    stuck = {item["instance"] for item in result["stuck"]}
    assert sorted([*moving, *stuck]) == sorted(on_drained)
    for host in drained:
        disable_host(app, host)
    for move in result["moves"]:
        assert move["to"] not in drained
        execute_move(app, move, **stored[move["instance"]])
    for entry in result["stuck"]:
        assert read_host_of_instance(app, entry["instance"]) == entry["host"]
        assert entry["reason"]
    assert all(
        count["after"] == request_capacity_of_flavor(app, count["flavor"]) for count in counts
    )
    # Stuck instances still find no host, and the second plan has no moves.
    second_plan = request_drain_plan(app, {"drain": sorted(drained)})
    assert second_plan["moves"] == []
    assert {entry["instance"] for entry in second_plan["stuck"]} == stuck


REQUEST_FOR_1_GB, REQUEST_FOR_4_GB, REQUEST_FOR_9_GB = (
    {"flavor": size} for size in FLAVORS_BY_NAME.values()
)
ZONE_REQUEST_FIELDS = {"availability_zone": "az1"}
GROUP_REQUEST_FIELDS = {"instance_group": "apart"}
FORCED_HOST_FIELDS = {"force_hosts": ["cn1"]}


@pytest.mark.slow
@pytest.mark.all_databases
def test_drain_plan_can_be_carried_out_on_every_database(app_with_long_timeout):
    requests = [
        REQUEST_FOR_9_GB | FORCED_HOST_FIELDS,
        REQUEST_FOR_4_GB | ZONE_REQUEST_FIELDS,
        REQUEST_FOR_4_GB | GROUP_REQUEST_FIELDS,
        REQUEST_FOR_1_GB | GROUP_REQUEST_FIELDS,
        REQUEST_FOR_1_GB | GROUP_REQUEST_FIELDS,
        REQUEST_FOR_4_GB | FORCED_HOST_FIELDS,
        REQUEST_FOR_9_GB | ZONE_REQUEST_FIELDS,
        REQUEST_FOR_1_GB,
    ]
    check_plan_by_executing_its_moves(
        app_with_long_timeout, ([16, 9, 20, 8], requests, {"cn1", "cn3"})
    )


@pytest.mark.slow
@settings(
    max_examples=scale_example_count(20),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(cloud=draw_small_cloud())
def test_drain_plan_of_random_clouds_can_be_carried_out(make_new_app, cloud):
    check_plan_by_executing_its_moves(make_new_app(scheduler__what_if_timeout=600), cloud)


def test_instances_without_capacity_elsewhere_are_stuck_in_a_drain_plan(cloud):
    before = read_usage_of_host(cloud, "cn1"), read_usage_of_host(cloud, "cn2")
    result = request_drain_plan(cloud, {"drain": ["cn1", "cn2"]}, {"remove": ["cn3"]})
    assert result["moves"] == []
    assert [entry["host"] for entry in result["stuck"]] == ["cn1", "cn1"]
    stuck = result["stuck"][0]
    assert "are disabled and meet all other constraints" in stuck["reason"]
    assert (stuck["kind"], stuck["hosts"]) == ("disabled", 2)
    assert [each["kind"] for each in stuck["constraints"]] == ["disabled"]
    full = {"inventory": {"host": "cn3", "resource_class": "MEMORY_MB", "total": 2048}}
    result = request_drain_plan(cloud, {"drain": ["cn1"]}, full)
    assert [move["to"] for move in result["moves"]] == ["cn2", "cn2"]
    less = {"inventory": {"host": "cn2", "resource_class": "MEMORY_MB", "total": 4096}}
    result = request_drain_plan(cloud, {"drain": ["cn1"]}, full, less)
    assert [move["to"] for move in result["moves"]] == ["cn2"]
    assert [entry["host"] for entry in result["stuck"]] == ["cn1"]
    assert (read_usage_of_host(cloud, "cn1"), read_usage_of_host(cloud, "cn2")) == before
    body = {"host": "cn2", "node": "cn2", "flavor": "gone"}
    cloud.put_json(f"/scheduler/v1/instances/{make_uuid(7)}", body)
    (entry,) = request_drain_plan(cloud, {"drain": ["cn2"]})["stuck"]
    assert (entry["reason"], entry["kind"]) == ("its flavor is not recorded", "other")


@pytest.mark.parametrize("vm_state", ["active", "paused", "stopped", None, "of a later release"])
def test_instances_in_states_that_nova_migrates_are_moved(cloud, vm_state):
    record_state(cloud, 1, vm_state)
    result = request_drain_plan(cloud, {"drain": ["cn1"]})
    assert (len(result["moves"]), result["stuck"]) == (2, [])


@pytest.mark.parametrize(
    ("vm_state", "task_state", "reason"),
    [
        ("suspended", None, "it is suspended: resume it first"),
        ("rescued", None, "it is in rescue mode: unrescue it first"),
        ("resized", None, "its resize is not confirmed: confirm or revert the resize first"),
        ("error", None, "its state is error: repair the instance and reset its state first"),
        ("shelved", None, "it is shelved but not offloaded, and holds its host: offload it"),
        ("soft-delete", None, "it is soft-deleted, and holds its host: restore or force-delete it"),
        (
            "active",
            "rebooting",
            "nova works on it (task state rebooting): wait until the task ends",
        ),
        ("building", "spawning", "it is being built: wait until it is active"),
    ],
)
def test_instances_that_nova_does_not_migrate_are_stuck_with_what_to_do(
    cloud, vm_state, task_state, reason
):
    record_nova_cell(cloud)
    record_state(cloud, 1, vm_state, task_state)
    record_state(cloud, 2, "active")
    result = request_drain_plan(cloud, {"drain": ["cn1"]})
    assert [move["instance"] for move in result["moves"]] == [make_uuid(2)]
    (stuck,) = result["stuck"]
    assert (stuck["instance"], stuck["host"], stuck["reason"]) == (make_uuid(1), "cn1", reason)


def test_claimed_instances_stay_building_until_nova_is_read(cloud):
    assert len(request_drain_plan(cloud, {"drain": ["cn1"]})["moves"]) == 2
    record_nova_cell(cloud)
    result = request_drain_plan(cloud, {"drain": ["cn1"]})
    assert (result["moves"], len(result["stuck"])) == ([], 2)


def test_offloaded_instance_is_not_in_a_drain_plan(cloud):
    record_state(cloud, 1, "shelved_offloaded")
    result = request_drain_plan(cloud, {"drain": ["cn1"]})
    assert [move["instance"] for move in result["moves"]] == [make_uuid(2)]
    assert result["stuck"] == []


def test_plan_for_a_smaller_host_moves_only_the_instances_that_do_not_fit(cloud):
    less = {"inventory": {"host": "cn1", "resource_class": "MEMORY_MB", "total": 4096}}
    (move,) = request_drain_plan(cloud, less)["moves"]
    assert (move["from"], "MEMORY_MB" in move["reason"]) == ("cn1", True)
    assert (move["kind"], move["resource_class"]) == ("capacity", "MEMORY_MB")
    more = {"inventory": {"host": "cn1", "resource_class": "MEMORY_MB", "total": 6144}}
    assert request_drain_plan(cloud, more)["moves"] == []


def test_drain_plan_may_move_instances_to_added_hosts(cloud):
    result = request_drain_plan(cloud, {"add": {"like": "cn3"}}, {"drain": ["cn1", "cn2", "cn3"]})
    assert [move["to"] for move in result["moves"]] == ["cn3+1", "cn3+1"]


def test_overrides_apply_to_the_moves_of_a_drain_plan(cloud):
    packing = {"filter_scheduler.ram_weight_multiplier": -5.0}
    moves = request_drain_plan(cloud, {"drain": ["cn1"]}, overrides=packing)["moves"]
    assert len(moves) == 2
    assert len({move["to"] for move in moves}) == 1


def test_overrides_apply_to_the_capacity_after_a_drain_plan(cloud):
    stored = {"name": "m1.small", "vcpus": 1, "ram": 512, "disk": 1}
    cloud.post_json("/compute/v2.1/flavors", {"flavor": stored}, headers=COMPUTE_HEADERS)
    one_each = {
        "filter_scheduler.enabled_filters": ["NumInstancesFilter"],
        "filter_scheduler.max_instances_per_host": 1,
    }
    result = request_drain_plan(cloud, {"drain": ["cn1"]}, overrides=one_each)
    assert sorted(move["to"] for move in result["moves"]) == ["cn2", "cn3"]
    (count,) = result["capacity"]
    assert count["before"] == request_capacity_of_flavor(cloud, "m1.small") > 2
    assert count["after"] == 0


def test_single_member_of_an_affinity_group_may_move_but_several_may_not(cloud):
    group = {"instance_group": create_group(cloud, policy="affinity")}
    select_hosts(cloud, make_spec(make_uuid(3), **group, force_hosts=["cn2"]))
    move = make_spec(make_uuid(3), **group, ignore_hosts=["cn2"])
    assert sorted(host["host"] for host in explain_request(cloud, move)["hosts"]) == ["cn1", "cn3"]
    moves = request_drain_plan(cloud, {"drain": ["cn2"]})["moves"]
    assert [move["instance"] for move in moves] == [make_uuid(3)]
    second = make_spec(make_uuid(4), **group)
    assert [host["host"] for host in explain_request(cloud, second)["hosts"]] == ["cn2"]
    select_hosts(cloud, second)
    # Now the first member may not leave the second.
    assert explain_request(cloud, move)["outcome"] == "no_valid_host"


@pytest.mark.all_databases
@pytest.mark.parametrize("change", ["drain", "remove"])
def test_plan_names_other_consumers_on_the_hosts(cloud, change):
    assert request_drain_plan(cloud, {change: ["cn1"]})["other_consumers"] == []
    add_container(cloud, "cn1", make_uuid(70))
    add_container(cloud, "cn2", make_uuid(71))
    # An instance of another host, for example after its evacuation.
    add_container(cloud, "cn1", make_uuid(72), "INSTANCE")
    cloud.put_json(
        f"/scheduler/v1/instances/{make_uuid(72)}", {"host": "cn3", "node": "cn3", "flavor": "m"}
    )
    consumers = request_drain_plan(cloud, {change: ["cn1"]})["other_consumers"]
    shared = {"host": "cn1", "project_id": "p2", "resources": {"VCPU": 1}}
    assert consumers == [
        {"uuid": make_uuid(70), "type": "CONTAINER", **shared},
        {"uuid": make_uuid(72), "type": "INSTANCE", **shared},
    ]
    assert cloud.get("/scheduler/v1/hosts/cn1").json["other_consumers"] == consumers
    response = cloud.post_json("/scheduler/v1/failover_capacity", {}).json
    assert response["other_consumers"] == {"consumers": 3, "hosts": 2}


@pytest.mark.all_databases
@pytest.mark.parametrize(("fields", "target"), REQUESTS_AND_TARGETS)
def test_plan_schedules_an_instance_as_requested_after_its_decision_is_purged(
    mixed_cloud, database, fields, target
):
    place_without_decision(mixed_cloud, database, fields)
    (move,) = request_drain_plan(mixed_cloud, {"drain": ["cn1"]})["moves"]
    assert (move["instance"], move["to"]) == (make_uuid(1), target)


def test_plan_says_what_is_unknown_of_its_instances(cloud):
    body = {"host": "cn2", "node": "cn2", "flavor": make_flavor(), "image": make_uuid(5)}
    for number, request in ((7, None), (8, {"availability_zone": None, "scheduler_hints": {}})):
        path = f"/scheduler/v1/instances/{make_uuid(number)}"
        cloud.put_json(path, {**body, "request": request})
    assert request_drain_plan(cloud, {"drain": ["cn1"]})["unknown"] == {}
    both = [make_uuid(7), make_uuid(8)]
    assert request_drain_plan(cloud, {"drain": ["cn2"]})["unknown"] == {
        **dict.fromkeys(("availability_zone", "scheduler_hints"), both[:1]),
        **dict.fromkeys(("image", "is_bfv", "requested_resources"), both),
    }
