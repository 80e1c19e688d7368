# SPDX-License-Identifier: Apache-2.0
"""Hypervisors through current and old microversions of the ``openstack`` client."""

import pytest

from tests.openstack_client.reporting import report_host

pytestmark = pytest.mark.system

UPTIME_TEXT = "17:37:14 up  2:33,  3 users,  load average: 0.33, 0.36, 0.34"
HYPERVISOR_STATS = {"num_instances": 3, "io_workload": 1, "uptime": UPTIME_TEXT}


@pytest.fixture(scope="module")
def hypervisor_uuids(api_server):
    """Report two hosts, and return the uuids of their nodes."""
    return [
        report_host(api_server, "hv1", stats=HYPERVISOR_STATS, cpu_info={"arch": "x86_64"}),
        report_host(api_server, "hv2"),
    ]


def test_hypervisors_can_be_listed_searched_and_paged(client, hypervisor_uuids):
    listed = {each["ID"]: each for each in client.get_json("hypervisor", "list", "--long")}
    assert listed.keys() >= set(hypervisor_uuids)
    assert listed[hypervisor_uuids[0]] == {
        "ID": hypervisor_uuids[0],
        "Hypervisor Hostname": "hv1",
        "Hypervisor Type": "QEMU",
        "Host IP": "192.0.2.7",
        "State": "up",
    }
    matched = client.get_json("hypervisor", "list", "--matching", "hv")
    assert {each["ID"] for each in matched} == set(hypervisor_uuids)
    error = client.get_error("hypervisor", "list", "--matching", "nothing-like-it")
    assert "No hypervisor matching 'nothing-like-it' could be found" in error
    paged = client.get_json("hypervisor", "list", "--limit", "1")
    assert {each["ID"] for each in paged} == listed.keys()
    after = client.get_json("hypervisor", "list", "--marker", hypervisor_uuids[0])
    assert hypervisor_uuids[0] not in {each["ID"] for each in after}


def test_hypervisor_is_shown_with_uptime_service_and_aggregates(client, hypervisor_uuids):
    client("aggregate", "create", "hv-shown")
    client("aggregate", "add", "host", "hv-shown", "hv1")
    shown = client.get_json("hypervisor", "show", "hv1")
    assert (shown["id"], shown["state"], shown["status"]) == (hypervisor_uuids[0], "up", "enabled")
    assert (shown["uptime"], shown["users"]) == ("2:33", "3")
    assert (shown["service_host"], shown["aggregates"]) == ("hv1", ["hv-shown"])
    assert (
        client.get_json("hypervisor", "show", hypervisor_uuids[1])["hypervisor_hostname"] == "hv2"
    )
    assert "No Hypervisor found" in client.get_error("hypervisor", "show", "hv")
    client("aggregate", "remove", "host", "hv-shown", "hv1")
    client("aggregate", "delete", "hv-shown")


def test_hypervisor_statistics_are_sums_of_all_hosts(client, hypervisor_uuids):
    stats = client.get_json("hypervisor", "stats", "show")
    assert stats["count"] >= len(hypervisor_uuids)
    assert stats["running_vms"] >= 3
    assert stats["vcpus"] >= 16


@pytest.mark.parametrize("version", ["2.1", "2.72"])
def test_client_with_an_old_microversion_shows_resource_totals(
    clients_by_version, hypervisor_uuids, version
):
    """Use 2.1, and 2.72 of Stein, which names hypervisors by uuid."""
    client = clients_by_version(version)
    rows = client.get_json("hypervisor", "list", "--long")
    (row,) = (each for each in rows if each["Hypervisor Hostname"] == "hv1")
    assert (row["vCPUs Used"], row["vCPUs"], row["Memory MB Used"]) == (2, 8, 512)
    assert (row["ID"] == hypervisor_uuids[0]) == (version == "2.72")
    shown = client.get_json("hypervisor", "show", "hv1")
    assert (shown["vcpus"], shown["running_vms"], shown["free_disk_gb"]) == (8, 3, 100)
    assert (shown["cpu_info"], shown["uptime"]) == ({"arch": "x86_64"}, "2:33")
    assert client.get_json("hypervisor", "show", "hv2")["memory_mb"] == 16384
    matched = client.get_json("hypervisor", "list", "--matching", "hv2")
    assert [each["Hypervisor Hostname"] for each in matched] == ["hv2"]
