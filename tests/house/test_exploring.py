# SPDX-License-Identifier: Apache-2.0
"""Property tests draw the same examples in CI, and other examples with each seed."""

import os
import re
import subprocess
import sys

import pytest

from tests import exploring
from tests.support.repository import ROOT

pytestmark = pytest.mark.system

#: A property test that notes what it draws, and one that fails.
PROPERTIES = """
from pathlib import Path
from hypothesis import given, strategies as st, settings
from tests.exploring import Dice, draws

NOTES = Path(__file__).with_name("notes")


@settings(max_examples=draws(20))
@given(number=st.integers())
def test_noting(number):
    with NOTES.open("a") as notes:
        print(number, file=notes)


def test_dice():
    with NOTES.open("a") as notes:
        print("dice", Dice.of(1).random(), file=notes)


@given(number=st.integers())
def test_failing(number):
    assert number < 1000
"""


@pytest.fixture
def properties(tmp_path):
    file = tmp_path / "test_properties.py"
    file.write_text(PROPERTIES)
    return file


def run(module, *arguments, **variables):
    """Run a module of Python on these tests, which lie outside the suite."""
    kept = {name: value for name, value in os.environ.items() if name != exploring.PROFILE}
    return subprocess.run(
        [sys.executable, "-m", *module, "-c", "setup.cfg", "-p", "tests.exploring", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env={**kept, **variables},
        check=False,
    )


def drawn(properties, profile, *arguments):
    """Return what a run of the suite draws."""
    notes = properties.with_name("notes")
    notes.unlink(missing_ok=True)
    chosen = ["-k", "noting or dice", "-p", "no:cacheprovider", *arguments, str(properties)]
    done = run(["pytest"], *chosen, HYPOTHESIS_PROFILE=profile)
    assert done.returncode == 0, done.stdout
    return notes.read_text().splitlines()


def test_ci_draws_the_same_examples_each_time(properties):
    """Even where another seed is asked for."""
    one, other = (drawn(properties, "ci", f"--hypothesis-seed={seed}") for seed in (1, 2))
    assert one == other
    assert len(one) <= 21


def test_the_search_draws_more_examples_and_its_seed_alone_decides_which(properties):
    one, again, other = (
        drawn(properties, "explore", f"--hypothesis-seed={seed}") for seed in (1, 1, 2)
    )
    assert one == again
    assert {line for line in one if "dice" in line} != {line for line in other if "dice" in line}
    assert one != other
    assert len(one) > 21


def test_ci_names_its_profile():
    text = (ROOT / ".ci" / "run").read_text()
    assert re.search(r"^export HYPOTHESIS_PROFILE=ci$", text, re.MULTILINE)


def test_a_fault_that_is_found_ends_the_search_with_how_to_repeat_it(properties):
    found = run(["tests.exploring", "--minutes", "60", "--seed", "7"], str(properties))
    assert found.returncode == 1
    assert found.stdout.startswith("seed 7, minutes left: 60.0\n")
    assert "test_failing" in found.stdout
    *_, first, command, last = found.stdout.splitlines()
    assert first == "A test failed with the seed 7. Repeat it with"
    assert f"HYPOTHESIS_PROFILE=explore {sys.executable} -m pytest --hypothesis-seed=7" in command
    assert last == "or repeat the whole search with: make test-only WHAT=explore SEED=7"


def test_the_search_ends_with_its_minutes(properties):
    ended = run(["tests.exploring", "--minutes", "0", "--seed", "7"], str(properties))
    assert ended.returncode == 0
    assert ended.stdout.count("minutes left") == 1
    assert "2 skipped" in ended.stdout


def test_every_property_test_is_searched():
    found = {path.removeprefix(f"{ROOT}/") for path in exploring.modules()}
    assert "tests/api/test_schemathesis.py" in found
    assert "tests/api/compute/test_servers_any_input.py" in found
    using = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"^@(hypothesis\.)?given\b", path.read_text(), re.MULTILINE)
    }
    assert using <= found
