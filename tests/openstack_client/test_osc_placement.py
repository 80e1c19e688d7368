# SPDX-License-Identifier: Apache-2.0
"""Every command of osc-placement against a running server."""

import json
import re
from importlib.metadata import entry_points
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.versions import LATEST

pytestmark = pytest.mark.system

PROJECT_ID, USER_ID = "6f70656e737461636b", "a2d4c6e8f0b1a3c5"


class PlacementCommands:
    """The commands with a microversion of placement."""

    def __init__(self, placement_clients, version=LATEST):
        self._placement_clients = placement_clients
        self._commands = placement_clients(version)

    def with_version(self, version):
        return PlacementCommands(self._placement_clients, version)

    def run(self, words, *arguments):
        """Run a command that must succeed without output."""
        done = self._commands.run(*words.split(), *arguments)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == ""

    def get_json(self, words, *arguments):
        """Run a command, and return its output as JSON."""
        done = self._commands.run(*words.split(), *arguments, "-f", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def get_error(self, words, *arguments):
        """Run a command that must fail, and return its standard error."""
        done = self._commands.run(*words.split(), *arguments)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def create_provider(self, name, **totals):
        """Create a provider with these totals by resource class, and return its uuid."""
        uuid = self.get_json("resource provider create", name)["uuid"]
        if totals:
            resources = [f"--resource={key}={total}" for key, total in totals.items()]
            self.get_json("resource provider inventory set", uuid, *resources)
        return uuid


@pytest.fixture
def placement(placement_clients):
    return PlacementCommands(placement_clients)


def test_every_osc_placement_command_is_tested_in_this_file():
    text = Path(__file__).read_text()
    commands = {
        each.name.replace("_", " ") for each in entry_points(group="openstack.placement.v1")
    }
    assert len(commands) == 31
    tested = set(re.findall(r"""(?:run|get_json|get_error)\(\s*"([a-z ]+)\"""", text))
    assert commands - tested == set()


def test_providers_can_be_created_shown_listed_changed_and_deleted(placement, unique_name):
    parent = placement.get_json("resource provider create", unique_name)
    assert (parent["name"], parent["generation"]) == (unique_name, 0)
    uuid = str(uuid4())
    created = placement.get_json(
        "resource provider create",
        f"{unique_name}c",
        "--uuid",
        uuid,
        "--parent-provider",
        parent["uuid"],
    )
    assert created["uuid"] == uuid
    assert created["parent_provider_uuid"] == created["root_provider_uuid"] == parent["uuid"]
    shown = placement.get_json("resource provider show", uuid, "--allocations")
    assert (shown["name"], shown["allocations"]) == (f"{unique_name}c", {})
    changed = placement.get_json("resource provider set", uuid, "--name", f"{unique_name}d")
    assert changed["name"] == f"{unique_name}d"
    moved = placement.get_json(
        "resource provider create", f"{unique_name}e", "--uuid", str(uuid4())
    )
    reparented = placement.get_json(
        "resource provider set",
        uuid,
        "--name",
        f"{unique_name}d",
        "--parent-provider",
        moved["uuid"],
    )
    assert reparented["root_provider_uuid"] == moved["uuid"]
    in_tree = placement.get_json("resource provider list", "--in-tree", uuid)
    assert {row["uuid"] for row in in_tree} == {uuid, moved["uuid"]}
    (found,) = placement.get_json("resource provider list", "--name", f"{unique_name}d")
    assert found["uuid"] == uuid
    assert "child" in placement.get_error("resource provider delete", moved["uuid"])
    for provider in (uuid, moved["uuid"], parent["uuid"]):
        placement.run("resource provider delete", provider)
    assert "No resource provider" in placement.get_error("resource provider show", uuid)


def test_inventories_can_be_set_listed_shown_and_deleted(placement, unique_name):
    uuid = placement.create_provider(unique_name)
    arguments = ("--resource", "VCPU=8", "--resource", "VCPU:allocation_ratio=4.0")
    (row,) = placement.get_json("resource provider inventory set", uuid, *arguments)
    assert (row["resource_class"], row["total"], row["allocation_ratio"]) == ("VCPU", 8, 4.0)
    more = placement.get_json(
        "resource provider inventory set", uuid, "--resource", "MEMORY_MB=1024", "--amend"
    )
    assert {row["resource_class"] for row in more} == {"VCPU", "MEMORY_MB"}
    dry = placement.get_json(
        "resource provider inventory set", uuid, "--resource", "DISK_GB=10", "--dry-run"
    )
    assert [row["resource_class"] for row in dry] == ["DISK_GB"]
    changed = placement.get_json(
        "resource provider inventory class set",
        *(uuid, "VCPU", "--total", "16", "--reserved", "2", "--max_unit", "8", "--step_size", "2"),
    )
    assert (changed["total"], changed["reserved"], changed["max_unit"]) == (16, 2, 8)
    shown = placement.get_json("resource provider inventory show", uuid, "VCPU")
    assert (shown["total"], shown["step_size"], shown["used"]) == (16, 2, 0)
    listed = placement.get_json("resource provider inventory list", uuid)
    assert {row["resource_class"]: row["total"] for row in listed} == {
        "VCPU": 16,
        "MEMORY_MB": 1024,
    }
    placement.run("resource provider inventory delete", uuid, "--resource-class", "VCPU")
    placement.run("resource provider inventory delete", uuid)
    assert placement.get_json("resource provider inventory list", uuid) == []
    assert "No inventory" in placement.get_error("resource provider inventory show", uuid, "VCPU")


def test_aggregates_of_a_provider_can_be_set_and_listed(placement, unique_name):
    uuid, groups = placement.create_provider(unique_name), sorted(str(uuid4()) for _ in range(2))
    arguments = [f"--aggregate={group}" for group in groups]
    rows = placement.get_json(
        "resource provider aggregate set", uuid, *arguments, "--generation", "0"
    )
    assert sorted(row["uuid"] for row in rows) == groups
    listed = placement.get_json("resource provider aggregate list", uuid)
    assert sorted(row["uuid"] for row in listed) == groups
    (found,) = placement.get_json("resource provider list", "--member-of", groups[0])
    assert found["uuid"] == uuid
    stale = ("--aggregate", groups[0], "--generation", "0")
    assert "409" in placement.get_error("resource provider aggregate set", uuid, *stale)
    older = placement.with_version("1.1")
    assert older.get_json("resource provider aggregate set", uuid, f"--aggregate={groups[0]}") == [
        {"uuid": groups[0]}
    ]


def test_traits_can_be_created_shown_listed_and_deleted(placement, unique_name):
    trait = f"CUSTOM_{unique_name.upper()}"
    placement.run("trait create", trait)
    assert placement.get_json("trait show", trait) == {"name": trait}
    listed = placement.get_json("trait list", "--name", f"in:{trait},HW_CPU_X86_AVX2")
    assert {row["name"] for row in listed} == {trait, "HW_CPU_X86_AVX2"}
    associated = placement.get_json("trait list", "--associated", "--name", f"in:{trait}")
    assert associated == []
    placement.run("trait delete", trait)
    assert "No such trait" in placement.get_error("trait show", trait)


def test_traits_of_a_provider_can_be_set_listed_and_deleted(placement, unique_name):
    uuid, trait = placement.create_provider(unique_name, VCPU=1), f"CUSTOM_{unique_name.upper()}"
    placement.run("trait create", trait)
    rows = placement.get_json("resource provider trait set", uuid, "--trait", trait)
    assert rows == [{"name": trait}]
    assert placement.get_json("resource provider trait list", uuid) == [{"name": trait}]
    assert [
        row["uuid"] for row in placement.get_json("resource provider list", "--required", trait)
    ] == [uuid]
    others = placement.get_json(
        "resource provider list", "--forbidden", trait, "--name", unique_name
    )
    assert others == []
    assert "in use" in placement.get_error("trait delete", trait)
    placement.run("resource provider trait delete", uuid)
    assert placement.get_json("resource provider trait list", uuid) == []


def test_resource_classes_can_be_created_ensured_shown_listed_and_deleted(placement, unique_name):
    kind = f"CUSTOM_{unique_name.upper()}"
    placement.run("resource class create", kind)
    assert "already exists" in placement.get_error("resource class create", kind)
    placement.run("resource class set", kind)
    placement.run("resource class set", f"{kind}_MORE")
    assert placement.get_json("resource class show", kind) == {"name": kind}
    listed = {row["name"] for row in placement.get_json("resource class list")}
    assert {"VCPU", kind, f"{kind}_MORE"} <= listed
    placement.run("resource class delete", kind)
    assert "No such resource class" in placement.get_error("resource class show", kind)
    assert "standard" in placement.get_error("resource class delete", "VCPU")


OWNER_OPTIONS = ("--project-id", PROJECT_ID, "--user-id", USER_ID)


def test_allocations_can_be_set_shown_unset_and_deleted(placement, unique_name):
    host = placement.create_provider(unique_name, VCPU=8, MEMORY_MB=1024)
    disk = placement.create_provider(f"{unique_name}d", DISK_GB=100)
    consumer = str(uuid4())
    rows = placement.get_json(
        "resource provider allocation set",
        *(consumer, "--allocation", f"rp={host},VCPU=2,MEMORY_MB=256"),
        *("--allocation", f"rp={disk},DISK_GB=10", *OWNER_OPTIONS, "--consumer-type", "INSTANCE"),
    )
    allocations = {row["resource_provider"]: row["resources"] for row in rows}
    assert allocations == {host: {"VCPU": 2, "MEMORY_MB": 256}, disk: {"DISK_GB": 10}}
    assert {row["consumer_type"] for row in rows} == {"INSTANCE"}
    shown = placement.get_json("resource provider allocation show", consumer)
    assert {row["resource_provider"]: row["resources"] for row in shown} == allocations
    assert {(row["project_id"], row["user_id"]) for row in shown} == {(PROJECT_ID, USER_ID)}
    older = placement.with_version("1.12")
    assert older.get_json("resource usage show", PROJECT_ID, "--user-id", USER_ID)
    usages = placement.get_json("resource provider usage show", host)
    assert {row["resource_class"]: row["usage"] for row in usages} == {"VCPU": 2, "MEMORY_MB": 256}
    shown = placement.get_json("resource provider show", host, "--allocations")
    assert shown["allocations"][consumer]["resources"] == allocations[host]
    unset = ("--provider", host, "--resource-class", "MEMORY_MB")
    remaining = placement.get_json("resource provider allocation unset", consumer, *unset)
    assert {row["resource_provider"]: row["resources"] for row in remaining} == {
        host: {"VCPU": 2},
        disk: {"DISK_GB": 10},
    }
    assert "Unable to allocate" in placement.get_error(
        "resource provider allocation set",
        *(
            consumer,
            "--allocation",
            f"rp={host},VCPU=9",
            *OWNER_OPTIONS,
            "--consumer-type",
            "INSTANCE",
        ),
    )
    placement.run("resource provider allocation delete", consumer)
    assert placement.get_json("resource provider allocation show", consumer) == []
    assert "No allocations" in placement.get_error("resource provider allocation delete", consumer)


@pytest.mark.parametrize("version", ["1.0", "1.8", "1.12", "1.28"])
def test_allocations_can_be_set_in_every_body_format(placement, unique_name, version):
    host, consumer = placement.create_provider(unique_name, VCPU=8), str(uuid4())
    owner = () if version == "1.0" else OWNER_OPTIONS
    arguments = ("--allocation", f"rp={host},VCPU=2", *owner)
    older = placement.with_version(version)
    older.get_json("resource provider allocation set", consumer, *arguments)
    (row,) = older.get_json("resource provider allocation show", consumer)
    assert (row["resource_provider"], row["resources"]) == (host, {"VCPU": 2})


@pytest.fixture
def provider_tree(placement, unique_name):
    """A host with two devices below it, and a disk that it shares with others."""
    host = placement.create_provider(unique_name, VCPU=8, MEMORY_MB=1024)
    group, devices = str(uuid4()), []
    kind = f"CUSTOM_{unique_name.upper()}"
    placement.run("resource class set", kind)
    for number in range(2):
        device = placement.get_json(
            "resource provider create", f"{unique_name}_{number}", "--parent-provider", host
        )["uuid"]
        placement.get_json("resource provider inventory set", device, f"--resource={kind}=1")
        devices.append(device)
    disk = placement.create_provider(f"{unique_name}_disk", DISK_GB=100)
    placement.get_json("resource provider trait set", disk, "--trait", "MISC_SHARES_VIA_AGGREGATE")
    for each in (host, disk):
        generation = str(placement.get_json("resource provider show", each)["generation"])
        arguments = ("--aggregate", group, "--generation", generation)
        placement.get_json("resource provider aggregate set", each, *arguments)
    return {"host": host, "devices": devices, "disk": disk, "kind": kind, "group": group}


def group_allocations_by_candidate(rows):
    """Return the allocations of each candidate by provider."""
    candidates = {}
    for row in rows:
        candidates.setdefault(row["#"], {})[row["resource provider"]] = row["allocation"]
    return list(candidates.values())


def test_allocation_candidates_combine_a_provider_tree_with_shared_disk(placement, provider_tree):
    rows = placement.get_json(
        "allocation candidate list",
        *(
            "--resource",
            "VCPU=1",
            "--resource",
            "DISK_GB=10",
            "--member-of",
            provider_tree["group"],
        ),
    )
    assert group_allocations_by_candidate(rows) == [
        {provider_tree["host"]: "VCPU=1", provider_tree["disk"]: "DISK_GB=10"}
    ]
    assert {row["resource provider"]: row["inventory used/capacity"] for row in rows} == {
        provider_tree["host"]: "VCPU=0/8,MEMORY_MB=0/1024",
        provider_tree["disk"]: "DISK_GB=0/100",
    }


def test_granular_groups_with_policy_isolate_use_separate_providers(placement, provider_tree):
    groups = ("--group", "1", "--resource", f"{provider_tree['kind']}=1", "--group", "2")
    arguments = (*groups, "--resource", f"{provider_tree['kind']}=1", "--group-policy", "isolate")
    found = group_allocations_by_candidate(
        placement.get_json("allocation candidate list", *arguments)
    )
    both = dict.fromkeys(provider_tree["devices"], f"{provider_tree['kind']}=1")
    assert found == [both, both]
    two = ("--group", "1", "--resource", f"{provider_tree['kind']}=2", "--group-policy", "none")
    assert placement.get_json("allocation candidate list", *two) == []
