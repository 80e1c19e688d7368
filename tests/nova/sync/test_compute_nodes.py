# SPDX-License-Identifier: Apache-2.0
"""Compute nodes and services: what cannot be read, what moves, comes back, or is in two cells."""

import json

import pytest

from placement_sched.db.tables import inventories, resource_providers
from placement_sched.model.clock import utcnow
from placement_sched.store.compute import compute_nodes
from tests.support.nova_clouds import build_pci_pools, seconds_ago, wrap_object

pytestmark = pytest.mark.all_databases


@pytest.fixture
def nodes(database):
    def nodes():
        with database.read() as connection:
            return {one.hypervisor_hostname: one for one in compute_nodes.search(connection)}

    return nodes


@pytest.mark.parametrize(
    ("column", "value", "fault"),
    [
        ("stats", "{", "$.stats"),
        ("numa_topology", "nonsense", "$.numa_topology"),
        ("pci_stats", '{"a": 1}', "$.pci_device_pools"),
        ("pci_stats", '[{"vendor_id": "8086"}]', "$.pci_device_pools"),
        ("supported_instances", '[["x86_64", "kvm"]]', "$.supported_hv_specs"),
        ("cpu_info", "[]", "$.cpu_info"),
        ("metrics", '[{"name": "nobody.knows", "value": 1}]', "$.metrics"),
    ],
)
def test_a_node_that_cannot_be_read_is_named_and_the_others_go_on(
    follower, nova, nodes, column, value, fault
):
    nova.add_host("cn1", **{column: value})
    nova.add_host("cn2")
    findings = follower.full()
    (misfit,) = findings.misfits
    assert misfit.place.startswith("compute node cn1 (")
    assert fault in misfit.reason
    assert nodes().keys() == {"cn2"}


def test_a_node_that_can_no_longer_be_read_stays_as_it_was(follower, nova, nodes):
    nova.add_host("cn1")
    follower.full()
    nova.cells["one"].change("compute_nodes", {"host": "cn1"}, stats="{", vcpus_used=9)
    follower.round()
    assert nodes()["cn1"].vcpus_used == 2


@pytest.mark.parametrize("ratio", [None, 0.0])
def test_a_ratio_that_is_not_set_is_that_of_the_configuration(make_follower, nova, nodes, ratio):
    nova.add_host("cn1", cpu_allocation_ratio=ratio)
    make_follower(nova, **{"DEFAULT.cpu_allocation_ratio": 3.0}).full()
    assert nodes()["cn1"].cpu_allocation_ratio == 3.0


def test_texts_that_are_not_set_stand_for_nothing(follower, nova, nodes):
    names = ("stats", "metrics", "pci_stats", "numa_topology", "supported_instances", "host_ip")
    nova.add_host("cn1", **dict.fromkeys(names))
    assert follower.full().misfits == ()
    node = nodes()["cn1"]
    assert (node.stats, node.metrics, node.pci_device_pools) == ({}, (), ())
    assert (node.numa_topology, node.host_ip) == (None, None)


def test_pools_and_a_topology_of_older_forms_are_read(follower, nova, nodes):
    pool = {"vendor_id": "8086", "product_id": "1520", "count": 1, "numa_node": None}
    cell = {"id": 0, "cpuset": [0, 1], "pcpuset": [], "memory": 1024}
    nova.add_host("cn1", pci_stats=json.dumps([pool]), numa_topology=json.dumps({"cells": [cell]}))
    assert follower.full().misfits == ()
    assert nodes()["cn1"].pci_device_pools[0]["count"] == 1
    assert nodes()["cn1"].numa_topology["cells"][0]["cpuset"] == [0, 1]


def test_a_null_statistic_is_left_out(follower, nova, nodes):
    nova.add_host("cn1", stats=json.dumps({"failed_builds": "3", "arch": None}))
    follower.full()
    assert nodes()["cn1"].stats == {"failed_builds": "3"}


def test_placement_is_left_alone(follower, nova, database):
    nova.add_host("cn1", disabled=True)
    follower.full()
    follower.round()
    follower.refresh()
    with database.read() as connection:
        assert connection.execute(resource_providers.select()).all() == []
        assert connection.execute(inventories.select()).all() == []


@pytest.mark.parametrize("reading", ["full", "round", "refresh"])
def test_a_node_that_came_back_under_another_uuid_replaces_the_old(follower, nova, nodes, reading):
    nova.add_host("cn1")
    follower.full()
    cell = nova.cells["one"]
    cell.delete_softly("compute_nodes", host="cn1")
    row = {"host": "cn1", "hypervisor_hostname": "cn1", "hypervisor_type": "QEMU"}
    sizes = dict.fromkeys(("vcpus", "memory_mb", "local_gb", "hypervisor_version"), 1)
    used = dict.fromkeys(("vcpus_used", "memory_mb_used", "local_gb_used"), 0)
    uuid = "6f0f1fd4-0000-4000-8000-000000000001"
    cell.add("compute_nodes", uuid=uuid, cpu_info="", free_disk_gb=1, **row, **sizes, **used)
    getattr(follower, reading)()
    assert {name: one.uuid for name, one in nodes().items()} == {"cn1": uuid}


