# SPDX-License-Identifier: Apache-2.0
"""``violation list`` with a database, a server and a file."""

import json
from functools import partial

import pytest

from tests.extensions.what_if.violations.clouds import SSD, load, make_host, make_server
from tests.extensions.what_if.violations.queries import VIOLATIONS_PATH, compute_violations
from tests.support.loopback import serve_application

pytestmark = pytest.mark.slow

_SIZES = {"vcpus": 1, "memory_mb": 512, "root_gb": 1}
DOCUMENT = {
    "version": 1,
    "traits": [SSD, "CUSTOM_LICENSE"],
    "flavors": [
        {"name": "small", **_SIZES},
        {"name": "ssd", **_SIZES, "extra_specs": {f"trait:{SSD}": "required"}},
    ],
    "hosts": [make_host("cn1"), make_host("cn2")],
    "aggregates": [
        {"name": "licensed", "hosts": ["cn2"], "metadata": {"trait:CUSTOM_LICENSE": "required"}}
    ],
    "instances": [
        make_server("i1", "cn1", "ssd"),
        make_server("i2", "cn2", "ssd", project="q"),
        make_server("lost", "cn9"),
    ],
}


@pytest.fixture
def run_violation_list(sqlite_app, run_cli):
    load(sqlite_app, DOCUMENT, ())
    return partial(run_cli, "violation", "list")


def test_violations_are_printed_by_rule_and_by_server(run_violation_list):
    status, printed, _ = run_violation_list()
    assert status == 0
    lines = printed.splitlines()
    assert lines[0].startswith("2 of 2 servers would not be placed on their hosts now (")
    assert lines[1] == f"trait {SSD} 2"
    assert [line.split()[1:3] for line in lines if "lacks trait" in line] == [
        ["i1", "cn1"],
        ["i2", "cn2"],
    ]
    assert lines[-1].endswith("its host has no compute node")


def test_json_has_the_values_of_each_reason(run_violation_list):
    _, printed, _ = run_violation_list("--host", "cn1", "-f", "json")
    document = json.loads(printed)
    (violation,) = document["violations"]
    assert (violation["name"], violation["host"]) == ("i1", "cn1")
    (reason,) = violation["reasons"]
    assert reason["stage"] == "allocation_candidates"
    assert (reason["kind"], reason["traits"]) == ("missing_trait", [SSD])
    assert document["rules"] == [{"rule": f"trait {SSD}", "servers": 1}]


def test_options_filter_the_servers(run_violation_list):
    names = ("-f", "value", "-c", "Name", "-c", "Rule")
    assert run_violation_list("--project", "q", *names)[1] == f"i2 trait {SSD}\n"
    assert run_violation_list("--ignore", "trait", *names)[1] == ""
    assert run_violation_list("--rule", f"trait {SSD}", "--host", "cn1", *names)[1] == (
        f"i1 trait {SSD}\n"
    )


def test_unknown_names_are_usage_errors_with_the_nearest_name(run_violation_list):
    status, _, error = run_violation_list("--host", "cn11")
    assert (status, "--host: there is no host 'cn11'. Did you mean 'cn1'" in error) == (2, True)
    status, _, error = run_violation_list("--rule", "over capacty")
    assert status == 2
    assert "--rule: there is no rule 'over capacty'. Did you mean 'over capacity'?" in error
    status, _, error = run_violation_list("--ignore", "RamFiltr")
    assert (status, "--ignore: there is no rule 'RamFiltr'" in error) == (2, True)


def test_server_returns_its_last_result(sqlite_app, run_violation_list, monkeypatch):
    monkeypatch.setattr("placement_sched.extensions.what_if.cli.violation.MAX_PAGE", 1)
    with serve_application(sqlite_app.app) as url:
        status, _, error = run_violation_list("--url", url)
        assert (status, "The violations were not computed yet" in error) == (1, True)
        compute_violations(sqlite_app)
        _, printed, _ = run_violation_list("--url", url, "-f", "json")
        result = sqlite_app.get(VIOLATIONS_PATH).json
        del result["links"]
        assert json.loads(printed) == result
        status, _, error = run_violation_list("--url", url, "--rule", "trat")
        assert (status, "--rule: there is no rule 'trat'" in error) == (2, True)


def test_servers_of_a_fleet_file_are_checked(run_cli, tmp_path):
    file = tmp_path / "cloud.yaml"
    file.write_text(json.dumps(DOCUMENT))
    arguments = ("--fleet", str(file), "-f", "value", "-c", "Name")
    status, printed, _ = run_cli("violation", "list", *arguments)
    assert (status, printed) == (0, "i1\ni2\n")
