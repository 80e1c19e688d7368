# SPDX-License-Identifier: Apache-2.0
"""The sample cloud of the demo: its hosts, traits, instances and zones."""

from collections import Counter, defaultdict
from datetime import datetime

import pytest
from sqlalchemy import func, select

from placement_sched.db.tables import allocations as allocation_rows
from placement_sched.db.tables import inventories as inventory_rows
from placement_sched.operations.demo import (
    DISABLED_HOST,
    DISABLED_REASON,
    FULL_RACK,
    GPU_TRAIT,
    SILENCE,
    SILENT_HOST,
    WINDOWS_TRAIT,
    ZONES,
    sample_cloud,
    uuid_of,
)
from placement_sched.operations.fleet.load import load
from placement_sched.store.compute import host_aggregates, instances, services
from placement_sched.store.placement import (
    aggregates,
    allocations,
    inventories,
    resource_providers,
    traits,
)

pytestmark = pytest.mark.slow

NOW = datetime(2026, 1, 1, 12, 0, 0)


@pytest.fixture
def loaded_sample_cloud(database, settings):
    cloud = sample_cloud(NOW)
    database.write(lambda connection: load(connection, cloud, settings, NOW))
    return cloud


def hosts_with_report(cloud, part):
    return {report["host"] for report in cloud["hosts"] if part in report["host"]}


def hosts_with_trait(cloud, trait):
    return {report["host"] for report in cloud["hosts"] if trait in report["traits"]}


def hosts_of_aggregate(cloud, aggregate):
    (found,) = [entry["hosts"] for entry in cloud["aggregates"] if entry["name"] == aggregate]
    return set(found)


def test_sample_cloud_is_deterministic():
    assert sample_cloud(NOW) == sample_cloud(NOW)


def test_sample_cloud_has_a_hundred_hosts_per_zone():
    cloud = sample_cloud(NOW)
    assert {zone: len(hosts_of_aggregate(cloud, zone)) for zone in ZONES} == dict.fromkeys(
        ZONES, 100
    )
    assert len({report["host"] for report in cloud["hosts"]}) == 300


def test_only_licensed_hosts_have_the_windows_trait_and_are_in_its_aggregate():
    cloud = sample_cloud(NOW)
    carriers = hosts_with_trait(cloud, WINDOWS_TRAIT)
    assert (
        carriers
        == hosts_of_aggregate(cloud, "licensed-windows")
        == hosts_with_report(cloud, "-win")
    )
    assert len(carriers) == 36


def test_only_gpu_hosts_have_virtual_gpus_their_trait_and_their_aggregate():
    cloud = sample_cloud(NOW)
    carriers = hosts_with_trait(cloud, GPU_TRAIT)
    with_vgpus = {report["host"] for report in cloud["hosts"] if "inventories" in report}
    assert (
        carriers
        == hosts_of_aggregate(cloud, "gpu")
        == with_vgpus
        == hosts_with_report(cloud, "-gpu")
    )


def test_each_host_has_at_most_one_disk_kind():
    kinds = Counter(
        tuple(name for name in report["traits"] if name.startswith("STORAGE_DISK"))
        for report in sample_cloud(NOW)["hosts"]
    )
    assert kinds == {("STORAGE_DISK_SSD",): 204, ("STORAGE_DISK_HDD",): 96}


def test_only_the_silent_host_is_down():
    seen = {report["host"]: report["last_seen_up"] for report in sample_cloud(NOW)["hosts"]}
    assert seen.pop(SILENT_HOST) == f"{(NOW - SILENCE).isoformat()}Z"
    assert set(seen.values()) == {f"{NOW.isoformat()}Z"}


def test_reported_usage_equals_instances():
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


def test_only_the_full_rack_has_no_memory_left():
    cloud = sample_cloud(NOW)
    full = {
        report["host"]
        for report in cloud["hosts"]
        if report["memory_mb_used"] == report["memory_mb"]
    }
    assert full == hosts_with_report(cloud, FULL_RACK)
    assert len(full) == 16


