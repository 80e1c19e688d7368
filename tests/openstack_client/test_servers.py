# SPDX-License-Identifier: Apache-2.0
"""Servers through the unmodified ``openstack`` client, and openstacksdk."""

import pytest
from openstack import exceptions

from tests.openstack_client.conftest import connect_sdk
from tests.support.scheduling import make_uuid

# The client warns of its own deprecations.
pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")]

WEB_SERVER, DB_SERVER, OTHER_SERVER = (make_uuid(number) for number in (901, 902, 903))


@pytest.fixture(scope="module")
def server(api_server):
    """A server with three recorded instances in two projects."""
    image = api_server.request_json("POST", "/image/v2/images", {"name": "life.image"})["id"]
    group = api_server.request_json(
        "POST",
        "/compute/v2.1/os-server-groups",
        {"server_group": {"name": "life.members", "policies": ["affinity"]}},
    )["server_group"]["id"]
    flavor = {"flavorid": "fl1", "name": "m1.life", "vcpus": 2, "memory_mb": 512, "root_gb": 3}
    web = {"host": "life1", "node": "life1", "project_id": "admin", "user_id": "admin"}
    records = {
        WEB_SERVER: {
            **web,
            "display_name": "life-web",
            "vm_state": "active",
            "flavor": flavor,
            "image": image,
            "server_group": group,
        },
        DB_SERVER: {**web, "display_name": "life-db", "vm_state": "stopped", "host": "life2"},
        OTHER_SERVER: {
            **web,
            "display_name": "life-theirs",
            "vm_state": "active",
            "project_id": "bank",
        },
    }
    for uuid, record in records.items():
        api_server.request_json("PUT", f"/scheduler/v1/instances/{uuid}", record)
    yield api_server
    for uuid in records:
        api_server.request_json("DELETE", f"/scheduler/v1/instances/{uuid}")
    api_server.request_json("DELETE", f"/compute/v2.1/os-server-groups/{group}")
    api_server.request_json("DELETE", f"/image/v2/images/{image}")


@pytest.fixture(scope="module")
def client(server, clients_by_version):
    """The client of that server."""
    return clients_by_version()


def list_server_ids(rows):
    return {row["ID"] for row in rows} & {WEB_SERVER, DB_SERVER, OTHER_SERVER}


def test_server_list_shows_servers_of_the_project(client):
    rows = client.get_json("server", "list")
    assert list_server_ids(rows) == {WEB_SERVER, DB_SERVER}
    (row,) = (row for row in rows if row["ID"] == WEB_SERVER)
    assert (row["Name"], row["Status"], row["Networks"]) == ("life-web", "ACTIVE", {})
    assert (row["Image"], row["Flavor"]) == ("life.image", "m1.life")


def test_server_list_shows_all_projects_with_details(client):
    rows = client.get_json("server", "list", "--all-projects", "--long")
    assert list_server_ids(rows) == {WEB_SERVER, DB_SERVER, OTHER_SERVER}
    (row,) = (row for row in rows if row["ID"] == WEB_SERVER)
    details = {key: row[key] for key in ("Host", "Availability Zone", "Project ID", "Task State")}
    assert details == {
        "Host": "life1",
        "Availability Zone": "nova",
        "Project ID": "admin",
        "Task State": None,
    }


def test_server_list_is_filtered_by_server_fields(client):
    everyone = ("server", "list", "--all-projects")
    assert list_server_ids(client.get_json(*everyone, "--name", "ife-w")) == {WEB_SERVER}
    assert list_server_ids(client.get_json(*everyone, "--host", "life2")) == {DB_SERVER}
    assert list_server_ids(client.get_json(*everyone, "--status", "SHUTOFF")) == {DB_SERVER}
    assert (
        list_server_ids(client.get_json(*everyone, "--changes-since", "2100-01-01T00:00:00Z"))
        == set()
    )
    assert list_server_ids(client.get_json(*everyone, "--deleted")) == set()
    first = client.get_json(*everyone, "--name", "life-", "--limit", "1")
    rest = client.get_json(*everyone, "--name", "life-", "--marker", first[0]["ID"])
    assert list_server_ids(first) | list_server_ids(rest) == {WEB_SERVER, DB_SERVER, OTHER_SERVER}
    assert not list_server_ids(first) & list_server_ids(rest)


def test_server_is_shown_by_name_and_by_id(client):
    shown = client.get_json("server", "show", "life-web")
    by_id = client.get_json("server", "show", WEB_SERVER)
    # For a name the client searches a list, and the list has no server groups.
    assert by_id == {**shown, "server_groups": by_id["server_groups"]}
    assert len(by_id["server_groups"]) == 1
    keys = ("id", "status", "OS-EXT-SRV-ATTR:host", "OS-EXT-STS:vm_state", "project_id")
    assert [shown[key] for key in keys] == [WEB_SERVER, "ACTIVE", "life1", "active", "admin"]
    assert shown["image"].startswith("life.image (")
    assert shown["flavor"]["original_name"] == "m1.life"
    assert "No Server found" in client.get_error("server", "show", "life-nobody")


def test_client_with_an_old_microversion_lists_servers(server, clients_by_version):
    client = clients_by_version("2.1")
    (row,) = client.get_json("server", "list", "--name", "life-web")
    assert (row["ID"], row["Status"]) == (WEB_SERVER, "ACTIVE")
    assert client.get_json("server", "show", WEB_SERVER)["flavor"] == "fl1"


def test_openstacksdk_lists_and_finds_servers(server):
    with connect_sdk(server) as connection:
        compute = connection.compute
        web_server = compute.find_server("life-web", ignore_missing=False)
        assert (web_server.id, web_server.status, web_server.compute_host) == (
            WEB_SERVER,
            "ACTIVE",
            "life1",
        )
        pages = compute.servers(details=False, all_projects=True, name="life-", limit=1)
        assert {each.id for each in pages} == {WEB_SERVER, DB_SERVER, OTHER_SERVER}
        with pytest.raises(exceptions.NotFoundException):
            compute.get_server(make_uuid(999))
        with pytest.raises(exceptions.ForbiddenException):
            compute.delete_server(web_server)
