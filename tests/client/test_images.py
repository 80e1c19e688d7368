# SPDX-License-Identifier: Apache-2.0
"""Images through the unmodified ``openstack`` client."""

import pytest

pytestmark = pytest.mark.system

URL = "/image/v2/images"


@pytest.fixture
def create_image(each_server):
    """Give a function that creates an image without the client, and returns its id."""
    created = []

    def create(name, **attributes):
        created.append(each_server.request_json("POST", URL, {"name": name, **attributes})["id"])
        return created[-1]

    yield create
    remaining = {
        image["id"] for image in each_server.request_json("GET", f"{URL}?limit=1000")["images"]
    }
    for uuid in remaining.intersection(created):
        each_server.request_json("DELETE", f"{URL}/{uuid}")


def test_image_with_traits_can_be_created_changed_shown_and_deleted(client):
    image = client.json(
        *("image", "create", "windows"),
        *("--property", "trait:CUSTOM_LICENSED=required", "--property", "os_distro=windows"),
        *("--property", "a.dotted.name=1", "--disk-format", "qcow2", "--min-ram", "2048"),
        *("--tag", "licensed", "--private"),
    )
    assert (image["status"], image["visibility"], image["min_ram"]) == ("active", "private", 2048)
    assert image["tags"] == ["licensed"]
    assert image["properties"]["trait:CUSTOM_LICENSED"] == "required"
    assert image["properties"]["a.dotted.name"] == "1"
    client(
        *("image", "set", "windows", "--property", "trait:HW_CPU_X86_AVX2=required"),
        *("--property", "os_distro=win", "--property", "path/with~signs=x", "--min-disk", "40"),
        *("--tag", "2026", "--name", "windows-2026", "--public"),
    )
    shown = client.json("image", "show", "windows-2026")
    assert (shown["min_disk"], shown["visibility"]) == (40, "public")
    assert shown["tags"] == ["2026", "licensed"]
    properties = shown["properties"]
    assert properties["trait:HW_CPU_X86_AVX2"] == "required"
    assert (properties["os_distro"], properties["path/with~signs"]) == ("win", "x")
    client(
        *("image", "unset", "windows-2026", "--tag", "2026", "--property", "path/with~signs"),
        *("--property", "trait:CUSTOM_LICENSED", "--property", "os_distro"),
    )
    shown = client.json("image", "show", image["id"])
    assert shown["tags"] == ["licensed"]
    removed = {"trait:CUSTOM_LICENSED", "path/with~signs", "os_distro"}
    assert not removed & shown["properties"].keys()
    assert shown["properties"]["trait:HW_CPU_X86_AVX2"] == "required"
    client("image", "delete", "windows-2026")
    assert "No Image found" in client.rejection("image", "show", image["id"])


def test_images_are_listed_by_property_tag_name_and_visibility(client, create_image):
    trait = ("--property", "trait:CUSTOM_LISTED=required")
    first = create_image("list-a", tags=["listed"], **{"trait:CUSTOM_LISTED": "required"})
    second = create_image("list-b", tags=["listed", "other"], visibility="public")

    def list_image_ids(*arguments):
        return {row["ID"] for row in client.json("image", "list", *arguments)}

    assert {first, second} <= list_image_ids()
    assert list_image_ids(*trait) == {first}
    assert list_image_ids("--tag", "listed") == {first, second}
    assert list_image_ids("--tag", "listed", "--tag", "other") == {second}
    assert list_image_ids("--name", "list-a") == {first}
    assert list_image_ids("--public", "--tag", "listed") == {second}
    assert list_image_ids("--status", "active", "--tag", "listed") == set()
    (row,) = client.json("image", "list", "--long", "--name", "list-a")
    assert (row["Status"], row["Visibility"], row["Tags"]) == ("queued", "shared", ["listed"])
    assert list_image_ids("--limit", "1", "--sort", "name:asc", "--tag", "listed") <= {
        first,
        second,
    }
    # Images of the same second are in order of their uuids, so either may come first.
    after = [list_image_ids("--tag", "listed", "--marker", uuid) for uuid in (first, second)]
    assert after in ([{second}, set()], [set(), {first}])


def test_hidden_image_is_shown_and_listed_on_demand(client, create_image):
    uuid = create_image("hidden-one")
    client("image", "set", "--hidden", "hidden-one")
    assert client.json("image", "show", "hidden-one")["id"] == uuid
    assert uuid not in {row["ID"] for row in client.json("image", "list")}
    assert uuid in {row["ID"] for row in client.json("image", "list", "--hidden")}
    client("image", "set", "--unhidden", "hidden-one")


def test_upload_is_rejected_and_leaves_no_image(client, tmp_path):
    data = tmp_path / "disk.raw"
    data.write_bytes(b"\0" * 3_000_000)
    error = client.rejection("image", "create", "--file", str(data), "with-data")
    assert "No image data is stored here" in error
    assert "with-data" not in {row["Name"] for row in client.json("image", "list", "--all")}
