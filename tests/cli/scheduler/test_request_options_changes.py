# SPDX-License-Identifier: Apache-2.0
"""``explain`` with simulated changes."""

import json

import pytest

from tests.cli.conftest import copy_filled_database
from tests.support.scheduling import make_report

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sqlite_template(sqlite_template, tmp_path_factory):
    """Three hosts."""
    return copy_filled_database(
        sqlite_template,
        tmp_path_factory.mktemp("cloud"),
        lambda app: app.post_json(
            "/scheduler/v1/compute_nodes", [make_report(f"cn{n}") for n in (1, 2, 3)]
        ),
    )


def parse_host_names_of_explanation(explanation: str) -> list[str]:
    return [host["host"] for host in json.loads(explanation)["hosts"]]


def explain_with_changes_and_list_hosts(run_cli, *changes: str, vcpus: int = 1) -> list[str]:
    options = [word for change in changes for word in ("--change", change)]
    status, out, err = run_cli("explain", "--vcpus", str(vcpus), "--format", "json", *options)
    assert (status, err) == (0, "")
    return parse_host_names_of_explanation(out)


@pytest.mark.parametrize(
    ("change", "vcpus", "expected"),
    [
        ("drain=cn1,cn2", 1, ["cn3"]),
        ("remove=cn3", 1, ["cn1", "cn2"]),
        ("add=cn3", 1, ["cn1", "cn2", "cn3", "cn3+1"]),
        ("add=cn3*2", 1, ["cn1", "cn2", "cn3", "cn3+1", "cn3+2"]),
        ("inventory=cn2:VCPU=128", 100, ["cn2"]),
        ('{"drain": ["cn1"]}', 1, ["cn2", "cn3"]),
    ],
)
def test_simulated_change_is_given_as_text_or_json(run_cli, change, vcpus, expected):
    assert explain_with_changes_and_list_hosts(run_cli, change, vcpus=vcpus) == expected


def test_simulated_changes_of_a_file_apply_before_those_of_options(run_cli, tmp_path):
    for text in ("changes:\n- add: {like: cn1}\n", '[{"add": {"like": "cn1"}}]'):
        (tmp_path / "changes").write_text(text)
        output = run_cli(
            *("explain", "--vcpus", "1", "--format", "json"),
            *("--changes", str(tmp_path / "changes"), "--change", "drain=cn1,cn1+1"),
        )
        assert parse_host_names_of_explanation(output[1]) == ["cn2", "cn3"]


@pytest.mark.parametrize(
    ("change", "expected_status", "words"),
    [
        ("drian=cn1", 2, "expected drain=HOST"),
        ("drain", 2, "expected drain=HOST"),
        ("inventory=cn1:VCPU", 2, "expected drain=HOST"),
        ("aggregate=gpu:cn1", 2, "expected +HOST, -HOST or KEY=VALUE, got 'cn1'"),
        ("{", 2, "not JSON"),
        ("drain=cn11", 1, "--change drain=cn11: there is no host 'cn11'. Did you mean 'cn1'?\n"),
        ("aggregate=gpu:+cn1,-cn2,a=b,c=", 1, "there is no aggregate 'gpu'"),
    ],
)
def test_invalid_simulated_change_is_reported_in_one_line(run_cli, change, expected_status, words):
    status, out, err = run_cli("explain", "--vcpus", "1", "--change", change)
    assert (status, out) == (expected_status, "")
    (line,) = err.splitlines(keepends=True)
    assert words in line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- [", "changes:2:1: did not find expected node content"),
        ("[" * 900 + "]" * 900, "changes: the values are nested too deeply"),
        ('changes: [{drain: ["\\ud800"]}]', "changes:1:"),
        ("3", "expected a list"),
    ],
)
def test_invalid_file_of_simulated_changes_is_reported_in_one_line(run_cli, tmp_path, text, words):
    (tmp_path / "changes").write_text(text)
    status, _, err = run_cli("explain", "--vcpus", "1", "--changes", str(tmp_path / "changes"))
    assert status == 1
    assert words in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("command", "text", "words"),
    [
        ("explain", "[" * 20_000 + "]" * 20_000, "not JSON: "),
        ("explain", '{"a":' * 101 + "1" + "}" * 101, "nested more than 100 deep"),
        (
            "select",
            '{"flavor": {"vcpus": 1, "memory_mb": 1, "extra_specs": {"\\ud800": "a"}}}',
            "not JSON: no low surrogate in string: line 1 column 58",
        ),
    ],
    ids=["too deep for Python", "too deep", "half a character"],
)
def test_invalid_request_file_is_reported_in_one_line(run_cli, tmp_path, command, text, words):
    file = tmp_path / "request.json"
    file.write_text(text)
    status, _, err = run_cli(command, str(file))
    assert status == 1
    assert err.startswith(f"placement-sched: {file}: ")
    assert words in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "option", [("--override", "a.b=" + "[" * 20_000), ("--change", '{"a":' * 500 + "1" + "}" * 500)]
)
def test_option_with_deeply_nested_json_is_reported_in_one_line(run_cli, option):
    status, _, err = run_cli("explain", "--vcpus", "1", *option)
    assert status in {1, 2}  # the server rejects the first option
    assert "RecursionError" not in err
    assert len(err.splitlines()) == 1


def test_missing_file_of_simulated_changes_is_reported_in_one_line(run_cli):
    status, _, err = run_cli("explain", "--vcpus", "1", "--changes", "nowhere.yaml")
    assert (status, err) == (1, "placement-sched: nowhere.yaml: No such file or directory\n")