@pytest.mark.parametrize("reading", ["full", "round", "refresh"])
def test_a_host_that_is_gone_is_forgotten(follower, nova, nodes, service, reading):
    nova.add_host("cn1")
    follower.full()
    nova.cells["one"].delete_softly("compute_nodes", host="cn1")
    nova.cells["one"].delete_softly("services", host="cn1")
    getattr(follower, reading)()
    assert nodes() == {}
    assert service("cn1") is None


@pytest.mark.parametrize("reading", ["full", "round", "refresh"])
def test_a_host_that_is_new_is_recorded(follower, nova, nodes, service, reading):
    nova.add_host("cn1")
    follower.full()
    nova.add_host("cn2", forced_down=True)
    getattr(follower, reading)()
    assert nodes().keys() == {"cn1", "cn2"}
    assert service("cn2").forced_down


def test_two_nodes_may_swap_their_names(follower, nova, nodes):
    first, second = nova.add_host("cn1"), nova.add_host("cn2")
    follower.full()
    cell = nova.cells["one"]
    cell.change("compute_nodes", {"uuid": first}, host="cn3", hypervisor_hostname="cn3")
    cell.change("compute_nodes", {"uuid": second}, host="cn1", hypervisor_hostname="cn1")
    cell.change("compute_nodes", {"uuid": first}, host="cn2", hypervisor_hostname="cn2")
    follower.round()
    assert {name: one.uuid for name, one in nodes().items()} == {"cn1": second, "cn2": first}


def test_a_host_that_is_mapped_to_no_cell_is_named(follower, nova):
    nova.add_host("cn1")
    nova.api.remove("host_mappings", host="cn1")
    (misfit,) = follower.full().misfits
    assert misfit.place == "host cn1"
    assert "discover_hosts" in misfit.reason


def test_a_round_records_heartbeats(follower, nova, nodes, service):
    nova.add_host("cn1", last_seen_up=seconds_ago(50))
    follower.full()
    seen = utcnow()
    nova.cells["one"].change("services", {"host": "cn1"}, last_seen_up=seen)
    follower.round()
    assert service("cn1").last_seen_up == seen
    assert nodes()["cn1"].last_seen_up == seen


def test_before_a_request_the_heartbeats_of_hosts_that_seem_down_are_read(follower, nova, service):
    nova.add_host("cn1", last_seen_up=seconds_ago(55))
    nova.add_host("cn2", last_seen_up=seconds_ago(20))
    follower.full()
    seen = utcnow()
    for host in ("cn1", "cn2"):
        nova.cells["one"].change("services", {"host": host}, last_seen_up=seen)
    follower.refresh()
    assert service("cn1").last_seen_up == seen
    assert service("cn2").last_seen_up < seen


def test_a_service_that_never_sent_a_heartbeat_was_seen_when_it_was_made(follower, nova, service):
    nova.add_host("cn1", last_seen_up=None)
    follower.full()
    assert service("cn1").last_seen_up is not None


def test_another_process_that_has_read_nothing_yet_refreshes_what_matters(
    make_follower, nova, nodes, service
):
    nova.add_host("cn1")
    make_follower(nova).full()
    nova.add_host("cn2")
    nova.cells["one"].change("services", {"host": "cn1"}, disabled=True)
    nova.cells["one"].change(
        "compute_nodes", {"host": "cn1"}, pci_stats=json.dumps(build_pci_pools(9))
    )
    make_follower(nova).refresh()
    assert service("cn1").disabled
    assert nodes()["cn1"].pci_device_pools[0]["count"] == 9
    assert nodes().keys() == {"cn1", "cn2"}


def test_nodes_as_they_were_are_not_written_again(follower, nova, nodes):
    nova.add_host("cn1")
    follower.full()
    version = nodes()["cn1"].version
    nova.cells["one"].change("compute_nodes", {"host": "cn1"})
    follower.full()
    follower.round()
    assert nodes()["cn1"].version == version


def test_a_pool_that_is_no_object_of_nova_is_named(follower, nova):
    text = json.dumps(wrap_object("PciDevicePoolList", "1.1", {"objects": [7]}))
    nova.add_host("cn1", pci_stats=text)
    (misfit,) = follower.full().misfits
    assert "$.pci_device_pools" in misfit.reason
