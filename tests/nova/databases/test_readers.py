# SPDX-License-Identifier: Apache-2.0
"""Rows of nova's databases with empty columns, and of older formats."""

import json

import pytest


@pytest.mark.all_databases
def test_unset_text_columns_of_a_node_are_read_as_empty(follower, nova, read_compute_nodes):
    names = ("stats", "metrics", "pci_stats", "numa_topology", "supported_instances", "host_ip")
    nova.add_host("cn1", **dict.fromkeys(names))
    assert follower.sync_all().issues == ()
    node = read_compute_nodes()["cn1"]
    assert (node.stats, node.metrics, node.pci_device_pools) == ({}, (), ())
    assert (node.numa_topology, node.host_ip) == (None, None)


def test_old_formats_of_pools_and_topology_are_read(follower, nova, read_compute_nodes):
    pool = {"vendor_id": "8086", "product_id": "1520", "count": 1, "numa_node": None}
    cell = {"id": 0, "cpuset": [0, 1], "pcpuset": [], "memory": 1024}
    nova.add_host("cn1", pci_stats=json.dumps([pool]), numa_topology=json.dumps({"cells": [cell]}))
    assert follower.sync_all().issues == ()
    assert read_compute_nodes()["cn1"].pci_device_pools[0]["count"] == 1
    assert read_compute_nodes()["cn1"].numa_topology["cells"][0]["cpuset"] == [0, 1]


def test_null_statistic_of_a_node_is_skipped(follower, nova, read_compute_nodes):
    nova.add_host("cn1", stats=json.dumps({"failed_builds": "3", "arch": None}))
    follower.sync_all()
    assert read_compute_nodes()["cn1"].stats == {"failed_builds": "3"}
