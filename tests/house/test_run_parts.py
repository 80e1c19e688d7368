# SPDX-License-Identifier: Apache-2.0
"""The parts of ``make test-all`` and their table."""

import io
import sys

import pytest
from rich.console import Console

from tests.results import RESULTS_VARIABLE, read_results, record_result
from tests.run_parts import PARTS, Part, PartResult, print_results, run_parts
from tests.support.commands import run_captured
from tests.support.repository import MAKEFILE_TEXT, ROOT

#: Replaces make: records a passed, a skipped and a failed test, and fails.
FAKE_MAKE = """
import os, sys
from tests.results import RESULTS_VARIABLE, record_result
assert sys.argv[1] == "--no-print-directory"
if sys.argv[2] == "fail":
    sys.exit(2)
path = os.environ[RESULTS_VARIABLE]
record_result(path, "test_a", "passed")
record_result(path, "test_b", "skipped", "no server")
record_result(path, "test_c", "passed")
record_result(path, "test_c", "failed")
sys.exit(2 if sys.argv[2] == "mixed" else 0)
"""
MODULE_OF_RESULTS = """
import os

import pytest

@pytest.fixture
def broken_teardown():
    yield
    raise OSError

def test_passed():
    assert "{variable}" not in os.environ

def test_failed():
    assert False

def test_skipped():
    pytest.skip("no server")

@pytest.mark.xfail
def test_expected_failure():
    assert False

def test_failed_later(broken_teardown):
    pass
"""


def format_results(parts, results):
    output = io.StringIO()
    print_results(parts, results, Console(file=output, width=150))
    return output.getvalue()


def test_parts_name_targets_of_the_makefile():
    for part in PARTS:
        target, *variables = part.target
        assert f"\n{target}: " in MAKEFILE_TEXT
        names = [variable[5:] for variable in variables if variable.startswith("WHAT=")]
        assert all(f"\nRUN_{name} = " in MAKEFILE_TEXT for name in names)


def test_ignored_tests_are_those_of_other_parts():
    first, *other_parts = [part for part in PARTS if part.target[0] == "test"]
    paths = [
        word.removeprefix("--ignore=") for word in first.target[-1].split() if "tests/" in word
    ]
    assert paths
    for path in [path.removeprefix("PYTEST_ARGS=").removeprefix("--ignore=") for path in paths]:
        assert (ROOT / path).exists()
        assert any(path in part.target[-1] for part in other_parts)


@pytest.mark.slow
def test_run_continues_after_a_failed_part_and_names_its_tests():
    parts = [
        Part("one", ("mixed",), "a"),
        Part("two", ("fail",), "b"),
        Part("three", ("good",), ""),
    ]
    results = run_parts(parts, [sys.executable, "-c", FAKE_MAKE])
    assert [result.exit_status for result in results.values()] == [2, 2, 0]
    text = format_results(parts, results)
    rows = [line.split("│")[1:-1] for line in text.splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in row[:-1]] for row in rows[:2]] == [
        ["one", "a", "failed", "1", "1", "1"],
        ["two", "b", "failed: exit status 2", "0", "0", "0"],
    ]
    assert "one: failed: test_c\none: 1 skipped: no server\n" in text


def test_part_that_did_not_run_is_named():
    text = format_results([PARTS[0]], {PARTS[0].name: PartResult(None)})
    assert "not run" in text


@pytest.mark.slow
def test_unknown_part_is_rejected_with_the_names():
    process = run_captured([sys.executable, "-m", "tests.run_parts", "chaso"], cwd=ROOT)
    assert process.returncode == 2
    assert "no part is called chaso. The parts are tests, deploy, " in process.stderr


@pytest.mark.slow
def test_pytest_records_results_and_reasons(tmp_path):
    module = tmp_path / "test_results.py"
    module.write_text(MODULE_OF_RESULTS.format(variable=RESULTS_VARIABLE))
    path = tmp_path / "results"
    command = [sys.executable, "-m", "pytest", "-c", "setup.cfg", "-p", "tests.results", "-n", "2"]
    run_captured(
        ["env", f"{RESULTS_VARIABLE}={path}", *command, "-p", "no:cacheprovider", str(module)],
        cwd=ROOT,
    )
    results = {
        test.partition("::")[2]: (result["outcome"], result["reason"])
        for test, result in read_results(path).items()
    }
    assert results == {
        "test_passed": ("passed", ""),
        "test_failed": ("failed", ""),
        "test_skipped": ("skipped", "no server"),
        "test_expected_failure": ("passed", ""),
        "test_failed_later": ("failed", ""),
    }


def test_last_outcome_of_a_test_does_not_hide_its_failure(tmp_path):
    path = tmp_path / "results"
    assert read_results(path) == {}
    for outcome in ("failed", "passed"):
        record_result(str(path), "test_a", outcome)
    assert read_results(path)["test_a"]["outcome"] == "failed"
