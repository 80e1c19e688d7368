# SPDX-License-Identifier: Apache-2.0
"""Requests that name a server group."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from placement_sched.errors import ConcurrentUpdate, Invalid
from placement_sched.model.aggregates import ServerGroup
from placement_sched.scheduler.claim import _join_group
from tests.conftest import make_settings
from tests.scheduler.server_groups import (
    COMPUTE_HEADERS,
    SELECT_PATH,
    SERVER_GROUPS_PATH,
    create_group,
    post_request_spec,
    read_group_members,
)
from tests.support.placements import get_error_detail
from tests.support.scheduling import (
    get_selected_hosts,
    make_flavor,
    make_report,
    make_spec,
    make_uuid,
)
from tests.support.states import build_spec

EXPLAIN_PATH = "/scheduler/v1/explain"
UNKNOWN_GROUP_UUID = "11111111-2222-4333-8444-555555555555"


def make_cloud(url, make_app, **options):
    """Three hosts. Only the filter of anti-affinity is enabled."""
    settings = make_settings(
        url, filter_scheduler__enabled_filters=["ServerGroupAntiAffinityFilter"], **options
    )
    app = make_app(settings)
    app.post_json(
        "/scheduler/v1/compute_nodes", [make_report(f"cn{number}") for number in (1, 2, 3)]
    )
    return app


@pytest.fixture
def cloud(database_url, make_app):
    return make_cloud(database_url, make_app)


@pytest.fixture
def sqlite_cloud(sqlite_url, make_app):
    return make_cloud(sqlite_url, make_app)


def test_claimed_instances_become_members_of_their_server_group(cloud):
    group = create_group(cloud)
    first = post_request_spec(cloud, make_uuid(1), instance_group=group)
    second = post_request_spec(cloud, make_uuid(2), instance_group=group.upper())
    assert (get_selected_hosts(first), get_selected_hosts(second)) == (["cn1"], ["cn2"])
    assert read_group_members(cloud, group) == [make_uuid(1), make_uuid(2)]
    recorded = cloud.get(f"/scheduler/v1/instances/{make_uuid(1)}").json
    assert recorded["server_group"] == group
    third = post_request_spec(cloud, make_uuid(3), scheduler_hints={"group": group})
    assert get_selected_hosts(third) == ["cn3"]
    assert read_group_members(cloud, group) == [make_uuid(1), make_uuid(2), make_uuid(3)]
    response = post_request_spec(cloud, make_uuid(4), instance_group=group, status=409)
    assert "ServerGroupAntiAffinityFilter" in get_error_detail(response)
    cloud.delete(f"/scheduler/v1/instances/{make_uuid(2)}", status=204)
    assert get_selected_hosts(post_request_spec(cloud, make_uuid(4), instance_group=group)) == [
        "cn2"
    ]
    cloud.delete(f"{SERVER_GROUPS_PATH}/{group}", headers=COMPUTE_HEADERS, status=204)
    assert post_request_spec(cloud, make_uuid(3), scheduler_hints={"group": group}) == third


def test_instances_of_a_request_follow_the_group_policy_among_each_other(sqlite_cloud):
    group = create_group(sqlite_cloud)
    result = post_request_spec(sqlite_cloud, *map(make_uuid, (11, 12, 13)), instance_group=group)
    assert get_selected_hosts(result) == ["cn1", "cn2", "cn3"]
    assert read_group_members(sqlite_cloud, group) == [make_uuid(11), make_uuid(12), make_uuid(13)]
    group = create_group(sqlite_cloud, name="two", max_server_per_host=2)
    post_request_spec(sqlite_cloud, make_uuid(9), instance_group=group, force_hosts=["cn2"])
    result = post_request_spec(sqlite_cloud, *map(make_uuid, range(1, 6)), instance_group=group)
    assert sorted(get_selected_hosts(result)) == ["cn1", "cn1", "cn2", "cn3", "cn3"]
    body = make_spec(instance_uuids=None, instance_group=group, num_instances=2)
    assert not sqlite_cloud.post_json(EXPLAIN_PATH, {"request_spec": body}).json["selections"]


@pytest.mark.parametrize("has_uuids", [True, False], ids=["instance_uuids", "num_instances"])
def test_instances_of_a_request_share_the_host_of_an_affinity_group(
    database_url, make_app, has_uuids
):
    app = make_app(make_settings(database_url))
    app.post_json("/scheduler/v1/compute_nodes", [make_report(f"cn{number}") for number in (1, 2)])
    group = create_group(app, policy="affinity")
    uuids = [make_uuid(1), make_uuid(2)] if has_uuids else None
    body = make_spec(instance_uuids=uuids, instance_group=group, num_instances=2)
    response = app.post_json(SELECT_PATH, {"request_spec": body}).json
    assert get_selected_hosts(response) == ["cn1", "cn1"]
    third = post_request_spec(app, make_uuid(3), instance_group=group)
    assert get_selected_hosts(third) == ["cn1"]
    explanation = post_request_spec(app, make_uuid(4), path=EXPLAIN_PATH, instance_group=group)
    rejections = {stage["name"]: stage["rejected"] for stage in explanation["funnel"]["filters"]}
    (rejection,) = rejections["ServerGroupAffinityFilter"]
    assert (rejection["host"], rejection["kind"]) == ("cn2", "affinity")
    assert rejection["reason"] == "the server group is on cn1"


def test_explain_and_a_request_without_claim_record_no_members(sqlite_cloud):
    group = create_group(sqlite_cloud)
    post_request_spec(sqlite_cloud, make_uuid(1), instance_group=group)
    explanation = post_request_spec(
        sqlite_cloud, make_uuid(2), path=EXPLAIN_PATH, instance_group=group
    )
    (stage,) = explanation["funnel"]["filters"]
    (rejection,) = stage["rejected"]
    assert (rejection["host"], rejection["kind"]) == ("cn1", "anti_affinity")
    assert rejection["reason"] == "1 member of the server group here, 1 allowed"
    body = {"request_spec": make_spec(make_uuid(2), instance_group=group), "claim": False}
    assert get_selected_hosts(sqlite_cloud.post_json(SELECT_PATH, body).json) == ["cn2"]
    assert read_group_members(sqlite_cloud, group) == [make_uuid(1)]


def test_server_group_in_the_request_need_not_be_stored(sqlite_cloud):
    group = {"policy": "anti-affinity", "hosts": ["cn1"], "members": [make_uuid(9)]}
    result = post_request_spec(sqlite_cloud, make_uuid(1), instance_group=group)
    assert get_selected_hosts(result) == ["cn2"]
    assert sqlite_cloud.get(f"/scheduler/v1/instances/{make_uuid(1)}").json["server_group"] is None
    group = {"policy": "anti-affinity", "hosts": ["cn1", "cn2"]}
    result = post_request_spec(sqlite_cloud, make_uuid(2), path=EXPLAIN_PATH, instance_group=group)
    reasons = {host["reason"] for host in result["funnel"]["filters"][-1]["rejected"]}
    assert reasons == {"1 member of the server group here, 1 allowed"}


@pytest.mark.parametrize("claim", [True, "add"])
def test_instances_of_a_group_in_the_request_do_not_become_members(sqlite_cloud, claim):
    group = create_group(sqlite_cloud)
    group_document = {"uuid": group, "policy": "anti-affinity", "hosts": [], "members": []}
    for number in (1, 2):
        body = {
            "request_spec": make_spec(make_uuid(number), instance_group=group_document),
            "claim": claim,
        }
        sqlite_cloud.post_json(SELECT_PATH, body)
        shown = sqlite_cloud.get(f"/scheduler/v1/instances/{make_uuid(number)}").json
        assert shown["server_group"] is None
    assert read_group_members(sqlite_cloud, group) == []


def test_group_hint_may_be_the_name_of_a_group_of_the_project(cloud):
    create_group(cloud, "g", token="admin:p2")
    group = create_group(cloud, "g")
    request = {"scheduler_hints": {"group": "g"}}
    first = post_request_spec(cloud, make_uuid(1), **request)
    assert post_request_spec(cloud, make_uuid(1), **request) == first
    hints = {"group": UNKNOWN_GROUP_UUID}
    post_request_spec(cloud, make_uuid(3), instance_group=group, scheduler_hints=hints)
    assert read_group_members(cloud, group) == [make_uuid(1), make_uuid(3)]
    second = create_group(cloud, "g")
    detail = get_error_detail(post_request_spec(cloud, make_uuid(2), **request, status=400))
    assert "$.request_spec.scheduler_hints.group" in detail
    assert group in detail
    assert second in detail


@pytest.fixture(scope="module")
def shared_cloud(make_shared_app):
    return make_shared_app()


UNKNOWN_GROUP_MESSAGE = "There is no server group"
SINGLE_GROUP_MESSAGE = "the hint must be the uuid or name of a single server group"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("instance_group", UNKNOWN_GROUP_UUID, UNKNOWN_GROUP_MESSAGE),
        ("scheduler_hints", {"group": UNKNOWN_GROUP_UUID}, UNKNOWN_GROUP_MESSAGE),
        ("scheduler_hints", {"group": "nope"}, UNKNOWN_GROUP_MESSAGE),
        ("scheduler_hints", {"group": ["a", "b"]}, SINGLE_GROUP_MESSAGE),
        ("scheduler_hints", {"group": [["a"]]}, SINGLE_GROUP_MESSAGE),
    ],
)
def test_error_for_an_unknown_server_group_has_its_path(shared_cloud, key, value, words):
    place = f"(at $.request_spec.{key}{'.group' if key == 'scheduler_hints' else ''})"
    for path in (SELECT_PATH, EXPLAIN_PATH):
        result = post_request_spec(
            shared_cloud, make_uuid(1), status=400, path=path, **{key: value}
        )
        assert words in get_error_detail(result)
        assert place in get_error_detail(result)
    assert shared_cloud.get("/scheduler/v1/instances").json["instances"] == []


@pytest.mark.parametrize(
    ("policy", "class_"),
    [
        ("affinity", "ServerGroupAffinityFilter"),
        ("soft-affinity", "ServerGroupSoftAffinityWeigher"),
        ("soft-anti-affinity", "ServerGroupSoftAntiAffinityWeigher"),
    ],
)
def test_server_group_policy_without_its_plugin_is_an_error(sqlite_url, make_app, policy, class_):
    ram = "nova.scheduler.weights.ram.RAMWeigher"
    app = make_cloud(sqlite_url, make_app, filter_scheduler__weight_classes=[ram])
    group = create_group(app, policy=policy)
    for path in (SELECT_PATH, EXPLAIN_PATH):
        result = post_request_spec(app, make_uuid(1), status=400, path=path, instance_group=group)
        assert f"{class_} is not enabled (at $.request_spec.instance_group)" in get_error_detail(
            result
        )
    hints = {"_nova_check_type": "rebuild", "group": group}
    post_request_spec(app, make_uuid(1), force_hosts=["cn1"])
    post_request_spec(app, make_uuid(1), scheduler_hints=hints, force_hosts=["cn1"])


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("soft-affinity", ["cn1"] * 4), ("soft-anti-affinity", ["cn1", "cn2", "cn3", "cn1"])],
)
def test_soft_affinity_policies_weigh_hosts_by_default(cloud, policy, expected):
    group = create_group(cloud, policy=policy)
    others = {"cpu", "disk", "io_ops", "ram"}
    multipliers = {f"filter_scheduler.{name}_weight_multiplier": 0.0 for name in others}
    for number, host in enumerate(expected, start=1):
        body = {"request_spec": make_spec(make_uuid(number), instance_group=group)}
        explanation = cloud.post_json(EXPLAIN_PATH, {**body, "overrides": multipliers}).json
        assert get_selected_hosts(explanation) == [host]
        post_request_spec(cloud, make_uuid(number), instance_group=group, force_hosts=[host])


def test_server_group_of_a_recorded_instance_must_exist(sqlite_cloud):
    path = f"/scheduler/v1/instances/{make_uuid(1)}"
    response = sqlite_cloud.put_json(path, {"server_group": UNKNOWN_GROUP_UUID}, status=400).json
    assert f"There is no server group {UNKNOWN_GROUP_UUID} (at $.server_group)" in get_error_detail(
        response
    )
    sqlite_cloud.get(path, status=404)


def build_group_spec(app, uuid, members=(), hosts=(), policy="anti-affinity"):
    group = ServerGroup(uuid=uuid, policy=policy, members=members, hosts=hosts)
    return build_spec(instance_group=group.as_document())


@pytest.mark.all_databases
def test_claim_fails_if_an_anti_affinity_group_has_new_members(cloud):
    group = create_group(cloud, max_server_per_host=2)
    post_request_spec(cloud, make_uuid(1), instance_group=group)
    seen = {"members": (make_uuid(1),), "hosts": ("cn1",)}
    database = cloud.app.services.database
    database.write(
        lambda connection: _join_group(connection, build_group_spec(cloud, group, **seen))
    )
    for stale in ({}, {**seen, "members": ()}, {**seen, "hosts": ("cn2",)}):
        other = build_group_spec(cloud, group, **stale)
        with pytest.raises(ConcurrentUpdate, match="changed during scheduling"):
            database.write(lambda connection, other=other: _join_group(connection, other))
        soft = build_group_spec(cloud, group, policy="soft-affinity", **stale)
        database.write(lambda connection, soft=soft: _join_group(connection, soft))


def test_claim_for_a_deleted_server_group_is_an_error(sqlite_cloud):
    group = build_group_spec(sqlite_cloud, UNKNOWN_GROUP_UUID)
    with pytest.raises(Invalid, match=UNKNOWN_GROUP_UUID):
        sqlite_cloud.app.services.database.write(lambda connection: _join_group(connection, group))


@pytest.mark.all_databases
def test_concurrent_requests_of_an_anti_affinity_group_have_different_hosts(cloud):
    group = create_group(cloud)
    scheduler = cloud.app.services.scheduler

    def select_host_for_member(number):
        result = scheduler.select_destinations(
            make_spec(make_uuid(number), instance_group=group)
        ).as_json()
        return get_selected_hosts(result)[0]

    with ThreadPoolExecutor(3) as rivals:
        assert sorted(rivals.map(select_host_for_member, (1, 2, 3))) == ["cn1", "cn2", "cn3"]
    assert set(read_group_members(cloud, group)) == {make_uuid(number) for number in (1, 2, 3)}


def test_anti_affinity_counts_members_on_other_nodes_of_a_host_across_requests(sqlite_cloud):
    nodes = [
        make_report("node1", uuid=make_uuid(701), host="rack", memory_mb=262144),
        make_report("node2", uuid=make_uuid(702), host="rack", vcpus=64),
    ]
    sqlite_cloud.post_json("/scheduler/v1/compute_nodes", nodes)
    group = create_group(sqlite_cloud, max_server_per_host=2)
    only = {"ignore_hosts": ["cn1", "cn2", "cn3"], "instance_group": group}
    # The second request fits only on the node without instances of the first request.
    requests = [
        make_spec(make_uuid(1), make_uuid(2), flavor=make_flavor(memory_mb=131072), **only),
        make_spec(make_uuid(3), flavor=make_flavor(vcpus=40), **only),
    ]
    body = {"requests": [{"request_spec": request} for request in requests]}
    response = sqlite_cloud.post_json(SELECT_PATH, body, status=409).json
    assert "requests[1]: ServerGroupAntiAffinityFilter" in get_error_detail(response)
