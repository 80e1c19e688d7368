# SPDX-License-Identifier: Apache-2.0
"""``policy list``, ``policy show``, and ``explain`` under policies."""

import json

import pytest

from placement_sched.scheduler.plugins import make_full_conf, read_settings
from tests.cli.conftest import copy_filled_database
from tests.support.loopback import serve_application
from tests.support.scheduling import make_report

pytestmark = pytest.mark.slow

SIZE_OPTIONS = ("--vcpus", "2", "--ram", "4096")

POLICIES_CONF = """[scheduler]
policies = spread, pack
[spread]
ram_weight_multiplier = 1.0
[pack]
ram_weight_multiplier = -1.0
cpu_weight_multiplier = -1.0
max_instances_per_host = 5
"""


@pytest.fixture
def conf_file(tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text(POLICIES_CONF)
    return file


@pytest.fixture(scope="module")
def sqlite_template(sqlite_template, tmp_path_factory):
    """Two racks of two hosts, each rack under its policy."""
    folder = tmp_path_factory.mktemp("cloud")
    file = folder / "nova.conf"
    file.write_text(POLICIES_CONF)
    return copy_filled_database(sqlite_template, folder, add_racks_with_policies, str(file))


def add_racks_with_policies(app):
    reports = [
        make_report(name, memory_mb=size)
        for name, size in (("cn1", 8192), ("cn2", 16384), ("cn3", 8192), ("cn4", 16384))
    ]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    for rack, policy, hosts in (
        ("rack1", "spread", ("cn1", "cn2")),
        ("rack2", "pack", ("cn3", "cn4")),
    ):
        body = {"aggregate": {"name": rack, "availability_zone": f"az-{rack}"}}
        number = app.post_json("/compute/v2.1/os-aggregates", body).json["aggregate"]["id"]
        action = f"/compute/v2.1/os-aggregates/{number}/action"
        app.post_json(action, {"set_metadata": {"metadata": {"sched_policy": policy}}})
        for host in hosts:
            app.post_json(action, {"add_host": {"host": host}})


@pytest.fixture
def run_cli(conf_file, run_cli, monkeypatch):
    """Return a function that runs a command at 80 columns: status, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "80")

    def run_cli_with_config(*arguments: str) -> tuple[int, str, str]:
        words = 2 if arguments[0] == "policy" else 1
        head, rest = arguments[:words], arguments[words:]
        return run_cli(*head, "--config-file", str(conf_file), *rest)

    return run_cli_with_config


def test_policy_list_shows_aggregates_and_options_of_each_policy(run_cli):
    status, printed, _ = run_cli("policy", "list")
    assert status == 0
    rows = [line.rstrip() for line in printed.splitlines()]
    assert rows[0].split() == ["Policy", "Aggregates", "Sets"]
    assert rows[2].split() == ["default", "-", "-"]
    assert rows[3].split() == [
        *("spread", "rack1"),
        *("filter_scheduler.ram_weight_multiplier", "=", "1.0"),
    ]
    assert "filter_scheduler.max_instances_per_host = 5" in printed
    assert max(map(len, rows)) <= 80


def test_policy_show_prints_options_of_the_policy_before_other_options(run_cli, conf_file):
    status, printed, _ = run_cli("policy", "show", "pack")
    assert status == 0
    lines = printed.splitlines()
    assert lines[0] == "pack  aggregates: rack2"
    assert lines[3].split() == [
        "filter_scheduler.cpu_weight_multiplier",
        "=",
        "-1.0",
        "nova.conf:7",
    ]
    assert "scheduler.policies" not in printed
    assert lines[-1].split()[-1] == "default"
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("command", [("list",), ("show", "pack")])
def test_policy_list_and_show_print_their_documents_as_json(run_cli, command):
    status, printed, _ = run_cli("policy", *command, "--format", "json")
    assert status == 0
    document = json.loads(printed)
    found = (
        next(row for row in document if row["name"] == "pack") if command == ("list",) else document
    )
    assert found["options"]["filter_scheduler.max_instances_per_host"]["value"] == 5
    assert found["aggregates"][0]["name"] == "rack2"


def test_unknown_policy_is_reported_in_one_line(run_cli):
    for arguments in (("policy", "show", "none"), ("explain", *SIZE_OPTIONS, "--policy", "none")):
        status, _, error = run_cli(*arguments)
        assert status == 1
        assert "there is no policy 'none'" in error
        assert error.count("\n") == 1


def test_invalid_policy_is_shown_with_the_reason(run_cli, conf_file):
    conf_file.write_text(
        "[spread]\nram_wieght_multiplier = 1.0\n[pack]\nram_weight_multiplier = 1\n"
    )
    status, printed, _ = run_cli("policy", "list")
    assert status == 0
    assert "cannot be used" in printed
    status, printed, _ = run_cli("policy", "show", "spread")
    assert status == 0
    assert "there is no option ram_wieght_multiplier" in " ".join(printed.split())


def test_explain_prints_the_chosen_policy_and_its_selector(run_cli):
    _, printed, _ = run_cli("explain", *SIZE_OPTIONS, "--zone", "az-rack2")
    assert printed.startswith("Policy  pack\n")
    assert "availability_zone  az-rack2: chosen (rack2: pack)" in printed
    assert "cn3" in printed
    assert "1 host passed" not in printed
    _, printed, _ = run_cli("explain", *SIZE_OPTIONS, "--hint", "sched_policy=spread")
    assert "  hint  spread: chosen (rack1: spread)" in printed


def test_explain_prints_the_reason_for_the_default_policy(run_cli):
    _, printed, _ = run_cli("explain", *SIZE_OPTIONS, "--zone", "az-rack1,az-rack2")
    assert printed.startswith("Policy  default\n")
    assert "several policies match: pack, spread (rack1: spread, rack2: pack)" in " ".join(
        printed.split()
    )
    _, printed, _ = run_cli("explain", *SIZE_OPTIONS, "--project", "p1")
    assert "p1: no aggregate with a policy matches" in printed
    assert "not set in the request" in printed


def test_explain_without_policies_prints_no_policy(run_cli, conf_file):
    conf_file.write_text("")
    _, printed, _ = run_cli("explain", *SIZE_OPTIONS)
    assert not printed.startswith("Policy")


def test_explain_applies_the_policy_of_the_policy_option(run_cli):
    _, printed, _ = run_cli("explain", *SIZE_OPTIONS, "--policy", "pack", "--format", "json")
    document = json.loads(printed)
    assert document["policy"] == "pack"
    assert [host["host"] for host in document["hosts"]] == ["cn3", "cn4"]


def test_policy_comparison_shows_policies_side_by_side(run_cli):
    status, printed, _ = run_cli("explain", *SIZE_OPTIONS, "--compare", "spread,pack,default")
    assert status == 0
    lines = [line.rstrip() for line in printed.splitlines()]
    assert max(map(len, lines)) <= 80
    assert " ".join(lines[0].split()) == "Hosts after each stage spread pack default"
    rows = {line.split("  ")[0]: line.split() for line in lines}
    assert rows["initially"][-3:] == ["4", "4", "4"]
    assert rows["ComputeFilter"] == ["ComputeFilter", "2", "2", "4"]
    best = next(line for line in lines if line.startswith("best hosts"))
    assert [word for word in best.split() if word.startswith("cn")] == ["cn2", "cn3", "cn2"]
    assert rows["outcome"] == ["outcome", *["selected"] * 3]
    assert "rack1" in printed


def test_policy_comparison_prints_why_each_policy_finds_no_valid_host(run_cli):
    status, printed, _ = run_cli("explain", "--ram", "30000", "--compare", "spread,pack")
    assert status == 0
    assert printed.count("no valid host") == 2
    assert "spread: " in printed


def test_json_policy_comparison_has_an_explanation_per_policy(run_cli):
    _, printed, _ = run_cli(
        "explain", *SIZE_OPTIONS, "--compare", "pack,spread", "--format", "json"
    )
    document = json.loads(printed)
    assert {name: explanation["policy"] for name, explanation in document.items()} == {
        "pack": "pack",
        "spread": "spread",
    }
    assert [explanation["hosts"][0]["host"] for explanation in document.values()] == ["cn3", "cn2"]


@pytest.mark.parametrize("compare", ["spread", "spread,", "spread,Spread"])
def test_policy_comparison_needs_two_policies(run_cli, compare):
    status, _, error = run_cli("explain", *SIZE_OPTIONS, "--compare", compare)
    assert status == 2
    assert "expected at least two policies" in error


def test_policies_are_read_from_the_server_of_the_url_option(
    make_app, sqlite_url, conf_file, run_main, monkeypatch
):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    app = make_app(read_settings([str(conf_file)], make_full_conf()))
    with serve_application(app.app) as url:
        for arguments, text in (
            (("policy", "list"), "rack2"),
            (("policy", "show", "pack"), "nova.conf:6"),
            (("explain", *SIZE_OPTIONS, "--compare", "pack,spread"), "best hosts"),
            (("explain", *SIZE_OPTIONS, "--policy", "pack"), "Policy  pack"),
        ):
            status, printed, _ = run_main(*arguments, "--url", url)
            assert (status, text in printed) == (0, True)
        assert run_main("policy", "show", "no/ne", "--url", url)[0] == 1
