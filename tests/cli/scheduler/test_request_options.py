# SPDX-License-Identifier: Apache-2.0
"""Errors in the options and files of a request name the option or the line."""

import pytest

from placement_sched.cli.scheduler.request_options import replace_json_path
from placement_sched.errors import Error
from tests.cli.scheduler.change_files import INVALID_CHANGES_FILES
from tests.cli.scheduler.change_files import get_error as get_error  # noqa: PLC0414 - a fixture
from tests.cli.scheduler.change_files import sqlite_template as sqlite_template  # noqa: PLC0414 - a fixture
from tests.support.loopback import serve_application

pytestmark = pytest.mark.slow

EXPLAIN_COMMAND = ("explain", "--vcpus", "1")


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
