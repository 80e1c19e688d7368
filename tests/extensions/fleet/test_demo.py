# SPDX-License-Identifier: Apache-2.0
"""The sample cloud of the demo: its hosts, traits, instances and zones."""

from collections import Counter, defaultdict
from datetime import datetime

import pytest
from sqlalchemy import func, select

from placement_sched.db.tables import allocations as allocation_rows
from placement_sched.db.tables import inventories as inventory_rows
from placement_sched.extensions.fleet.demo import (
    DISABLED_HOST,
    FULL_RACK,
    GPU_TRAIT,
    SILENCE,
    SILENT_HOST,
    WINDOWS_TRAIT,
    ZONES,
    sample_cloud,
)
from placement_sched.operations.fleet.load import load

NOW = datetime(2026, 1, 1, 12, 0, 0)


def list_hosts_of_aggregate(cloud, aggregate):
    (hosts,) = [entry["hosts"] for entry in cloud["aggregates"] if entry["name"] == aggregate]
    return set(hosts)


def test_sample_cloud_has_the_hosts_that_its_requests_need():
    cloud = sample_cloud(NOW)
    assert cloud == sample_cloud(NOW)
    hosts = {report["host"]: report for report in cloud["hosts"]}
    assert [len(list_hosts_of_aggregate(cloud, zone)) for zone in ZONES] == [100, 100, 100]
    for aggregate, trait in (("licensed-windows", WINDOWS_TRAIT), ("gpu", GPU_TRAIT)):
        carriers = {name for name, report in hosts.items() if trait in report["traits"]}
        assert carriers == list_hosts_of_aggregate(cloud, aggregate) != set()
    assert {name for name, report in hosts.items() if "inventories" in report} == carriers
    full = {name for name, row in hosts.items() if row["memory_mb_used"] == row["memory_mb"]}
    assert full == {name for name in hosts if FULL_RACK in name} != set()
    seen = {name: report["last_seen_up"] for name, report in hosts.items()}
    assert seen.pop(SILENT_HOST) == f"{(NOW - SILENCE).isoformat()}Z"
    assert set(seen.values()) == {f"{NOW.isoformat()}Z"}
    assert cloud["services"][0]["host"] == DISABLED_HOST


def test_usage_reported_by_sample_hosts_is_the_sum_of_their_instances():
    cloud = sample_cloud(NOW)
    used = defaultdict(Counter)
    for instance in cloud["instances"]:
        used[instance["host"]].update(instance["allocations"][instance["host"]])
        used[instance["host"]]["instances"] += 1
    for report in cloud["hosts"]:
        on_host = used[report["host"]]
        assert report["vcpus_used"] == on_host["VCPU"]
        assert report["memory_mb_used"] - report["reserved"]["MEMORY_MB"] == on_host["MEMORY_MB"]
        assert report["local_gb_used"] == on_host["DISK_GB"]
        assert report["stats"]["num_instances"] == on_host["instances"]


@pytest.mark.slow
@pytest.mark.all_databases
def test_loaded_sample_cloud_is_not_over_allocated(database, settings):
    cloud = sample_cloud(NOW)
    database.write(lambda connection: load(connection, cloud, settings, NOW))
    room = (inventory_rows.c.total - inventory_rows.c.reserved) * inventory_rows.c.allocation_ratio
    used = (
        select(func.sum(allocation_rows.c.used))
        .where(
            allocation_rows.c.resource_provider_id == inventory_rows.c.resource_provider_id,
            allocation_rows.c.resource_class_id == inventory_rows.c.resource_class_id,
        )
        .scalar_subquery()
    )
    with database.read() as connection:
        over = connection.scalar(select(func.count()).where(used > room))
        rows = connection.scalar(select(func.count()).select_from(allocation_rows))
    assert over == 0
    assert rows > len(cloud["instances"])


def test_flavors_of_sample_instances_with_virtual_gpus_request_vgpu_and_trait():
    for instance in sample_cloud(NOW)["instances"]:
        used = instance["allocations"][instance["host"]].get("VGPU", 0)
        extra_specs = instance["flavor"].get("extra_specs", {})
        assert extra_specs.get("resources:VGPU", "0") == str(used)
        assert (extra_specs.get(f"trait:{GPU_TRAIT}") == "required") == bool(used)
