# SPDX-License-Identifier: Apache-2.0
"""Hypervisors: their fields by version, search, pages and statistics."""

from urllib.parse import urlsplit

import pytest

from tests.api.compute.client import get_error_message
from tests.api.compute.hosts import HYPERVISORS_PATH
from tests.support.hosts import add_node
from tests.support.reports import node_uuid
from tests.support.statements import record_statements

INSTANCE_1, INSTANCE_2, INSTANCE_3 = (node_uuid(9000 + number) for number in (1, 2, 3))
UNKNOWN_UUID = "28b0e607-d58a-4602-a511-efe18024f4d5"
LIST_FIELDS = {"id", "hypervisor_hostname", "state", "status"}
COMMON_FIELDS = LIST_FIELDS | {"hypervisor_type", "hypervisor_version", "host_ip", "service"}
USAGE_FIELDS = {
    *("vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "free_ram_mb", "local_gb"),
    *("local_gb_used", "free_disk_gb", "disk_available_least", "current_workload", "running_vms"),
}
ALL_FIELDS = COMMON_FIELDS | USAGE_FIELDS | {"cpu_info"}
REPORTED_FIELDS = {
    "hypervisor_type": "QEMU",
    "hypervisor_version": 8002000,
    "host_ip": "192.0.2.7",
    "cpu_info": {"arch": "x86_64", "topology": {"cores": 4}},
    "vcpus_used": 2,
    "memory_mb_used": 512,
    "local_gb_used": 10,
    "disk_available_least": 80,
    "stats": {"num_instances": "3", "io_workload": 1, "uptime": "12:00:00 up 9 days"},
}


def list_hypervisor_names(hypervisors):
    return [hypervisor["hypervisor_hostname"] for hypervisor in hypervisors]


def test_hypervisor_shows_the_report_of_its_host(host_api):
    host_api.report_host(1, **REPORTED_FIELDS)
    shown = host_api.show_hypervisor(1, version="2.87")
    expected = {key: value for key, value in REPORTED_FIELDS.items() if key != "stats"} | {
        "service": {"id": host_api.read_service()["id"], "host": "cn1", "disabled_reason": None},
        "vcpus": 8,
        "memory_mb": 16384,
        "free_ram_mb": 15872,
        "local_gb": 100,
        "free_disk_gb": 90,
        "current_workload": 1,
        "running_vms": 3,
    }
    assert {key: shown[key] for key in expected} == expected
    assert host_api.list_hypervisors("/detail", version="2.87") == [shown]


def test_hypervisor_fields_and_their_types_depend_on_the_version(sqlite_host_api):
    sqlite_host_api.report_host(1, **REPORTED_FIELDS)
    for version, fields, kind, cpu_info in (
        ("2.1", ALL_FIELDS, int, str),
        ("2.27", ALL_FIELDS, int, str),
        ("2.28", ALL_FIELDS, int, dict),
        ("2.52", ALL_FIELDS, int, dict),
        ("2.53", ALL_FIELDS, str, dict),
        ("2.87", ALL_FIELDS, str, dict),
        ("2.88", COMMON_FIELDS | {"uptime"}, str, None),
        ("2.96", COMMON_FIELDS | {"uptime"}, str, None),
    ):
        (brief,) = sqlite_host_api.list_hypervisors(version=version)
        (listed,) = sqlite_host_api.list_hypervisors("/detail", version=version)
        shown = sqlite_host_api.request(
            "GET", f"{HYPERVISORS_PATH}/{brief['id']}", version=version
        ).json
        assert shown["hypervisor"] == listed, version
        assert (set(brief), set(listed)) == (LIST_FIELDS, fields), version
        assert isinstance(listed["id"], kind), version
        assert isinstance(listed["service"]["id"], kind), version
        assert cpu_info is None or isinstance(listed["cpu_info"], cpu_info), version


def test_hypervisor_fields_that_a_report_lacks_are_empty(sqlite_host_api):
    sqlite_host_api.report_host(1, free_disk_gb=None)
    shown = sqlite_host_api.show_hypervisor(1, version="2.87")
    assert (shown["cpu_info"], shown["host_ip"], shown["disk_available_least"]) == ({}, None, None)
    assert (shown["running_vms"], shown["current_workload"]) == (0, 0)
    assert shown["free_disk_gb"] is None
    assert sqlite_host_api.show_hypervisor(1)["uptime"] is None


def test_hypervisor_state_and_status_are_those_of_the_service_of_its_host(host_api):
    host_api.report_host(1, silent=300)
    host_api.report_host(2)
    host_api.change_service({"status": "disabled", "disabled_reason": "fan"}, host="cn2")
    states = [
        (hypervisor["state"], hypervisor["status"]) for hypervisor in host_api.list_hypervisors()
    ]
    assert states == [("down", "enabled"), ("up", "disabled")]
    assert host_api.show_hypervisor(2)["service"]["disabled_reason"] == "fan"
    host_api.change_service({"forced_down": True}, host="cn2")
    assert host_api.show_hypervisor(2)["state"] == "down"


def test_uptime_of_hypervisors_is_shown_for_hosts_that_are_up(sqlite_host_api):
    sqlite_host_api.report_host(1, **REPORTED_FIELDS)
    sqlite_host_api.report_host(2)
    path = f"{HYPERVISORS_PATH}/{node_uuid(1)}/uptime"
    response = sqlite_host_api.request("GET", path, version="2.87").json["hypervisor"]
    assert response == {
        "id": node_uuid(1),
        "hypervisor_hostname": "cn1",
        "state": "up",
        "status": "enabled",
        "uptime": "12:00:00 up 9 days",
    }
    assert sqlite_host_api.show_hypervisor(1, version="2.88")["uptime"] == "12:00:00 up 9 days"
    sqlite_host_api.request("GET", path, version="2.88", status=404)
    numbered = sqlite_host_api.request("GET", f"{HYPERVISORS_PATH}/1/uptime", version="2.1")
    assert numbered.json["hypervisor"] == response | {"id": 1}
    silent = sqlite_host_api.request(
        "GET", f"{HYPERVISORS_PATH}/2/uptime", version="2.1", status=501
    )
    assert "Host cn2 has not reported its uptime" in silent.json["notImplemented"]["message"]
    sqlite_host_api.report_host(1, silent=300, **REPORTED_FIELDS)
    down = sqlite_host_api.request("GET", path, version="2.87", status=400)
    assert get_error_message(down) == "Compute service of cn1 is unavailable at this time."
    assert sqlite_host_api.show_hypervisor(1, version="2.88")["uptime"] is None


@pytest.mark.all_databases
def test_hypervisor_statistics_are_sums_over_enabled_hypervisors(host_api):
    host_api.report_host(1, **REPORTED_FIELDS)
    host_api.report_host(2, silent=300, free_disk_gb=None)
    host_api.report_host(3)
    host_api.change_service({"status": "disabled"}, host="cn3")
    response = host_api.request("GET", f"{HYPERVISORS_PATH}/statistics", version="2.87")
    assert response.json["hypervisor_statistics"] == {
        "count": 2,
        "vcpus": 16,
        "vcpus_used": 2,
        "memory_mb": 32768,
        "memory_mb_used": 512,
        "free_ram_mb": 15872 + 16384,
        "local_gb": 200,
        "local_gb_used": 10,
        "free_disk_gb": 90,
        "disk_available_least": 80,
        "current_workload": 1,
        "running_vms": 3,
    }
    host_api.request("GET", f"{HYPERVISORS_PATH}/statistics", version="2.88", status=404)


def test_hypervisor_statistics_without_hypervisors_are_zero(sqlite_host_api):
    response = sqlite_host_api.request("GET", f"{HYPERVISORS_PATH}/statistics", version="2.1")
    assert response.json["hypervisor_statistics"] == dict.fromkeys({"count", *USAGE_FIELDS}, 0)


def test_next_links_of_hypervisors_lead_through_all_pages(host_api):
    for number in (3, 1, 2):
        host_api.report_host(number)
    for path in ("", "/detail"):
        for version in ("2.33", "2.52", "2.53", "2.96"):
            pages, url = [], f"{HYPERVISORS_PATH}{path}?limit=2"
            while url:
                page = host_api.request("GET", url, version=version).json
                pages.append(list_hypervisor_names(page["hypervisors"]))
                links = page.get("hypervisors_links", [])
                assert [link["rel"] for link in links] == ["next"][: len(links)]
                url = next((link["href"].partition("/v2.1")[2] for link in links), None)
            assert pages == [["cn3", "cn1"], ["cn2"]], (path, version)


def test_page_of_hypervisors_starts_after_the_marker(sqlite_host_api):
    for number in (1, 2):
        sqlite_host_api.report_host(number)

    def list_hypervisors_after(marker, **options):
        response = sqlite_host_api.request("GET", f"{HYPERVISORS_PATH}?marker={marker}", **options)
        return (
            response.json
            if "status" in options
            else list_hypervisor_names(response.json["hypervisors"])
        )

    assert (
        list_hypervisors_after(node_uuid(1)) == list_hypervisors_after(1, version="2.33") == ["cn2"]
    )
    assert list_hypervisors_after(node_uuid(2)) == []
    for marker, version, expected in (
        (UNKNOWN_UUID, "2.53", f"marker [{UNKNOWN_UUID}] not found"),
        ("1", "2.53", "Invalid uuid 1"),
        ("99", "2.33", "marker [99] not found"),
        (node_uuid(1), "2.52", f"marker [{node_uuid(1)}] not found"),
    ):
        assert (
            list_hypervisors_after(marker, version=version, status=400)["badRequest"]["message"]
            == expected
        )
    assert list_hypervisors_after(UNKNOWN_UUID, version="2.32") == ["cn1", "cn2"]


def test_next_link_of_hypervisors_has_the_url_and_query_of_the_request(sqlite_host_api):
    sqlite_host_api.report_host(1)
    response = sqlite_host_api.request("GET", f"{HYPERVISORS_PATH}/detail?limit=1&with_servers=on")
    (link,) = response.json["hypervisors_links"]
    shown = urlsplit(link["href"])
    assert (shown.netloc, shown.path) == ("localhost", "/compute/v2.1/os-hypervisors/detail")
    assert shown.query == f"limit=1&with_servers=on&marker={node_uuid(1)}"


def test_limit_of_hypervisor_pages_is_between_zero_and_the_maximum(sqlite_host_api):
    sqlite_host_api.report_host(1)
    assert sqlite_host_api.list_hypervisors("?limit=0") == []
    assert list_hypervisor_names(sqlite_host_api.list_hypervisors(f"?limit={10**40}")) == ["cn1"]
    for limit in ("-1", "x", "1.5", ""):
        sqlite_host_api.request("GET", f"{HYPERVISORS_PATH}?limit={limit}", status=400)
    assert list_hypervisor_names(sqlite_host_api.list_hypervisors("?limit=x", version="2.32")) == [
        "cn1"
    ]


def test_hypervisors_are_found_by_part_of_a_name(host_api):
    for number, name in enumerate(("Alpha.example", "alpha_b", "beta%")):
        host_api.report_host(number, hypervisor_hostname=name)

    def find_hypervisor_names(part):
        return list_hypervisor_names(
            host_api.list_hypervisors(f"?hypervisor_hostname_pattern={part}")
        )

    assert find_hypervisor_names("ALPHA") == ["Alpha.example", "alpha_b"]
    assert find_hypervisor_names("_") == ["alpha_b"]
    assert find_hypervisor_names("%25") == ["beta%"]
    missing = host_api.request(
        "GET", f"{HYPERVISORS_PATH}?hypervisor_hostname_pattern=zz", status=404
    )
    assert get_error_message(missing) == "No hypervisor matching 'zz' could be found."


def test_hypervisor_name_search_cannot_be_paged(sqlite_host_api):
    sqlite_host_api.report_host(1)
    for page in ("limit=1", f"marker={node_uuid(1)}"):
        query = f"?hypervisor_hostname_pattern=cn&{page}"
        response = get_error_message(
            sqlite_host_api.request("GET", f"{HYPERVISORS_PATH}{query}", status=400)
        )
        assert "Paging over hypervisors" in response
    sqlite_host_api.request("GET", f"{HYPERVISORS_PATH}?hypervisor_hostname_pattern=", status=400)


@pytest.mark.all_databases
def test_instances_of_hypervisors_are_shown_if_requested(host_api):
    host_api.report_host(1, host="rack")
    host_api.report_host(2, host="rack")
    host_api.report_host(3)
    host_api.record_instance(INSTANCE_1, "rack", "cn1", "web")
    host_api.record_instance(INSTANCE_2, "rack", "cn2", "db")
    host_api.record_instance(INSTANCE_3, "rack", None, "lost")
    web, db, lost = (
        {"name": name, "uuid": uuid}
        for name, uuid in (("web", INSTANCE_1), ("db", INSTANCE_2), ("lost", INSTANCE_3))
    )
    hypervisors = host_api.list_hypervisors("?with_servers=true")
    assert [hypervisor["servers"] for hypervisor in hypervisors] == [[lost, web], [db, lost], []]
    detailed = host_api.list_hypervisors("/detail?with_servers=1&hypervisor_hostname_pattern=cn1")
    assert [one["servers"] for one in detailed] == [[lost, web]]
    assert host_api.show_hypervisor(2, "?with_servers=yes")["servers"] == [db, lost]
    assert "servers" not in host_api.show_hypervisor(2, "?with_servers=no")
    before = host_api.list_hypervisors("?with_servers=true", version="2.74")
    assert [one.get("servers") for one in before] == [[lost, web], [db, lost], None]


def test_hypervisor_search_and_servers_paths_exist_before_2_53(sqlite_host_api):
    for number in (1, 2):
        sqlite_host_api.report_host(number)
    sqlite_host_api.record_instance(INSTANCE_1, "cn1", "cn1", "web")

    def send_get_request(path, version="2.52", status=200):
        response = sqlite_host_api.request(
            "GET", f"{HYPERVISORS_PATH}/{path}", version=version, status=status
        ).json
        return response["hypervisors"] if status == 200 else response["itemNotFound"]["message"]

    brief = [
        {"id": number, "hypervisor_hostname": f"cn{number}", "state": "up", "status": "enabled"}
        for number in (1, 2)
    ]
    assert send_get_request("CN/search") == brief
    assert send_get_request("2/search") == brief[1:]
    assert send_get_request("cn/servers", version="2.1") == [
        {**brief[0], "servers": [{"name": "web", "uuid": INSTANCE_1}]},
        brief[1],
    ]
    for path in ("zz/search", "zz/servers"):
        assert send_get_request(path, status=404) == "No hypervisor matching 'zz' could be found."
    for path in ("cn/search", "cn/servers"):
        send_get_request(path, version="2.53", status=404)


def test_invalid_hypervisor_query_parameters_are_rejected_from_2_53(sqlite_host_api):
    sqlite_host_api.report_host(1)
    shown = f"/{node_uuid(1)}"
    for query in ("?x=1", "/detail?x=1", "?with_servers=perhaps", f"{shown}?with_servers=2"):
        sqlite_host_api.request("GET", f"{HYPERVISORS_PATH}{query}", status=400)
    for query in (f"{shown}?limit=1", "?limit=1&limit=x"):
        sqlite_host_api.request("GET", f"{HYPERVISORS_PATH}{query}", version="2.53", status=400)
    for query in ("?x=1", "?with_servers=perhaps", "/1?x=1"):
        sqlite_host_api.request("GET", f"{HYPERVISORS_PATH}{query}", version="2.52")


def test_unknown_hypervisor_is_404_and_invalid_uuid_400(sqlite_host_api):
    sqlite_host_api.report_host(1)
    for name, version, status, expected in (
        (UNKNOWN_UUID, "2.53", 404, f"Hypervisor with ID '{UNKNOWN_UUID}' could not be found."),
        ("1", "2.53", 400, "Invalid uuid 1"),
        ("2", "2.52", 404, "Hypervisor with ID '2' could not be found."),
        (node_uuid(1), "2.52", 404, f"Hypervisor with ID '{node_uuid(1)}' could not be found."),
        ("99999999999", "2.1", 404, "could not be found."),
    ):
        for path in ("", "/uptime"):
            url = f"{HYPERVISORS_PATH}/{name}{path}"
            assert expected in get_error_message(
                sqlite_host_api.request("GET", url, version=version, status=status)
            )


def test_node_without_a_service_is_not_listed_as_a_hypervisor(sqlite_host_api, sqlite_database):
    uuid = add_node(sqlite_database, "cn1")
    assert sqlite_host_api.list_hypervisors() == []
    sqlite_host_api.request("GET", f"{HYPERVISORS_PATH}/{uuid}", status=404)


def test_sql_statement_count_does_not_grow_with_hypervisors_or_instances(host_api):
    calls = ("?with_servers=true", "/detail?with_servers=true", "/statistics")
    counts = []
    for size in (2, 10):
        host_api.report_hosts(size)
        for number in range(size):
            host_api.record_instance(node_uuid(9000 + number), f"cn{number}")
        with record_statements(host_api.app.app.services.database) as seen:
            for query in calls:
                host_api.request("GET", f"{HYPERVISORS_PATH}{query}", version="2.87")
        counts.append(len(seen))
    assert counts[0] == counts[1]
