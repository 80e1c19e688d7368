# SPDX-License-Identifier: Apache-2.0
"""Weighers of soft server groups, as nova 34 weighs the same hosts."""

import pytest

from placement_sched.scheduler.weights.affinity import (
    ServerGroupSoftAffinityWeigher,
    ServerGroupSoftAntiAffinityWeigher,
)
from tests.scheduler.weights.weighing import find_raw_weights
from tests.support.scheduling import get_selected_hosts, make_report, make_spec, make_uuid
from tests.support.states import build_host_state, build_instances, build_spec

NEW_INSTANCE = make_uuid(7)
MEMBER_UUIDS = tuple(map(make_uuid, (1, 2, 3)))
HOSTS = [
    build_host_state(
        "cn1", instances=build_instances("cn1", make_uuid(1), make_uuid(2), make_uuid(9))
    ),
    build_host_state("cn2", instances=build_instances("cn2", make_uuid(3))),
    build_host_state("cn3", instances=build_instances("cn3", make_uuid(8))),
]
ZERO_WEIGHTS = {"cn1": 0, "cn2": 0, "cn3": 0}
GROUP_WEIGHERS = [ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher]


def build_group_spec(policy, members=MEMBER_UUIDS, uuid=NEW_INSTANCE, hosts=()):
    group = {"policy": policy, "members": list(members), "hosts": list(hosts)}
    named = {"instance_uuids": [uuid]} if uuid else {}
    return build_spec(instance_group=group, **named)


@pytest.mark.parametrize(
    ("policy", "affinity_weights", "anti_affinity_weights"),
    [
        ("soft-affinity", {"cn1": 2, "cn2": 1, "cn3": 0}, ZERO_WEIGHTS),
        ("soft-anti-affinity", ZERO_WEIGHTS, {"cn1": -2, "cn2": -1, "cn3": 0}),
        ("affinity", ZERO_WEIGHTS, ZERO_WEIGHTS),
        ("anti-affinity", ZERO_WEIGHTS, ZERO_WEIGHTS),
    ],
)
def test_group_members_count_only_for_the_policy_of_the_weigher(
    policy, affinity_weights, anti_affinity_weights
):
    for kind, expected in zip(
        GROUP_WEIGHERS, (affinity_weights, anti_affinity_weights), strict=True
    ):
        assert find_raw_weights(kind, HOSTS, build_group_spec(policy)) == expected
        plugin = kind()
        alone = {host.host: plugin._weigh_object(host, build_group_spec(policy)) for host in HOSTS}
        assert alone == expected


@pytest.mark.parametrize("kind", GROUP_WEIGHERS)
@pytest.mark.parametrize(
    "request_spec",
    [
        build_spec(),
        build_group_spec("soft-affinity", ()),
        build_group_spec("soft-anti-affinity", ()),
    ],
    ids=["no group", "affinity without members", "anti-affinity without members"],
)
def test_request_without_group_members_has_equal_weights(kind, request_spec):
    assert find_raw_weights(kind, HOSTS, request_spec) == ZERO_WEIGHTS


def test_hosts_of_a_group_count_for_instances_without_a_uuid():
    named = build_group_spec("soft-affinity", (), hosts=["cn3"])
    assert find_raw_weights(ServerGroupSoftAffinityWeigher, HOSTS, named) == ZERO_WEIGHTS
    unnamed = build_group_spec("soft-affinity", MEMBER_UUIDS, None, hosts=["cn1", "cn3"])
    expected = {"cn1": 2, "cn2": 1, "cn3": 1}
    assert find_raw_weights(ServerGroupSoftAffinityWeigher, HOSTS, unnamed) == expected


@pytest.fixture
def cloud(sqlite_app):
    """Three hosts with a high weight of groups. cn1 has the most memory."""
    sizes = {"cn1": 131072, "cn2": 65536, "cn3": 32768}
    reports = [make_report(name, memory_mb=size) for name, size in sizes.items()]
    sqlite_app.post_json("/scheduler/v1/compute_nodes", reports)
    return sqlite_app


def explain_group_request(app, policy, *uuids, **fields):
    """Return the hosts for these instances of a group that has instance 1 as its member."""
    group = {"policy": policy, "members": [make_uuid(1)]}
    body = {"request_spec": make_spec(*uuids, instance_group=group, **fields)}
    overrides = {f"filter_scheduler.{policy.replace('-', '_')}_weight_multiplier": 100.0}
    return app.post_json("/scheduler/v1/explain", {**body, "overrides": overrides}).json


def test_earlier_instances_of_a_request_count_as_group_members(cloud):
    cloud.put_json(f"/scheduler/v1/instances/{make_uuid(1)}", {"host": "cn3", "node": "cn3"})
    three = tuple(map(make_uuid, (2, 3, 4)))
    assert get_selected_hosts(explain_group_request(cloud, "soft-affinity", *three)) == ["cn3"] * 3
    hosts = get_selected_hosts(explain_group_request(cloud, "soft-anti-affinity", *three))
    assert hosts == ["cn1", "cn2", "cn3"]
    two = {"instance_uuids": None, "num_instances": 2}
    assert get_selected_hosts(explain_group_request(cloud, "soft-affinity", **two)) == [
        "cn3",
        "cn3",
    ]
    assert get_selected_hosts(explain_group_request(cloud, "soft-anti-affinity", **two)) == [
        "cn1",
        "cn2",
    ]


@pytest.mark.parametrize(
    ("policy", "number_of_hosts"), [("soft-affinity", 1), ("soft-anti-affinity", 2)]
)
def test_members_of_earlier_requests_count_from_their_claim_on(cloud, policy, number_of_hosts):
    members = [make_uuid(21), make_uuid(22)]
    selected_hosts = set()
    for uuid in members:  # nova names all members, also members without a host
        group = {"policy": policy, "members": members, "hosts": []}
        body = {"request_spec": make_spec(uuid, instance_group=group)}
        response = cloud.post_json("/scheduler/v1/select_destinations", body)
        selected_hosts.update(get_selected_hosts(response.json))
    assert len(selected_hosts) == number_of_hosts
