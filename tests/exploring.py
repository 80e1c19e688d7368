# SPDX-License-Identifier: Apache-2.0
"""The random search: all property tests, again and again, with other examples each time.

``make test-only WHAT=explore`` runs this module. Other runs of the suite draw few examples, and
those of CI are always the same ones; here there are many more, drawn from a seed that is printed.
The hooks of pytest that are here are those of ``conftest.py`` too.
"""

import argparse
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test
from hypothesis import settings as hypothesis_settings

#: Which of the profiles below is in force: ``.ci/run`` sets it, and so does ``make test-only
#: WHAT=explore``.
PROFILE = "HYPOTHESIS_PROFILE"
#: When the search ends, in seconds since the epoch.
UNTIL = "PLACEMENT_SCHED_EXPLORE_UNTIL"
EXPLORING = os.environ.get(PROFILE) == "explore"
#: Number of examples of a property test that does not give one: the default of hypothesis.
_EXAMPLES = 100
#: How many times as many examples the search draws for each test.
MORE = 5
#: The share of its examples that a test draws in the lanes that judge a change (tests/lanes.py).
SHARES = {"fast": 0.1, "test": 0.3, "system": 0.3}
#: Seconds that one test may take with that many.
_LONGEST = 3600
_NO_TESTS = 5


#: What no profile counts: the time that an example takes, or the drawing of it.
_PATIENT: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}


def load_profile(lane: str | None = None) -> None:
    """Load the profile that the environment names, before tests are imported.

    The time that an example takes does not count: the machine may have other work to do.
    """
    share = MORE if EXPLORING else SHARES.get(lane or "", 1)
    examples = {"max_examples": round(_EXAMPLES * share)}
    # A commit that CI found right stays so: its examples are always the same.
    hypothesis_settings.register_profile("ci", **_PATIENT, **examples, derandomize=True)
    hypothesis_settings.register_profile("here", **_PATIENT, **examples)
    # The seed alone decides on the examples, so none is remembered from run to run.
    hypothesis_settings.register_profile(
        "explore", **_PATIENT, **examples, database=None, print_blob=True
    )
    default = "ci" if lane == "fast" else "here"
    hypothesis_settings.load_profile(os.environ.get(PROFILE) or default)


def pytest_configure(config: pytest.Config) -> None:
    """Draw as many examples as the lane does, before any test module is imported."""
    load_profile(config.getoption("--lane", default=None))


def draws(few: int) -> int:
    """Return the number of examples of a test in this run; ``few`` is that without a lane."""
    return max(1, round(few * hypothesis_settings().max_examples / _EXAMPLES))


load_profile()


class Dice:
    """Where tests without hypothesis have their random numbers from."""

    #: The seed of the search; without one the numbers of a test are always the same.
    seed: str | None = None

    @classmethod
    def of(cls, usual: int) -> Random:
        """Return random numbers: those of the seed ``usual``, while exploring any others."""
        return Random(usual) if cls.seed is None else Random(f"{cls.seed}/{usual}")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the property tests, and put the modules in another order in each search."""
    for item in items:
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker("property")
    if EXPLORING:
        Dice.seed = config.getoption("--hypothesis-seed")
        paths = sorted({item.path for item in items})
        # The minutes may be over before the last of them had its turn.
        Random(Dice.seed).shuffle(paths)
        items.sort(key=lambda item: paths.index(item.path))


def pytest_runtest_setup() -> None:
    """Skip a test that would begin after the end of the search."""
    if time.time() > float(os.environ.get(UNTIL, "inf")):
        pytest.skip("the minutes of the search are over")


def modules() -> list[str]:
    """Return the modules with property tests: to read all modules of the suite takes a while."""
    here = Path(__file__).parent
    marks = ("@given(", "mark.property")
    return [
        str(path)
        for path in sorted(here.rglob("test_*.py"))
        if any(mark in path.read_text() for mark in marks)
    ]


def search(minutes: float, seed: int, arguments: Sequence[str]) -> int:
    """Run the property tests with one seed after the other; return the exit status.

    It ends with the minutes, or with the first seed that finds a fault.
    """
    end = time.time() + 60 * minutes
    environment = {**os.environ, PROFILE: "explore", UNTIL: str(end)}
    while True:
        left = max(0.0, (end - time.time()) / 60)
        print(f"seed {seed}, minutes left: {left:.1f}", flush=True)
        command = ["-m", "pytest", "-q", "-m", "property", "-p", "no:cacheprovider"]
        command += [f"--timeout={_LONGEST}", f"--hypothesis-seed={seed}", *(arguments or modules())]
        # A test that has begun may go on for a while when the minutes are over.
        limit = max(0.0, end - time.time()) + _LONGEST
        status = subprocess.run(
            [sys.executable, *command], env=environment, check=False, timeout=limit
        ).returncode
        if status == _NO_TESTS:
            print("There are no property tests among these.", file=sys.stderr)
            return status
        if status:
            print(f"A test failed with the seed {seed}. Repeat it with")
            print(f"  {PROFILE}=explore {sys.executable} -m pytest --hypothesis-seed={seed} TEST")
            print(f"or repeat the whole search with: make test-only WHAT=explore SEED={seed}")
            return status
        if time.time() >= end:
            return 0
        seed += 1


def main(words: Sequence[str] | None = None) -> int:
    """Search as the command line asks; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.exploring", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="how long (default: 30)")
    parser.add_argument("--seed", type=int, help="the first seed (default: a random one)")
    told, arguments = parser.parse_known_args(words)
    seed = secrets.randbelow(10**9) if told.seed is None else told.seed
    return search(told.minutes, seed, arguments)


if __name__ == "__main__":
    sys.exit(main())
