# SPDX-License-Identifier: Apache-2.0
"""The weighers of soft server groups, as nova 34 weighs the same hosts."""

import pytest

from placement_sched.config.conf import new_conf
from placement_sched.scheduler.plugins import read_settings
from placement_sched.scheduler.weights.affinity import (
    ServerGroupSoftAffinityWeigher,
    ServerGroupSoftAntiAffinityWeigher,
)
from tests.scheduler.weights.weighing import raw, weighed
from tests.support.scheduling import hosts_of, instance, report, spec
from tests.support.statements import counted
from tests.support.states import a_host, a_spec, aggregates, instances_on

JOINING = instance(7)
MEMBERS = tuple(map(instance, (1, 2, 3)))
HOSTS = [
    a_host("cn1", instances=instances_on("cn1", instance(1), instance(2), instance(9))),
    a_host("cn2", instances=instances_on("cn2", instance(3))),
    a_host("cn3", instances=instances_on("cn3", instance(8))),
]
NOBODY = {"cn1": 0, "cn2": 0, "cn3": 0}
KINDS = [ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher]


def joining(policy, members=MEMBERS, uuid=JOINING, hosts=()):
    group = {"policy": policy, "members": list(members), "hosts": list(hosts)}
    named = {"instance_uuids": [uuid]} if uuid else {}
    return a_spec(instance_group=group, **named)


@pytest.mark.parametrize(
    ("policy", "together", "apart"),
    [
        ("soft-affinity", {"cn1": 2, "cn2": 1, "cn3": 0}, NOBODY),
        ("soft-anti-affinity", NOBODY, {"cn1": -2, "cn2": -1, "cn3": 0}),
        ("affinity", NOBODY, NOBODY),
        ("anti-affinity", NOBODY, NOBODY),
    ],
)
def test_members_on_a_host_count_for_the_policy_of_the_weigher_alone(policy, together, apart):
    for kind, expected in zip(KINDS, (together, apart), strict=True):
        assert raw(kind, HOSTS, joining(policy)) == expected
        plugin = kind()
        alone = {host.host: plugin._weigh_object(host, joining(policy)) for host in HOSTS}
        assert alone == expected


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "request_spec",
    [a_spec(), joining("soft-affinity", ()), joining("soft-anti-affinity", ())],
    ids=["no group", "nobody together", "nobody apart"],
)
def test_request_without_members_anywhere_prefers_no_host(kind, request_spec):
    assert raw(kind, HOSTS, request_spec) == NOBODY


def test_group_draws_near_or_keeps_apart():
    near = weighed(ServerGroupSoftAffinityWeigher, HOSTS, joining("soft-affinity"))
    assert near == [("cn1", 1.0), ("cn2", 0.5), ("cn3", 0.0)]
    apart = weighed(ServerGroupSoftAntiAffinityWeigher, HOSTS, joining("soft-anti-affinity"))
    assert apart == [("cn3", 1.0), ("cn2", 0.5), ("cn1", 0.0)]


def test_hosts_named_by_a_group_count_only_for_members_without_a_uuid():
    named = joining("soft-affinity", (), hosts=["cn3"])
    assert raw(ServerGroupSoftAffinityWeigher, HOSTS, named) == NOBODY
    unnamed = joining("soft-affinity", MEMBERS, None, hosts=["cn1", "cn3"])
    expected = {"cn1": 2, "cn2": 1, "cn3": 1}
    assert raw(ServerGroupSoftAffinityWeigher, HOSTS, unnamed) == expected


@pytest.mark.parametrize(
    ("kind", "name"),
    [*zip(KINDS, ("soft_affinity", "soft_anti_affinity"), strict=True)],
    ids=["affinity", "anti-affinity"],
)
def test_multiplier_is_an_option_of_old_and_aggregates_override_it(kind, name, tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text(f"[DEFAULT]\n{name}_weight_multiplier = 2.5\n")
    plugin = kind.with_settings(read_settings([str(file)], new_conf()))
    assert plugin.weight_multiplier(a_host()) == 2.5
    told = aggregates({f"{name}_weight_multiplier": "-3"}, {f"{name}_weight_multiplier": "4"})
    assert plugin.weight_multiplier(a_host(aggregates=told)) == -3.0


# From end to end


@pytest.fixture
def cloud(sqlite_app):
    """Three hosts, the first of which has most memory, weighed by groups above all."""
    sizes = {"cn1": 131072, "cn2": 65536, "cn3": 32768}
    reports = [report(name, memory_mb=size) for name, size in sizes.items()]
    sqlite_app.post_json("/scheduler/v1/compute_nodes", reports)
    return sqlite_app


def select(app, policy, *uuids, **fields):
    """Return the hosts for these instances of a group that has instance 1 as its member."""
    group = {"policy": policy, "members": [instance(1)]}
    body = {"request_spec": spec(*uuids, instance_group=group, **fields)}
    overrides = {f"filter_scheduler.{policy.replace('-', '_')}_weight_multiplier": 100.0}
    return app.post_json("/scheduler/v1/explain", {**body, "overrides": overrides}).json


def test_soft_groups_are_heeded_by_default_across_instances_of_one_request(cloud):
    cloud.put_json(f"/scheduler/v1/instances/{instance(1)}", {"host": "cn3", "node": "cn3"})
    three = tuple(map(instance, (2, 3, 4)))
    assert hosts_of(select(cloud, "soft-affinity", *three)) == ["cn3"] * 3
    assert hosts_of(select(cloud, "soft-anti-affinity", *three)) == ["cn1", "cn2", "cn3"]


def test_instances_that_are_only_counted_see_each_other_too(cloud):
    cloud.put_json(f"/scheduler/v1/instances/{instance(1)}", {"host": "cn3", "node": "cn3"})
    two = {"instance_uuids": None, "num_instances": 2}
    assert hosts_of(select(cloud, "soft-affinity", **two)) == ["cn3", "cn3"]
    assert hosts_of(select(cloud, "soft-anti-affinity", **two)) == ["cn1", "cn2"]


def test_members_are_read_in_one_statement_and_only_for_such_a_group(cloud):
    cloud.put_json(f"/scheduler/v1/instances/{instance(1)}", {"host": "cn3", "node": "cn3"})
    select(cloud, "soft-affinity", instance(2))  # what is kept from one request to the next
    counts = {}
    for policy in ("soft-affinity", "soft-anti-affinity", None):
        group = {"policy": policy, "members": [instance(1)]} if policy else None
        body = {"request_spec": spec(instance(2), instance_group=group)}
        with counted(cloud.app.services.database) as statements:
            cloud.post_json("/scheduler/v1/explain", body)
        counts[policy] = len(statements)
    assert counts["soft-affinity"] == counts["soft-anti-affinity"] == counts[None] + 1
