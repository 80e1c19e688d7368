# SPDX-License-Identifier: Apache-2.0
"""Requests for many instances: weighed step by step as if all at once, and refused by counting."""

from random import Random

import pytest

from placement_sched.model.aggregates import POLICIES, ServerGroup
from placement_sched.scheduler import selection
from placement_sched.scheduler.selection import PlacementProgress
from placement_sched.scheduler.weighing import Weighing, run_weighers
from placement_sched.scheduler.weights import BaseHostWeigher
from placement_sched.scheduler.weights.io_ops import IoOpsWeigher
from placement_sched.scheduler.weights.num_instances import NumInstancesWeigher
from placement_sched.scheduler.weights.ram import RAMWeigher
from tests.scheduler.test_scheduler import explain
from tests.support.clouds import uuid_of
from tests.support.scheduling import flavor, report, spec
from tests.support.statements import counted
from tests.support.states import a_host, a_spec, settings_with


class Relative(BaseHostWeigher):
    """Weighs a host by all the others, as a weigher of another package may."""

    def weigh_objects(self, weighed_obj_list, weight_properties):
        assert weight_properties.flavor
        total = sum(item.obj.free_ram_mb for item in weighed_obj_list)
        return [total - item.obj.free_ram_mb for item in weighed_obj_list]


WEIGHERS = [
    kind.with_settings(settings_with())
    for kind in (RAMWeigher, IoOpsWeigher, NumInstancesWeigher, Relative)
]


@pytest.mark.parametrize("weighers", [WEIGHERS[:3], WEIGHERS, WEIGHERS[3:], []])
@pytest.mark.parametrize("seed", range(5))
def test_hosts_weighed_step_by_step_weigh_as_if_all_were_weighed(weighers, seed):
    """Whoever is placed where, and whoever drops out on the way, up to the last host."""
    random = Random(seed)
    hosts = [
        a_host(f"cn{n % 7}", f"node{n}", free_ram_mb=random.choice([1024, 2048, 4096]))
        for n in range(12)
    ]
    weighing = Weighing(weighers)
    while hosts:
        step, whole = weighing.weigh(hosts, a_spec()), run_weighers(weighers, hosts, a_spec())
        assert [(one.obj.nodename, one.weight) for one in step.hosts] == [
            (one.obj.nodename, one.weight) for one in whole.hosts
        ]
        best = random.choice(hosts)
        best.consume_from_request(a_spec(flavor=flavor(memory_mb=100)))
        weighing.note(best)
        hosts = [host for host in hosts if random.random() < 0.9]


def test_what_an_earlier_instance_saw_stays_as_it_was():
    hosts = [a_host(f"cn{n}", free_ram_mb=1024 * n) for n in (1, 2, 3)]
    weighing = Weighing(WEIGHERS[:1])
    first = weighing.weigh(hosts, a_spec())
    before = [(one.obj.host, one.weight) for one in first.hosts], first.host_reports()
    hosts[2].free_ram_mb = 0
    weighing.note(hosts[2])
    weighing.weigh(hosts, a_spec())
    assert ([(one.obj.host, one.weight) for one in first.hosts], first.host_reports()) == before


def cell(cpus):
    """Return a NUMA node with so many CPUs, and memory for four instances of 512 MB."""
    pages = [{"size_kb": 4, "total": 2048 * 256, "used": 0, "reserved": 0}]
    return {
        "id": 0,
        "cpuset": list(range(cpus)),
        "pcpuset": [],
        "memory": 2048,
        "cpu_usage": 0,
        "memory_usage": 0,
        "pinned_cpus": [],
        "siblings": [],
        "mempages": pages,
    }


class Fresh(PlacementProgress):
    """What instances leave, where every filter and weigher looks at all hosts each time."""

    def note(self, host):
        self.weighing = Weighing(self.weighing._weighers)
        self.asks_again = True


