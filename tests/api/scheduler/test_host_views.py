# SPDX-License-Identifier: Apache-2.0
"""Views of hosts: the list, single documents and sums."""

from datetime import datetime, timedelta
from functools import partial

import pytest

from placement_sched.model.clock import utcnow
from placement_sched.model.instance import NovaCell
from placement_sched.store import change_counters
from placement_sched.store.compute import cells, host_aggregates, services
from tests.api.scheduler.host_views import (
    HOSTS_PATH,
    OLD_REPORT_TIME,
    index_hosts_by_name,
    list_host_names,
    list_hosts,
    put_allocations,
    record_instance,
)
from tests.api.scheduler.host_views import cloud_app as cloud_app  # noqa: PLC0414 - a fixture
from tests.conftest import make_settings
from tests.support.clouds import uuid_of
from tests.support.host_maps import add_aggregate
from tests.support.scheduling import make_report, make_uuid
from tests.support.statements import record_statements
from tests.support.versions import LATEST_HEADERS

OVERVIEW_PATH = "/scheduler/v1/overview"


def test_every_host_is_listed_with_its_resources(cloud_app):
    result = list_hosts(cloud_app)
    assert [host["host"] for host in result["hosts"]] == ["cn1", "cn2", "cn3", "cn4"]
    assert index_hosts_by_name(result)["cn3"] == {
        "host": "cn3",
        "node": "cn3",
        "uuid": uuid_of("cn3"),
        "zone": "nova",
        "state": "up",
        "policy": "high_cpu_density",
        "aggregates": [1],
        "traits": [result["traits"].index("CUSTOM_A")],
        "instances": 1,
        "resources": {
            "VCPU": {"capacity": 128, "used": 1},
            "MEMORY_MB": {"capacity": 65536, "used": 0},
            "DISK_GB": {"capacity": 1000, "used": 0},
        },
    }
    # Shared values are listed once and referenced by index.
    assert [aggregate["name"] for aggregate in result["aggregates"]] == ["east", "rack"]
    assert result["aggregates"][1]["metadata"] == {"sched_policy": "High_CPU_density", "rack": "r7"}
    assert "links" in result
    assert result["cells"] == []
    # Traits and resources cover the whole tree.
    host = index_hosts_by_name(result)["cn1"]
    assert host["aggregates"] == [0, 1]
    assert sorted(result["traits"][index] for index in host["traits"]) == [
        "CUSTOM_A",
        "CUSTOM_B",
        "HW_NUMA_ROOT",
    ]
    # 16 of the root, times the policy's ratio 8.0, and 8 of the NUMA node.
    assert host["resources"] == {
        "VCPU": {"capacity": 136, "used": 5},
        "MEMORY_MB": {"capacity": 65536, "used": 512},
        "DISK_GB": {"capacity": 1000, "used": 0},
        "SRIOV_NET_VF": {"capacity": 4, "used": 0},
    }


def test_host_state_describes_a_service_that_is_not_up(cloud_app):
    hosts = index_hosts_by_name(list_hosts(cloud_app))
    assert (hosts["cn2"]["state"], hosts["cn2"]["disabled_reason"]) == ("disabled", "new disks")
    assert (hosts["cn4"]["state"], hosts["cn4"]["last_seen_up"]) == ("down", OLD_REPORT_TIME)
    assert "forced_down" not in hosts["cn4"]
    down = {"host": "cn1", "binary": "nova-compute", "forced_down": True}
    cloud_app.put_json(
        "/compute/v2.1/os-services/force-down",
        down,
        headers={"OpenStack-API-Version": "compute 2.11"},
    )
    host = index_hosts_by_name(list_hosts(cloud_app))["cn1"]
    assert (host["state"], host["forced_down"]) == ("down", True)


def test_instances_without_node_count_on_the_only_node_of_their_host(cloud_app):
    record_instance(cloud_app, 3, "cn3", node=None)
    assert index_hosts_by_name(list_hosts(cloud_app))["cn3"]["instances"] == 2


