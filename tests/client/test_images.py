"""Images through the unmodified ``openstack`` client."""

import json
import subprocess

import pytest

from tests.client.conftest import BIN, environment

URL = "/image/v2/images"


@pytest.fixture
def given(server):
    """Give a function that has an image made, not by the client, and returns its id."""
    made = []

    def give(name, **attributes):
        made.append(server.ask("POST", URL, {"name": name, **attributes})["id"])
        return made[-1]

    yield give
    left = {image["id"] for image in server.ask("GET", f"{URL}?limit=1000")["images"]}
    for uuid in left.intersection(made):
        server.ask("DELETE", f"{URL}/{uuid}")


def test_image_is_created_with_traits_changed_shown_and_deleted(openstack):
    made = openstack.json(
        *("image", "create", "windows"),
        *("--property", "trait:CUSTOM_LICENSED=required", "--property", "os_distro=windows"),
        *("--property", "a.dotted.name=1", "--disk-format", "qcow2", "--min-ram", "2048"),
        *("--tag", "licensed", "--private"),
    )
    assert (made["status"], made["visibility"], made["min_ram"]) == ("queued", "private", 2048)
    assert made["tags"] == ["licensed"]
    assert made["properties"]["trait:CUSTOM_LICENSED"] == "required"
    assert made["properties"]["a.dotted.name"] == "1"
    openstack(
        *("image", "set", "windows", "--property", "trait:HW_CPU_X86_AVX2=required"),
        *("--property", "os_distro=win", "--property", "path/with~signs=x", "--min-disk", "40"),
        *("--tag", "2026", "--name", "windows-2026", "--public"),
    )
    shown = openstack.json("image", "show", "windows-2026")
    assert (shown["min_disk"], shown["visibility"]) == (40, "public")
    assert shown["tags"] == ["2026", "licensed"]
    properties = shown["properties"]
    assert properties["trait:HW_CPU_X86_AVX2"] == "required"
    assert (properties["os_distro"], properties["path/with~signs"]) == ("win", "x")
    openstack(
        *("image", "unset", "windows-2026", "--tag", "2026", "--property", "path/with~signs"),
        *("--property", "trait:CUSTOM_LICENSED", "--property", "os_distro"),
    )
    shown = openstack.json("image", "show", made["id"])
    assert shown["tags"] == ["licensed"]
    gone = {"trait:CUSTOM_LICENSED", "path/with~signs", "os_distro"}
    assert not gone & shown["properties"].keys()
    assert shown["properties"]["trait:HW_CPU_X86_AVX2"] == "required"
    openstack("image", "delete", "windows-2026")
    assert "No Image found" in openstack.refusal("image", "show", made["id"])


def test_images_are_listed_by_property_tag_name_and_visibility(openstack, given):
    trait = ("--property", "trait:CUSTOM_LISTED=required")
    first = given("list-a", tags=["listed"], **{"trait:CUSTOM_LISTED": "required"})
    second = given("list-b", tags=["listed", "other"], visibility="public")

    def found(*arguments):
        return {row["ID"] for row in openstack.json("image", "list", *arguments)}

    assert {first, second} <= found()
    assert found(*trait) == {first}
    assert found("--tag", "listed") == {first, second}
    assert found("--tag", "listed", "--tag", "other") == {second}
    assert found("--name", "list-a") == {first}
    assert found("--public", "--tag", "listed") == {second}
    assert found("--status", "active", "--tag", "listed") == set()
    (row,) = openstack.json("image", "list", "--long", "--name", "list-a")
    assert (row["Status"], row["Visibility"], row["Tags"]) == ("queued", "shared", ["listed"])
    assert found("--limit", "1", "--sort", "name:asc", "--tag", "listed") <= {first, second}
    # Both may be of one second, whose order is by uuid: one of the two comes after the other.
    after = [found("--tag", "listed", "--marker", uuid) for uuid in (first, second)]
    assert after in ([{second}, set()], [set(), {first}])


def test_more_images_than_a_page_are_listed(openstack, given):
    uuids = [given(f"page-{number}", tags=["paged"]) for number in range(30)]
    rows = openstack.json("image", "list", "--tag", "paged")
    assert sorted(row["ID"] for row in rows) == sorted(uuids)


def test_protected_image_stays(openstack, given):
    given("guarded")
    openstack("image", "set", "--protected", "guarded")
    assert "is protected" in openstack.refusal("image", "delete", "guarded")
    openstack("image", "set", "--unprotected", "guarded")
    openstack("image", "delete", "guarded")


def test_hidden_image_is_shown_and_listed_on_demand(openstack, given):
    uuid = given("hidden-one")
    openstack("image", "set", "--hidden", "hidden-one")
    assert openstack.json("image", "show", "hidden-one")["id"] == uuid
    assert uuid not in {row["ID"] for row in openstack.json("image", "list")}
    assert uuid in {row["ID"] for row in openstack.json("image", "list", "--hidden")}
    openstack("image", "set", "--unhidden", "hidden-one")


def test_data_is_refused_with_a_clear_word_and_leaves_no_image(openstack, tmp_path):
    data = tmp_path / "disk.raw"
    data.write_bytes(b"\0" * 3_000_000)
    told = openstack.refusal("image", "create", "--file", str(data), "with-data")
    assert "No image data is stored here" in told
    assert "with-data" not in {row["Name"] for row in openstack.json("image", "list", "--all")}


def test_a_pipe_without_bytes_makes_a_queued_image(openstack):
    done = subprocess.run(
        [BIN / "openstack", "image", "create", "piped", "-f", "json"],
        input="",
        capture_output=True,
        text=True,
        timeout=60,
        cwd=openstack._folder,
        env=environment(OS_CLOUD="here", HOME=str(openstack._folder)),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["status"] == "queued"
    openstack("image", "delete", made["id"])


def test_image_of_a_chosen_id_is_made_once(openstack):
    uuid = "70a599e0-31e7-49b7-b260-868f441e862b"
    create = ("image", "create", "--id", uuid, "chosen")
    assert openstack.json(*create)["id"] == uuid
    assert "already exists" in openstack.refusal(*create)
    openstack("image", "delete", uuid)


def test_deactivation_wants_an_active_image(openstack, given):
    given("still-queued")
    openstack("image", "set", "--deactivate", "still-queued")
    assert openstack.json("image", "show", "still-queued")["status"] == "queued"


def test_image_is_shared_with_a_project_and_taken_back(openstack, given):
    uuid = given("to-share")
    shared = openstack.json("image", "add", "project", "to-share", "shop")
    assert (shared["member_id"], shared["status"]) == ("shop", "pending")
    openstack("image", "set", "--accept", "--project", "shop", "to-share")
    assert openstack.json("image", "member", "list", "to-share") == [
        {"Image ID": uuid, "Member ID": "shop", "Status": "accepted"}
    ]
    openstack("image", "remove", "project", "to-share", "shop")
    assert openstack.json("image", "member", "list", "to-share") == []


def test_there_is_no_way_to_import(openstack):
    assert openstack.json("image", "import", "info") == {"import-methods": []}


def test_faults_are_told_in_one_line(openstack):
    told = openstack.refusal("image", "create", "--property", "os_glance_x=1", "reserved")
    assert "Attribute 'os_glance_x' is reserved." in told
    assert "Traceback" not in told
