# SPDX-License-Identifier: Apache-2.0
"""Capacity equals the number of instances placed until nothing fits."""

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from webtest import TestApp

from tests.conftest import make_settings
from tests.exploring import draws
from tests.scheduler.capacity.placements import place_until_full, read_capacity
from tests.scheduler.capacity.test_report import make_zone
from tests.scheduler.providers import add_provider, share_pool
from tests.scheduler.test_server_groups import create_group
from tests.support.clouds import uuid_of
from tests.support.scheduling import flavor, instance, report

NODES = "/scheduler/v1/compute_nodes"
FILTERS = ["ComputeFilter", "ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter"]
ALL_FILTERS = [*FILTERS, "NUMATopologyFilter", "PciPassthroughFilter", "NumInstancesFilter"]
GPU = '{"vendor_id": "10de", "product_id": "1db4", "name": "gpu"}'
DEVICE = {"vendor_id": "10de", "product_id": "1db4", "numa_node": None, "count": 0}


@dataclass
class HostReports:
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
        self.app.post_json(NODES, [entry])


def random_cells(random: Random, vcpus: int, memory: int) -> list[dict[str, Any]]:
    """Return two NUMA cells with random parts of the CPUs and of the memory."""
    cpus, part = random.randint(1, vcpus - 1), random.randint(1, memory // 512 - 1) * 512
    empty = {"cpu_usage": 0, "memory_usage": 0, "pinned_cpus": [], "siblings": [], "mempages": []}
    return [
        {"id": 0, "cpuset": list(range(cpus)), "memory": part, **empty},
        {"id": 1, "cpuset": list(range(cpus, vcpus)), "memory": memory - part, **empty},
    ]


def draw_hosts(random: Random) -> dict[str, dict[str, Any]]:
    """Return reports of a few small hosts, some of them down, with cells and devices."""
    reports = {}
    for number in range(random.randint(1, 5)):
        vcpus, memory = random.randint(2, 4), random.randint(2, 8) * 512
        seen = {"last_seen_up": "2020-01-01T00:00:00Z"} if random.random() < 0.2 else {}
        reports[f"cn{number}"] = report(
            f"cn{number}",
            vcpus=vcpus,
            memory_mb=memory,
            stats={"num_instances": str(random.randint(0, 3))},
            numa_topology={"cells": random_cells(random, vcpus, memory)},
            pci_device_pools=[{**DEVICE, "count": random.randint(0, 3)}],
            **seen,
        )
    return reports


def draw_request(random: Random, app: TestApp, *, has_hardware: bool) -> dict[str, Any]:
    """Return a request for a small flavor with random constraints."""
    extra: dict[str, str] = {}
    if has_hardware and random.random() < 0.4:
        extra["hw:numa_nodes"] = "1"
    if has_hardware and random.random() < 0.3:
        extra["pci_passthrough:alias"] = "gpu:1"
    sizes = {"vcpus": random.randint(1, 2), "memory_mb": random.choice([256, 512, 1024])}
    spec: dict[str, Any] = {"flavor": flavor(**sizes, extra_specs=extra)}
    if random.random() < 0.3:
        spec["availability_zone"] = "az1"
    policy = random.choice([None, None, "affinity", "anti-affinity", "soft-affinity"])
    if policy is not None:
        rules = {"max_server_per_host": 2} if policy == "anti-affinity" else {}
        spec["instance_group"] = create_group(app, policy=policy, **rules)
    return spec


def compare_with_placing(app: TestApp, random: Random, *, has_hardware: bool) -> None:
    """Compare the capacity with the number of instances placed until nothing fits."""
    reports = draw_hosts(random)
    app.post_json(NODES, list(reports.values()))
    make_zone(app, "az1", *random.sample(sorted(reports), random.randint(1, len(reports))))
    spec = draw_request(random, app, has_hardware=has_hardware)
    per = random.choice(["zone", "host", "aggregate", "cell"])
    before = read_capacity(app, query={"per": per}, **spec)
    assert before["exact"] is True
    # Each compute node counts once.
    assert sum(entry["hosts"] for entry in before["limited_by"]) == len(reports)
    hosts = place_until_full(app, after=HostReports(app, reports, spec).report_instance, **spec)
    assert len(hosts) == before["capacity"]
    if per in {"zone", "host", "cell"}:
        assert sum(item["capacity"] for item in before["per"]) == before["capacity"]
    assert read_capacity(app, **spec)["capacity"] == 0


def random_options(random: Random) -> dict[str, Any]:
    """Return settings with few or many filters and a random limit."""
    return {
        "filter_scheduler__enabled_filters": random.choice([FILTERS, ALL_FILTERS]),
        "filter_scheduler__max_instances_per_host": random.choice([5, 50]),
        "scheduler__max_placement_results": random.choice([1, 2, 3, 1000]),
        "pci__alias": [GPU],
    }


@pytest.mark.slow
@examples(max_examples=draws(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_capacity_equals_placements_in_any_cloud(make_new_app, seed):
    random = Random(seed)
    values = random_options(random)
    has_hardware = values["filter_scheduler__enabled_filters"] is ALL_FILTERS
    compare_with_placing(make_new_app(**values), random, has_hardware=has_hardware)


@pytest.mark.parametrize("seed", [3, 8])
def test_capacity_equals_placements_on_every_database(database_url, make_app, seed):
    random = Random(seed)
    app = make_app(make_settings(database_url, **random_options(random)))
    compare_with_placing(app, random, has_hardware=False)


FAST = {"flavor": flavor(extra_specs={"resources:CUSTOM_FAST": "2"})}


@pytest.mark.parametrize(
    "pools",
    [
        {1: (7, "cn1", "cn2", "cn3")},
        {1: (100, "cn1", "cn2")},
        {1: (5, "cn1", "cn2", "cn3"), 2: (9, "cn1", "cn2", "cn3")},
        {1: (5, "cn1"), 2: (9, "cn2", "cn3")},
        {1: (5, "cn1", "cn2"), 2: (9, "cn2", "cn3")},
    ],
    ids=["pool is full first", "hosts are full first", "two pools", "separate", "overlapping"],
)
def test_hosts_share_the_capacity_of_a_pool(sqlite_app, pools):
    hosts = [report(f"cn{number}", vcpus=1, memory_mb=2048 * number) for number in (1, 2, 3)]
    sqlite_app.post_json(NODES, hosts)
    for number, (total, *names) in pools.items():
        share_pool(sqlite_app, instance(number), instance(10 + number), names, CUSTOM_FAST=total)
    before = read_capacity(sqlite_app, **FAST)
    assert before["exact"] is True
    assert before["capacity"] == len(place_until_full(sqlite_app, **FAST))


def test_each_provider_of_a_tree_counts(sqlite_app):
    sqlite_app.post_json(NODES, [report("cn1", vcpus=3), report("cn2", vcpus=16)])
    for number, (host, total) in enumerate([("cn1", 5), ("cn1", 9), ("cn2", 3), ("cn2", 4)]):
        uuid = instance(100 + number)
        add_provider(sqlite_app, uuid, uuid, parent=uuid_of(host), CUSTOM_CELL=total)
    request = {"flavor": flavor(extra_specs={"resources:CUSTOM_CELL": "2"})}
    answer = read_capacity(sqlite_app, **request)
    assert (answer["capacity"], answer["exact"]) == (2 + 4 + 1 + 2, True)
    assert answer["limited_by"] == [{"reason": "CUSTOM_CELL", "hosts": 2}]
    assert len(place_until_full(sqlite_app, **request)) == 9
