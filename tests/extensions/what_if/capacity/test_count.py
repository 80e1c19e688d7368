# SPDX-License-Identifier: Apache-2.0
"""Counts of capacity by filling hosts, compared with counts in rounds."""

from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from webtest import TestApp

from placement_sched.extensions.what_if.capacity.count import Deadline, count_hosts
from placement_sched.model.decision import DecisionSeed
from tests.conftest import make_settings
from tests.exploring import scale_example_count
from tests.extensions.what_if.capacity.placements import (
    CAPACITY_PATH,
    GPU_ALIAS,
    GPU_POOL,
    build_limit,
    read_capacity,
)
from tests.scheduler.explanations import put_aggregate
from tests.scheduler.providers import PROVIDERS_PATH, add_provider, add_sharing_provider
from tests.scheduler.server_groups import create_group
from tests.support.api_clouds import make_zone
from tests.support.clouds import uuid_of
from tests.support.placements import fill_cloud
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid
from tests.support.versions import LATEST_HEADERS

HYPOTHESIS_SETTINGS = examples(
    max_examples=scale_example_count(15),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
USAGE_INDEPENDENT_FILTERS = [
    "ComputeFilter",
    "AggregateInstanceExtraSpecsFilter",
    "ImagePropertiesFilter",
]
FLAVOR_SIZES = st.fixed_dictionaries(
    {
        "vcpus": st.integers(1, 8),
        "memory_mb": st.sampled_from([1, 256, 500, 512, 2048]),
        "root_gb": st.integers(0, 400),
    }
)


@contextmanager
def prepare_run_of_unlimited_request(services, **fields):
    """Yield the run of a request without a limit of candidates."""
    scheduler = services.scheduler
    request = scheduler.reader.validate(scheduler.reader.read(make_spec(**fields)))
    with services.database.read() as connection:
        seed = DecisionSeed.draw(scheduler.random)
        yield scheduler.prepare_run(connection, request, seed, unlimited=True)


def count_instances_by_node(app, **fields):
    inexact_reasons = []
    with prepare_run_of_unlimited_request(app.app.services, **fields) as run:
        counters, can_pool = count_hosts(run, Deadline.from_seconds(0), inexact_reasons)
    assert (inexact_reasons, can_pool) == ([], True)
    return {
        counter.uuid: (
            counter.instances,
            counter.limit_reason,
            counter.remaining_candidates,
            counter.free,
        )
        for counter in counters
    }


@pytest.mark.slow
@HYPOTHESIS_SETTINGS
@given(seed=st.integers(0, 2**32), sizes=FLAVOR_SIZES)
def test_capacity_counted_by_filling_hosts_equals_count_in_selection_rounds(
    make_new_app, seed, sizes
):
    reports = list(draw_host_reports(Random(seed)).values())
    fields = {"flavor": make_flavor(**sizes)}
    filled = make_new_app(filter_scheduler__enabled_filters=USAGE_INDEPENDENT_FILTERS)
    by_rounds = make_new_app(
        filter_scheduler__enabled_filters=[*USAGE_INDEPENDENT_FILTERS, "NumInstancesFilter"],
        filter_scheduler__max_instances_per_host=10_000,
    )
    for app in (filled, by_rounds):
        app.post_json(NODES_PATH, reports)
    assert count_instances_by_node(filled, **fields) == count_instances_by_node(by_rounds, **fields)


@pytest.mark.slow
@HYPOTHESIS_SETTINGS
@given(seed=st.integers(0, 2**32), flavors=st.lists(FLAVOR_SIZES, min_size=2, max_size=4))
def test_capacity_query_of_several_flavors_equals_a_query_for_each_flavor(
    make_new_app, seed, flavors
):
    random = Random(seed)
    app = make_new_app(filter_scheduler__enabled_filters=HARDWARE_FILTERS, pci__alias=[GPU_ALIAS])
    reports = draw_host_reports(random)
    app.post_json(NODES_PATH, list(reports.values()))
    make_zone(app, "az1", *random.sample(sorted(reports), random.randint(1, len(reports))))
    extra = [{}, {"hw:numa_nodes": "1"}, {"pci_passthrough:alias": "gpu:1"}]
    several = [make_flavor(**sizes, extra_specs=random.choice(extra)) for sizes in flavors]
    per = random.choice(["zone", "host", "aggregate", "cell"])
    body = {"request_spec": {"project_id": "p1"}, "flavors": several, "per": per}
    reports_together = app.post_json(CAPACITY_PATH, body).json["flavors"]
    reports_alone = [read_capacity(app, query={"per": per}, flavor=item) for item in several]
    assert [{**entry, "flavor": "m1"} for entry in reports_alone] == reports_together


@pytest.mark.parametrize("in_memory", [True, False], ids=["provider_cache", "read_from_database"])
def test_capacity_and_limiting_resources_of_flavors_are_exact_on_every_database(
    database_url, make_app, in_memory
):
    settings = make_settings(database_url, placement__providers_in_memory=in_memory)
    app = make_app(settings)
    hosts = [
        make_report("cn1", memory_mb=4096),
        make_report("cn2", vcpus=1),
        make_report("cn3", memory_mb=512),
    ]
    app.post_json(NODES_PATH, hosts)
    make_zone(app, "az1", "cn1", "cn3")
    body = {
        "request_spec": {"availability_zone": "az1"},
        "flavors": [
            make_flavor(),
            make_flavor(vcpus=2, memory_mb=512),
            make_flavor(memory_mb=131072),
        ],
    }
    for _ in range(2):  # the second count reads filled caches
        responses = app.post_json(CAPACITY_PATH, body).json["flavors"]
        assert [response["capacity"] for response in responses] == [4, 8 + 1, 0]
        assert [
            {entry["reason"]: entry["hosts"] for entry in item["limited_by"]} for item in responses
        ] == [{"MEMORY_MB": 2, "member_of": 1}, {"MEMORY_MB": 2, "VCPU": 1}, {"MEMORY_MB": 3}]


def test_capacity_of_large_inventories_is_exact(sqlite_app):
    sqlite_app.post_json(NODES_PATH, [make_report("cn1"), make_report("cn2")])
    sqlite_app.put("/placement/resource_classes/CUSTOM_BYTES", headers=LATEST_HEADERS)
    for name in ("cn1", "cn2"):
        url = f"{PROVIDERS_PATH}/{make_report(name)['uuid']}"
        result = sqlite_app.get(f"{url}/inventories", headers=LATEST_HEADERS).json
        capacity = {"total": 2**31 - 1, "allocation_ratio": 1e8}
        result["inventories"] |= {"CUSTOM_BYTES": capacity}
        sqlite_app.put_json(f"{url}/inventories", result, headers=LATEST_HEADERS)
    request = {"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0"}
    extra = {**request, "resources:CUSTOM_BYTES": "1"}
    result = read_capacity(sqlite_app, query={"per": "host"}, flavor=make_flavor(extra_specs=extra))
    assert result["capacity"] == 2 * int((2**31 - 1) * 1e8)
    assert [entry["capacity"] for entry in result["per"]] == 2 * [int((2**31 - 1) * 1e8)]


@pytest.mark.parametrize(("total", "reason"), [(7, "CUSTOM_FAST"), (100, "MEMORY_MB")])
def test_shared_pool_limits_the_capacity_only_if_it_is_full_before_the_hosts(
    sqlite_app, total, reason
):
    names = ["cn1", "cn2"]
    sqlite_app.post_json(NODES_PATH, [make_report(name, memory_mb=4096) for name in names])
    add_sharing_provider(sqlite_app, make_uuid(1), make_uuid(11), names, CUSTOM_FAST=total)
    result = read_capacity(sqlite_app, **CUSTOM_RESOURCE_REQUEST)
    assert result["limited_by"] == [build_limit(reason, 2)]


NODES_PATH = "/scheduler/v1/compute_nodes"
SERVER_GROUP_FILTERS = [
    "ComputeFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
]
HARDWARE_FILTERS = [
    *SERVER_GROUP_FILTERS,
    "NUMATopologyFilter",
    "PciPassthroughFilter",
    "NumInstancesFilter",
]


@dataclass
class HostsThatReportInstances:
    """Hosts that report their instances like nova-compute."""

    app: TestApp
    reports: dict[str, dict[str, Any]]
    spec: dict[str, Any]

    def report_instance(self, selection: dict[str, Any]) -> None:
        """Report an instance of the flavor on the host of a selection."""
        entry, extra = self.reports[selection["service_host"]], self.spec["flavor"]["extra_specs"]
        entry["stats"] = {"num_instances": str(int(entry["stats"]["num_instances"]) + 1)}
        if "pci_passthrough:alias" in extra:
            entry["pci_device_pools"][0]["count"] -= 1
        if "hw:numa_nodes" in extra:
            vcpus, memory = self.spec["flavor"]["vcpus"], self.spec["flavor"]["memory_mb"]
            cell = next(
                cell
                for cell in entry["numa_topology"]["cells"]
                if len(cell["cpuset"]) >= vcpus  # overcommit does not apply to a single instance
                and cell["memory"] - cell["memory_usage"] >= memory
                and 4 * len(cell["cpuset"]) - cell["cpu_usage"] >= vcpus
            )
            cell["cpu_usage"] += vcpus
            cell["memory_usage"] += memory
        self.app.post_json(NODES_PATH, [entry])


def draw_numa_cells(random: Random, vcpus: int, memory: int) -> list[dict[str, Any]]:
    """Return two NUMA cells with random parts of the CPUs and of the memory."""
    cpus, part = random.randint(1, vcpus - 1), random.randint(1, memory // 512 - 1) * 512
    empty = {"cpu_usage": 0, "memory_usage": 0, "pinned_cpus": [], "siblings": [], "mempages": []}
    return [
        {"id": 0, "cpuset": list(range(cpus)), "memory": part, **empty},
        {"id": 1, "cpuset": list(range(cpus, vcpus)), "memory": memory - part, **empty},
    ]


def draw_host_reports(random: Random) -> dict[str, dict[str, Any]]:
    """Return reports of a few small hosts, some of them down, with cells and devices."""
    reports = {}
    for number in range(random.randint(1, 5)):
        vcpus, memory = random.randint(2, 4), random.randint(2, 8) * 512
        seen = {"last_seen_up": "2020-01-01T00:00:00Z"} if random.random() < 0.2 else {}
        reports[f"cn{number}"] = make_report(
            f"cn{number}",
            vcpus=vcpus,
            memory_mb=memory,
            stats={"num_instances": str(random.randint(0, 3))},
            numa_topology={"cells": draw_numa_cells(random, vcpus, memory)},
            pci_device_pools=[{**GPU_POOL, "count": random.randint(0, 3)}],
            **seen,
        )
    return reports


def draw_request_fields(random: Random, app: TestApp, *, has_hardware: bool) -> dict[str, Any]:
    """Return a request for a small flavor with random constraints."""
    extra: dict[str, str] = {}
    if has_hardware and random.random() < 0.4:
        extra["hw:numa_nodes"] = "1"
    if has_hardware and random.random() < 0.3:
        extra["pci_passthrough:alias"] = "gpu:1"
    sizes = {"vcpus": random.randint(1, 2), "memory_mb": random.choice([256, 512, 1024])}
    spec: dict[str, Any] = {"flavor": make_flavor(**sizes, extra_specs=extra)}
    if random.random() < 0.3:
        spec["availability_zone"] = "az1"
    policy = random.choice([None, None, "affinity", "anti-affinity", "soft-affinity"])
    if policy is not None:
        rules = {"max_server_per_host": 2} if policy == "anti-affinity" else {}
        spec["instance_group"] = create_group(app, policy=policy, **rules)
    return spec


def compare_capacity_with_placed_instances(
    app: TestApp, random: Random, *, has_hardware: bool
) -> None:
    """Compare the capacity with the number of instances placed until nothing fits."""
    reports = draw_host_reports(random)
    app.post_json(NODES_PATH, list(reports.values()))
    make_zone(app, "az1", *random.sample(sorted(reports), random.randint(1, len(reports))))
    spec = draw_request_fields(random, app, has_hardware=has_hardware)
    per = random.choice(["zone", "host", "aggregate", "cell"])
    before = read_capacity(app, query={"per": per}, **spec)
    assert before["exact"] is True
    # Each compute node counts once.
    assert sum(entry["hosts"] for entry in before["limited_by"]) == len(reports)
    hosts = fill_cloud(
        app, after=HostsThatReportInstances(app, reports, spec).report_instance, **spec
    )
    assert len(hosts) == before["capacity"]
    if per in {"zone", "host", "cell"}:
        assert sum(item["capacity"] for item in before["per"]) == before["capacity"]
    assert read_capacity(app, **spec)["capacity"] == 0


def draw_filter_settings(random: Random) -> dict[str, Any]:
    """Return settings with few or many filters and a random limit."""
    return {
        "filter_scheduler__enabled_filters": random.choice(
            [SERVER_GROUP_FILTERS, HARDWARE_FILTERS]
        ),
        "filter_scheduler__max_instances_per_host": random.choice([5, 50]),
        "scheduler__max_placement_results": random.choice([1, 2, 3, 1000]),
        "pci__alias": [GPU_ALIAS],
    }


@pytest.mark.slow
@examples(
    max_examples=scale_example_count(20),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_capacity_equals_the_number_of_placed_instances_in_random_clouds(make_new_app, seed):
    random = Random(seed)
    values = draw_filter_settings(random)
    has_hardware = values["filter_scheduler__enabled_filters"] is HARDWARE_FILTERS
    compare_capacity_with_placed_instances(
        make_new_app(**values), random, has_hardware=has_hardware
    )


CUSTOM_RESOURCE_REQUEST = {"flavor": make_flavor(extra_specs={"resources:CUSTOM_FAST": "2"})}


@pytest.mark.parametrize(
    "pools",
    [
        {1: (7, "cn1", "cn2", "cn3")},
        {1: (100, "cn1", "cn2")},
        {1: (5, "cn1", "cn2", "cn3"), 2: (9, "cn1", "cn2", "cn3")},
        {1: (5, "cn1"), 2: (9, "cn2", "cn3")},
        {1: (5, "cn1", "cn2"), 2: (9, "cn2", "cn3")},
    ],
    ids=[
        "pool is full first",
        "hosts are full first",
        "two pools",
        "separate pools",
        "overlapping pools",
    ],
)
def test_capacity_with_shared_pools_equals_the_number_of_placed_instances(sqlite_app, pools):
    hosts = [make_report(f"cn{number}", vcpus=1, memory_mb=2048 * number) for number in (1, 2, 3)]
    sqlite_app.post_json(NODES_PATH, hosts)
    for number, (total, *names) in pools.items():
        add_sharing_provider(
            sqlite_app, make_uuid(number), make_uuid(10 + number), names, CUSTOM_FAST=total
        )
    before = read_capacity(sqlite_app, **CUSTOM_RESOURCE_REQUEST)
    assert before["exact"] is True
    assert before["capacity"] == len(fill_cloud(sqlite_app, **CUSTOM_RESOURCE_REQUEST))


def test_capacity_counts_each_provider_of_a_tree(sqlite_app):
    sqlite_app.post_json(NODES_PATH, [make_report("cn1", vcpus=3), make_report("cn2", vcpus=16)])
    for number, (host, total) in enumerate([("cn1", 5), ("cn1", 9), ("cn2", 3), ("cn2", 4)]):
        uuid = make_uuid(100 + number)
        add_provider(sqlite_app, uuid, uuid, parent=uuid_of(host), CUSTOM_CELL=total)
    request = {"flavor": make_flavor(extra_specs={"resources:CUSTOM_CELL": "2"})}
    result = read_capacity(sqlite_app, **request)
    assert (result["capacity"], result["exact"]) == (2 + 4 + 1 + 2, True)
    assert result["limited_by"] == [build_limit("CUSTOM_CELL", 2)]
    assert len(fill_cloud(sqlite_app, **request)) == 9


def test_capacity_respects_the_topology_spread(sqlite_url, make_app):
    options = {"filter_scheduler__enabled_filters": ["ComputeFilter", "TopologySpreadFilter"]}
    app = make_app(make_settings(sqlite_url, **options))
    app.post_json(NODES_PATH, [make_report(f"cn{number}") for number in (1, 2, 3, 4)])
    put_aggregate(app, 1, {"rack": "r1"}, "cn1", "cn2", "cn3")
    put_aggregate(app, 2, {"rack": "r2"}, "cn4")
    spread = {"scheduler:spread_by": "rack", "scheduler:max_skew": "2"}
    fields = {
        "flavor": make_flavor(memory_mb=16384, extra_specs=spread),
        "instance_group": create_group(app, policy="soft-anti-affinity"),
    }
    counted = read_capacity(app, **fields)
    assert (counted["capacity"], counted["exact"]) == (4 + 6, True)
    assert len(fill_cloud(app, **fields)) == 10
