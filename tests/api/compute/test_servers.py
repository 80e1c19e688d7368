# SPDX-License-Identifier: Apache-2.0
"""Single servers of the compute API, from recorded instances."""

from datetime import timedelta
from hashlib import sha224

import pytest

from tests.api.compute.client import get_error_message
from tests.api.compute.servers import SERVERS_URL, SHOP_READER
from tests.support import recorded_reports
from tests.support.reports import NOW
from tests.support.scheduling import make_uuid
from tests.support.statements import record_statements

RECORDED_FLAVOR = {
    "id": 7,
    "flavorid": "f1",
    "name": "m1",
    "vcpus": 2,
    "memory_mb": 512,
    "root_gb": 3,
    "ephemeral_gb": 1,
    "swap": 64,
    "extra_specs": {"hw:cpu_sockets": "2"},
}
EMBEDDED_FLAVOR = {
    "original_name": "m1",
    "vcpus": 2,
    "ram": 512,
    "disk": 3,
    "ephemeral": 1,
    "swap": 64,
    "extra_specs": {"hw:cpu_sockets": "2"},
}
#: Fields that versions added to the fields of 2.1.
FIELDS_ADDED_BY_VERSION = {
    "2.3": {
        f"OS-EXT-SRV-ATTR:{name}"
        for name in (
            *("hostname", "reservation_id", "launch_index", "kernel_id", "ramdisk_id"),
            *("root_device_name", "user_data"),
        )
    },
    "2.9": {"locked"},
    "2.16": {"host_status"},
    "2.19": {"description"},
    "2.26": {"tags"},
    "2.63": {"trusted_image_certificates"},
    "2.71": {"server_groups"},
    "2.73": {"locked_reason"},
    "2.96": {"pinned_availability_zone"},
    "2.100": {"scheduler_hints"},
}


@pytest.mark.all_databases
def test_server_shows_the_recorded_instance(server_api):
    server_api.report_hosts(1)
    server_api.create_zone("west", "cn1")
    server_api.record_instance(
        1,
        host="cn1",
        node="node1",
        vm_state="active",
        task_state="rebooting",
        display_name="Web_1 front",
        flavor=RECORDED_FLAVOR,
        image={"id": "i1", "name": "win"},
    )
    shown = server_api.show_server(1)
    links = [link["href"] for link in (*shown["links"], *shown["image"]["links"])]
    paths = (
        f"{SERVERS_URL}/{make_uuid(1)}",
        f"/compute/servers/{make_uuid(1)}",
        "/compute/images/i1",
    )
    assert all(link.endswith(path) for link, path in zip(links, paths, strict=True))
    expected = {
        "name": "Web_1 front",
        "status": "REBOOT",
        "tenant_id": "shop",
        "hostId": sha224(b"shopcn1").hexdigest(),
        "host_status": "UP",
        "flavor": EMBEDDED_FLAVOR,
        "created": "2026-01-01T12:00:00Z",
        "updated": "2026-01-01T12:00:00Z",
        "OS-EXT-AZ:availability_zone": "west",
        "OS-EXT-SRV-ATTR:host": "cn1",
        "OS-EXT-SRV-ATTR:hypervisor_hostname": "node1",
        "OS-EXT-SRV-ATTR:hostname": "web-1-front",
        "OS-EXT-STS:power_state": 1,
        "OS-EXT-STS:task_state": "rebooting",
    }
    assert {key: shown[key] for key in expected} == expected
    server_api.record_instance(1, later=5, host="cn1", vm_state="active")
    later = server_api.show_server(1)
    assert (later["created"], later["updated"]) == ("2026-01-01T12:00:00Z", "2026-01-01T12:00:05Z")
    assert later["progress"] == 0
    (listed,) = server_api.request("GET", "/detail?all_tenants=1").json["servers"]
    later.pop("server_groups")
    assert listed == later


def test_fields_of_a_server_depend_on_the_version(sqlite_server_api):
    sqlite_server_api.record_instance(1)
    seen = set(sqlite_server_api.show_server(1, version="2.1"))
    for version, added in FIELDS_ADDED_BY_VERSION.items():
        before = f"2.{int(version.split('.')[1]) - 1}"
        assert set(sqlite_server_api.show_server(1, version=before)) == seen
        seen = set(sqlite_server_api.show_server(1, version=version))
        assert added <= seen
        assert not added & set(sqlite_server_api.show_server(1, version=before))


