# SPDX-License-Identifier: Apache-2.0
"""Runs of recorded traces give the recorded hosts and allocations."""

import json
from functools import partial
from random import Random

import pytest

from placement_sched.extensions.traces.events import format_trace
from tests.cli.conftest import run_main as run_main  # noqa: PLC0414 - a fixture
from tests.extensions.traces.recorder import assert_equal_servers, open_recorder, run_recorded
from tests.support.clouds import uuid_of
from tests.support.policies import settings_with_policies
from tests.support.scheduling import make_flavor, make_report

pytestmark = pytest.mark.slow

SMALL, LARGE = make_flavor(name="small"), make_flavor(name="large", vcpus=4, memory_mb=9000)
DEVICE = make_flavor(name="device", extra_specs={"resources:CUSTOM_FPGA": "1"})
HEADERS = {"OpenStack-API-Version": "placement 1.39"}
OPTIONS = {"shuffle_best_same_weighed_hosts": True, "host_subset_size": 3}
RANDOM_CHOICES = {f"filter_scheduler__{name}": value for name, value in OPTIONS.items()}


def build_flat_reports():
    return [make_report(f"cn{number}", memory_mb=16384 * number) for number in range(1, 6)]


def build_pinning_reports():
    cells = [
        {"id": node, "cpuset": [], "pcpuset": cpus, "siblings": [[cpu] for cpu in cpus]}
        for node, cpus in enumerate(([0, 1, 2, 3], [4, 5, 6, 7]))
    ]
    topology = {"cells": [{**cell, "memory": 32768} for cell in cells]}
    return [make_report(f"cn{number}", numa_topology=topology) for number in range(1, 3)]


def add_devices(client):
    """Add two providers with two FPGAs each to the tree of each host."""
    client.put_json("/placement/resource_classes/CUSTOM_FPGA", {}, headers=HEADERS)
    for host in ("cn1", "cn2", "cn3", "cn4", "cn5"):
        for number in range(2):
            uuid = uuid_of(f"{host} fpga{number}")
            body = {"uuid": uuid, "name": f"{host}_fpga{number}"}
            body["parent_provider_uuid"] = uuid_of(host)
            client.post_json("/placement/resource_providers", body, headers=HEADERS)
            client.put_json(
                f"/placement/resource_providers/{uuid}/inventories",
                {"resource_provider_generation": 0, "inventories": {"CUSTOM_FPGA": {"total": 2}}},
                headers=HEADERS,
            )


def add_shared_disk(client):
    """Add a provider of disk that all hosts share."""
    pool, aggregate = uuid_of("pool"), uuid_of("aggregate")
    body = {"uuid": pool, "name": "pool"}
    client.post_json("/placement/resource_providers", body, headers=HEADERS)
    path = f"/placement/resource_providers/{pool}"
    inventories = {"DISK_GB": {"total": 300}}
    body = {"resource_provider_generation": 0, "inventories": inventories}
    client.put_json(f"{path}/inventories", body, headers=HEADERS)
    body = {"resource_provider_generation": 1, "traits": ["MISC_SHARES_VIA_AGGREGATE"]}
    client.put_json(f"{path}/traits", body, headers=HEADERS)
    for uuid in (pool, *(uuid_of(f"cn{number}") for number in range(1, 6))):
        path = f"/placement/resource_providers/{uuid}"
        body = client.get(f"{path}/aggregates", headers=HEADERS).json
        client.put_json(f"{path}/aggregates", {**body, "aggregates": [aggregate]}, headers=HEADERS)


def record_random_events(recorder, flavors, random, number=120, **request):
    """Record creates, deletes, resizes and moves."""
    for _ in range(number):
        alive, choice = sorted(recorder.hosts), random.random()
        if not alive or choice < 0.6:
            recorder.create(random.choice(flavors), count=random.choice((1, 1, 1, 2)), **request)
        elif choice < 0.85:
            recorder.delete(random.choice(alive))
        elif choice < 0.93:
            recorder.resize(random.choice(alive), random.choice(flavors))
        else:
            recorder.move(random.choice(alive))


