# SPDX-License-Identifier: Apache-2.0
"""``placement sync_aggregates`` and ``sync_traits``: output and exit status."""

import json
from functools import partial

import pytest

from tests.support.clouds import uuid_of
from tests.support.host_maps import (
    LICENSED_TRAIT,
    add_aggregate,
    read_members,
    read_providers_with_trait,
    set_metadata,
)
from tests.support.hosts import add_node

pytestmark = pytest.mark.slow

REQUIRED_TRAIT_METADATA = {f"trait:{LICENSED_TRAIT}": "required"}


@pytest.fixture
def cloud(sqlite_database):
    return sqlite_database


@pytest.fixture
def run_cli(run_cli):
    return partial(run_cli, "placement")


def test_sync_aggregates_prints_added_memberships(cloud, run_cli):
    hosts = [f"cn{number}" for number in range(7)]
    for host in hosts:
        add_node(cloud, host)
    add_aggregate(cloud, "fast", hosts)
    status, printed, error = run_cli("sync_aggregates")
    assert (status, error) == (0, "")
    assert printed.splitlines() == [
        "fast: 7 added (cn0, cn1, cn2, cn3, cn4 and 2 more)",
        "1 host aggregate, no differences in placement",
    ]
    assert len(read_members(cloud, "fast")) == 7


@pytest.mark.parametrize("command", ["sync_aggregates", "sync_traits"])
def test_placement_sync_on_the_own_database_needs_no_token(run_cli, monkeypatch, command):
    monkeypatch.setenv("OS_TOKEN", "")
    status, _, error = run_cli(command)
    assert (status, error) == (0, "")


def test_verbose_sync_aggregates_prints_each_change(cloud, run_cli):
    node = add_node(cloud, "cn1")
    add_aggregate(cloud, "fast", ["cn1"])
    _, printed, _ = run_cli("sync_aggregates", "--verbose")
    assert printed.splitlines()[0] == f"cn1 (provider {node}) added to fast"


def test_sync_aggregates_prints_and_removes_stale_memberships(cloud, run_cli):
    add_node(cloud, "cn1")
    add_aggregate(cloud, "fast", ["cn1"])
    run_cli("sync_aggregates")
    add_aggregate(cloud, "other")
    set_metadata(cloud, "fast", {})
    cloud.write(delete_all_aggregate_hosts)
    status, printed, _ = run_cli("sync_aggregates")
    assert status == 0
    assert printed.splitlines() == [
        "fast: 1 stale (cn1)",
        "1 stale memberships remain. --remove-stale removes them",
    ]
    status, printed, _ = run_cli("sync_aggregates", "--remove-stale")
    assert printed.splitlines()[0] == "fast: 1 removed (cn1)"
    assert read_members(cloud, "fast") == set()


def delete_all_aggregate_hosts(connection):
    connection.exec_driver_sql("DELETE FROM sched_aggregate_hosts")


def test_sync_aggregates_prints_json(cloud, run_cli):
    node = add_node(cloud, "cn1")
    add_aggregate(cloud, "fast", ["cn1", "ghost"])
    status, printed, error = run_cli("sync_aggregates", "--format", "json", "--verbose")
    detail = "host ghost has no service and no compute node"
    assert status == 4
    assert json.loads(printed) == {
        "code": 4,
        "aggregates": [
            {
                "uuid": uuid_of("fast"),
                "name": "fast",
                "added": [{"host": "cn1", "provider": node}],
                "removed": [],
                "stale": [],
            }
        ],
        "problems": [{"code": 4, "about": "ghost", "detail": detail}],
    }
    assert error.splitlines() == [
        f"cn1 (provider {node}) added to fast",
        f"placement-sched: {detail}",
    ]


def test_sync_traits_prints_planned_and_applied_changes(cloud, run_cli):
    node = add_node(cloud, "win1")
    add_aggregate(cloud, "windows", ["win1"], REQUIRED_TRAIT_METADATA)
    assert run_cli("sync_traits", "--dry-run") == (
        0,
        (
            f"{LICENSED_TRAIT}: would be created\n"
            f"{LICENSED_TRAIT}: would be added to 1 provider (win1)\n"
        ),
        "",
    )
    assert read_providers_with_trait(cloud) == set()
    done = f"{LICENSED_TRAIT}: created\n{LICENSED_TRAIT}: added to 1 provider (win1)\n"
    assert run_cli("sync_traits") == (0, done, "")
    assert read_providers_with_trait(cloud) == {node}
    assert run_cli("sync_traits")[1] == "all providers have the traits that aggregates require\n"
    set_metadata(cloud, "windows", {f"trait:{LICENSED_TRAIT}": None})
    _, printed, _ = run_cli("sync_traits", "--verbose")
    assert printed.splitlines() == [
        f"trait {LICENSED_TRAIT} removed from win1 (provider {node})",
        f"{LICENSED_TRAIT}: removed from 1 provider (win1)",
    ]


def test_sync_traits_prints_json(cloud, run_cli):
    node = add_node(cloud, "win1")
    add_aggregate(
        cloud, "windows", ["win1"], {**REQUIRED_TRAIT_METADATA, "trait:HW_NIX": "required"}
    )
    status, printed, _ = run_cli("sync_traits", "--format", "json", "--aggregate", "windows")
    document = json.loads(printed)
    assert status == document["code"] == 7
    assert document["created"] == [LICENSED_TRAIT]
    assert document["put"] == [{"trait": LICENSED_TRAIT, "host": "win1", "provider": node}]
    assert (document["taken_off"], document["dry_run"], document["remembers"]) == ([], False, True)
    assert [problem["about"] for problem in document["problems"]] == ["HW_NIX"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--aggregate", "nix"), "There is no host aggregate named 'nix'"),
        (("--state", "file"), "--state is only valid with a remote placement"),
        (("--url", "http://a", "--token", "ü€"), "characters that are not allowed in a header"),
        (("--url", "http://a", "--token", "a\nb"), "that are not allowed in a header"),
        (("--os-cloud", "nix"), "--os-cloud nix: Cloud nix was not found"),
    ],
)
def test_failed_sync_traits_prints_one_line_and_exits_with_255(run_cli, arguments, words):
    status, printed, error = run_cli("sync_traits", *arguments)
    assert (status, printed) == (255, "")
    (line,) = error.splitlines()
    assert words in line


@pytest.mark.parametrize(
    "arguments",
    [
        ("--url", "controller"),
        ("--url", "http://[bad"),
        ("--url", "http://a..b"),
        ("--url", "http:///placement"),
        ("--compute-url", "http://a:99999"),
        ("--compute-url", "x:y"),
    ],
)
def test_wrong_url_of_sync_traits_is_a_wrong_argument(run_cli, arguments):
    status, printed, error = run_cli("sync_traits", *arguments)
    assert (status, printed) == (2, "")
    (line,) = error.splitlines()
    assert f"{' '.join(arguments)}: expected an http:// or https://" in line