@pytest.mark.parametrize("policy", [None, *POLICIES])
@pytest.mark.parametrize("seed", range(3))
def test_hosts_are_chosen_as_if_each_instance_looked_at_all_of_them(
    sqlite_app, monkeypatch, policy, seed
):
    """Also where instances of the request, and other members, are on hosts already."""
    random = Random(seed)
    names = [f"cn{number}" for number in range(8)]
    sizes = [4096, 6144, 65536]
    reports = [
        report(one, memory_mb=random.choice(sizes), numa_topology={"cells": [cell(8)]})
        for one in names
    ]
    sqlite_app.post_json("/scheduler/v1/compute_nodes", reports)
    uuids = [uuid_of(f"instance {number}") for number in range(9)]
    for uuid in uuids[::2]:
        sqlite_app.put_json(f"/scheduler/v1/instances/{uuid}", {"host": random.choice(names)})
    group = {"policy": policy, "members": uuids[4:6]}
    if policy == "anti-affinity":
        group["rules"] = {"max_server_per_host": 2}
    small = flavor(memory_mb=512, extra_specs={"hw:numa_nodes": "1"})
    asked = spec(*uuids[:7], flavor=small, instance_group=group if policy else None)

    stepwise = explain(sqlite_app, asked)
    monkeypatch.setattr(selection, "PlacementProgress", Fresh)
    whole = explain(sqlite_app, asked)
    assert stepwise["outcome"] == "selected"
    assert stepwise["selections"] == whole["selections"]


@pytest.fixture
def cloud(sqlite_app, monkeypatch):
    """Three hosts with room for 16, 16 and 8 instances of one CPU; the count pays from 20 on."""
    monkeypatch.setattr(selection, "_MIN_PAIRS", 60)
    sizes = {"cn1": 4, "cn2": 4, "cn3": 2}
    reports = [report(name, vcpus=vcpus) for name, vcpus in sizes.items()]
    sqlite_app.post_json("/scheduler/v1/compute_nodes", reports)
    return sqlite_app


def many(count, **fields):
    return {**spec(**fields), "instance_uuids": None, "num_instances": count}


def test_more_instances_than_there_is_room_for_are_refused_by_counting(cloud):
    assert explain(cloud, many(40))["outcome"] == "selected"
    told = explain(cloud, many(41))
    assert told["outcome"] == "no_valid_host"
    assert told["funnel"]["room"] == {"instances": 41, "at_most": 40}
    assert told["funnel"]["obstacle"] == {
        "stage": "room",
        "name": "room",
        "reason": "the hosts that passed have capacity for at most 40 of the 41 instances",
    }
    assert "later_instance" not in told["funnel"]
    assert len(told["hosts"]) == 3
    body = {"request_spec": many(41)}
    answer = cloud.post_json("/scheduler/v1/select_destinations", body, status=409).json
    assert "capacity for at most 40 of the 41" in answer["errors"][0]["detail"]


def test_only_hosts_that_passed_the_filters_count(cloud):
    assert explain(cloud, many(33, ignore_hosts=["cn3"]))["funnel"]["room"]["at_most"] == 32
    assert explain(cloud, many(32, ignore_hosts=["cn3"]))["outcome"] == "selected"


@pytest.mark.parametrize("name", ["ServerGroupAntiAffinityFilter", "GroupAntiAffinityFilter"])
def test_members_that_keep_apart_are_refused_by_the_number_of_hosts(cloud, name):
    group = {"policy": "anti-affinity", "rules": {"max_server_per_host": 8}, "members": []}
    assert ServerGroup.from_document(group).rules
    overrides = {"filter_scheduler.enabled_filters": [name]}
    told = explain(cloud, many(25, instance_group=group), overrides=overrides)
    assert told["funnel"]["room"] == {"instances": 25, "at_most": 24}
    fit = explain(cloud, many(24, instance_group=group), overrides=overrides)
    assert fit["outcome"] == "selected"


def test_pinned_and_shared_cpus_bound_each_other_no_more_than_they_do(cloud):
    """A host's candidates may take PCPU or VCPU: neither class alone bounds the instances."""
    pinned = flavor(extra_specs={"hw:cpu_policy": "dedicated"}, vcpus=1)
    overrides = {"filter_scheduler.enabled_filters": ["ComputeFilter"]}
    body = many(30, flavor=pinned)
    told = explain(cloud, body, overrides=overrides)
    assert told["outcome"] == "selected"


def test_few_instances_are_placed_to_say_which_stage_refused_the_last_hosts(cloud):
    funnel = explain(cloud, many(9, flavor=flavor(vcpus=4)))["funnel"]
    assert "room" not in funnel
    assert funnel["later_instance"]["filters"]


def test_counting_takes_the_two_statements_that_placing_takes_anyway(cloud):
    def statements(count):
        with counted(cloud.app.services.database) as seen:
            explain(cloud, many(count))
        return len(seen)

    statements(2)
    assert statements(30) == statements(2)


