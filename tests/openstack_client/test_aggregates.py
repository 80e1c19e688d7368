# SPDX-License-Identifier: Apache-2.0
"""Host aggregates through current and old microversions of the ``openstack`` client."""

import pytest

from tests.openstack_client.reporting import report_host
from tests.support.clouds import uuid_of

pytestmark = pytest.mark.system

IMAGE_UUID = "70a599e0-31e7-49b7-b260-868f441e862b"


def read_provider_aggregates(server, host):
    """Return the uuids of the provider aggregates of a host's provider."""
    path = f"/placement/resource_providers/{uuid_of(host)}/aggregates"
    return server.request_json("GET", path, version="placement 1.19")["aggregates"]


def test_aggregate_can_be_created_tagged_shown_listed_and_deleted(client):
    created = client.get_json(
        "aggregate", "create", "--zone", "z1", "--property", "ssd=true", "life"
    )
    assert (created["name"], created["availability_zone"]) == ("life", "z1")
    client(
        *("aggregate", "set", "--zone", "z2", "--property", "gpu=2"),
        *("--property", "trait:CUSTOM_LICENSED=required", "life"),
    )
    client("aggregate", "unset", "--property", "ssd", "life")
    shown = client.get_json("aggregate", "show", "life")
    tags = {"gpu": "2", "trait:CUSTOM_LICENSED": "required"}
    assert (shown["availability_zone"], shown["properties"]) == ("z2", tags)
    assert len(shown["uuid"]) == 36
    client("aggregate", "unset", "--property", "trait:CUSTOM_LICENSED", "life")
    client("aggregate", "set", "--name", "renamed", "life")
    listed = client.get_json("aggregate", "list", "--long")
    (row,) = (row for row in listed if row["Name"] == "renamed")
    assert (row["Availability Zone"], row["Properties"]) == ("z2", {"gpu": "2"})
    client("aggregate", "set", "--no-property", "--property", "one=1", "renamed")
    assert client.get_json("aggregate", "show", "renamed")["properties"] == {"one": "1"}
    assert "already exists" in client.get_error("aggregate", "create", "renamed")
    client("aggregate", "delete", "renamed")
    names = [row["Name"] for row in client.get_json("aggregate", "list")]
    assert not {"life", "renamed"} & set(names)


def test_adding_a_host_to_an_aggregate_updates_its_provider(api_server, client):
    report_host(api_server, "ag1")
    client("aggregate", "create", "follow")
    added = client.get_json("aggregate", "add", "host", "follow", "ag1")
    assert added["hosts"] == ["ag1"]
    uuid = client.get_json("aggregate", "show", "follow")["uuid"]
    assert read_provider_aggregates(api_server, "ag1") == [uuid]
    unknown = client.get_error("aggregate", "add", "host", "follow", "nope")
    assert "Compute host nope could not be found" in unknown
    assert "not empty" in client.get_error("aggregate", "delete", "follow")
    removed = client.get_json("aggregate", "remove", "host", "follow", "ag1")
    assert removed["hosts"] == []
    assert read_provider_aggregates(api_server, "ag1") == []
    client("aggregate", "delete", "follow")


def test_aggregate_cache_image_command_succeeds_for_an_aggregate_only(api_server, client):
    api_server.request_json("POST", "/image/v2/images", {"id": IMAGE_UUID, "name": "to-cache"})
    client("aggregate", "create", "caching")
    client("aggregate", "cache", "image", "caching", "to-cache")
    assert "No Aggregate found" in client.get_error(
        "aggregate", "cache", "image", "nope", IMAGE_UUID
    )
    client("aggregate", "delete", "caching")
    api_server.request_json("DELETE", f"/image/v2/images/{IMAGE_UUID}")


def test_client_with_an_old_microversion_creates_aggregates(api_server, clients_by_version):
    """Use microversion 2.79, the newest of Train."""
    client = clients_by_version("2.79")
    report_host(api_server, "ag3")
    client("aggregate", "create", "--property", "trait:CUSTOM_LICENSED=required", "train")
    client("aggregate", "add", "host", "train", "ag3")
    shown = client.get_json("aggregate", "show", "train")
    assert shown["properties"] == {"trait:CUSTOM_LICENSED": "required"}
    assert shown["hosts"] == ["ag3"]
    assert read_provider_aggregates(api_server, "ag3") == [shown["uuid"]]
    assert "2.81" in client.get_error("aggregate", "cache", "image", "train", IMAGE_UUID)
    client("aggregate", "remove", "host", "train", "ag3")
    client("aggregate", "delete", "train")
