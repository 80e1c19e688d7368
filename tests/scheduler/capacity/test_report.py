# SPDX-License-Identifier: Apache-2.0
"""How many more instances fit, and what stops the hosts, in clouds of a few hosts."""

from collections import Counter

import pytest

from tests.conftest import make_settings
from tests.scheduler.capacity.placed import asked, placed
from tests.scheduler.test_server_groups import make
from tests.support.scheduling import flavor, report
from tests.support.statements import counted

NODES = "/scheduler/v1/compute_nodes"
FLAVORS = "/compute/v2.1/flavors"
AGGREGATES = "/compute/v2.1/os-aggregates"
ADMIN = {"OpenStack-API-Version": "compute 2.96"}


def in_zone(app, name, *hosts):
    body = {"aggregate": {"name": f"agg-{name}", "availability_zone": name}}
    number = app.post_json(AGGREGATES, body, headers=ADMIN).json["aggregate"]["id"]
    for host in hosts:
        add = {"add_host": {"host": host}}
        app.post_json(f"{AGGREGATES}/{number}/action", add, headers=ADMIN)


def store_flavor(app, name, vcpus=1, ram=1024, disk=10):
    sizes = {"vcpus": vcpus, "ram": ram, "disk": disk}
    app.post_json(FLAVORS, {"flavor": {"name": name, "id": name, **sizes}}, headers=ADMIN)


@pytest.fixture
def cloud(app):
    """Three hosts: cn1 runs out of memory, cn2 of CPUs, and cn3 has no room at all."""
    hosts = [
        report("cn1", vcpus=16, memory_mb=4096),
        report("cn2", vcpus=2, memory_mb=65536),
        report("cn3", vcpus=16, memory_mb=512),
    ]
    app.post_json(NODES, hosts)
    in_zone(app, "az1", "cn1")
    in_zone(app, "az2", "cn2", "cn3")
    return app


def test_capacity_is_what_placing_one_after_the_other_places(cloud):
    answer = asked(cloud)
    assert answer["exact"] is True
    assert answer["capacity"] == 12
    assert Counter(placed(cloud)) == {"cn1": 4, "cn2": 8}
    assert asked(cloud)["capacity"] == 0


def test_hosts_are_counted_by_what_runs_out_first_and_what_is_left_is_stranded(cloud):
    answer = asked(cloud)
    assert answer["limited_by"] == [
        {"reason": "MEMORY_MB", "hosts": 2},
        {"reason": "VCPU", "hosts": 1},
    ]
    # VCPUs at a ratio of 4: 64 - 4 on cn1, none on cn2, and all 64 on cn3.
    assert answer["stranded"] == {
        "VCPU": 60 + 64,
        "MEMORY_MB": 65536 - 8192 + 512,
        "DISK_GB": 960 + 920 + 1000,
    }


def test_capacity_is_shown_per_zone_aggregate_and_host(cloud):
    def per(kind):
        return {one["name"]: one["capacity"] for one in asked(cloud, question={"per": kind})["per"]}

    assert per("zone") == {"az1": 4, "az2": 8}
    assert per("aggregate") == {"agg-az1": 4, "agg-az2": 8}
    assert per("host") == {"cn1": 4, "cn2": 8, "cn3": 0}
    assert per("cell") == {"": 12}


def test_hosts_outside_the_zone_are_counted_by_the_step_that_leaves_them_out(cloud):
    answer = asked(cloud, availability_zone="az1")
    assert answer["capacity"] == 4
    assert [(one["reason"], one["hosts"]) for one in answer["limited_by"]] == [
        ("MEMORY_MB", 2),
        ("member_of", 1),
    ]
    (outside,) = (one for one in answer["limited_by"] if one["reason"] == "member_of")
    assert list(outside["names"].values()) == ["agg-az1"]
    assert all(uuid in outside["detail"] for uuid in outside["names"])
    assert all("names" not in one for one in answer["limited_by"] if one != outside)
    parts = asked(cloud, question={"per": "zone"}, availability_zone="az1")["per"]
    assert outside in [one for part in parts for one in part["limited_by"]]


def test_hosts_that_a_filter_refuses_are_counted_by_its_name(app):
    app.post_json(NODES, [report("cn1"), report("cn2", last_seen_up="2020-01-01T00:00:00Z")])
    answer = asked(app)
    assert answer["capacity"] == 63 + 1 == len(placed(app))
    assert {"reason": "ComputeFilter", "hosts": 1} in answer["limited_by"]


