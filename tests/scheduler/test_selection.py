# SPDX-License-Identifier: Apache-2.0
"""Filter runs for each instance of a request and for alternates, as counted in nova 34."""

from random import Random

import pytest

from placement_sched.model.aggregates import POLICIES, ServerGroup
from placement_sched.model.clock import utcnow
from placement_sched.scheduler import selection
from placement_sched.scheduler.drivers.filter_scheduler import FilterScheduler
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.host_manager import CellStates
from placement_sched.scheduler.plugins import Plugins
from placement_sched.scheduler.selection import HostSelector, PlacementProgress, RemainingCapacity
from placement_sched.scheduler.weights import BaseHostWeigher, IncrementalWeighing, run_weighers
from placement_sched.scheduler.weights.io_ops import IoOpsWeigher
from placement_sched.scheduler.weights.num_instances import NumInstancesWeigher
from placement_sched.scheduler.weights.ram import RAMWeigher
from tests.support.clouds import uuid_of
from tests.support.metrics import read_metric_samples
from tests.support.scheduling import explain_request, make_flavor, make_report, make_spec, make_uuid
from tests.support.states import build_host_state, build_settings, build_spec

HOST_NAMES = ("cn1", "cn2", "cn3", "cn4", "cn5")


class RunRecordingFilter(BaseHostFilter):
    """Records the instance and the hosts of each run."""

    rejected_hosts = frozenset()

    def __init__(self):
        self.runs = []

    def filter_all(self, hosts, spec_obj):
        hosts = list(hosts)
        self.runs.append((spec_obj.instance_uuid, [host.host for host in hosts]))
        return [host for host in hosts if host.host not in self.rejected_hosts]


class RecordingFilterForEveryInstance(RunRecordingFilter):
    rejected_hosts = frozenset({"cn4"})


class RecordingFilterForFirstInstance(RunRecordingFilter):
    run_filter_once_per_request = True
    rejected_hosts = frozenset({"cn2"})


class IndexRecordingFilter(BaseHostFilter):
    def __init__(self):
        self.runs = []

    def run_filter_for_index(self, index):
        self.runs.append(index)
        return False


class NewInstanceRejectingFilter(BaseHostFilter):
    """Rejects a host with an instance of this request."""

    def host_passes(self, host_state, _spec):
        return host_state.num_instances == 0


class InstanceRejectingFilter(BaseHostFilter):
    """Rejects a host with an instance in ``host_state.instances``."""

    def host_passes(self, host_state, _spec):
        return not host_state.instances


class FewerNewInstancesWeigher(BaseHostWeigher):
    """Prefers hosts that no earlier instance of this request got."""

    def _weigh_object(self, host_state, _spec):
        return -host_state.num_instances


def choose_hosts(number, *filters, alternates=0, group=None):
    """Return the hosts chosen for each instance, with their alternates."""
    settings = build_settings()
    plugins = Plugins(
        (), filters, (FewerNewInstancesWeigher(),), FilterScheduler.with_settings(settings)
    )
    selector = HostSelector(
        plugins=plugins,
        settings=settings,
        random=Random(1),
        closed_cells=CellStates(None, settings, utcnow),
        alternates=alternates,
    )
    uuids = [make_uuid(item) for item in range(number)]
    spec = build_spec(instance_uuids=uuids, instance_group=group)
    choice = selector.choose(
        [build_host_state(name) for name in HOST_NAMES], spec, RemainingCapacity.create_unlimited()
    )
    return [[entry.service_host for entry in selection] for selection in choice.selections]


def list_other_hosts(*names):
    return [name for name in HOST_NAMES if name not in names]


def test_rejected_hosts_stay_rejected_for_later_instances():
    recording_filter = RecordingFilterForEveryInstance()
    assert choose_hosts(3, recording_filter) == [["cn1"], ["cn2"], ["cn3"]]
    assert recording_filter.runs == [
        (make_uuid(0), list(HOST_NAMES)),
        (make_uuid(1), list_other_hosts("cn4")),
        (make_uuid(2), list_other_hosts("cn4")),
    ]
    first, recording_filter = RecordingFilterForFirstInstance(), RecordingFilterForEveryInstance()
    assert choose_hosts(3, first, recording_filter) == [["cn1"], ["cn3"], ["cn5"]]
    assert first.runs == [(make_uuid(0), list(HOST_NAMES))]
    after_two = list_other_hosts("cn2", "cn4")
    assert [hosts for _, hosts in recording_filter.runs] == [
        list_other_hosts("cn2"),
        after_two,
        after_two,
    ]
    recording_filter = RecordingFilterForEveryInstance()
    assert choose_hosts(3, NewInstanceRejectingFilter(), recording_filter) == [
        ["cn1"],
        ["cn2"],
        ["cn3"],
    ]
    expected = [
        list(HOST_NAMES),
        list_other_hosts("cn1", "cn4"),
        list_other_hosts("cn1", "cn2", "cn4"),
    ]
    assert [hosts for _, hosts in recording_filter.runs] == expected


