# SPDX-License-Identifier: Apache-2.0
"""Errors in the options and files of plans name the option or the line."""

import pytest

from tests.cli.scheduler.change_files import INVALID_CHANGES_FILES, NON_UTF8_ARGUMENT
from tests.cli.scheduler.change_files import get_error as get_error  # noqa: PLC0414 - a fixture
from tests.cli.scheduler.change_files import sqlite_template as sqlite_template  # noqa: PLC0414 - a fixture

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("text", "words"), INVALID_CHANGES_FILES)
def test_error_in_the_changes_of_a_plan_is_reported_with_the_line(get_error, tmp_path, text, words):
    (tmp_path / "f").write_text(text)
    assert get_error("plan", "f") == words


@pytest.mark.parametrize(
    ("flavors", "words"),
    [
        ("flavors: m1", "f:2: flavors: 'm1' is not a list"),
        ("flavors:\n- 5", "f:3: flavors: 5 is not a string"),
    ],
)
def test_invalid_flavor_of_a_plan_is_reported_with_the_line(get_error, tmp_path, flavors, words):
    (tmp_path / "f").write_text(f"changes: [drain: [cn1]]\n{flavors}")
    assert get_error("plan", "f") == words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("plan", "--change", '{"add": {"like":"a", "count":0}}'),
            '--change {"add": {"like":"a", "count":0}}: add.count: 0 is less than the minimum of 1',
        ),
        (("plan", "--change", "drain=cn1", "--flavor", ""), "--flavor: '' should be non-empty"),
        (
            ("rebalance", "--goal", "pack", "--moves", "0"),
            "--moves: 0 is less than the minimum of 1",
        ),
        (("rebalance", "m1"), "FLAVOR: There is no stored flavor 'm1'. There are none"),
        (
            ("plan", "--change", f"drain={NON_UTF8_ARGUMENT}"),
            "--change drain=\\udcff: '\\udcff' is not valid UTF-8",
        ),
    ],
)
def test_invalid_value_of_an_option_of_plans_is_reported(get_error, arguments, words):
    assert get_error(*arguments) == words


@pytest.mark.parametrize(
    ("file", "message"),
    [("none/report.html", "No such file or directory"), ("taken", "Is a directory")],
)
def test_unwritable_html_report_of_capacity_is_reported(get_error, tmp_path, file, message):
    (tmp_path / "taken").mkdir()
    error = get_error("capacity", "--vcpus", "1", "--html", str(tmp_path / file))
    assert error == f"--html {tmp_path / file}: {message}"
