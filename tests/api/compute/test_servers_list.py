# SPDX-License-Identifier: Apache-2.0
"""Lists of servers: filters, order, pages."""

import pytest

from tests.api.compute.client import get_error_message
from tests.api.compute.servers import SHOP_READER
from tests.support.scheduling import make_uuid


@pytest.fixture
def api_with_servers(server_api):
    """Five servers, each created a second after the last, except two of the same second."""
    server_api.report_hosts(1, 2)
    server_api.create_zone("west", "cn1")
    flavor = {"flavorid": "f1", "name": "m1"}
    server_api.record_instance(1, host="cn1", node="n1", vm_state="active", flavor=flavor)
    server_api.record_instance(2, later=1, host="cn2", node="n2", vm_state="stopped", image="i1")
    server_api.record_instance(
        3, later=1, vm_state="ERROR", task_state="deleting", display_name="Web-3"
    )
    server_api.record_instance(4, later=2, host="cn2", vm_state="active", task_state="rebooting")
    server_api.record_instance(5, later=3, project_id="bank", user_id="eve", flavor="f2")
    return server_api


@pytest.mark.all_databases
def test_servers_are_filtered_by_any_recorded_field(api_with_servers):
    for query, names in {
        "": ["s5", "s4", "Web-3", "s2", "s1"],
        "name=s": ["s5", "s4", "s2", "s1"],
        "name=eb-": ["Web-3"],
        "name=web": [],
        "name=s%5B12%5D": [],
        "display_name=s1": ["s1"],
        "hostname=s1": ["s1"],
        "host=cn2": ["s4", "s2"],
        "host=CN2": [],
        "node=n1": ["s1"],
        "flavor=f1": ["s1"],
        "flavor=f2": ["s5"],
        "flavor=m1": [],
        "image=i1": ["s2"],
        "project_id=bank": ["s5"],
        "tenant_id=shop": ["s4", "Web-3", "s2", "s1"],
        "user_id=eve": ["s5"],
        f"uuid={make_uuid(3).upper()}": ["Web-3"],
        "vm_state=Active": ["s4", "s1"],
        "task_state=deleting": ["Web-3"],
        "power_state=1": ["s4", "s1"],
        "power_state=4": ["s2"],
        "power_state=0": ["s5", "Web-3"],
        "power_state=99": [],
        "status=ACTIVE": ["s1"],
        "status=reboot": ["s4"],
        "status=ACTIVE&status=ERROR": ["Web-3", "s1"],
        "status=UNKNOWN": ["s5"],
        "status=nonsense": [],
        "availability_zone=west": ["s1"],
        "availability_zone=nova": ["s4", "s2"],
        "availability_zone=nowhere": [],
        "changes-since=2026-01-01T12:00:02Z": ["s5", "s4"],
        "changes-since=2026-01-01T14:00:01%2B02:00": ["s5", "s4", "Web-3", "s2"],
        "changes-before=2026-01-01T12:00:00": ["s1"],
        "host=cn2&status=SHUTOFF": ["s2"],
    }.items():
        assert api_with_servers.list_server_names(f"all_tenants=1&{query}") == names, query


@pytest.mark.all_databases
def test_servers_are_sorted_and_paged_in_the_requested_order(api_with_servers):
    everyone = "all_tenants=1"
    for query, names in {
        "sort_key=created_at&sort_dir=asc": ["s1", "s2", "Web-3", "s4", "s5"],
        "sort_key=display_name": ["s5", "s4", "s2", "s1", "Web-3"],
        "sort_key=display_name&sort_dir=asc": ["Web-3", "s1", "s2", "s4", "s5"],
        "sort_key=host&sort_dir=asc&sort_key=created_at": ["Web-3", "s5", "s1", "s2", "s4"],
        "sort_key=host&sort_dir=asc&sort_key=created_at&sort_dir=desc": [
            "s5",
            "Web-3",
            "s1",
            "s4",
            "s2",
        ],
        "sort_key=uuid&sort_dir=asc": ["s1", "s2", "Web-3", "s4", "s5"],
        "sort_key=key_name": ["s5", "s4", "Web-3", "s2", "s1"],
    }.items():
        assert api_with_servers.list_server_names(f"{everyone}&{query}") == names, query
        path, read = f"?{everyone}&{query}&limit=2", []
        while path:
            response = api_with_servers.request("GET", path).json
            read += [each["name"] for each in response["servers"]]
            (link,) = response.get("servers_links", [None])
            path = link and link["href"].partition("/v2.1/servers")[2]
        assert read == names, query


def test_server_given_as_marker_need_not_match_the_filter(api_with_servers):
    assert api_with_servers.list_server_names(f"all_tenants=1&marker={make_uuid(3)}") == [
        "s2",
        "s1",
    ]
    assert api_with_servers.list_server_names(f"marker={make_uuid(3)}", **SHOP_READER) == [
        "s2",
        "s1",
    ]
    for marker in (make_uuid(9), "nonsense"):
        response = api_with_servers.request("GET", f"?marker={marker}", status=400)
        assert get_error_message(response) == f"marker [{marker}] not found"
    api_with_servers.request("GET", f"?marker={make_uuid(5)}", status=400, **SHOP_READER)


