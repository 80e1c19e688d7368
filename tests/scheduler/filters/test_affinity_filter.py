# SPDX-License-Identifier: Apache-2.0
"""Affinity by hints, subnet and server group, as nova 34 decides the same cases."""

import pytest

from placement_sched.scheduler.filters.affinity_filter import (
    DifferentHostFilter,
    GroupAffinityFilter,
    GroupAntiAffinityFilter,
    SameHostFilter,
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
)
from placement_sched.scheduler.filters.simple_cidr_affinity_filter import SimpleCIDRAffinityFilter
from placement_sched.scheduler.filters.utils import hinted_instances
from tests.conftest import make_settings
from tests.support.scheduling import hosts_of, instance, report, spec
from tests.support.states import a_host, a_spec, instances_on, refusal_of

HERE, TOO, ELSEWHERE, NEW = map(instance, (1, 2, 3, 4))
SELECT = "/scheduler/v1/select_destinations"


@pytest.mark.parametrize(
    ("kind", "once"),
    [
        (DifferentHostFilter, True),
        (SameHostFilter, True),
        (SimpleCIDRAffinityFilter, True),
        (ServerGroupAffinityFilter, False),
        (ServerGroupAntiAffinityFilter, False),
        (GroupAffinityFilter, False),
        (GroupAntiAffinityFilter, False),
    ],
)
def test_hints_are_looked_at_once_per_request_and_groups_for_every_instance(kind, once):
    assert kind().run_filter_for_index(1) is not once


def by_hint(kind, name, hint):
    host = a_host(instances=instances_on("cn1", HERE, TOO))
    return refusal_of(kind(), host, a_spec(scheduler_hints={} if hint is None else {name: hint}))


@pytest.mark.parametrize("hint", [None, [], ELSEWHERE, [ELSEWHERE], "no uuid"], ids=str)
def test_host_without_the_instances_of_different_host_passes(hint):
    assert by_hint(DifferentHostFilter, "different_host", hint) is None


@pytest.mark.parametrize(
    ("hint", "named"),
    [
        (HERE, HERE),
        ([ELSEWHERE, HERE], HERE),
        ([TOO, HERE], f"{HERE}, {TOO}"),
        (HERE.upper(), HERE),
    ],
    ids=str,
)
def test_host_of_one_of_different_host_is_refused_with_those_it_has(hint, named):
    found = by_hint(DifferentHostFilter, "different_host", hint)
    assert found == f"different_host: the host has {named}"


@pytest.mark.parametrize("hint", [None, [], HERE, [ELSEWHERE, HERE], HERE.upper()], ids=str)
def test_host_of_one_of_the_instances_of_same_host_passes(hint):
    assert by_hint(SameHostFilter, "same_host", hint) is None


@pytest.mark.parametrize(
    ("hint", "named"), [(ELSEWHERE, ELSEWHERE), (["x", ELSEWHERE], f"x, {ELSEWHERE}")], ids=str
)
def test_host_of_none_of_same_host_is_refused_with_them(hint, named):
    assert by_hint(SameHostFilter, "same_host", hint) == f"same_host: the host has none of {named}"


@pytest.mark.parametrize(
    "group",
    [
        None,
        {"policy": "affinity"},
        {"policy": "affinity", "hosts": ["cn1"]},
        {"policy": "affinity", "hosts": ["cn2", "cn1"]},
        {"policy": "anti-affinity", "hosts": ["cn2"]},
        {"policy": "soft-affinity", "hosts": ["cn2"]},
    ],
    ids=str,
)
def test_host_of_the_group_passes_and_any_while_it_is_nowhere(group):
    assert refusal_of(ServerGroupAffinityFilter(), a_host(), a_spec(instance_group=group)) is None


@pytest.mark.parametrize(
    ("hosts", "named"), [(["cn2"], "cn2"), (["cn9", "CN1"], "CN1, cn9")], ids=str
)
def test_host_without_members_is_refused_with_those_that_have_some(hosts, named):
    asked = a_spec(instance_group={"policy": "affinity", "hosts": hosts})
    found = refusal_of(ServerGroupAffinityFilter(), a_host(), asked)
    assert found == f"the server group is on {named}"


