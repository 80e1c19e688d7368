# SPDX-License-Identifier: Apache-2.0
"""``host list`` and ``host show``."""

import json
from functools import partial

import pytest

from tests.cli.conftest import copy_filled_database
from tests.conftest import delete_test_rows
from tests.support.clouds import uuid_of
from tests.support.host_maps import add_aggregate
from tests.support.loopback import serve_application
from tests.support.scheduling import make_flavor, make_report, make_uuid
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sqlite_template(sqlite_template, tmp_path_factory):
    """Two hosts: cn1 has an instance, and cn2 is disabled."""
    return copy_filled_database(sqlite_template, tmp_path_factory.mktemp("cloud"), add_hosts)


def add_hosts(app):
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    disabling = {"host": "cn2", "binary": "nova-compute", "disabled_reason": "new disks"}
    app.put_json("/compute/v2.1/os-services/disable-log-reason", disabling)
    body = {"host": "cn1", "node": "cn1", "flavor": make_flavor(), "display_name": "web"}
    app.put_json(f"/scheduler/v1/instances/{make_uuid(1)}", body)


@pytest.fixture
def cloud(sqlite_app):
    return sqlite_app


@pytest.fixture
def run_cli(run_cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    return partial(run_cli, "host")


def test_host_list_has_a_line_for_each_host(run_cli):
    status, printed, _ = run_cli("list")
    assert status == 0
    _, _, first, second = printed.splitlines()
    assert first.split() == ["cn1", "nova", "up", "1", "64", "64", "GiB", "1000", "GiB"]
    assert "disabled (new disks)" in second


def test_host_list_has_a_policy_column_if_a_host_has_a_policy(run_cli, sqlite_database):
    add_aggregate(sqlite_database, "rack1", ["cn1"], {"sched_policy": "pack"})
    _, printed, _ = run_cli("list")
    heading, _, first, second = printed.splitlines()
    assert heading.split()[:4] == ["Host", "Zone", "State", "Policy"]
    assert first.split()[3] == "pack"
    assert "default" in second


@pytest.mark.parametrize(
    ("filters", "hosts"),
    [
        (["--state", "disabled"], ["cn2"]),
        (["--state", "disabled", "--state", "up"], ["cn1", "cn2"]),
        (["--search", "N1"], ["cn1"]),
        (["--host", "cn2"], ["cn2"]),
        (["--zone", "az9"], []),
        (["--trait", "COMPUTE_STATUS_DISABLED"], ["cn2"]),
        (["--aggregate", "rack1"], []),
    ],
    ids=" ".join,
)
def test_host_list_applies_filters(run_cli, filters, hosts):
    _, printed, _ = run_cli("list", "--format", "json", *filters)
    assert [host["host"] for host in json.loads(printed)["hosts"]] == hosts


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (["--host", "cn12"], "no host matches --host 'cn12'. Did you mean 'cn1'?"),
        (["--search", "rack"], "no host matches --search 'rack'. There are: cn1, cn2"),
        (["--zone", "az9"], "no host matches --zone 'az9'. There are: nova"),
        (["--aggregate", "rak1"], "no host matches --aggregate 'rak1'. Did you mean 'rack1'?"),
        (["--state", "down"], "no host matches: 2 hosts exist"),
        (["--host", "cn1", "--state", "disabled"], "no host matches: 2 hosts exist"),
    ],
)
def test_host_list_without_a_match_prints_existing_or_similar_names(
    run_cli, sqlite_database, filters, message
):
    add_aggregate(sqlite_database, "rack1", ["cn1"], {})
    assert run_cli("list", *filters) == (0, f"{message}\n", "")


def test_host_list_of_an_empty_database_prints_a_message(run_cli, sqlite_url):
    delete_test_rows(sqlite_url)
    assert run_cli("list", "--zone", "az1") == (
        0,
        "no host is recorded yet: placement-sched nova adopt records the hosts of a nova\n",
        "",
    )
    status, _, error = run_cli("show", "cn1")
    assert status == 1
    assert "there is no host 'cn1': no host is recorded yet: placement-sched nova adopt" in error


def test_json_host_list_equals_the_response_of_the_api(run_cli, cloud):
    _, printed, _ = run_cli("list", "--format", "json")
    assert json.loads(printed) == cloud.get("/scheduler/v1/hosts").json


def test_host_show_prints_inventories_and_instances(run_cli):
    status, printed, _ = run_cli("show", "cn1")
    assert status == 0
    lines = [line.split() for line in printed.splitlines()]
    assert ["cn1", "VCPU", "0", "64"] in lines
    assert ["web", make_uuid(1), "m1", "-"] in lines
    assert ["policy:", "default"] in lines


def test_json_of_host_show_equals_the_response_of_the_api(run_cli, cloud):
    _, printed, _ = run_cli("show", "cn2", "--format", "json")
    assert json.loads(printed) == cloud.get("/scheduler/v1/hosts/cn2").json


def test_unknown_host_is_reported_in_one_line(run_cli):
    status, printed, error = run_cli("show", "cn9")
    assert (status, printed) == (1, "")
    assert error == "placement-sched: there is no host 'cn9'. Did you mean 'cn1'?\n"


def test_host_list_and_show_read_from_the_server_of_the_url_option(run_cli, cloud):
    with serve_application(cloud.app) as url:
        options = ("--format", "json", "--url", url, "--token", "admin")
        assert json.loads(run_cli("list", *options)[1]) == cloud.get("/scheduler/v1/hosts").json
        _, listed, _ = run_cli("list", "--trait", "COMPUTE_STATUS_DISABLED", *options)
        _, shown, _ = run_cli("show", "cn2", *options)
    assert [host["host"] for host in json.loads(listed)["hosts"]] == ["cn2"]
    assert json.loads(shown)["state"] == "disabled"


def test_host_show_names_other_consumers(run_cli, cloud):
    body = {
        "allocations": {uuid_of("cn1"): {"resources": {"VCPU": 2, "MEMORY_MB": 512}}},
        "project_id": "p2",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "CONTAINER",
    }
    cloud.put_json(f"/placement/allocations/{make_uuid(70)}", body, headers=LATEST_HEADERS)
    _, printed, _ = run_cli("show", "cn1")
    (line,) = [line for line in printed.splitlines() if make_uuid(70) in line]
    assert line.split() == [
        make_uuid(70),
        "CONTAINER",
        "p2",
        "MEMORY_MB",
        "512",
        "MiB,",
        "VCPU",
        "2",
    ]
    assert json.loads(run_cli("show", "cn1", "-f", "json")[1])["other_consumers"][0]["type"] == (
        "CONTAINER"
    )
