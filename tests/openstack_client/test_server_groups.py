# SPDX-License-Identifier: Apache-2.0
"""Server groups through the unmodified ``openstack`` client."""

import pytest

from tests.support.scheduling import make_uuid

pytestmark = pytest.mark.system


def test_server_group_can_be_created_listed_shown_and_deleted(client, api_server):
    group = client.get_json(
        *("server", "group", "create", "--policy", "anti-affinity"),
        *("--rule", "max_server_per_host=2", "life.apart"),
    )
    assert (group["name"], group["policy"]) == ("life.apart", "anti-affinity")
    assert group["rules"] == {"max_server_per_host": 2}
    api_server.request_json(
        "PUT", f"/scheduler/v1/instances/{make_uuid(71)}", {"server_group": group["id"]}
    )
    shown = client.get_json("server", "group", "show", "life.apart")
    assert shown == {**group, "members": [make_uuid(71)]}
    assert client.get_json("server", "group", "show", group["id"]) == shown
    (row,) = (
        row
        for row in client.get_json("server", "group", "list", "--long")
        if row["ID"] == group["id"]
    )
    assert row == {
        "ID": group["id"],
        "Name": "life.apart",
        "Policy": "anti-affinity",
        "Members": [make_uuid(71)],
        "Project Id": "admin",
        "User Id": "admin",
    }
    assert group["id"] in {
        row["ID"] for row in client.get_json("server", "group", "list", "--all-projects")
    }
    client("server", "group", "delete", "life.apart")
    assert "No ServerGroup found" in client.get_error("server", "group", "show", group["id"])
    api_server.request_json("DELETE", f"/scheduler/v1/instances/{make_uuid(71)}")


def test_soft_affinity_groups_are_listed_over_pages(client):
    for policy in ("soft-affinity", "soft-anti-affinity"):
        client("server", "group", "create", "--policy", policy, f"life.{policy}")
    listed = client.get_json("server", "group", "list")
    # The client requests pages of this length without an offset.
    assert client.get_json("server", "group", "list", "--limit", "1") == listed
    only = client.get_json("server", "group", "list", "--limit", "1", "--max-items", "1")
    assert only == listed[:1]
    client("server", "group", "delete", "life.soft-affinity", "life.soft-anti-affinity")


def test_client_with_an_old_microversion_shows_policies_of_a_group(clients_by_version):
    client = clients_by_version("2.15")
    group = client.get_json("server", "group", "create", "--policy", "soft-affinity", "life.old")
    assert group["policies"] == ["soft-affinity"]
    client("server", "group", "delete", "life.old")