@pytest.mark.parametrize(
    ("prepare", "flavors", "options"),
    [
        (None, [SMALL, LARGE], {}),
        (None, [SMALL, LARGE], RANDOM_CHOICES),
        (None, [SMALL, LARGE], {"filter_scheduler__ram_weight_multiplier": -1.0}),
        (add_devices, [SMALL, LARGE, DEVICE], RANDOM_CHOICES),
    ],
    ids=["flat", "random choices", "packed", "trees"],
)
def test_run_gives_the_recorded_hosts(sqlite_template, tmp_path, prepare, flavors, options):
    recorder, settings = open_recorder(
        sqlite_template, tmp_path, build_flat_reports(), prepare or (lambda _: None), **options
    )
    record_random_events(recorder, flavors, Random(1))
    result = run_recorded(recorder, settings, tmp_path)
    assert_equal_servers(result, recorder)
    assert len(result.refusals) > 3


def test_run_on_the_dumped_cloud_gives_the_recorded_hosts(
    sqlite_template, tmp_path, monkeypatch, run_main
):
    recorder, _ = open_recorder(sqlite_template, tmp_path, build_flat_reports(), **RANDOM_CHOICES)
    record_random_events(recorder, [SMALL, LARGE], Random(7), number=120)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", f"sqlite:///{tmp_path}/start.db")
    assert run_main("fleet", "dump", "cloud.yaml")[0] == 0
    (tmp_path / "trace.jsonl").write_text(format_trace(recorder.events))
    options = "".join(f"{name} = {value}\n" for name, value in OPTIONS.items())
    (tmp_path / "nova.conf").write_text(f"[filter_scheduler]\n{options}")
    status, output, errors = run_main(
        *("trace", "run", "trace.jsonl", "--fleet", "cloud.yaml", "--nova-conf", "nova.conf"),
        *("-f", "json"),
    )
    assert status == 0, errors
    (run,) = json.loads(output)["variants"][0]["runs"]
    assert run["hosts"] == recorder.hosts
    assert run["refusals"]


def test_disk_that_hosts_share_is_used_up_as_recorded(sqlite_template, tmp_path):
    reports = [make_report(f"cn{number}", local_gb=0) for number in range(1, 6)]
    recorder, settings = open_recorder(
        sqlite_template, tmp_path, reports, add_shared_disk, **RANDOM_CHOICES
    )
    record_random_events(recorder, [SMALL, LARGE], Random(5), number=80)
    result = run_recorded(recorder, settings, tmp_path)
    assert_equal_servers(result, recorder)
    assert "DISK_GB" in {refusal.subject for refusal in result.refusals}


POLICIES = """
[DEFAULT]
service_down_time = 86400
[packed]
ram_weight_multiplier = -5.0
host_subset_size = 2
[roomy]
cpu_allocation_ratio = 1.0
"""


def add_policy_aggregates(client):
    """Add an aggregate of hosts for each policy."""
    for policy, hosts in (("packed", ["cn1", "cn2", "cn3"]), ("roomy", ["cn4", "cn5"])):
        body = {"aggregate": {"name": policy}}
        number = client.post_json("/compute/v2.1/os-aggregates", body).json["aggregate"]["id"]
        path = f"/compute/v2.1/os-aggregates/{number}/action"
        client.post_json(path, {"set_metadata": {"metadata": {"sched_policy": policy}}})
        for host in hosts:
            client.post_json(path, {"add_host": {"host": host}})


def test_requests_of_several_policies_are_placed_as_recorded(sqlite_template, tmp_path):
    reports = [make_report(f"cn{number}", memory_mb=32768) for number in range(1, 6)]
    recorder, settings = open_recorder(
        sqlite_template,
        tmp_path,
        reports,
        add_policy_aggregates,
        partial(settings_with_policies, folder=tmp_path, text=POLICIES),
    )
    random = Random(6)
    for _ in range(80):
        alive = sorted(recorder.hosts)
        if not alive or random.random() < 0.7:
            hints = {"sched_policy": random.choice(["packed", "roomy"])}
            recorder.create(random.choice([SMALL, LARGE]), scheduler_hints=hints)
        else:
            recorder.delete(random.choice(alive))
    result = run_recorded(recorder, settings, tmp_path)
    assert_equal_servers(result, recorder)
    assert result.refusals
    assert {server.host for server in result.servers.values()} >= {"cn1", "cn4"}


