# SPDX-License-Identifier: Apache-2.0
"""Images through the unmodified ``openstack`` client."""

import json
import subprocess

import pytest

from tests.support.servers import BIN, environment

pytestmark = pytest.mark.system

URL = "/image/v2/images"


@pytest.fixture(scope="module")
def client(each_client):
    """The client of a server on each kind of database."""
    return each_client()


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


def test_image_is_created_with_traits_changed_shown_and_deleted(client):
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

    def list_ids(*arguments):
        return {row["ID"] for row in client.json("image", "list", *arguments)}

    assert {first, second} <= list_ids()
    assert list_ids(*trait) == {first}
    assert list_ids("--tag", "listed") == {first, second}
    assert list_ids("--tag", "listed", "--tag", "other") == {second}
    assert list_ids("--name", "list-a") == {first}
    assert list_ids("--public", "--tag", "listed") == {second}
    assert list_ids("--status", "active", "--tag", "listed") == set()
    (row,) = client.json("image", "list", "--long", "--name", "list-a")
    assert (row["Status"], row["Visibility"], row["Tags"]) == ("queued", "shared", ["listed"])
    assert list_ids("--limit", "1", "--sort", "name:asc", "--tag", "listed") <= {first, second}
    # Images of the same second are in order of their uuids, so either may come first.
    after = [list_ids("--tag", "listed", "--marker", uuid) for uuid in (first, second)]
    assert after in ([{second}, set()], [set(), {first}])


def test_more_images_than_a_page_are_listed(client, create_image):
    uuids = [create_image(f"page-{number}", tags=["paged"]) for number in range(30)]
    rows = client.json("image", "list", "--tag", "paged")
    assert sorted(row["ID"] for row in rows) == sorted(uuids)


def test_protected_image_is_not_deleted(client, create_image):
    create_image("guarded")
    client("image", "set", "--protected", "guarded")
    assert "is protected" in client.rejection("image", "delete", "guarded")
    client("image", "set", "--unprotected", "guarded")
    client("image", "delete", "guarded")


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


def test_empty_pipe_creates_an_active_image(openstack):
    done = subprocess.run(
        [BIN / "openstack", "image", "create", "piped", "-f", "json"],
        input="",
        capture_output=True,
        text=True,
        timeout=240,
        cwd=openstack._folder,
        env=environment(OS_CLOUD="here", HOME=str(openstack._folder)),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    image = json.loads(done.stdout)
    assert openstack.json("image", "show", image["id"])["status"] == "active"
    openstack("image", "delete", image["id"])


def test_image_with_a_chosen_id_is_created_once(client):
    uuid = "70a599e0-31e7-49b7-b260-868f441e862b"
    create = ("image", "create", "--id", uuid, "chosen")
    assert client.json(*create)["id"] == uuid
    assert "already exists" in client.rejection(*create)
    client("image", "delete", uuid)


def test_deactivation_needs_an_active_image(client, create_image):
    create_image("still-queued")
    client("image", "set", "--deactivate", "still-queued")
    assert client.json("image", "show", "still-queued")["status"] == "queued"


def test_image_cannot_be_shared_with_a_single_project(client, create_image):
    create_image("to-share")
    error = client.rejection("image", "add", "project", "to-share", "shop")
    assert "404" in error
    assert "Traceback" not in error


def test_import_is_not_offered(client):
    assert client.json("image", "import", "info") == {"import-methods": []}


def test_errors_are_reported_in_one_line(client):
    error = client.rejection("image", "create", "--property", "os_glance_x=1", "reserved")
    assert "Attribute 'os_glance_x' is reserved." in error
    assert "Traceback" not in error
