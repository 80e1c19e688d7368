# SPDX-License-Identifier: Apache-2.0
"""Images through the unmodified ``openstack`` client."""

import pytest

pytestmark = pytest.mark.system

IMAGES_PATH = "/image/v2/images"


@pytest.fixture
def create_image(api_server):
    """Give a function that creates an image without the client, and returns its id."""
    created = []

    def create_image_by_api(name, **attributes):
        created.append(
            api_server.request_json("POST", IMAGES_PATH, {"name": name, **attributes})["id"]
        )
        return created[-1]

    yield create_image_by_api
    remaining = {
        image["id"]
        for image in api_server.request_json("GET", f"{IMAGES_PATH}?limit=1000")["images"]
    }
    for uuid in remaining.intersection(created):
        api_server.request_json("DELETE", f"{IMAGES_PATH}/{uuid}")


def test_image_with_traits_can_be_created_changed_shown_and_deleted(client):
    image = client.get_json(
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
    shown = client.get_json("image", "show", "windows-2026")
    assert (shown["min_disk"], shown["visibility"]) == (40, "public")
    assert shown["tags"] == ["2026", "licensed"]
    properties = shown["properties"]
    assert properties["trait:HW_CPU_X86_AVX2"] == "required"
    assert (properties["os_distro"], properties["path/with~signs"]) == ("win", "x")
    client(
        *("image", "unset", "windows-2026", "--tag", "2026", "--property", "path/with~signs"),
        *("--property", "trait:CUSTOM_LICENSED", "--property", "os_distro"),
    )
    shown = client.get_json("image", "show", image["id"])
    assert shown["tags"] == ["licensed"]
    removed = {"trait:CUSTOM_LICENSED", "path/with~signs", "os_distro"}
    assert not removed & shown["properties"].keys()
    assert shown["properties"]["trait:HW_CPU_X86_AVX2"] == "required"
    client("image", "delete", "windows-2026")
    assert "No Image found" in client.get_error("image", "show", image["id"])


def test_images_are_listed_by_property_tag_name_and_visibility(client, create_image):
    trait = ("--property", "trait:CUSTOM_LISTED=required")
    image_a = create_image("list-a", tags=["listed"], **{"trait:CUSTOM_LISTED": "required"})
    image_b = create_image("list-b", tags=["listed", "other"], visibility="public")

    def list_image_ids(*arguments):
        return {row["ID"] for row in client.get_json("image", "list", *arguments)}

    assert {image_a, image_b} <= list_image_ids()
    assert list_image_ids(*trait) == {image_a}
    assert list_image_ids("--tag", "listed") == {image_a, image_b}
    assert list_image_ids("--tag", "listed", "--tag", "other") == {image_b}
    assert list_image_ids("--name", "list-a") == {image_a}
    assert list_image_ids("--public", "--tag", "listed") == {image_b}
    assert list_image_ids("--status", "active", "--tag", "listed") == set()
    (row,) = client.get_json("image", "list", "--long", "--name", "list-a")
    assert (row["Status"], row["Visibility"], row["Tags"]) == ("queued", "shared", ["listed"])
    assert list_image_ids("--limit", "1", "--sort", "name:asc", "--tag", "listed") <= {
        image_a,
        image_b,
    }
    # Images of the same second are in order of their uuids, so either may come first.
    after = [list_image_ids("--tag", "listed", "--marker", uuid) for uuid in (image_a, image_b)]
    assert after in ([{image_b}, set()], [set(), {image_a}])


def test_hidden_image_is_listed_only_with_the_hidden_option(client, create_image):
    uuid = create_image("hidden-one")
    client("image", "set", "--hidden", "hidden-one")
    assert client.get_json("image", "show", "hidden-one")["id"] == uuid
    assert uuid not in {row["ID"] for row in client.get_json("image", "list")}
    assert uuid in {row["ID"] for row in client.get_json("image", "list", "--hidden")}
    client("image", "set", "--unhidden", "hidden-one")


def test_image_with_an_uploaded_file_is_rejected(client, tmp_path):
    data = tmp_path / "disk.raw"
    data.write_bytes(b"\0" * 3_000_000)
    error = client.get_error("image", "create", "--file", str(data), "with-data")
    assert "No image data is stored here" in error
    assert "with-data" not in {row["Name"] for row in client.get_json("image", "list", "--all")}