def test_either_all_instances_of_a_request_get_hosts_or_none():
    assert choose_hosts(5, NewInstanceRejectingFilter(), RecordingFilterForFirstInstance()) == []
    assert (
        len(choose_hosts(4, NewInstanceRejectingFilter(), RecordingFilterForFirstInstance())) == 4
    )


@pytest.mark.parametrize(("group", "number"), [(None, 6), ({"policy": "soft-affinity"}, 5)])
def test_filters_find_earlier_instances_of_a_server_group_on_their_hosts(group, number):
    chosen = choose_hosts(number, InstanceRejectingFilter(), group=group)
    assert [host for (host,) in chosen] == [*HOST_NAMES, "cn1"][:number]
    assert choose_hosts(6, InstanceRejectingFilter(), group={"policy": "soft-affinity"}) == []


@pytest.mark.parametrize(
    ("number", "alternates", "indexes"),
    [(1, 0, [0]), (1, 2, [0]), (2, 0, [0, 1]), (2, 2, [0, 1, 1]), (3, 2, [0, 1, 2, 2])],
)
def test_alternates_of_several_instances_are_filtered_again(number, alternates, indexes):
    plugin = IndexRecordingFilter()
    choose_hosts(number, plugin, alternates=alternates)
    assert plugin.runs == indexes


def test_alternates_are_the_next_best_unselected_hosts():
    every = RecordingFilterForEveryInstance()
    assert choose_hosts(1, every, alternates=2) == [["cn1", "cn2", "cn3"]]
    assert len(every.runs) == 1
    hosts = choose_hosts(2, RecordingFilterForFirstInstance(), alternates=2)
    assert hosts == [["cn1", "cn4", "cn5"], ["cn3", "cn4", "cn5"]]


class OtherHostsMemoryWeigher(BaseHostWeigher):
    def weigh_objects(self, weighed_obj_list, weight_properties):
        assert weight_properties.flavor
        total = sum(item.obj.free_ram_mb for item in weighed_obj_list)
        return [total - item.obj.free_ram_mb for item in weighed_obj_list]


WEIGHER_PLUGINS = [
    kind.with_settings(build_settings())
    for kind in (RAMWeigher, IoOpsWeigher, NumInstancesWeigher, OtherHostsMemoryWeigher)
]


@pytest.mark.parametrize(
    "weighers", [WEIGHER_PLUGINS[:3], WEIGHER_PLUGINS, WEIGHER_PLUGINS[3:], []]
)
@pytest.mark.parametrize("seed", range(2))
def test_incremental_weights_equal_those_of_a_complete_run(weighers, seed):
    random = Random(seed)
    hosts = [
        build_host_state(f"cn{n % 7}", f"node{n}", free_ram_mb=random.choice([1024, 2048, 4096]))
        for n in range(12)
    ]
    weighing = IncrementalWeighing(weighers)
    while hosts:
        step = weighing.weigh(hosts, build_spec())
        complete = run_weighers(weighers, hosts, build_spec())
        weights = [(entry.obj.nodename, entry.weight) for entry in step.hosts]
        assert weights == [(item.obj.nodename, item.weight) for item in complete.hosts]
        best = random.choice(hosts)
        best.consume_from_request(build_spec(flavor=make_flavor(memory_mb=100)))
        weighing.record_change(best)
        hosts = [host for host in hosts if random.random() < 0.9]


def test_weights_of_an_earlier_instance_do_not_change():
    hosts = [build_host_state(f"cn{n}", free_ram_mb=1024 * n) for n in (1, 2, 3)]
    weighing = IncrementalWeighing(WEIGHER_PLUGINS[:1])
    first = weighing.weigh(hosts, build_spec())
    before = [(host.obj.host, host.weight) for host in first.hosts], first.build_host_reports()
    hosts[2].free_ram_mb = 0
    weighing.record_change(hosts[2])
    weighing.weigh(hosts, build_spec())
    after = ([(entry.obj.host, entry.weight) for entry in first.hosts], first.build_host_reports())
    assert after == before


def build_numa_cell(cpus):
    """Return a NUMA node with CPUs, and with memory for four instances of 512 MB."""
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