def test_flavor_and_image_too_large_to_be_recorded_with_each_instance_are_refused(sqlite_app):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [report("cn1", vcpus=1000)])
    image = {"properties": {f"p{n}": "x" * 60_000 for n in range(15)}}
    small = flavor(memory_mb=1, root_gb=0)
    path = "/scheduler/v1/select_destinations"

    def asked(number):
        uuids = [uuid_of(f"{number} {n}") for n in range(number)]
        return {"request_spec": spec(*uuids, flavor=small, image=image)}

    refused = sqlite_app.post_json(path, asked(15), status=400).json["errors"][0]["detail"]
    assert "for each of 15 instances, more than 10000000 in total" in refused
    assert refused.endswith("(at $.request_spec.image)")
    sqlite_app.post_json(path, asked(10), status=200)


def test_more_alternates_than_one_request_may_have_are_refused(sqlite_app):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [report("cn1", vcpus=1000)])
    uuids = [uuid_of(str(n)) for n in range(100)]
    asked = {"request_spec": spec(*uuids, flavor=flavor(vcpus=1, memory_mb=1, root_gb=0))}
    for attempts, alternates, status in ((201, True, 200), (202, True, 400), (202, False, 200)):
        overrides = {"scheduler.max_attempts": attempts}
        body = {**asked, "return_alternates": alternates, "overrides": overrides}
        answer = sqlite_app.post_json("/scheduler/v1/explain", body, status=status)
        if status == 400:
            assert answer.json["errors"][0]["detail"] == (
                "[scheduler] max_attempts requires 201 alternates for each of 100 instances, more "
                "than 20000 in total (at $.request_spec.num_instances)"
            )


def test_more_amounts_than_one_claim_may_have_are_refused(sqlite_app):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [report("cn1")])
    extra = {f"resources:CUSTOM_{n}": "1" for n in range(100)}
    uuids = [uuid_of(str(n)) for n in range(60)]
    body = {"request_spec": spec(*uuids, flavor=flavor(extra_specs=extra))}
    refused = sqlite_app.post_json("/scheduler/v1/select_destinations", body, status=400)
    detail = refused.json["errors"][0]["detail"]
    assert detail.startswith("60 instances that request 103 amounts of resources each exceed 6000")


def test_too_many_instances_for_the_members_of_their_group_are_refused(sqlite_app):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [report("cn1")])
    group = {"policy": "soft-affinity", "members": [uuid_of(f"m{n}") for n in range(10_000)]}
    few, many = ([uuid_of(str(n)) for n in range(number)] for number in (100, 101))
    small = flavor(vcpus=1, memory_mb=1, root_gb=0)
    for uuids, status in ((few, {200, 409}), (many, {400})):
        body = {"request_spec": spec(*uuids, flavor=small, instance_group=group)}
        answer = sqlite_app.post_json("/scheduler/v1/explain", body, expect_errors=True)
        assert answer.status_int in status
    detail = answer.json["errors"][0]["detail"]
    assert detail == (
        "101 instances of a server group with 10000 members: the product may be 1000000 at most "
        "(at $.request_spec)"
    )


def test_too_many_numa_nodes_and_devices_of_all_instances_are_refused(sqlite_app):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [report("cn1")])
    nodes = [{"id": n, "cpuset": [n], "memory": 1} for n in range(4)]
    devices = [{"count": 1, "spec": [{"vendor_id": "8086"}]}] * 4
    asked = {"numa_topology": {"cells": nodes}, "pci_requests": {"requests": devices}}
    few, many = ([uuid_of(str(n)) for n in range(number)] for number in (200, 201))
    for uuids, status in ((few, 200), (many, 400)):
        body = {"request_spec": spec(*uuids, **asked)}
        answer = sqlite_app.post_json("/scheduler/v1/explain", body, status=status)
    assert answer.json["errors"][0]["detail"] == (
        "201 instances with 4 NUMA nodes and 4 PCI requests each: all instances together may have "
        "at most 1600 NUMA nodes plus PCI requests (at $.request_spec)"
    )


@pytest.mark.parametrize(("number", "nodes", "devices"), [(250, 4, 2), (100, 8, 8), (1000, 1, 0)])
def test_many_instances_may_have_numa_nodes_and_devices(sqlite_app, number, nodes, devices):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [report("cn1")])
    cells = [{"id": node, "cpuset": [node], "memory": 1} for node in range(nodes)]
    requests = [{"count": 1, "spec": [{"vendor_id": "8086"}]}] * devices
    asked = {"numa_topology": {"cells": cells}, "pci_requests": {"requests": requests}}
    body = {"request_spec": spec(*(uuid_of(str(n)) for n in range(number)), **asked)}
    sqlite_app.post_json("/scheduler/v1/explain", body, status=200)
