# SPDX-License-Identifier: Apache-2.0
"""Compute nodes and services: unreadable rows, changes, recreated nodes and heartbeats."""

import json

import pytest

from placement_sched.db.tables import inventories, resource_providers
from placement_sched.model.clock import utcnow
from tests.support.nova_clouds import build_nova_object, build_pci_pools, seconds_ago

INVALID_PCI_POOLS = build_nova_object("PciDevicePoolList", "1.1", {"objects": [7]})


@pytest.mark.parametrize(
    ("column", "value", "fault"),
    [
        ("stats", "{", "$.stats"),
        ("numa_topology", "nonsense", "$.numa_topology"),
        ("pci_stats", '{"a": 1}', "$.pci_device_pools"),
        ("pci_stats", '[{"vendor_id": "8086"}]', "$.pci_device_pools"),
        ("pci_stats", json.dumps(INVALID_PCI_POOLS), "$.pci_device_pools"),
        ("supported_instances", '[["x86_64", "kvm"]]', "$.supported_hv_specs"),
        ("cpu_info", "[]", "$.cpu_info"),
        ("metrics", '[{"name": "nobody.knows", "value": 1}]', "$.metrics"),
    ],
)
def test_unreadable_node_is_named_and_other_nodes_sync(
    follower, nova, read_compute_nodes, column, value, fault
):
    nova.add_host("cn1", **{column: value})
    nova.add_host("cn2")
    findings = follower.sync_all()
    (issue,) = findings.issues
    assert issue.place.startswith("compute node cn1 (")
    assert fault in issue.reason
    assert read_compute_nodes().keys() == {"cn2"}


def test_node_that_becomes_unreadable_keeps_its_record(follower, nova, read_compute_nodes):
    nova.add_host("cn1")
    follower.sync_all()
    nova.cells["one"].change("compute_nodes", {"host": "cn1"}, stats="{", vcpus_used=9)
    follower.sync_changes()
    assert read_compute_nodes()["cn1"].vcpus_used == 2


@pytest.mark.parametrize("ratio", [None, 0.0])
def test_unset_allocation_ratio_of_a_node_comes_from_the_configuration(
    make_follower, nova, read_compute_nodes, ratio
):
    nova.add_host("cn1", cpu_allocation_ratio=ratio)
    make_follower(nova, **{"DEFAULT.cpu_allocation_ratio": 3.0}).sync_all()
    assert read_compute_nodes()["cn1"].cpu_allocation_ratio == 3.0


def test_node_sync_does_not_write_placement_tables(follower, nova, database):
    nova.add_host("cn1", disabled=True)
    follower.sync_all()
    follower.sync_changes()
    follower.refresh()
    with database.read() as connection:
        assert connection.execute(resource_providers.select()).all() == []
        assert connection.execute(inventories.select()).all() == []


@pytest.mark.parametrize("reading", ["sync_all", "sync_changes", "refresh"])
def test_recreated_node_with_a_new_uuid_replaces_the_old_record(
    follower, nova, read_node_uuids, reading
):
    nova.add_host("cn1")
    follower.sync_all()
    cell = nova.cells["one"]
    cell.delete_softly("compute_nodes", host="cn1")
    row = {"host": "cn1", "hypervisor_hostname": "cn1", "hypervisor_type": "QEMU"}
    sizes = dict.fromkeys(("vcpus", "memory_mb", "local_gb", "hypervisor_version"), 1)
    used = dict.fromkeys(("vcpus_used", "memory_mb_used", "local_gb_used"), 0)
    uuid = "6f0f1fd4-0000-4000-8000-000000000001"
    cell.add("compute_nodes", uuid=uuid, cpu_info="", free_disk_gb=1, **row, **sizes, **used)
    getattr(follower, reading)()
    assert read_node_uuids() == {"cn1": uuid}