def test_loading_creates_every_provider(loaded_sample_cloud, database):
    with database.read() as connection:
        host = "az1-r07-gpu01"
        provider = resource_providers.by_uuid(connection, uuid_of(host))
        amounts = {
            inventory.resource_class: inventory.total
            for inventory in inventories.of_provider(connection, provider.id)
        }
        carried = {trait.name for trait in traits.of_provider(connection, provider.id)}
        member_of = set(aggregates.of_provider(connection, provider.id))
    assert provider.name == host
    assert amounts == {"VCPU": 80, "MEMORY_MB": 524_288, "DISK_GB": 3_840, "VGPU": 8}
    (report,) = [report for report in loaded_sample_cloud["hosts"] if report["host"] == host]
    assert carried == set(report["traits"])
    assert member_of == {uuid_of("az1"), uuid_of("gpu")}


def test_loading_disables_one_host_and_its_provider(loaded_sample_cloud, database):
    with database.read() as connection:
        disabled = [
            service
            for service in services.by_hosts(
                connection, [report["host"] for report in loaded_sample_cloud["hosts"]]
            ).values()
            if service.disabled
        ]
        provider = resource_providers.by_uuid(connection, uuid_of(DISABLED_HOST))
        carried = {trait.name for trait in traits.of_provider(connection, provider.id)}
    assert [(service.host, service.disabled_reason) for service in disabled] == [
        (DISABLED_HOST, DISABLED_REASON)
    ]
    assert "COMPUTE_STATUS_DISABLED" in carried


def test_loading_creates_instances_and_allocations(loaded_sample_cloud, database):
    uuids = [allocation["uuid"] for allocation in loaded_sample_cloud["instances"]]
    with database.read() as connection:
        recorded = {
            allocation.uuid: allocation.host for allocation in instances.by_uuids(connection, uuids)
        }
        held = defaultdict(dict)
        for allocation in allocations.of_consumers(connection, uuids):
            held[allocation.consumer.uuid][allocation.resource_class] = allocation.used
    assert recorded == {
        allocation["uuid"]: allocation["host"] for allocation in loaded_sample_cloud["instances"]
    }
    assert held == {
        allocation["uuid"]: allocation["allocations"][allocation["host"]]
        for allocation in loaded_sample_cloud["instances"]
    }


def test_loading_creates_zones_and_reserved_aggregates(loaded_sample_cloud, database):
    with database.read() as connection:
        snapshot = {
            connection_name: host_aggregates.by_id(
                connection, host_aggregates.id_of_name(connection, connection_name)
            )
            for connection_name in (*ZONES, "licensed-windows", "gpu")
        }
    assert {name: dict(aggregate.metadata) for name, aggregate in snapshot.items()} == {
        **{zone: {"availability_zone": zone} for zone in ZONES},
        "licensed-windows": {f"trait:{WINDOWS_TRAIT}": "required"},
        "gpu": {f"trait:{GPU_TRAIT}": "required"},
    }
    assert {name: set(aggregate.hosts) for name, aggregate in snapshot.items()} == {
        aggregate["name"]: set(aggregate["hosts"])
        for aggregate in loaded_sample_cloud["aggregates"]
    }


@pytest.mark.all_databases
def test_sample_cloud_is_not_over_allocated(loaded_sample_cloud, database):
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
    assert rows > len(loaded_sample_cloud["instances"])


def test_instances_with_virtual_gpus_request_them_when_they_move():
    for instance in sample_cloud(NOW)["instances"]:
        used = instance["allocations"][instance["host"]].get("VGPU", 0)
        extra_specs = instance["flavor"].get("extra_specs", {})
        assert extra_specs.get("resources:VGPU", "0") == str(used)
        assert (extra_specs.get(f"trait:{GPU_TRAIT}") == "required") == bool(used)
