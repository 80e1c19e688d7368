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
from placement_sched.scheduler.filters.utils import hinted_instances
from tests.support.scheduling import instance
from tests.support.states import build_host_state, build_instances, build_spec, find_rejection

HERE, TOO, ELSEWHERE, NEW = map(instance, (1, 2, 3, 4))


@pytest.mark.parametrize(
    ("hint", "instances"),
    [
        (None, None),
        ([], None),
        (ELSEWHERE, None),
        ([ELSEWHERE], None),
        ("no uuid", None),
        (HERE, HERE),
        ([ELSEWHERE, HERE], HERE),
        ([TOO, HERE], f"{HERE}, {TOO}"),
        (HERE.upper(), HERE),
    ],
    ids=str,
)
def test_different_host_rejects_a_host_with_one_of_the_instances(hint, instances):
    host = build_host_state(instances=build_instances("cn1", HERE, TOO))
    request = build_spec(scheduler_hints={} if hint is None else {"different_host": hint})
    reason = instances and f"different_host: the host has {instances}"
    assert find_rejection(DifferentHostFilter(), host, request) == reason


@pytest.mark.parametrize(
    ("hint", "instances"),
    [
        (None, None),
        ([], None),
        (HERE, None),
        ([ELSEWHERE, HERE], None),
        (HERE.upper(), None),
        (ELSEWHERE, ELSEWHERE),
        (["x", ELSEWHERE], f"x, {ELSEWHERE}"),
    ],
    ids=str,
)
def test_same_host_rejects_a_host_without_one_of_the_instances(hint, instances):
    host = build_host_state(instances=build_instances("cn1", HERE, TOO))
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
def test_affinity_rejects_a_host_outside_the_group(group, hosts):
    reason = hosts and f"the server group is on {hosts}"
    request = build_spec(instance_group=group)
    for kind in (ServerGroupAffinityFilter, GroupAffinityFilter):
        assert find_rejection(kind(), build_host_state(), request) == reason


def find_anti_affinity_rejection(group, *, uuid=NEW, kind=ServerGroupAntiAffinityFilter):
    host = build_host_state(instances=build_instances("cn1", HERE, TOO))
    request = build_spec(instance_group=group, instance_uuids=[uuid])
    return find_rejection(kind(), host, request)


def build_group(*members, policy="anti-affinity", hosts=(), **rules):
    return {"policy": policy, "members": list(members), "hosts": list(hosts), "rules": rules}


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        (None, None),
        (build_group(), None),
        (build_group(ELSEWHERE), None),
        (build_group(HERE, policy="affinity"), None),
        (build_group(HERE, policy="soft-anti-affinity"), None),
        (build_group(HERE, ELSEWHERE, max_server_per_host=2), None),
        (build_group(HERE, TOO, max_server_per_host=3), None),
        (build_group(ELSEWHERE, hosts=["cn2"]), None),
        (build_group(HERE), "1 member of the server group here, 1 allowed"),
        (build_group(HERE.upper()), "1 member of the server group here, 1 allowed"),
        (build_group(HERE, TOO, ELSEWHERE), "2 members of the server group here, 1 allowed"),
        (
            build_group(HERE, TOO, max_server_per_host=2),
            "2 members of the server group here, 2 allowed",
        ),
        # A host in the group of the request has a member, although none is recorded.
        (build_group(ELSEWHERE, hosts=["cn1"]), "1 member of the server group here, 1 allowed"),
        (build_group(ELSEWHERE, hosts=["cn1"], max_server_per_host=2), None),
    ],
    ids=str,
)
def test_anti_affinity_rejects_a_host_with_the_maximum_of_members(group, reason):
    assert find_anti_affinity_rejection(group) == reason
    assert find_anti_affinity_rejection(group, kind=GroupAntiAffinityFilter) == reason


def test_anti_affinity_lets_an_instance_remain_on_its_own_host():
    assert find_anti_affinity_rejection(build_group(HERE, TOO), uuid=HERE) is None


MANY = [instance(number) for number in range(100, 5100)]


def test_reason_has_at_most_ten_names():
    host = build_host_state(instances=build_instances("cn1", *MANY))
    named = ", ".join(MANY[:10])
    request = build_spec(scheduler_hints={"different_host": MANY})
    reason = f"different_host: the host has {named} and 4990 more"
    assert find_rejection(DifferentHostFilter(), host, request) == reason
    request = build_spec(scheduler_hints={"same_host": MANY})
    reason = f"same_host: the host has none of {named} and 4990 more"
    assert find_rejection(SameHostFilter(), build_host_state(), request) == reason
    group = build_spec(instance_group={"policy": "affinity", "hosts": MANY})
    reason = f"the server group is on {named} and 4990 more"
    assert find_rejection(ServerGroupAffinityFilter(), build_host_state(), group) == reason


def test_hint_is_parsed_once_for_all_instances():
    request = build_spec(scheduler_hints={"same_host": MANY})
    _, first = hinted_instances(request, "same_host")
    _, later = hinted_instances(request.for_instance(NEW), "same_host")
    assert first is later