class ProgressWithoutReuse(PlacementProgress):
    """Progress after which every filter and weigher runs on all hosts."""

    def record_placement(self, host):
        self.weighing = IncrementalWeighing(self.weighing._weighers)
        self.reruns_filters = True


@pytest.mark.parametrize("policy", [None, *POLICIES])
@pytest.mark.parametrize(
    "seed", [1, *[pytest.param(n, marks=pytest.mark.exhaustive) for n in (2, 3)]]
)
def test_incremental_selections_equal_those_of_complete_runs(sqlite_app, monkeypatch, policy, seed):
    random = Random(seed)
    names = [f"cn{number}" for number in range(8)]
    sizes = [4096, 6144, 65536]
    reports = [
        make_report(
            name, memory_mb=random.choice(sizes), numa_topology={"cells": [build_numa_cell(8)]}
        )
        for name in names
    ]
    sqlite_app.post_json("/scheduler/v1/compute_nodes", reports)
    uuids = [uuid_of(f"instance {number}") for number in range(9)]
    for uuid in uuids[::2]:
        sqlite_app.put_json(f"/scheduler/v1/instances/{uuid}", {"host": random.choice(names)})
    group = {"policy": policy, "members": uuids[4:6]}
    if policy == "anti-affinity":
        group["rules"] = {"max_server_per_host": 2}
    small = make_flavor(memory_mb=512, extra_specs={"hw:numa_nodes": "1"})
    request = make_spec(*uuids[:7], flavor=small, instance_group=group if policy else None)

    stepwise = explain_request(sqlite_app, request)
    monkeypatch.setattr(selection, "PlacementProgress", ProgressWithoutReuse)
    complete = explain_request(sqlite_app, request)
    assert stepwise["outcome"] == "selected"
    assert stepwise["selections"] == complete["selections"]


@pytest.fixture
def cloud(sqlite_app, monkeypatch):
    """Hosts for 16, 16 and 8 instances of a CPU. From 20 instances on, capacity is counted."""
    monkeypatch.setattr(selection, "_MIN_PAIRS", 60)
    sizes = {"cn1": 4, "cn2": 4, "cn3": 2}
    reports = [make_report(name, vcpus=vcpus) for name, vcpus in sizes.items()]
    sqlite_app.post_json("/scheduler/v1/compute_nodes", reports)
    return sqlite_app


def build_request_for_many_instances(count, **fields):
    return {**make_spec(**fields), "instance_uuids": None, "num_instances": count}


def test_request_for_more_instances_than_the_counted_capacity_is_rejected(cloud):
    assert explain_request(cloud, build_request_for_many_instances(40))["outcome"] == "selected"
    response = explain_request(cloud, build_request_for_many_instances(41))
    assert response["outcome"] == "no_valid_host"
    room = {"instances": 41, "at_most": 40, "resource_class": "VCPU"}
    assert response["funnel"]["room"] == room
    assert response["funnel"]["obstacle"] == {
        "stage": "room",
        "name": "room",
        "reason": "the hosts that passed have capacity for at most 40 of the 41 instances",
        "kind": "room",
        "resource_class": "VCPU",
    }
    assert "later_instance" not in response["funnel"]
    assert len(response["hosts"]) == 3
    body = {"request_spec": build_request_for_many_instances(41)}
    rejection = cloud.post_json("/scheduler/v1/select_destinations", body, status=409).json
    assert "capacity for at most 40 of the 41" in rejection["errors"][0]["detail"]
    decisions = cloud.get("/scheduler/v1/decisions?reason=room:VCPU").json["decisions"]
    assert [(each["reason_kind"], each["reason_subject"]) for each in decisions] == [
        ("room", "VCPU")
    ]
    samples = read_metric_samples(cloud, "scheduler_no_valid_host_total")
    assert samples == {(("kind", "room"), ("resource_class", "VCPU")): 1}
    assert (
        explain_request(cloud, build_request_for_many_instances(33, ignore_hosts=["cn3"]))[
            "funnel"
        ]["room"]["at_most"]
        == 32
    )
    assert (
        explain_request(cloud, build_request_for_many_instances(32, ignore_hosts=["cn3"]))[
            "outcome"
        ]
        == "selected"
    )
    funnel = explain_request(
        cloud, build_request_for_many_instances(9, flavor=make_flavor(vcpus=4))
    )["funnel"]
    assert "room" not in funnel
    assert funnel["later_instance"]["filters"]
    obstacle = funnel["obstacle"]
    assert (obstacle["kind"], obstacle["resource_class"]) == ("used_up", "VCPU")