def test_server_embeds_its_flavor_from_2_47(sqlite_server_api):
    sqlite_server_api.record_instance(1, flavor=RECORDED_FLAVOR)
    old = sqlite_server_api.show_server(1, version="2.46")["flavor"]
    assert old["id"] == "f1"
    assert old["links"][0]["href"].endswith("/compute/flavors/f1")
    assert sqlite_server_api.show_server(1, version="2.47")["flavor"] == EMBEDDED_FLAVOR


def test_server_shows_the_recorded_fields_of_its_flavor(sqlite_server_api):
    for flavor, flavorid, name in [
        (None, "", ""),
        ("gone", "gone", "gone"),
        ({"name": "n"}, "", "n"),
        ({"id": 3}, "3", "3"),
    ]:
        sqlite_server_api.record_instance(1, flavor=flavor)
        assert sqlite_server_api.show_server(1, version="2.46")["flavor"]["id"] == flavorid, flavor
        embedded = sqlite_server_api.show_server(1)["flavor"]
        assert (embedded["original_name"], embedded["ram"]) == (name, 0), flavor


def test_server_without_host_has_no_zone(sqlite_server_api):
    sqlite_server_api.record_instance(1)
    shown = sqlite_server_api.show_server(1)
    keys = ("hostId", "host_status", "OS-EXT-AZ:availability_zone", "image", "status")
    assert [shown[key] for key in keys] == ["", "", "", "", "UNKNOWN"]
    assert shown["OS-EXT-STS:power_state"] == 0
    assert "progress" not in shown


def test_host_without_a_zone_is_in_the_default_zone(sqlite_server_api):
    sqlite_server_api.record_instance(1, host="unreported")
    shown = sqlite_server_api.show_server(1)
    assert (shown["OS-EXT-AZ:availability_zone"], shown["host_status"]) == ("nova", "UNKNOWN")


def test_host_status_of_a_server_is_the_status_of_its_compute_service(sqlite_server_api):
    sqlite_server_api.report_hosts(1)
    sqlite_server_api.record_instance(1, host="cn1")
    assert sqlite_server_api.show_server(1)["host_status"] == "UP"
    sqlite_server_api.now = NOW + timedelta(seconds=61)
    assert sqlite_server_api.show_server(1)["host_status"] == "UNKNOWN"
    write = sqlite_server_api.database.write
    write(lambda connection: recorded_reports.disable_service(connection, "cn1"))
    assert sqlite_server_api.show_server(1)["host_status"] == "MAINTENANCE"
    write(
        lambda connection: recorded_reports.set_service_fields(connection, "cn1", forced_down=True)
    )
    assert sqlite_server_api.show_server(1)["host_status"] == "DOWN"


def test_server_shows_its_group_from_2_71(sqlite_server_api):
    body = {"server_group": {"name": "g", "policies": ["affinity"]}}
    group = sqlite_server_api.app.post_json("/compute/v2.1/os-server-groups", body).json
    uuid = group["server_group"]["id"]
    sqlite_server_api.record_instance(1, server_group=uuid)
    assert sqlite_server_api.show_server(1)["server_groups"] == [uuid]
    assert "server_groups" not in sqlite_server_api.show_server(1, version="2.70")
    (listed,) = sqlite_server_api.request("GET", "/detail?all_tenants=1").json["servers"]
    assert "server_groups" not in listed


def test_instance_is_a_server_in_build_status_once_its_resources_are_claimed(server_api):
    server_api.report_hosts(1)
    spec = {"project_id": "shop", "instance_uuids": [make_uuid(1)], "flavor": RECORDED_FLAVOR}
    server_api.app.post_json("/scheduler/v1/select_destinations", {"request_spec": spec})
    shown = server_api.show_server(1)
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("BUILD", "cn1")
    assert shown["flavor"]["original_name"] == "m1"