def test_states_of_a_copy_of_novas_databases_are_those_of_the_last_reading(make_app, sqlite_url):
    app = make_app(make_settings(sqlite_url, DEFAULT__service_down_time=60))
    cell, at = make_uuid(9), utcnow() - timedelta(minutes=22)
    reports = [make_report("cn1", cell_uuid=cell), make_report("cn2")]  # cn2 reports itself
    app.post_json("/scheduler/v1/compute_nodes", reports)

    def record_reading(connection):
        cells.put(connection, [NovaCell(uuid=cell)], at)
        cells.record_read(connection, [cell], at)
        ids = [service.id for service in services.search(connection)]
        services.set_last_seen(connection, dict.fromkeys(ids, at), at)

    app.app.services.database.write(record_reading)
    states = {host: view["state"] for host, view in index_hosts_by_name(list_hosts(app)).items()}
    assert states == {"cn1": "up", "cn2": "down"}
    assert list_host_names(app, "?state=up") == ["cn1"]
    host = app.get(f"{HOSTS_PATH}/cn1").json
    assert host["state"] == host["services"][0]["state"] == "up"
    assert app.get(OVERVIEW_PATH).json["hosts"]["up"] == 1
    assert 'placement_sched_hosts{state="up"} 1.0' in app.get("/metrics").text


@pytest.mark.all_databases
def test_statement_count_of_host_views_does_not_depend_on_hosts(make_app, settings):
    app, counts = make_app(settings), []
    for hosts in (range(3), range(3, 15)):
        app.post_json("/scheduler/v1/compute_nodes", [make_report(f"cn{n}") for n in hosts])
        list_host_names(app)
        with record_statements(app.app.services.database) as seen:
            for query in ("", "?limit=2", "?trait=COMPUTE_NODE"):
                list_host_names(app, query)
            app.get(OVERVIEW_PATH)
        counts.append(len(seen))
    assert counts[0] == counts[1] < 45


def test_host_is_shown_with_its_tree_instances_and_policy(cloud_app):
    host = cloud_app.get(f"{HOSTS_PATH}/cn1").json
    (node,) = host["nodes"]
    assert (host["host"], host["zone"], host["state"]) == ("cn1", "az-east", "up")
    assert [aggregate["name"] for aggregate in host["aggregates"]] == ["east", "rack"]
    assert node["resources"] == index_hosts_by_name(list_hosts(cloud_app))["cn1"]["resources"]
    root, numa = node["providers"]
    assert (root["uuid"], root["parent_provider_uuid"]) == (uuid_of("cn1"), None)
    assert (numa["name"], numa["parent_provider_uuid"]) == ("cn1_NUMA0", uuid_of("cn1"))
    assert numa["traits"] == ["CUSTOM_B", "HW_NUMA_ROOT"]
    assert (
        root["inventories"]["VCPU"] | {"capacity": 128, "used": 2, "total": 16}
        == (root["inventories"]["VCPU"])
    )
    assert numa["inventories"]["SRIOV_NET_VF"]["used"] == 0
    assert len(root["aggregates"]) == 2
    (there,) = host["instances"]
    assert there == {
        "uuid": make_uuid(1),
        "name": "vm1",
        "node": "cn1",
        "project_id": "p1",
        "user_id": None,
        "flavor": "m1",
        "vm_state": None,
        "task_state": None,
    }
    policy = cloud_app.get(f"{HOSTS_PATH}/cn3").json["policy"]
    assert (policy["name"], policy["usable"]) == ("high_cpu_density", True)
    assert {name: option["value"] for name, option in policy["options"].items()} == {
        "DEFAULT.cpu_allocation_ratio": 8.0
    }
    assert cloud_app.get(f"{HOSTS_PATH}/cn2").json["policy"]["options"] == {}
    (error,) = cloud_app.get(f"{HOSTS_PATH}/cn9", status=404).json["errors"]
    assert error["detail"] == "there is no host 'cn9'. Did you mean 'cn1'?"
    assert error["code"] == "scheduler.not_found"
    cloud_app.get(f"{HOSTS_PATH}/CN1", status=404)


