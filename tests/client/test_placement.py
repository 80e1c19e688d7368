# SPDX-License-Identifier: Apache-2.0
"""Providers and allocation candidates through the unmodified ``openstack`` client."""

import pytest

from tests.support.clouds import uuid_of
from tests.support.versions import LATEST

pytestmark = pytest.mark.system

VERSION = ("--os-placement-api-version", LATEST)


def test_reported_hosts_are_listed_and_shown_as_providers(openstack, hosts):
    listed = openstack.json(*VERSION, "resource", "provider", "list")
    assert {row["name"]: row["uuid"] for row in listed} == hosts
    shown = openstack.json(*VERSION, "resource", "provider", "show", hosts["cn2"])
    assert (shown["name"], shown["root_provider_uuid"]) == ("cn2", hosts["cn2"])


def test_inventories_and_traits_of_a_provider_are_listed(openstack, hosts):
    provider = ("resource", "provider")
    inventories = openstack.json(*VERSION, *provider, "inventory", "list", hosts["cn2"])
    totals = {row["resource_class"]: row["total"] for row in inventories}
    assert totals == {"VCPU": 8, "MEMORY_MB": 16384, "DISK_GB": 100}
    traits = openstack.json(*VERSION, *provider, "trait", "list", hosts["cn2"])
    assert {row["name"] for row in traits} == {"CUSTOM_LICENSED", "HW_CPU_X86_AVX2"}


@pytest.fixture(scope="module")
def licensed_aggregate(server, hosts):
    """The uuid of an aggregate with cn2 and cn3 in it."""
    url = "/compute/v2.1/os-aggregates"
    created = server.request_json("POST", url, {"aggregate": {"name": "licensed"}}, "compute 2.41")
    for host in ("cn2", "cn3"):
        number = created["aggregate"]["id"]
        server.request_json("POST", f"{url}/{number}/action", {"add_host": {"host": host}})
    return created["aggregate"]["uuid"]


@pytest.mark.parametrize(
    ("constraints", "found"),
    [
        ((), ["cn1", "cn2", "cn3", "cn4"]),
        (("--required", "HW_CPU_X86_AVX2"), ["cn1", "cn2"]),
        (("--required", "HW_CPU_X86_AVX2", "--forbidden", "CUSTOM_LICENSED"), ["cn1"]),
        (("--member-of", "LICENSED", "--forbidden", "HW_CPU_X86_AVX2"), ["cn3"]),
        (("--member-of", "LICENSED", "--limit", "10"), ["cn2", "cn3"]),
    ],
)
def test_candidates_meet_every_constraint(openstack, hosts, licensed_aggregate, constraints, found):
    arguments = [licensed_aggregate if each == "LICENSED" else each for each in constraints]
    command = (*VERSION, "allocation", "candidate", "list", "--resource", "VCPU=1")
    rows = openstack.json(*command, "--resource", "MEMORY_MB=512", *arguments)
    assert {row["resource provider"] for row in rows} == {uuid_of(host) for host in found}


def test_candidates_are_limited(openstack, hosts):
    command = (*VERSION, "allocation", "candidate", "list", "--resource", "VCPU=1")
    rows = openstack.json(*command, "--limit", "2")
    assert len(rows) == 2
    assert {row["allocation"] for row in rows} == {"VCPU=1"}


def test_oversized_request_has_no_candidates(openstack, hosts):
    command = (*VERSION, "allocation", "candidate", "list", "--resource", "VCPU=9")
    assert openstack.json(*command) == []