def test_projects_see_only_their_own_servers_without_host_names(server_api):
    server_api.report_hosts(1)
    server_api.record_instance(1, host="cn1")
    server_api.record_instance(2, host="cn1", project_id="bank")
    server_api.record_instance(3, host="cn1", project_id=None)
    own = server_api.show_server(1, **SHOP_READER)
    assert own["hostId"]
    private = {key for key in own if key.startswith("OS-EXT-SRV-ATTR") or key == "host_status"}
    assert private == {"OS-EXT-SRV-ATTR:hostname"}
    assert not any(
        "SRV-ATTR" in key for key in server_api.show_server(1, version="2.89", **SHOP_READER)
    )
    for number in (2, 3):
        hidden = server_api.request("GET", f"/{make_uuid(number)}", status=404, **SHOP_READER)
        response = f"Instance {make_uuid(number)} could not be found."
        assert hidden.json["itemNotFound"]["message"] == response
        assert server_api.show_server(number)["name"] == f"s{number}"
    assert server_api.list_server_names("", **SHOP_READER) == ["s1"]


def test_unknown_server_is_404(server_api):
    for uuid in [make_uuid(9), "nonsense"]:
        assert (
            server_api.request("GET", f"/{uuid}", status=404).json["itemNotFound"]["code"] == 404
        ), uuid


def test_servers_are_read_only(sqlite_server_api):
    sqlite_server_api.record_instance(1)
    for method, path, body in [
        ("POST", "/v2.1/servers", {"server": {"name": "x", "flavorRef": "1"}}),
        ("PUT", f"/v2.1/servers/{make_uuid(1)}", {"server": {"name": "x"}}),
        ("DELETE", f"/v2.1/servers/{make_uuid(1)}", None),
        ("POST", f"/v2.1/servers/{make_uuid(1)}/action", {"os-stop": None}),
    ]:
        below = path.removeprefix("/v2.1/servers")
        response = sqlite_server_api.request(method, below, body, status=403)
        assert "cannot be created, changed or deleted" in get_error_message(response), path
        assert "/scheduler/v1/instances" in get_error_message(response), path
        assert sqlite_server_api.request(method, below, body, token="", status=401), path
        assert sqlite_server_api.list_server_names() == ["s1"], path


def test_sql_statement_count_does_not_grow_with_servers(sqlite_server_api):
    counts = set()
    for number in range(1, 5):
        sqlite_server_api.report_hosts(number)
        sqlite_server_api.record_instance(number, host=f"cn{number}")
        with record_statements(sqlite_server_api.database) as listing:
            sqlite_server_api.request("GET", "/detail?all_tenants=1")
        with record_statements(sqlite_server_api.database) as showing:
            sqlite_server_api.show_server(number)
        counts.add((len(listing), len(showing)))
    assert counts == {(4, 5)}


def test_listing_servers_of_all_projects_requires_an_administrator(sqlite_server_api):
    for path, rule in [("", "index"), ("/detail", "detail")]:
        others = sqlite_server_api.request(
            "GET", f"{path}?all_tenants=1", status=403, **SHOP_READER
        )
        assert f"{rule}:get_all_tenants" in get_error_message(others), (path, rule)


def test_server_shows_zone_hints_and_image_properties_of_its_request(sqlite_server_api):
    image = {"id": "i1", "properties": {"architecture": "x86_32", "trait:CUSTOM_A": "required"}}
    request = {"availability_zone": "west", "scheduler_hints": {"rack": ["a"]}}
    sqlite_server_api.record_instance(1, image=image, request=request)
    sqlite_server_api.record_instance(2, image={"id": "i1", "properties": {"hw_cpu_cores": "x"}})
    server = sqlite_server_api.show_server(1, version="2.100")
    assert server["pinned_availability_zone"] == "west"
    assert server["scheduler_hints"] == {"rack": ["a"]}
    assert server["image"]["properties"] == {
        "hw_architecture": "i686", "traits_required": ["CUSTOM_A"]
    }  # fmt: skip
    assert "properties" not in sqlite_server_api.show_server(1, version="2.97")["image"]
    plain = sqlite_server_api.show_server(2, version="2.100")
    assert plain["pinned_availability_zone"] is None
    assert plain["scheduler_hints"] == plain["image"]["properties"] == {}