def apart(group, *, uuid=NEW):
    host = a_host(instances=instances_on("cn1", HERE, TOO))
    asked = a_spec(instance_group=group, instance_uuids=[uuid])
    return refusal_of(ServerGroupAntiAffinityFilter(), host, asked)


def group(*members, policy="anti-affinity", hosts=(), **rules):
    return {"policy": policy, "members": list(members), "hosts": list(hosts), "rules": rules}


@pytest.mark.parametrize(
    "described",
    [
        None,
        group(),
        group(ELSEWHERE),
        group(HERE, policy="affinity"),
        group(HERE, policy="soft-anti-affinity"),
        group(HERE, ELSEWHERE, max_server_per_host=2),
        group(HERE, TOO, max_server_per_host=3),
        group(ELSEWHERE, hosts=["cn2"]),
    ],
    ids=str,
)
def test_host_with_fewer_members_than_it_may_have_passes(described):
    assert apart(described) is None


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        (group(HERE), "1 member of the server group here, 1 allowed"),
        (group(HERE.upper()), "1 member of the server group here, 1 allowed"),
        (group(HERE, TOO, ELSEWHERE), "2 members of the server group here, 1 allowed"),
        (group(HERE, TOO, max_server_per_host=2), "2 members of the server group here, 2 allowed"),
    ],
    ids=str,
)
def test_host_with_as_many_members_as_it_may_have_is_refused(described, reason):
    assert apart(described) == reason


def test_host_that_a_described_group_names_has_a_member_though_none_is_recorded():
    assert apart(group(ELSEWHERE, hosts=["cn1"])) is not None
    assert apart(group(ELSEWHERE, hosts=["cn1"], max_server_per_host=2)) is None


def test_instance_may_stay_on_its_host():
    assert apart(group(HERE, TOO), uuid=HERE) is None


@pytest.mark.parametrize(
    ("kind", "policy", "chosen"),
    [(GroupAffinityFilter, "affinity", "cn2"), (GroupAntiAffinityFilter, "anti-affinity", "cn1")],
)
def test_files_of_icehouse_enable_it_by_its_name(make_app, sqlite_url, kind, policy, chosen):
    enabled = [kind.__name__]
    app = make_app(make_settings(sqlite_url, filter_scheduler__enabled_filters=enabled))
    app.post_json("/scheduler/v1/compute_nodes", [report("cn1"), report("cn2")])
    record = {"host": "cn2", "node": "cn2", "flavor": {"name": "f"}}
    app.put_json(f"/scheduler/v1/instances/{HERE}", record)
    body = spec(TOO, instance_group={"policy": policy, "members": [HERE], "hosts": ["cn2"]})
    assert hosts_of(app.post_json(SELECT, {"request_spec": body}).json) == [chosen]


MANY = [instance(number) for number in range(100, 5100)]


def test_reasons_name_ten_and_say_how_many_more():
    host = a_host(instances=instances_on("cn1", *MANY))
    named = ", ".join(MANY[:10])
    to_avoid = a_spec(scheduler_hints={"different_host": MANY})
    reason = f"different_host: the host has {named} and 4990 more"
    assert refusal_of(DifferentHostFilter(), host, to_avoid) == reason
    to_join = a_spec(scheduler_hints={"same_host": MANY})
    reason = f"same_host: the host has none of {named} and 4990 more"
    assert refusal_of(SameHostFilter(), a_host(), to_join) == reason
    group = a_spec(instance_group={"policy": "affinity", "hosts": MANY})
    reason = f"the server group is on {named} and 4990 more"
    assert refusal_of(ServerGroupAffinityFilter(), a_host(), group) == reason


def test_instances_of_a_hint_are_read_once_for_all_instances():
    request = a_spec(scheduler_hints={"same_host": MANY})
    _, first = hinted_instances(request, "same_host")
    _, later = hinted_instances(request.for_instance(NEW), "same_host")
    assert first is later