@pytest.mark.all_databases
def test_host_shows_its_report_with_times_and_its_service(cloud_app):
    host = cloud_app.get(f"{HOSTS_PATH}/cn4").json
    (node,) = host["nodes"]
    assert (node["report"]["vcpus"], node["report"]["hypervisor_type"]) == (16, "QEMU")
    assert node["last_seen_up"] == OLD_REPORT_TIME
    changed = datetime.fromisoformat(node["changed_at"])
    assert abs(changed - cloud_app.app.services.clock()) < timedelta(hours=1)
    (service,) = host["services"]
    assert (service["binary"], service["state"]) == ("nova-compute", "down")


def test_invalid_policy_of_a_host_is_shown_with_its_error(cloud_app):
    database = cloud_app.app.services.database
    add_aggregate(database, "other", ["cn4"], {"sched_policy": "nowhere"})
    database.write(partial(change_counters.bump, subject=host_aggregates.SUBJECT))
    assert index_hosts_by_name(list_hosts(cloud_app))["cn4"]["policy"] == "nowhere"
    policy = cloud_app.get(f"{HOSTS_PATH}/cn4").json["policy"]
    assert not policy["usable"]
    assert "nowhere" in policy["error"]


def test_host_without_provider_has_no_resources(cloud_app):
    number = cloud_app.get(
        f"/placement/resource_providers/{uuid_of('cn4')}", headers=LATEST_HEADERS
    )
    cloud_app.delete(f"/placement/resource_providers/{number.json['uuid']}", headers=LATEST_HEADERS)
    host = index_hosts_by_name(list_hosts(cloud_app))["cn4"]
    assert (host["resources"], host["traits"]) == ({}, [])
    (node,) = cloud_app.get(f"{HOSTS_PATH}/cn4").json["nodes"]
    assert (node["providers"], node["resources"]) == ([], {})


def test_overview_has_sums_by_zone_and_lists_hosts_that_are_not_up(cloud_app):
    overview = cloud_app.get(OVERVIEW_PATH).json
    assert overview["hosts"] == {"total": 4, "up": 2, "down": 1, "disabled": 1}
    assert overview["instances"] == 2
    zones = {zone["zone"]: zone for zone in overview["zones"]}
    assert {name: zone["hosts"] for name, zone in zones.items()} == {"az-east": 2, "nova": 2}
    use = zones["az-east"]["resources"]["VCPU"]
    assert (use["used"], use["hosts"], use["full"]) == (5, 2, 0)
    entries = {entry["host"]: entry for entry in overview["attention"]}
    assert {name: entry["state"] for name, entry in entries.items()} == {
        "cn2": "disabled",
        "cn4": "down",
    }
    assert entries["cn2"]["disabled_reason"] == "new disks"


def test_overview_counts_a_host_in_each_of_its_aggregates(cloud_app):
    database = cloud_app.app.services.database
    add_aggregate(database, "shelf", ["cn1", "cn4"])
    add_aggregate(database, "bare")
    database.write(partial(change_counters.bump, subject=host_aggregates.SUBJECT))
    listed = index_hosts_by_name(list_hosts(cloud_app))
    names = {each["name"]: each for each in cloud_app.get(OVERVIEW_PATH).json["aggregates"]}
    assert "bare" not in names
    assert (names["shelf"]["hosts"], names["shelf"]["uuid"]) == (2, uuid_of("shelf"))
    for name, sums in names["shelf"]["resources"].items():
        for key in ("used", "capacity"):
            amounts = [listed[host]["resources"].get(name, {}) for host in ("cn1", "cn4")]
            assert sums[key] == sum(amount.get(key, 0) for amount in amounts)
    zone = sum(each["hosts"] for each in cloud_app.get(OVERVIEW_PATH).json["zones"])
    assert zone == len(listed)


def test_overview_counts_nearly_full_and_full_hosts(cloud_app):
    hosts = index_hosts_by_name(list_hosts(cloud_app))
    capacity = hosts["cn4"]["resources"]["MEMORY_MB"]["capacity"]
    put_allocations(cloud_app, 8, "cn4", cn4={"MEMORY_MB": capacity})
    put_allocations(cloud_app, 9, "cn3", cn3={"MEMORY_MB": capacity * 9 // 10})
    zones = {zone["zone"]: zone for zone in cloud_app.get(OVERVIEW_PATH).json["zones"]}
    use = zones["nova"]["resources"]["MEMORY_MB"]
    assert (use["nearly_full"], use["full"]) == (1, 1)