def test_page_of_servers_has_at_most_the_maximum_number(api_with_servers, monkeypatch):
    monkeypatch.setattr("placement_sched.api.paging.MAX_PAGE", 2)
    assert api_with_servers.list_server_names() == ["s5", "s4"]
    assert api_with_servers.list_server_names("all_tenants=1&limit=9") == ["s5", "s4"]
    assert api_with_servers.list_server_names("all_tenants=1&limit=0") == []
    link = api_with_servers.request("GET", "/detail?all_tenants=1").json["servers_links"][0]["href"]
    assert f"/v2.1/servers/detail?all_tenants=1&marker={make_uuid(4)}" in link


def test_server_filter_on_an_unrecorded_field_lists_no_servers(sqlite_server_api):
    sqlite_server_api.record_instance(1)
    for query in [
        "ip=10.0.0.1",
        "key_name=k",
        "reservation_id=r",
        "tags=a",
        "locked=true",
        "deleted=True",
        "soft_deleted=1",
        "config_drive=true",
        "launch_index=3",
    ]:
        assert sqlite_server_api.list_server_names(f"all_tenants=1&{query}") == [], query
        assert sqlite_server_api.request("GET", f"/detail?all_tenants=1&{query}").json == {
            "servers": []
        }, query


def test_server_filter_on_the_absence_of_an_unrecorded_field_lists_all_servers(sqlite_server_api):
    sqlite_server_api.record_instance(1)
    for query in [
        "deleted=False",
        "locked=no",
        "not-tags=a",
        "ip=",
        "config_drive=0",
        "progress=0",
    ]:
        assert sqlite_server_api.list_server_names(f"all_tenants=1&{query}") == ["s1"], query


def test_invalid_server_query_is_400(sqlite_server_api):
    for query, expected in [
        ("all_tenants=x", "all_tenants must be a boolean"),
        ("locked=x", "locked must be a boolean"),
        ("power_state=x", "power_state must be a number"),
        ("changes-since=yesterday", "changes-since"),
        (
            "changes-since=2026-01-02&changes-before=2026-01-01",
            "changes-since must be less than or equal to changes-before",
        ),
        ("limit=-1", "limit"),
        ("limit=x", "limit"),
        ("sort_key=bogus", "sort_key"),
        ("sort_dir=up", "sort_dir"),
        ("bogus=1", "bogus"),
        ("created_at=2026-01-01T12:00:03", "created_at"),
    ]:
        for path in ("", "/detail"):
            response = sqlite_server_api.request("GET", f"{path}?{query}", status=400)
            assert expected in get_error_message(response), (query, expected)


SERVER_NAMES_WITH_PATTERN_CHARACTERS = ["a%b", "a_b", "b%_\\c", "a.*b", "f(x)", "Köln", "plain"]


def test_server_name_search_compares_characters_exactly(server_api):
    for number, name in enumerate(SERVER_NAMES_WITH_PATTERN_CHARACTERS, start=1):
        server_api.record_instance(number, display_name=name)
    for part in ["%", "_", ".*", "(", "%_\\", "ö", "Ö"]:
        query = {"all_tenants": "1", "name": part}
        rows = server_api.app.get("/compute/v2.1/servers", query).json["servers"]
        assert {row["name"] for row in rows} == {
            name for name in SERVER_NAMES_WITH_PATTERN_CHARACTERS if part in name
        }, part


def test_thousands_of_status_filters_with_unknown_names_find_the_active_server(sqlite_server_api):
    sqlite_server_api.record_instance(1, vm_state="active")
    query = "&".join(f"status=ACTIVE&status=other{number}" for number in range(1000))
    assert sqlite_server_api.list_server_names(f"all_tenants=1&{query}") == ["s1"]


def test_unknown_server_filter_is_rejected_since_2_75(sqlite_server_api):
    sqlite_server_api.request("GET", "?bogus=1", version="2.74")
    sqlite_server_api.request("GET", "?bogus=1", version="2.75", status=400)
    sqlite_server_api.request("GET", "?pinned_availability_zone=x", version="2.74")
    sqlite_server_api.request("GET", "?pinned_availability_zone=x", version="2.96", status=400)


@pytest.mark.all_databases
def test_project_users_can_filter_servers_only_by_some_fields(api_with_servers):
    own = ["s4", "Web-3", "s2", "s1"]
    for query, names in {
        "name=s1": ["s1"],
        "status=ERROR": ["Web-3"],
        "flavor=f1": ["s1"],
        "host=cn1": own,
        "node=n1": own,
        "project_id=bank": own,
        "deleted=true": own,
        "vm_state=stopped": ["s2"],
        "availability_zone=west": ["s1"],
        "locked=true": [],
    }.items():
        assert api_with_servers.list_server_names(query, **SHOP_READER) == names, query
    sorted_by_host = api_with_servers.request("GET", "?sort_key=host", status=403, **SHOP_READER)
    assert "Only administrators" in get_error_message(sorted_by_host)


def test_servers_of_the_own_project_are_listed_without_all_tenants(api_with_servers):
    assert api_with_servers.list_server_names("") == []
    assert api_with_servers.list_server_names("project_id=bank") == []
    assert api_with_servers.list_server_names("all_tenants=0") == []
    assert (
        api_with_servers.list_server_names("all_tenants=")
        == api_with_servers.list_server_names("all_tenants=True")
        == api_with_servers.list_server_names()
    )
