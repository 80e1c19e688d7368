# SPDX-License-Identifier: Apache-2.0
"""Capacity equals placing for real, one instance after the other, in clouds drawn at random."""

from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from webtest import TestApp

from tests.conftest import make_settings
from tests.scheduler.capacity.placed import asked, placed
from tests.scheduler.capacity.test_report import in_zone
from tests.scheduler.test_server_groups import make
from tests.support.scheduling import flavor, instance, report
from tests.support.versions import LATEST_HEADERS

NODES = "/scheduler/v1/compute_nodes"
PROVIDERS = "/placement/resource_providers"
FILTERS = ["ComputeFilter", "ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter"]
LOOKING = [*FILTERS, "NUMATopologyFilter", "PciPassthroughFilter", "NumInstancesFilter"]
GPU = '{"vendor_id": "10de", "product_id": "1db4", "name": "gpu"}'
DEVICE = {"vendor_id": "10de", "product_id": "1db4", "numa_node": None, "count": 0}


@dataclass
class Hosts:
    """Hosts that report what is built on them, as nova-compute does."""

    app: TestApp
    reports: dict[str, dict[str, Any]]
    spec: dict[str, Any]

    def built(self, selection: dict[str, Any]) -> None:
        """Report one more instance of the flavor on the host of a selection."""
        one, extra = self.reports[selection["service_host"]], self.spec["flavor"]["extra_specs"]
        one["stats"] = {"num_instances": str(int(one["stats"]["num_instances"]) + 1)}
        if "pci_passthrough:alias" in extra:
            one["pci_device_pools"][0]["count"] -= 1
        if "hw:numa_nodes" in extra:
            vcpus, memory = self.spec["flavor"]["vcpus"], self.spec["flavor"]["memory_mb"]
            cell = next(
                cell
                for cell in one["numa_topology"]["cells"]
                if len(cell["cpuset"]) >= vcpus  # one instance never gets more than there is
                and cell["memory"] - cell["memory_usage"] >= memory
                and 4 * len(cell["cpuset"]) - cell["cpu_usage"] >= vcpus
            )
            cell["cpu_usage"] += vcpus
            cell["memory_usage"] += memory
        self.app.post_json(NODES, [one])


