# SPDX-License-Identifier: Apache-2.0
"""Errors in the options and files of a request name the option or the line."""

import pytest

from placement_sched.cli.scheduler.request_options import replace_json_path
from placement_sched.errors import Error
from tests.cli.conftest import copy_filled_database
from tests.support.loopback import serve_application
from tests.support.scheduling import make_report

pytestmark = pytest.mark.slow

EXPLAIN_COMMAND = ("explain", "--vcpus", "1")


@pytest.fixture(scope="module")
def sqlite_template(sqlite_template, tmp_path_factory):
    """A host."""
    return copy_filled_database(
        sqlite_template,
        tmp_path_factory.mktemp("cloud"),
        lambda app: app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")]),
    )


@pytest.fixture
def get_error(run_cli, monkeypatch, tmp_path):
    """Return a function that runs a failing command on a host, and returns its error."""
    monkeypatch.chdir(tmp_path)

    def run_cli_and_get_error(*arguments: str) -> str:
        status, printed, error = run_cli(*arguments)
        assert (status, printed) == (1, "")
        (line,) = error.splitlines()
        return line.removeprefix("placement-sched: ")

    return run_cli_and_get_error


#: Files of changes, and the error of each file.
INVALID_CHANGES_FILES = [
    ("- drain: [cn1]\n- drain: cn1", "f:2: drain: 'cn1' is not a list"),
    ("changes:\n- 5", "f:2: 5 is not an object"),
    ("- add: {count: 2}", "f:1: add: 'like' is required"),
    ("- add:\n    like: cn1\n    count: -2", "f:3: add.count: -2 is less than the minimum of 1"),
    ("- add:\n    like: cn1\n    cuont: 2", "f:3: add: unknown key 'cuont'. Did you mean 'count'?"),
    ("- add:\n    like: cn1\n    xyz: 2", "f:3: add: unknown key 'xyz'. There are: count, like"),
    ("- drian: [cn1]", "f:1: unknown kind of change 'drian'. Did you mean 'drain'?"),
    ("- drain: [cn1, cn2]", "f:1: drain: there is no host 'cn2'. Did you mean 'cn1'?"),
    (
        '[{"drain": ["cn1"]},\n {"drain": ["cn1"], "remove": ["cn1"]}]',
        'f:2: {"drain": ["cn1"], "remove": ["cn1"]} has too many properties: at most 1 property',
    ),
    ("flavors: []\nchanges: {a: 1}", 'f:2: changes: {"a": 1} is not a list'),
    ("chnages: []", "f:1: unknown key 'chnages'. Did you mean 'changes'?"),
]


@pytest.mark.parametrize(("text", "words"), INVALID_CHANGES_FILES)
def test_error_in_a_file_of_changes_is_reported_with_the_line(get_error, tmp_path, text, words):
    (tmp_path / "f").write_text(text)
    assert get_error(*EXPLAIN_COMMAND, "--changes", "f") == words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            (*EXPLAIN_COMMAND, "--change", "inventory=cn1:VCPU=-1"),
            "--change inventory=cn1:VCPU=-1: -1 is less than the minimum of 0",
        ),
        (("decision", "list", "--instance", "x"), "--instance: 'x' is not a uuid"),
        (("decision", "show", "--instance", "x"), "--instance: 'x' is not a uuid"),
        (
            ("decision", "list", "--since", "x"),
            "--since: 'x' is neither an age (30m, 2h, 7d) nor an ISO 8601 time",
        ),
        (
            ("decision", "purge", "--before", "x"),
            "--before: 'x' is neither an age (30m, 2h, 7d) nor an ISO 8601 time",
        ),
    ],
)
def test_invalid_value_of_a_request_option_is_reported(get_error, arguments, words):
    assert get_error(*arguments) == words


def test_json_path_in_a_server_error_becomes_file_and_line(get_error, sqlite_app, tmp_path):
    (tmp_path / "f").write_text("- drain: [cn1]\n- drain: [cn2]")
    with serve_application(sqlite_app.app) as url:
        line = get_error(*EXPLAIN_COMMAND, "--changes", "f", "--url", url, "--token", "admin")
    assert line.startswith("f:2: drain: there is no host 'cn2'. Did you mean 'cn1'? (400, req-")


def test_query_parameter_in_a_server_error_becomes_the_option_name(get_error, sqlite_app):
    with serve_application(sqlite_app.app) as url:
        line = get_error("decision", "list", "--instance", "x", "--url", url, "--token", "admin")
    assert line.startswith("--instance: 'x' is not a uuid (400, req-")


def test_json_path_in_an_error_is_kept_if_no_option_corresponds_to_it():
    error = Error("5 is of no use", json_path="$.a[1].b")
    assert replace_json_path(error, lambda _steps, _key: None) == "5 is of no use (at $.a[1].b)"
    assert (
        replace_json_path(Error("nothing of the kind"), lambda _steps, _key: "x")
        == "nothing of the kind"
    )