@pytest.mark.all_databases
@pytest.mark.parametrize("reading", ["sync_all", "sync_changes", "refresh"])
def test_deleted_host_is_removed(follower, nova, read_compute_nodes, read_service, reading):
    nova.add_host("cn1")
    follower.sync_all()
    nova.cells["one"].delete_softly("compute_nodes", host="cn1")
    nova.cells["one"].delete_softly("services", host="cn1")
    getattr(follower, reading)()
    assert read_compute_nodes() == {}
    assert read_service("cn1") is None


@pytest.mark.parametrize("reading", ["sync_all", "sync_changes", "refresh"])
def test_new_host_is_recorded(follower, nova, read_compute_nodes, read_service, reading):
    nova.add_host("cn1")
    follower.sync_all()
    nova.add_host("cn2", forced_down=True)
    getattr(follower, reading)()
    assert read_compute_nodes().keys() == {"cn1", "cn2"}
    assert read_service("cn2").forced_down


@pytest.mark.all_databases
def test_two_nodes_can_swap_names(follower, nova, read_node_uuids):
    first, second = nova.add_host("cn1"), nova.add_host("cn2")
    follower.sync_all()
    cell = nova.cells["one"]
    cell.change("compute_nodes", {"uuid": first}, host="cn3", hypervisor_hostname="cn3")
    cell.change("compute_nodes", {"uuid": second}, host="cn1", hypervisor_hostname="cn1")
    cell.change("compute_nodes", {"uuid": first}, host="cn2", hypervisor_hostname="cn2")
    follower.sync_changes()
    assert read_node_uuids() == {"cn1": second, "cn2": first}


def test_unmapped_host_is_reported(follower, nova):
    nova.add_host("cn1")
    nova.api.remove("host_mappings", host="cn1")
    (issue,) = follower.sync_all().issues
    assert issue.place == "host cn1"
    assert "discover_hosts" in issue.reason


@pytest.mark.all_databases
def test_sync_round_records_heartbeats(follower, nova, read_compute_nodes, read_service):
    nova.add_host("cn1", last_seen_up=seconds_ago(50))
    follower.sync_all()
    seen = utcnow()
    nova.cells["one"].change("services", {"host": "cn1"}, last_seen_up=seen)
    follower.sync_changes()
    assert read_service("cn1").last_seen_up == seen
    assert read_compute_nodes()["cn1"].last_seen_up == seen


def test_requests_read_heartbeats_of_hosts_that_seem_down(follower, nova, read_service):
    nova.add_host("cn1", last_seen_up=seconds_ago(55))
    nova.add_host("cn2", last_seen_up=seconds_ago(20))
    follower.sync_all()
    seen = utcnow()
    for host in ("cn1", "cn2"):
        nova.cells["one"].change("services", {"host": host}, last_seen_up=seen)
    follower.refresh()
    assert read_service("cn1").last_seen_up == seen
    assert read_service("cn2").last_seen_up < seen


def test_service_without_heartbeat_was_last_seen_at_creation(follower, nova, read_service):
    nova.add_host("cn1", last_seen_up=None)
    follower.sync_all()
    assert read_service("cn1").last_seen_up is not None


def test_new_process_refreshes_services_and_nodes(
    make_follower, nova, read_compute_nodes, read_service
):
    nova.add_host("cn1")
    make_follower(nova).sync_all()
    nova.add_host("cn2")
    nova.cells["one"].change("services", {"host": "cn1"}, disabled=True)
    nova.cells["one"].change(
        "compute_nodes", {"host": "cn1"}, pci_stats=json.dumps(build_pci_pools(9))
    )
    make_follower(nova).refresh()
    assert read_service("cn1").disabled
    assert read_compute_nodes()["cn1"].pci_device_pools[0]["count"] == 9
    assert read_compute_nodes().keys() == {"cn1", "cn2"}


def test_unchanged_nodes_are_not_written_again(follower, nova, read_compute_nodes):
    nova.add_host("cn1")
    follower.sync_all()
    version = read_compute_nodes()["cn1"].version
    nova.cells["one"].change("compute_nodes", {"host": "cn1"})
    follower.sync_all()
    follower.sync_changes()
    assert read_compute_nodes()["cn1"].version == version