def cells(random: Random, vcpus: int, memory: int) -> list[dict[str, Any]]:
    """Return two NUMA cells, of which the first has any part of the CPUs and of the memory."""
    cpus, part = random.randint(1, vcpus - 1), random.randint(1, memory // 512 - 1) * 512
    empty = {"cpu_usage": 0, "memory_usage": 0, "pinned_cpus": [], "siblings": [], "mempages": []}
    return [
        {"id": 0, "cpuset": list(range(cpus)), "memory": part, **empty},
        {"id": 1, "cpuset": list(range(cpus, vcpus)), "memory": memory - part, **empty},
    ]


def drawn_hosts(random: Random) -> dict[str, dict[str, Any]]:
    """Return reports of a few small hosts, some of them down, with cells and devices."""
    found = {}
    for number in range(random.randint(1, 5)):
        vcpus, memory = random.randint(2, 4), random.randint(2, 8) * 512
        seen = {"last_seen_up": "2020-01-01T00:00:00Z"} if random.random() < 0.2 else {}
        found[f"cn{number}"] = report(
            f"cn{number}",
            vcpus=vcpus,
            memory_mb=memory,
            stats={"num_instances": str(random.randint(0, 3))},
            numa_topology={"cells": cells(random, vcpus, memory)},
            pci_device_pools=[{**DEVICE, "count": random.randint(0, 3)}],
            **seen,
        )
    return found


def drawn_request(random: Random, app: TestApp, *, looking: bool) -> dict[str, Any]:
    """Return a request for a small flavor, with some of what makes counting hard."""
    extra: dict[str, str] = {}
    if looking and random.random() < 0.4:
        extra["hw:numa_nodes"] = "1"
    if looking and random.random() < 0.3:
        extra["pci_passthrough:alias"] = "gpu:1"
    sizes = {"vcpus": random.randint(1, 2), "memory_mb": random.choice([256, 512, 1024])}
    spec: dict[str, Any] = {"flavor": flavor(**sizes, extra_specs=extra)}
    if random.random() < 0.3:
        spec["availability_zone"] = "az1"
    policy = random.choice([None, None, "affinity", "anti-affinity", "soft-affinity"])
    if policy is not None:
        rules = {"max_server_per_host": 2} if policy == "anti-affinity" else {}
        spec["instance_group"] = make(app, policy=policy, **rules)
    return spec


def placing_is_as_counted(app: TestApp, random: Random, *, looking: bool) -> None:
    """Count, then place until nothing fits, and compare; then nothing more is counted."""
    reports = drawn_hosts(random)
    app.post_json(NODES, list(reports.values()))
    in_zone(app, "az1", *random.sample(sorted(reports), random.randint(1, len(reports))))
    spec = drawn_request(random, app, looking=looking)
    per = random.choice(["zone", "host", "aggregate", "cell"])
    before = asked(app, question={"per": per}, **spec)
    assert before["exact"] is True
    # Each compute node counts once.
    assert sum(one["hosts"] for one in before["limited_by"]) == len(reports)
    hosts = placed(app, after=Hosts(app, reports, spec).built, **spec)
    assert len(hosts) == before["capacity"]
    if per in {"zone", "host", "cell"}:
        assert sum(one["capacity"] for one in before["per"]) == before["capacity"]
    assert asked(app, **spec)["capacity"] == 0


def options(random: Random) -> dict[str, Any]:
    """Return settings with few or many filters that look at what was placed, and some limit."""
    return {
        "filter_scheduler__enabled_filters": random.choice([FILTERS, LOOKING]),
        "filter_scheduler__max_instances_per_host": random.choice([5, 50]),
        "scheduler__max_placement_results": random.choice([1, 2, 3, 1000]),
        "pci__alias": [GPU],
    }


@pytest.mark.slow
@examples(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_capacity_is_what_is_placed_in_any_cloud(on_new, seed):
    random = Random(seed)
    values = options(random)
    looking = values["filter_scheduler__enabled_filters"] is LOOKING
    placing_is_as_counted(on_new(**values), random, looking=looking)


@pytest.mark.parametrize("seed", [3, 8])
def test_capacity_is_what_is_placed_on_every_database(database_url, make_app, seed):
    random = Random(seed)
    app = make_app(make_settings(database_url, **options(random)))
    placing_is_as_counted(app, random, looking=False)


def share(app: TestApp, pool: str, total: int, *hosts: str) -> None:
    """Make a pool of disk that these hosts share."""
    version, aggregate = LATEST_HEADERS, pool.replace("00000000-", "10000000-", 1)
    app.post_json(PROVIDERS, {"name": pool, "uuid": pool}, headers=version)
    shares = {"traits": ["MISC_SHARES_VIA_AGGREGATE"], "resource_provider_generation": 0}
    app.put_json(f"{PROVIDERS}/{pool}/traits", shares, headers=version)
    stock = {"resource_provider_generation": 1, "inventories": {"CUSTOM_FAST": {"total": total}}}
    app.put("/placement/resource_classes/CUSTOM_FAST", headers=version)
    app.put_json(f"{PROVIDERS}/{pool}/inventories", stock, headers=version)
    for uuid in (pool, *(report(name)["uuid"] for name in hosts)):
        url = f"{PROVIDERS}/{uuid}"
        found = app.get(f"{url}/aggregates", headers=version).json
        joined = {
            "aggregates": [*found["aggregates"], aggregate],
            "resource_provider_generation": found["resource_provider_generation"],
        }
        app.put_json(f"{url}/aggregates", joined, headers=version)


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
    ids=["one_ends_first", "hosts_end_first", "two_for_all", "apart", "unequal"],
)
def test_hosts_that_share_a_pool_take_together_what_it_has(sqlite_app, pools):
    hosts = [report(f"cn{number}", vcpus=1, memory_mb=2048 * number) for number in (1, 2, 3)]
    sqlite_app.post_json(NODES, hosts)
    for number, (total, *names) in pools.items():
        share(sqlite_app, instance(number), total, *names)
    before = asked(sqlite_app, **FAST)
    assert before["exact"] is True
    assert before["capacity"] == len(placed(sqlite_app, **FAST))


def test_each_provider_of_a_tree_is_filled_as_claims_fill_it(sqlite_app):
    """Two NUMA nodes with memory of their own; CPUs are the root's."""
    sqlite_app.post_json(NODES, [report("cn1", vcpus=3), report("cn2", vcpus=16)])
    sqlite_app.put("/placement/resource_classes/CUSTOM_CELL", headers=LATEST_HEADERS)
    for number, (host, total) in enumerate([("cn1", 5), ("cn1", 9), ("cn2", 3), ("cn2", 4)]):
        uuid = instance(100 + number)
        body = {"name": uuid, "uuid": uuid, "parent_provider_uuid": report(host)["uuid"]}
        sqlite_app.post_json(PROVIDERS, body, headers=LATEST_HEADERS)
        stock = {
            "resource_provider_generation": 0,
            "inventories": {"CUSTOM_CELL": {"total": total}},
        }
        url = f"{PROVIDERS}/{uuid}/inventories"
        sqlite_app.put_json(url, stock, headers=LATEST_HEADERS)
    wanted = {"flavor": flavor(extra_specs={"resources:CUSTOM_CELL": "2"})}
    answer = asked(sqlite_app, **wanted)
    assert (answer["capacity"], answer["exact"]) == (2 + 4 + 1 + 2, True)
    assert answer["limited_by"] == [{"reason": "CUSTOM_CELL", "hosts": 2}]
    assert len(placed(sqlite_app, **wanted)) == 9
