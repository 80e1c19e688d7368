# SPDX-License-Identifier: Apache-2.0
"""Capacity of flavors, counted per host, zone, aggregate and cell."""

from collections import Counter

import pytest

from tests.conftest import make_settings
from tests.scheduler.capacity.placements import place_until_full, read_capacity
from tests.scheduler.test_server_groups import create_group
from tests.support.scheduling import flavor, report
from tests.support.statements import record_statements

NODES = "/scheduler/v1/compute_nodes"
FLAVORS = "/compute/v2.1/flavors"
AGGREGATES = "/compute/v2.1/os-aggregates"
ADMIN = {"OpenStack-API-Version": "compute 2.96"}


def make_zone(app, name, *hosts):
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
    """Three hosts: cn1 runs out of memory, cn2 runs out of CPUs, and cn3 is full."""
    hosts = [
        report("cn1", vcpus=16, memory_mb=4096),
        report("cn2", vcpus=2, memory_mb=65536),
        report("cn3", vcpus=16, memory_mb=512),
    ]
    app.post_json(NODES, hosts)
    make_zone(app, "az1", "cn1")
    make_zone(app, "az2", "cn2", "cn3")
    return app


def test_capacity_equals_the_number_of_placed_instances(cloud):
    answer = read_capacity(cloud, num_instances=7)
    assert (answer["exact"], answer["capacity"]) == (True, 12)
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
    assert Counter(place_until_full(cloud)) == {"cn1": 4, "cn2": 8}
    assert read_capacity(cloud)["capacity"] == 0


def test_capacity_per_zone_aggregate_host_and_cell(cloud):
    def read_capacities(kind):
        return {
            entry["name"]: entry["capacity"]
            for entry in read_capacity(cloud, query={"per": kind})["per"]
        }

    assert read_capacities("zone") == {"az1": 4, "az2": 8}
    assert read_capacities("aggregate") == {"agg-az1": 4, "agg-az2": 8}
    assert read_capacities("host") == {"cn1": 4, "cn2": 8, "cn3": 0}
    assert read_capacities("cell") == {"": 12}


def test_hosts_outside_the_zone_are_limited_by_member_of(cloud):
    answer = read_capacity(cloud, availability_zone="az1")
    assert answer["capacity"] == 4
    assert [(entry["reason"], entry["hosts"]) for entry in answer["limited_by"]] == [
        ("MEMORY_MB", 2),
        ("member_of", 1),
    ]
    (outside,) = (item for item in answer["limited_by"] if item["reason"] == "member_of")
    assert list(outside["names"].values()) == ["agg-az1"]
    assert all(uuid in outside["detail"] for uuid in outside["names"])
    assert all("names" not in entry for entry in answer["limited_by"] if entry != outside)
    parts = read_capacity(cloud, query={"per": "zone"}, availability_zone="az1")["per"]
    assert outside in [entry for part in parts for entry in part["limited_by"]]


OLD = "2020-01-01T00:00:00Z"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "hosts", "capacity", "rejected"),
    [
        ("ComputeFilter", [report("cn1", memory_mb=4096), report("cn2", last_seen_up=OLD)], 4, 1),
        (
            "NumInstancesFilter",
            [report("cn1", stats={"num_instances": "2"}), report("cn2")],
            3 + 5,
            2,
        ),
        # ``host_state.instances`` includes the instances that are placed before.
        ("tests.scheduler.test_selection.Alone", [report("cn1"), report("cn2")], 2, 2),
    ],
)
def test_filters_limit_the_capacity(sqlite_url, make_app, name, hosts, capacity, rejected):
    options = {"enabled_filters": [name], "max_instances_per_host": 5}
    options = {f"filter_scheduler__{option}": value for option, value in options.items()}
    app = make_app(make_settings(sqlite_url, **options))
    app.post_json(NODES, hosts)
    answer = read_capacity(app)
    assert answer["capacity"] == capacity
    assert {"reason": name.rpartition(".")[2], "hosts": rejected} in answer["limited_by"]
    if name != "NumInstancesFilter":  # whose number is reported
        assert len(place_until_full(app)) == capacity


def test_several_flavors_are_in_order(cloud):
    store_flavor(cloud, "small")
    store_flavor(cloud, "large", ram=4096)

    def count_flavors(**question):
        request = {"project_id": "p1"}
        body = {"request_spec": request, **question}
        flavors = cloud.post_json("/scheduler/v1/capacity", body).json["flavors"]
        return [(entry["flavor"], entry["capacity"]) for entry in flavors]

    assert count_flavors(flavors=["large", "small", flavor(name="own")]) == [
        ("large", 9),
        ("small", 12),
        ("own", 12),
    ]
    assert sorted(count_flavors(all_flavors=True)) == [("large", 9), ("small", 12)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "rules", "expected"),
    [
        ("anti-affinity", {}, 3),
        ("anti-affinity", {"max_server_per_host": 2}, 6),
        ("soft-anti-affinity", {}, 12),
        ("affinity", {}, 4),
    ],
)
def test_capacity_of_a_server_group(app, policy, rules, expected):
    hosts = [report(f"cn{number}", memory_mb=4096) for number in (1, 2, 3)]
    app.post_json(NODES, hosts)
    group = create_group(app, policy=policy, **rules)
    assert read_capacity(app, instance_group=group)["capacity"] == expected
    assert len(place_until_full(app, instance_group=group)) == expected
    assert read_capacity(app, instance_group=group)["capacity"] == 0


@pytest.mark.parametrize("lots", [{}, {"placement__randomize_allocation_candidates": True}])
def test_hosts_beyond_the_limit_count(sqlite_url, make_app, lots):
    settings = make_settings(sqlite_url, scheduler__max_placement_results=2, **lots)
    app = make_app(settings)
    down = {"last_seen_up": "2020-01-01T00:00:00Z"}
    hosts = [report(f"cn{number}", memory_mb=2048) for number in range(6)]
    hosts[0] |= down
    app.post_json(NODES, hosts)
    answer = read_capacity(app)
    assert (answer["capacity"], answer["exact"]) == (10, True)
    app.post_json(NODES, [hosts[2] | down])
    answer = read_capacity(app)
    if lots:
        assert answer["exact"] is False
        assert "may see fewer" in answer["inexact_because"][0]
    else:
        assert (answer["capacity"], answer["exact"]) == (2, True)
        assert answer["limited_by"][0]["reason"] == "limit"
        assert len(place_until_full(app)) == 2


def test_number_of_statements_does_not_depend_on_hosts(sqlite_app):
    app, database = sqlite_app, sqlite_app.app.services.database
    app.post_json(NODES, [report(f"cn{number}") for number in range(3)])
    read_capacity(app)
    with record_statements(database) as few:
        read_capacity(app)
    app.post_json(NODES, [report(f"cn{number}") for number in range(30)])
    read_capacity(app)
    with record_statements(database) as many:
        read_capacity(app)
    assert len(many) == len(few)