def test_pinned_cpus_of_a_run_are_the_recorded_ones(sqlite_template, tmp_path):
    options = {"filter_scheduler__enabled_filters": ["NUMATopologyFilter"]}
    recorder, settings = open_recorder(
        sqlite_template, tmp_path, build_pinning_reports(), **options
    )
    random = Random(2)
    for _ in range(80):
        alive = sorted(recorder.hosts)
        if not alive or random.random() < 0.7:
            cpus = random.choice((1, 2, 3))
            extra_specs = {"hw:cpu_policy": "dedicated"}
            flavor = make_flavor(name=f"pinned{cpus}", vcpus=cpus, extra_specs=extra_specs)
            cell = {"id": 0, "cpuset": [], "pcpuset": list(range(cpus)), "memory": 1024}
            topology = {"cells": [{**cell, "cpu_policy": "dedicated"}]}
            recorder.create(flavor, numa_topology=topology)
        else:
            recorder.delete(random.choice(alive))
    result = run_recorded(recorder, settings, tmp_path)
    assert_equal_servers(result, recorder)
    assert result.refusals


def test_pci_devices_of_a_run_are_the_recorded_ones(sqlite_template, tmp_path):
    pool = {"product_id": "1572", "numa_node": None, "tags": {"dev_type": "type-PCI"}, "count": 3}
    pools = [{**pool, "vendor_id": vendor} for vendor in ("8086", "10de")]
    reports = [make_report(f"cn{number}", pci_device_pools=pools) for number in range(1, 4)]
    options = {"filter_scheduler__enabled_filters": ["PciPassthroughFilter"], **RANDOM_CHOICES}
    recorder, settings = open_recorder(sqlite_template, tmp_path, reports, **options)
    random = Random(4)
    for _ in range(70):
        alive = sorted(recorder.hosts)
        if not alive or random.random() < 0.65:
            spec = {"vendor_id": random.choice(["8086", "10de"]), "product_id": "1572"}
            recorder.create(SMALL, pci_requests={"requests": [{"count": 1, "spec": [spec]}]})
        else:
            recorder.delete(random.choice(alive))
    result = run_recorded(recorder, settings, tmp_path)
    assert_equal_servers(result, recorder)
    assert {refusal.stage for refusal in result.refusals} == {"PciPassthroughFilter"}


@pytest.mark.parametrize("policy", ["anti-affinity", "affinity", "soft-anti-affinity"])
def test_members_of_server_groups_are_placed_as_recorded(sqlite_template, tmp_path, policy):
    groups = []

    def add_groups(client):
        for number in range(2):
            body = {"server_group": {"name": f"g{number}", "policies": [policy]}}
            created = client.post_json(
                "/compute/v2.1/os-server-groups",
                body,
                headers={"OpenStack-API-Version": "compute 2.15"},
            )
            groups.append(created.json["server_group"]["id"])

    reports = build_flat_reports()
    if policy == "affinity":
        reports = [{**report, "memory_mb": 16384} for report in reports]
    recorder, settings = open_recorder(
        sqlite_template, tmp_path, reports, add_groups, **RANDOM_CHOICES
    )
    random = Random(3)
    for _ in range(60):
        alive = sorted(recorder.hosts)
        if not alive or random.random() < 0.65:
            recorder.create(random.choice([SMALL, LARGE]), instance_group=random.choice(groups))
        else:
            recorder.delete(random.choice(alive))
    result = run_recorded(recorder, settings, tmp_path)
    assert_equal_servers(result, recorder)
    assert bool(result.refusals) == (policy != "soft-anti-affinity")
