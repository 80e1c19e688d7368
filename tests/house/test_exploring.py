# SPDX-License-Identifier: Apache-2.0
"""Property tests draw fixed examples in CI, and other examples with each seed."""

import os
import subprocess
import sys

import pytest

from tests.support.repository import ROOT

pytestmark = pytest.mark.system

#: Tests that write their random numbers to a file.
PROPERTY_TEST_MODULE = """
from pathlib import Path
from hypothesis import given, strategies as st, settings
from tests.exploring import SeededRandom, scale_example_count

NUMBERS = Path(__file__).with_name("numbers")


@settings(max_examples=scale_example_count(20))
@given(number=st.integers())
def test_property(number):
    with NUMBERS.open("a") as file:
        print(number, file=file)


def test_dice():
    with NUMBERS.open("a") as file:
        print("dice", SeededRandom.numbered(1).random(), file=file)
"""


def run_property_tests_and_read_numbers(folder, profile, seed):
    """Return the numbers that both tests draw."""
    (folder / "test_properties.py").write_text(PROPERTY_TEST_MODULE)
    (folder / "numbers").unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-c", "setup.cfg", "-p", "tests.exploring"]
    command += ["-p", "no:cacheprovider", f"--hypothesis-seed={seed}", str(folder)]
    environment = {**os.environ, "HYPOTHESIS_PROFILE": profile}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=300)
    return (folder / "numbers").read_text().splitlines()


def test_hypothesis_profile_ci_ignores_the_seed(tmp_path):
    numbers = run_property_tests_and_read_numbers(tmp_path, "ci", 1)
    assert numbers == run_property_tests_and_read_numbers(tmp_path, "ci", 2)
    assert len(numbers) <= 21
    assert "export HYPOTHESIS_PROFILE=ci\n" in (ROOT / ".ci" / "run").read_text()


def test_hypothesis_profile_explore_draws_more_examples_by_the_seed(tmp_path):
    numbers = run_property_tests_and_read_numbers(tmp_path, "explore", 1)
    assert len(numbers) > 21
    assert numbers == run_property_tests_and_read_numbers(tmp_path, "explore", 1)
    other = run_property_tests_and_read_numbers(tmp_path, "explore", 2)
    assert set(numbers[:-1]) != set(other[:-1])
    assert numbers[-1] != other[-1]
