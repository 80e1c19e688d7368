# SPDX-License-Identifier: Apache-2.0
"""Host filters by hints of instances and by server group, as nova 34 decides."""

import pytest

from placement_sched.scheduler.filters.affinity_filter import (
    DifferentHostFilter,
    GroupAffinityFilter,
    GroupAntiAffinityFilter,
    SameHostFilter,
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
)
from placement_sched.scheduler.filters.utils import list_hinted_instances
from tests.support.scheduling import make_uuid
from tests.support.states import build_host_state, build_instances, build_spec, find_rejection

INSTANCE_1, INSTANCE_2, INSTANCE_3, NEW_INSTANCE = map(make_uuid, (1, 2, 3, 4))


@pytest.mark.parametrize(
    ("hint", "instances"),
    [
        (None, None),
        ([], None),
        (INSTANCE_3, None),
        ([INSTANCE_3], None),
        ("no uuid", None),
        (INSTANCE_1, INSTANCE_1),
        ([INSTANCE_3, INSTANCE_1], INSTANCE_1),
        ([INSTANCE_2, INSTANCE_1], f"{INSTANCE_1}, {INSTANCE_2}"),
        (INSTANCE_1.upper(), INSTANCE_1),
    ],
    ids=str,
)
def test_different_host_filter_rejects_a_host_with_one_of_the_instances(hint, instances):
    host = build_host_state(instances=build_instances("cn1", INSTANCE_1, INSTANCE_2))
    request = build_spec(scheduler_hints={} if hint is None else {"different_host": hint})
    reason = instances and f"different_host: the host has {instances}"
    assert find_rejection(DifferentHostFilter(), host, request) == reason


@pytest.mark.parametrize(
    ("hint", "instances"),
    [
        (None, None),
        ([], None),
        (INSTANCE_1, None),
        ([INSTANCE_3, INSTANCE_1], None),
        (INSTANCE_1.upper(), None),
        (INSTANCE_3, INSTANCE_3),
        (["x", INSTANCE_3], f"x, {INSTANCE_3}"),
    ],
    ids=str,
)
def test_same_host_filter_rejects_a_host_without_the_instances(hint, instances):
    host = build_host_state(instances=build_instances("cn1", INSTANCE_1, INSTANCE_2))
    request = build_spec(scheduler_hints={} if hint is None else {"same_host": hint})
    reason = instances and f"same_host: the host has none of {instances}"
    assert find_rejection(SameHostFilter(), host, request) == reason


@pytest.mark.parametrize(
    ("group", "hosts"),
    [
        (None, None),
        ({"policy": "affinity"}, None),
        ({"policy": "affinity", "hosts": ["cn1"]}, None),
        ({"policy": "affinity", "hosts": ["cn2", "cn1"]}, None),
        ({"policy": "anti-affinity", "hosts": ["cn2"]}, None),
        ({"policy": "soft-affinity", "hosts": ["cn2"]}, None),
        ({"policy": "affinity", "hosts": ["cn2"]}, "cn2"),
        ({"policy": "affinity", "hosts": ["cn9", "CN1"]}, "CN1, cn9"),
    ],
    ids=str,
)
def test_affinity_filter_rejects_a_host_outside_the_server_group(group, hosts):
    reason = hosts and f"the server group is on {hosts}"
    request = build_spec(instance_group=group)
    for kind in (ServerGroupAffinityFilter, GroupAffinityFilter):
        assert find_rejection(kind(), build_host_state(), request) == reason


def find_anti_affinity_rejection(group, *, uuid=NEW_INSTANCE, kind=ServerGroupAntiAffinityFilter):
    host = build_host_state(instances=build_instances("cn1", INSTANCE_1, INSTANCE_2))
    request = build_spec(instance_group=group, instance_uuids=[uuid])
    return find_rejection(kind(), host, request)


def build_group(*members, policy="anti-affinity", hosts=(), **rules):
    return {"policy": policy, "members": list(members), "hosts": list(hosts), "rules": rules}


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        (None, None),
        (build_group(), None),
        (build_group(INSTANCE_3), None),
        (build_group(INSTANCE_1, policy="affinity"), None),
        (build_group(INSTANCE_1, policy="soft-anti-affinity"), None),
        (build_group(INSTANCE_1, INSTANCE_3, max_server_per_host=2), None),
        (build_group(INSTANCE_1, INSTANCE_2, max_server_per_host=3), None),
        (build_group(INSTANCE_3, hosts=["cn2"]), None),
        (build_group(INSTANCE_1), "1 member of the server group here, 1 allowed"),
        (build_group(INSTANCE_1.upper()), "1 member of the server group here, 1 allowed"),
        (
            build_group(INSTANCE_1, INSTANCE_2, INSTANCE_3),
            "2 members of the server group here, 1 allowed",
        ),
        (
            build_group(INSTANCE_1, INSTANCE_2, max_server_per_host=2),
            "2 members of the server group here, 2 allowed",
        ),
        # A host in the group of the request has a member, although none is recorded.
        (build_group(INSTANCE_3, hosts=["cn1"]), "1 member of the server group here, 1 allowed"),
        (build_group(INSTANCE_3, hosts=["cn1"], max_server_per_host=2), None),
    ],
    ids=str,
)
def test_anti_affinity_filter_rejects_a_host_with_the_maximum_of_members(group, reason):
    assert find_anti_affinity_rejection(group) == reason
    assert find_anti_affinity_rejection(group, kind=GroupAntiAffinityFilter) == reason


def test_anti_affinity_filter_lets_an_instance_remain_on_its_own_host():
    assert (
        find_anti_affinity_rejection(build_group(INSTANCE_1, INSTANCE_2), uuid=INSTANCE_1) is None
    )


MANY_INSTANCES = [make_uuid(number) for number in range(100, 5100)]


def test_rejection_reason_lists_at_most_ten_names():
    host = build_host_state(instances=build_instances("cn1", *MANY_INSTANCES))
    named = ", ".join(MANY_INSTANCES[:10])
    request = build_spec(scheduler_hints={"different_host": MANY_INSTANCES})
    reason = f"different_host: the host has {named} and 4990 more"
    assert find_rejection(DifferentHostFilter(), host, request) == reason
    request = build_spec(scheduler_hints={"same_host": MANY_INSTANCES})
    reason = f"same_host: the host has none of {named} and 4990 more"
    assert find_rejection(SameHostFilter(), build_host_state(), request) == reason
    group = build_spec(instance_group={"policy": "affinity", "hosts": MANY_INSTANCES})
    reason = f"the server group is on {named} and 4990 more"
    assert find_rejection(ServerGroupAffinityFilter(), build_host_state(), group) == reason


def test_scheduler_hint_is_parsed_once_for_all_instances():
    request = build_spec(scheduler_hints={"same_host": MANY_INSTANCES})
    _, first = list_hinted_instances(request, "same_host")
    _, later = list_hinted_instances(request.with_instance(NEW_INSTANCE), "same_host")
    assert first is later