def test_several_flavors_are_answered_in_order_and_all_by_name(cloud):
    store_flavor(cloud, "small")
    store_flavor(cloud, "large", ram=4096)

    def answered(**question):
        request = {"project_id": "p1"}
        body = {"request_spec": request, **question}
        found = cloud.post_json("/scheduler/v1/capacity", body).json["flavors"]
        return [(one["flavor"], one["capacity"]) for one in found]

    assert answered(flavors=["large", "small", flavor(name="own")]) == [
        ("large", 9),
        ("small", 12),
        ("own", 12),
    ]
    assert sorted(answered(all_flavors=True)) == [("large", 9), ("small", 12)]


def test_number_and_uuids_of_instances_do_not_matter(cloud):
    assert asked(cloud, num_instances=7)["capacity"] == 12


def test_a_host_has_no_more_instances_than_a_filter_lets_it_have(sqlite_url, make_app):
    settings = make_settings(
        sqlite_url,
        filter_scheduler__enabled_filters=["NumInstancesFilter"],
        filter_scheduler__max_instances_per_host=5,
    )
    app = make_app(settings)
    app.post_json(NODES, [report("cn1", stats={"num_instances": "2"}), report("cn2")])
    answer = asked(app)
    assert answer["capacity"] == 3 + 5
    assert answer["limited_by"] == [{"reason": "NumInstancesFilter", "hosts": 2}]


def test_a_filter_that_looks_at_instances_sees_those_placed_before(sqlite_url, make_app):
    filters = ["tests.scheduler.test_selection.Alone"]
    app = make_app(make_settings(sqlite_url, filter_scheduler__enabled_filters=filters))
    app.post_json(NODES, [report("cn1"), report("cn2")])
    assert asked(app)["capacity"] == len(placed(app)) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "rules", "expected"),
    [
        ("anti-affinity", {}, 3),
        ("anti-affinity", {"max_server_per_host": 2}, 6),
        ("soft-anti-affinity", {}, 36),
        ("affinity", {}, 12),
    ],
)
def test_members_of_a_server_group_count_as_they_are_placed(app, policy, rules, expected):
    """An affinity group goes to the host that is best for its first member, and stays there."""
    hosts = [report(f"cn{number}", memory_mb=12288) for number in (1, 2, 3)]
    app.post_json(NODES, hosts)
    group = make(app, policy=policy, **rules)
    assert asked(app, instance_group=group)["capacity"] == expected
    assert len(placed(app, instance_group=group)) == expected
    assert asked(app, instance_group=group)["capacity"] == 0


@pytest.mark.parametrize("lots", [{}, {"placement__randomize_allocation_candidates": True}])
def test_hosts_behind_the_limit_count_unless_refused_hosts_hide_them(sqlite_url, make_app, lots):
    """Of two candidates the first is refused for ever: one host is seen after the other."""
    settings = make_settings(sqlite_url, scheduler__max_placement_results=2, **lots)
    app = make_app(settings)
    down = {"last_seen_up": "2020-01-01T00:00:00Z"}
    hosts = [report(f"cn{number}", memory_mb=2048) for number in range(6)]
    hosts[0] |= down
    app.post_json(NODES, hosts)
    answer = asked(app)
    assert (answer["capacity"], answer["exact"]) == (10, True)
    app.post_json(NODES, [hosts[2] | down])
    answer = asked(app)
    if lots:
        assert answer["exact"] is False
        assert "an undetermined part" in answer["inexact_because"][0]
    else:
        assert (answer["capacity"], answer["exact"]) == (2, True)
        assert answer["limited_by"][0]["reason"] == "limit"
        assert len(placed(app)) == 2


def test_the_cost_in_statements_does_not_follow_the_number_of_hosts(sqlite_app):
    app, database = sqlite_app, sqlite_app.app.services.database
    app.post_json(NODES, [report(f"cn{number}") for number in range(3)])
    asked(app)
    with counted(database) as few:
        asked(app)
    app.post_json(NODES, [report(f"cn{number}") for number in range(30)])
    asked(app)
    with counted(database) as many:
        asked(app)
    assert len(many) == len(few)
