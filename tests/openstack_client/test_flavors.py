# SPDX-License-Identifier: Apache-2.0
"""Flavors through the unmodified ``openstack`` client."""

import pytest

pytestmark = pytest.mark.system


def test_flavor_can_be_created_tagged_shown_listed_and_deleted(client):
    flavor = client.get_json(
        *("flavor", "create", "--id", "lf1", "--ram", "2048", "--vcpus", "2", "--disk", "20"),
        *("--ephemeral", "5", "--swap", "512", "--rxtx-factor", "1.5"),
        *("--property", "trait:CUSTOM_LICENSED=required", "--description", "Made.", "life.small"),
    )
    assert (flavor["id"], flavor["name"]) == ("lf1", "life.small")
    assert (flavor["ram"], flavor["vcpus"]) == (2048, 2)
    assert (flavor["OS-FLV-EXT-DATA:ephemeral"], flavor["swap"]) == (5, 512)
    assert flavor["properties"] == {"trait:CUSTOM_LICENSED": "required"}
    client("flavor", "set", "--property", "hw:cpu_policy=shared", "life.small")
    client("flavor", "set", "--description", "Changed.", "lf1")
    client("flavor", "unset", "--property", "trait:CUSTOM_LICENSED", "life.small")
    shown = client.get_json("flavor", "show", "life.small")
    assert shown["properties"] == {"hw:cpu_policy": "shared"}
    assert (shown["description"], shown["os-flavor-access:is_public"]) == ("Changed.", True)
    (row,) = (row for row in client.get_json("flavor", "list", "--long") if row["ID"] == "lf1")
    assert (row["Name"], row["RAM"], row["Ephemeral"]) == ("life.small", 2048, 5)
    assert row["Properties"] == {"hw:cpu_policy": "shared"}
    taken = client.get_error("flavor", "create", "--id", "lf1", "--ram", "1", "other")
    assert "already exists" in taken
    client("flavor", "delete", "life.small")
    assert "lf1" not in {row["ID"] for row in client.get_json("flavor", "list")}
    assert "No Flavor found" in client.get_error("flavor", "show", "life.small")


def test_private_flavor_is_listed_for_its_projects_and_admins(client):
    client("flavor", "create", "--id", "pf1", "--ram", "64", "--private", "life.private")
    assert "pf1" not in {row["ID"] for row in client.get_json("flavor", "list")}
    for kind in ("--all", "--private"):
        assert "pf1" in {row["ID"] for row in client.get_json("flavor", "list", kind)}
    client("flavor", "set", "--project", "shop", "life.private")
    assert client.get_json("flavor", "show", "life.private")["access_project_ids"] == ["shop"]
    client("flavor", "unset", "--project", "shop", "life.private")
    assert client.get_json("flavor", "show", "pf1")["access_project_ids"] == []
    client("flavor", "delete", "pf1")


def test_flavor_can_be_created_for_a_project(client):
    arguments = ("--id", "pf2", "--ram", "64", "--private", "--project", "bank", "life.bank")
    client("flavor", "create", *arguments)
    assert client.get_json("flavor", "show", "pf2")["access_project_ids"] == ["bank"]
    client("flavor", "delete", "pf2")


def test_flavors_are_listed_over_pages(client):
    for number in range(3):
        client("flavor", "create", "--id", f"page{number}", "--ram", "1", f"page.{number}")
    listed = client.get_json("flavor", "list", "--limit", "1", "--marker", "page0")
    assert [row["ID"] for row in listed][:1] == ["page1"]
    smallest = client.get_json("flavor", "list", "--min-ram", "2")
    assert not [row for row in smallest if row["ID"].startswith("page")]
    client("flavor", "delete", "page0", "page1", "page2")


def test_client_with_an_old_microversion_creates_flavors(clients_by_version):
    """Use microversion 2.72, the newest of Stein."""
    client = clients_by_version("2.72")
    trait = {"trait:CUSTOM_LICENSED": "required"}
    arguments = ("--ram", "64", "--property", "trait:CUSTOM_LICENSED=required", "life.stein")
    client("flavor", "create", "--id", "stein1", *arguments)
    shown = client.get_json("flavor", "show", "life.stein")
    assert (shown["properties"], shown["swap"]) == (trait, 0)
    client("flavor", "unset", "--property", "trait:CUSTOM_LICENSED", "life.stein")
    client("flavor", "set", "--property", "acme:x=1", "stein1")
    (row,) = (row for row in client.get_json("flavor", "list", "--long") if row["ID"] == "stein1")
    assert row["Properties"] == {"acme:x": "1"}
    client("flavor", "delete", "stein1")