@pytest.mark.parametrize("name", ["ServerGroupAntiAffinityFilter", "GroupAntiAffinityFilter"])
def test_anti_affinity_capacity_is_the_host_count_times_members_per_host(cloud, name):
    group = {"policy": "anti-affinity", "rules": {"max_server_per_host": 8}, "members": []}
    assert ServerGroup.from_document(group).rules
    overrides = {"filter_scheduler.enabled_filters": [name]}
    response = explain_request(
        cloud, build_request_for_many_instances(25, instance_group=group), overrides=overrides
    )
    assert response["funnel"]["room"] == {"instances": 25, "at_most": 24}
    assert "resource_class" not in response["funnel"]["obstacle"]
    fit = explain_request(
        cloud, build_request_for_many_instances(24, instance_group=group), overrides=overrides
    )
    assert fit["outcome"] == "selected"


SMALL_FLAVOR = make_flavor(vcpus=1, memory_mb=1, root_gb=0)
IMAGE_WITH_LARGE_PROPERTIES = {"properties": {f"p{n}": "x" * 60_000 for n in range(15)}}
FLAVOR_WITH_100_RESOURCES = make_flavor(
    extra_specs={f"resources:CUSTOM_{n}": "1" for n in range(100)}
)
GROUP_OF_10000_MEMBERS = {
    "policy": "soft-affinity",
    "members": [uuid_of(f"m{n}") for n in range(10_000)],
}


def build_hardware_fields(nodes, devices):
    """Return the fields of a request for NUMA nodes and PCI devices."""
    cells = [{"id": node, "cpuset": [node], "memory": 1} for node in range(nodes)]
    requests = [{"count": 1, "spec": [{"vendor_id": "8086"}]}] * devices
    return {"numa_topology": {"cells": cells}, "pci_requests": {"requests": requests}}


@pytest.mark.parametrize(
    ("number", "fields", "detail"),
    [
        (
            15,
            {"flavor": SMALL_FLAVOR, "image": IMAGE_WITH_LARGE_PROPERTIES},
            "for each of 15 instances, more than 10000000 in total (at $.request_spec.image)",
        ),
        (
            60,
            {"flavor": FLAVOR_WITH_100_RESOURCES},
            (
                "60 instances with 103 amounts of resources each: all instances together may "
                "request at most 6000 amounts"
            ),
        ),
        (
            101,
            {"flavor": SMALL_FLAVOR, "instance_group": GROUP_OF_10000_MEMBERS},
            "101 instances of a server group with 10000 members: instances times members may be",
        ),
        (200, build_hardware_fields(4, 4), None),
        (
            201,
            build_hardware_fields(4, 4),
            "all instances together may have at most 1600 NUMA nodes plus PCI requests (at $.req",
        ),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str | int) else "",
)
def test_total_size_of_the_instances_of_a_request_is_limited(sqlite_app, number, fields, detail):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1", vcpus=1000)])
    uuids = [uuid_of(f"{number} {n}") for n in range(number)]
    body = {"request_spec": make_spec(*uuids, **fields)}
    path = "select_destinations" if "image" in fields or number == 60 else "explain"
    response = sqlite_app.post_json(f"/scheduler/v1/{path}", body, expect_errors=True)
    if detail is None:
        assert response.status_int in {200, 409}
    else:
        assert response.status_int == 400
        assert detail in response.json["errors"][0]["detail"]


def test_number_of_alternates_is_limited(sqlite_app):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1", vcpus=1000)])
    uuids = [uuid_of(str(n)) for n in range(100)]
    request = {
        "request_spec": make_spec(*uuids, flavor=make_flavor(vcpus=1, memory_mb=1, root_gb=0))
    }
    for attempts, alternates, status in ((201, True, 200), (202, True, 400), (202, False, 200)):
        overrides = {"scheduler.max_attempts": attempts}
        body = {**request, "return_alternates": alternates, "overrides": overrides}
        response = sqlite_app.post_json("/scheduler/v1/explain", body, status=status)
        if status == 400:
            assert response.json["errors"][0]["detail"] == (
                "[scheduler] max_attempts requires 201 alternates for each of 100 instances, more "
                "than 20000 in total (at $.request_spec.num_instances)"
            )


def test_many_instances_with_pinned_cpus_are_placed_on_hosts_with_vcpu_only(cloud):
    pinned = make_flavor(extra_specs={"hw:cpu_policy": "dedicated"}, vcpus=1)
    overrides = {"filter_scheduler.enabled_filters": ["ComputeFilter"]}
    body = build_request_for_many_instances(30, flavor=pinned)
    response = explain_request(cloud, body, overrides=overrides)
    assert response["outcome"] == "selected"
